//===- CastPlacementTest.cpp - where casts and residuals go ---------------===//

#include "Quantize/CastPlacement.h"

#include "TEDialect/Transforms/Quantize/Passes.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
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
const std::string matrix = "tensor<32x32xbf16>";

/// The forward and backward of `layers` layers. The backward reads each weight
/// directly, and each input through a residual.
std::string stepOf(int layers, StringRef recipe) {
  std::string text = "func.func @step(%x0: " + matrix + ", %g0: " + matrix;
  auto number = [](const char *name, int i) {
    return "%" + std::string(name) + std::to_string(i);
  };
  for (int i = 0; i < layers; ++i)
    text += ", " + number("w", i) + ": " + matrix + " {te.weight}";
  text += ") -> " + matrix + " attributes {te.recipe = #te.recipe<" +
          recipe.str() + ">} {\n";
  const std::string types = " : " + matrix + ", " + matrix + " -> " + matrix;
  for (int i = 0; i < layers; ++i)
    text += number("x", i + 1) + " = te.linear " + number("x", i) + ", " +
            number("w", i) + types + " loc(\"layer" + std::to_string(i) +
            "\")\n";
  for (int i = 1; i < layers; ++i)
    text += number("r", i) + " = te.residual " + number("x", i) + " \"x" +
            std::to_string(i) + "\" : " + matrix + "\n";
  for (int i = 0; i < layers; ++i) {
    const int layer = layers - 1 - i;
    const std::string place = " loc(\"layer" + std::to_string(layer) + "\")\n";
    text += number("d", i) + " = te.linear_wgrad " + number("g", i) + ", " +
            number(layer ? "r" : "x", layer) + types + place;
    text += number("g", i + 1) + " = te.linear_dgrad " + number("g", i) + ", " +
            number("w", layer) + types + place;
  }
  return text + "return " + number("g", layers) + " : " + matrix + "\n}";
}

class CastPlacementTest : public testing::Test {
protected:
  CastPlacementTest() {
    context.disableMultithreading();
    context.loadDialect<TEDialect, func::FuncDialect, arith::ArithDialect,
                        tensor::TensorDialect>();
  }

  func::FuncOp parse(const std::string &text) {
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    return *module->getOps<func::FuncOp>().begin();
  }

  /// The processor time of te-insert-casts in seconds for a step with `layers`
  /// layers: the smaller of two runs.
  double secondsFor(int layers, StringRef recipe) {
    double least = 1e9;
    for (int run = 0; run < 2; ++run) {
      parse(stepOf(layers, recipe));
      PassManager manager(&context);
      manager.enableVerifier(false);
      manager.addNestedPass<func::FuncOp>(createInsertCastsPass());
      const std::clock_t start = std::clock();
      EXPECT_TRUE(succeeded(manager.run(*module)));
      least = std::min(least, double(std::clock() - start) / CLOCKS_PER_SEC);
    }
    return least;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};
} // namespace

TEST_F(CastPlacementTest, ASavedValueFollowsTheLastResidualBeforeItsReader) {
  func::FuncOp function = parse(stepOf(3, "float8_block_scaling"));
  PassBoundary boundary(function);
  SmallVector<Operation *> forward, backward;
  ResidualOp lastResidual;
  function.walk([&](Operation *op) {
    if (isForwardLayer(op))
      forward.push_back(op);
    if (isBackwardLayer(op))
      backward.push_back(op);
    if (auto residual = dyn_cast<ResidualOp>(op))
      lastResidual = residual;
  });
  auto name = StringAttr::get(&context, "saved");
  Value first = boundary.save(forward[2]->getOperand(1),
                              boundary.numberOf(forward[2]), backward[1], name);
  EXPECT_EQ(lastResidual->getNextNode(), first.getDefiningOp());
  // A value that is saved later is after it.
  Value second =
      boundary.save(forward[1]->getOperand(1), boundary.numberOf(forward[1]),
                    backward[3], name);
  EXPECT_EQ(first.getDefiningOp()->getNextNode(), second.getDefiningOp());
}

TEST_F(CastPlacementTest, AValueIsSavedBeforeItsReaderWhereNothingElseIs) {
  // The residual of the first backward is not between the second forward and
  // its backward.
  func::FuncOp function =
      parse("func.func @f(%x: " + matrix + ", %w: " + matrix + R"() {
    %r = te.residual %x "x" : tensor<32x32xbf16>
    %y = te.linear %x, %w : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
    %d = te.linear_dgrad %y, %w : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
    %e = te.linear_dgrad %y, %w : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
    return
  })");
  PassBoundary boundary(function);
  auto ops = llvm::to_vector(llvm::make_pointer_range(function.front()));
  auto name = StringAttr::get(&context, "w");
  const unsigned forward = boundary.numberOf(ops[1]);
  Value first = boundary.save(ops[1]->getOperand(1), forward, ops[2], name);
  EXPECT_EQ(first.getDefiningOp()->getNextNode(), ops[2]);
  Value second = boundary.save(ops[1]->getOperand(1), forward, ops[3], name);
  EXPECT_EQ(first.getDefiningOp()->getNextNode(), second.getDefiningOp());
}

TEST_F(CastPlacementTest, RowsAreReadAsColumnsOnlyWithOneScale) {
  func::FuncOp function = parse(stepOf(1, "float8_block_scaling"));
  Operation *dgrad = nullptr;
  function.walk([&](LinearDgradOp op) { dgrad = op; });
  const Operand weight = describeLayerGemm(dgrad).b;
  auto policy = [&](StringRef kind) {
    return QuantPolicy(cast<RecipeAttr>(
        parseAttribute(("#te.recipe<" + kind + ">").str(), &context)));
  };
  EXPECT_TRUE(readsRowsAsColumns(weight, policy("float8_current_scaling")));
  EXPECT_FALSE(readsRowsAsColumns(weight, policy("float8_block_scaling")));
}

// For four times as many layers, linear time is four times as long, and
// quadratic time sixteen times.
TEST_F(CastPlacementTest, TimeIsLinearInLayers) {
  for (StringRef recipe : {"float8_block_scaling", "delayed_scaling"}) {
    const double few = secondsFor(1000, recipe),
                 many = secondsFor(4000, recipe);
    RecordProperty("microseconds_1000_" + recipe.str(), int(few * 1e6));
    EXPECT_LT(many, 8 * few) << recipe.str() << ": " << few << " s of 1000, "
                             << many << " s of 4000 layers";
  }
}
