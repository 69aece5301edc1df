//===- TestPasses.cpp - passes with a defect each -------------------------===//
//
// Passes of te-opt-test, which is te-opt with these passes and is not
// installed.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/TE.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cstdlib>

using namespace mlir;

namespace {

template <typename Derived>
struct TestPass : public PassWrapper<Derived, OperationPass<func::FuncOp>> {
  StringRef getDescription() const final { return "has a defect"; }
};

struct Silent final : TestPass<Silent> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Silent)
  StringRef getArgument() const override { return "test-silent"; }
  void runOnOperation() override { signalPassFailure(); }
};

struct Reporting final : TestPass<Reporting> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Reporting)
  StringRef getArgument() const override { return "test-reporting"; }
  void runOnOperation() override {
    getOperation().emitError("this program is wrong");
    signalPassFailure();
  }
};

/// Erases the terminator of a function.
struct Breaking final : TestPass<Breaking> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Breaking)
  StringRef getArgument() const override { return "test-breaking"; }
  void runOnOperation() override {
    getOperation().getBody().front().getTerminator()->erase();
  }
};

struct Aborting final : TestPass<Aborting> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Aborting)
  StringRef getArgument() const override { return "test-aborting"; }
  void runOnOperation() override { std::abort(); }
};

struct Faulting final : TestPass<Faulting> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Faulting)
  StringRef getArgument() const override { return "test-faulting"; }
  void runOnOperation() override {
    volatile int *nowhere = nullptr;
    *nowhere = 1;
  }
};

/// Removes a flag from a program that passed te-verify-capture: that of a
/// cached cast, which then casts in every micro-batch, that of a sum, which is
/// then never set to zero, or that of an update or a sum of squares, which then
/// happens in every micro-batch.
struct DropSkipFlag final : TestPass<DropSkipFlag> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DropSkipFlag)
  DropSkipFlag() = default;
  DropSkipFlag(const DropSkipFlag &other) : TestPass(other) {}
  StringRef getArgument() const override { return "test-drop-skip-flag"; }
  void runOnOperation() override {
    int64_t number = 0;
    getOperation().walk([&](Operation *op) {
      // Makes the text compilable again. A backward that reads a saved value
      // from before its residual is not.
      if (auto residual = dyn_cast<te::ResidualOp>(op))
        residual.getValue().replaceUsesWithIf(
            residual.getHeld(), [&](OpOperand &use) {
              return residual->isBeforeInBlock(use.getOwner());
            });
      if (auto cast = dyn_cast<te::QuantizeOp>(op); cast && cast.getSkip()) {
        if (number++ != index)
          return;
        cast.getIntoMutable().clear();
        cast.getSkipMutable().clear();
      } else if (auto sum = dyn_cast<te::ZeroUnlessOp>(op)) {
        if (number++ == index)
          sum.getY().replaceAllUsesWith(sum.getX());
      }
      llvm::TypeSwitch<Operation *>(op)
          .Case<te::AdamWOp, te::SgdOp, te::SumOfSquaresOp>([&](auto update) {
            if (update.getSkip() && number++ == index)
              update.getSkipMutable().clear();
          });
    });
  }
  Option<int64_t> index{*this, "index",
                        llvm::cl::desc("which flag, in program order"),
                        llvm::cl::init(-1)};
};

PassRegistration<DropSkipFlag> dropSkipFlag;
PassRegistration<Silent> silent;
PassRegistration<Reporting> reporting;
PassRegistration<Breaking> breaking;
PassRegistration<Aborting> aborting;
PassRegistration<Faulting> faulting;

} // namespace
