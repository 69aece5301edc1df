//===- AccumulateGradients.cpp - add gradients where they are made --------===//
//
// An input that several ops read has a gradient from each of them, and these
// are added. A dgrad adds the dgrad before it before it rounds. The gradient of
// a table adds to the gradient that the table has as the weight of a head, of
// which it touches only the rows of tokens.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Quantize/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::te {
#define GEN_PASS_DEF_ACCUMULATEGRADIENTSPASS
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

/// Whether `value` is known before `op`.
static bool isBefore(Value value, Operation *op) {
  Operation *maker = value.getDefiningOp();
  return value.getParentBlock() == op->getBlock() &&
         (!maker || maker->isBeforeInBlock(op));
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

/// Adds two dgrads in the later one.
static bool addDgrads(arith::AddFOp add) {
  Value kept = add.getRhs();
  Operation *earlier = dgradOf(add.getLhs()), *later = dgradOf(kept);
  if (!earlier || !later || earlier->getBlock() != later->getBlock() ||
      !areCutAlike(add.getLhs(), kept))
    return false;
  if (later->isBeforeInBlock(earlier)) {
    std::swap(earlier, later);
    kept = add.getLhs();
  }
  if (!addIn(later, earlier->getResult(0)))
    return false;
  add.replaceAllUsesWith(kept);
  add.erase();
  return true;
}

/// Adds another gradient of a table in the gradient of its embedding.
static bool addToTable(arith::AddFOp add) {
  for (auto [mine, other] : {std::pair(add.getRhs(), add.getLhs()),
                             std::pair(add.getLhs(), add.getRhs())}) {
    auto table = mine.getDefiningOp<EmbeddingBackwardOp>();
    if (!table || table.getAccumulate() || !mine.hasOneUse() ||
        table->getBlock() != add->getBlock() ||
        other.getParentBlock() != add->getBlock())
      continue;
    if (!isBefore(other, table))
      table->moveAfter(other.getDefiningOp());
    table.getAccumulateMutable().assign(other);
    add.replaceAllUsesWith(mine);
    add.erase();
    return true;
  }
  return false;
}

namespace {
struct AccumulateGradients final
    : te::impl::AccumulateGradientsPassBase<AccumulateGradients> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<arith::AddFOp> additions;
    getOperation().walk([&](arith::AddFOp op) { additions.push_back(op); });
    for (arith::AddFOp add : additions)
      numAccumulated += addDgrads(add) || addToTable(add);
  }
};
} // namespace
