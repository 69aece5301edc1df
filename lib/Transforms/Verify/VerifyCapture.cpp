//===- VerifyCapture.cpp - what a captured step may hold ------------------===//
//
// One predicate for each way in which a replay could differ from a run, with
// the sentence that says so. Ops outside this project's dialects are judged by
// their interfaces, so an unknown one is refused and not trusted.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Quantize/GemmOrigin.h"
#include "TEDialect/Transforms/Verify/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::te {
#define GEN_PASS_DEF_VERIFYCAPTUREPASS
#include "TEDialect/Transforms/Verify/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// The state that `rng` is, when the step takes it and returns it advanced.
static bool isAdvancedState(Value rng) {
  while (auto advance = rng.getDefiningOp<RngAdvanceOp>())
    rng = advance.getState();
  auto state = dyn_cast<BlockArgument>(rng);
  auto function = state
                      ? dyn_cast<func::FuncOp>(state.getOwner()->getParentOp())
                      : func::FuncOp();
  if (!function)
    return false;
  auto name =
      function.getArgAttrOfType<StringAttr>(state.getArgNumber(), kNameAttr);
  Operation *end = state.getOwner()->getTerminator();
  for (OpOperand &result : end->getOpOperands())
    if (name && function.getResultAttrOfType<StringAttr>(
                    result.getOperandNumber(), kNameAttr) == name)
      return result.get().getDefiningOp<RngAdvanceOp>() != nullptr;
  return false;
}

/// What a replay of `op` would do wrong, or empty.
static std::string refuseCapture(Operation *op) {
  if (auto cast = dyn_cast<QuantizeOp>(op)) {
    if (isWeight(cast.getX()) && !cast.getSkip())
      return "the cast of weight '" + describeValue(cast.getX()) +
             "' to have a skip flag (te-insert-skip-flags)";
    if (cast.getRng() && !isAdvancedState(cast.getRng()))
      return "random bits to come from a state that the step takes and returns "
             "advanced; every replay would draw the same ones";
    return {};
  }
  if (isa<tensor::ExtractOp>(op))
    return "no read of a single element, which waits for the device";
  if (isa<CallOpInterface>(op))
    return "no call, which may allocate or wait; inline it";
  if (isa<BranchOpInterface, RegionBranchOpInterface>(op))
    return "no branch, which the host would take once for all replays";
  if (op->hasTrait<OpTrait::IsTerminator>() || isMemoryEffectFree(op))
    return {};
  return hasEffect<MemoryEffects::Allocate>(op)
             ? "no allocation; the arena is planned before"
             : "no op with effects on memory that are not known";
}

namespace {
struct VerifyCapture final : te::impl::VerifyCapturePassBase<VerifyCapture> {
  using Base::Base;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    getOperation().getBody().walk([&](Operation *op) {
      ++numChecked;
      std::string wanted = refuseCapture(op);
      if (wanted.empty())
        return;
      op->emitError() << "expected in a captured step " << wanted
                      << ", but got '" << op->getName() << "'";
      signalPassFailure();
    });
  }
};
} // namespace
