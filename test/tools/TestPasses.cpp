//===- TestPasses.cpp - passes with a defect each -------------------------===//
//
// For te-opt-test, which is te-opt with these passes and is not installed.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

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

/// Leaves a function without a terminator.
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

PassRegistration<Silent> silent;
PassRegistration<Reporting> reporting;
PassRegistration<Breaking> breaking;
PassRegistration<Aborting> aborting;
PassRegistration<Faulting> faulting;

} // namespace
