//===- AccumulateDgrads.cpp - gradients of one input in the GEMM ----------===//
//
// Layers that share an input each have a dgrad, and the gradients are added.
// The later GEMM adds the sum of the earlier ones before it rounds.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Quantize/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::te {
#define GEN_PASS_DEF_ACCUMULATEDGRADSPASS
#include "TEDialect/Transforms/Quantize/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// The dgrad that `value` is, or that it is cut from after padding; null if
/// there is none, or if another op reads one of the two.
static Operation *dgradOf(Value value) {
  if (auto cut = value.getDefiningOp<tensor::ExtractSliceOp>();
      cut && cut->hasOneUse())
    value = cut.getSource();
  Operation *gemm = value.getDefiningOp();
  if (!isa_and_present<MatmulOp, ScaledMatmulOp>(gemm) || !gemm->hasOneUse())
    return nullptr;
  std::optional<GemmOrigin> origin = GemmOrigin::find(gemm->getLoc());
  return origin && origin->gemm == "dgrad" ? gemm : nullptr;
}

/// Whether both values are whole, or the same part of what they are cut from.
static bool areCutAlike(Value a, Value b) {
  auto first = a.getDefiningOp<tensor::ExtractSliceOp>();
  auto second = b.getDefiningOp<tensor::ExtractSliceOp>();
  if (!first || !second)
    return !first && !second;
  return first.getMixedOffsets() == second.getMixedOffsets() &&
         first.getMixedSizes() == second.getMixedSizes() &&
         first.getMixedStrides() == second.getMixedStrides();
}

/// Adds `summand` in `gemm`, if that adds nothing yet and adds before it
/// rounds, which GEMMs with scales of blocks do not.
static bool addIn(Operation *gemm, Value summand) {
  if (gemm->getResult(0).getType() != summand.getType())
    return false;
  if (auto product = dyn_cast<MatmulOp>(gemm)) {
    if (product.getAccumulate() || product.getBias())
      return false;
    product.getAccumulateMutable().assign(summand);
    return true;
  }
  auto product = cast<ScaledMatmulOp>(gemm);
  const Scheme scheme = product.getA().getType().getScheme();
  if (product.getAccumulate() || product.getBias() ||
      scheme == Scheme::Block1x128 || scheme == Scheme::Block128x128)
    return false;
  product.getAccumulateMutable().assign(summand);
  return true;
}

namespace {
struct AccumulateDgrads final
    : te::impl::AccumulateDgradsPassBase<AccumulateDgrads> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<arith::AddFOp> additions;
    getOperation().walk([&](arith::AddFOp op) { additions.push_back(op); });
    for (arith::AddFOp add : additions) {
      Value kept = add.getRhs();
      Operation *earlier = dgradOf(add.getLhs()), *later = dgradOf(kept);
      if (!earlier || !later || earlier->getBlock() != later->getBlock() ||
          !areCutAlike(add.getLhs(), kept))
        continue;
      if (later->isBeforeInBlock(earlier)) {
        std::swap(earlier, later);
        kept = add.getLhs();
      }
      if (!addIn(later, earlier->getResult(0)))
        continue;
      add.replaceAllUsesWith(kept);
      add.erase();
      ++numAccumulated;
    }
  }
};
} // namespace
