//===- FormRegionsTest.cpp - how long it takes to form regions ------------===//

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/ConvertToTERT/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <ctime>

using namespace mlir;
using namespace mlir::te;

namespace {
/// `count` sums read a value that a GEMM read before, so that none of them may
/// join the op that computes it. Between the op that reads the argument and the
/// op that may join it is a GEMM, `count` times.
std::string stepOf(int count) {
  const std::string matrix = "tensor<8x8xf32>",
                    gemm = " contract = [1, 1] : " + matrix + ", " + matrix +
                           " -> " + matrix + "\n";
  std::string text = "func.func @step(%x: " + matrix + ") {\n" +
                     "%shared = arith.negf %x : " + matrix + "\n" +
                     "%read = te.matmul %shared, %x" + gemm;
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    text += "%a" + n + " = arith.addf %shared, %shared : " + matrix + "\n";
    text += "%b" + n + " = arith.negf %x : " + matrix + "\n";
    text += "%c" + n + " = te.matmul %read, %x" + gemm;
    text +=
        "%d" + n + " = arith.addf %b" + n + ", %c" + n + " : " + matrix + "\n";
  }
  return text + "return\n}";
}

/// The least time of three runs of the pass.
double secondsFor(int count) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<TEDialect, func::FuncDialect, arith::ArithDialect>();
  double least = 1e9;
  for (int run = 0; run < 3; ++run) {
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(stepOf(count), &context);
    PassManager passes(&context);
    passes.enableVerifier(false);
    passes.addNestedPass<func::FuncOp>(createFormRegionsPass());
    const std::clock_t start = std::clock();
    EXPECT_TRUE(succeeded(passes.run(*module)));
    least = std::min(least, double(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return least;
}

// Linear time takes eight times as long for eight times the users, quadratic
// time sixty-four times.
TEST(FormRegionsTest, TimeIsLinearInTheUsersOfAValue) {
  const double few = secondsFor(2000), many = secondsFor(16000);
  RecordProperty("microseconds_2000", int(few * 1e6));
  EXPECT_LT(many, 24 * few)
      << few << " s of 2000, " << many << " s of 16000 users";
}
} // namespace
