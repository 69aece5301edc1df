//===- FusePadding.cpp - losses that read padded logits -------------------===//

#include "Padding.h"

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Fuse/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::te {
#define GEN_PASS_DEF_FUSEPADDINGPASS
#include "TEDialect/Transforms/Fuse/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// What `logits` are the first columns of, or null.
static Value paddedColumns(Value logits) {
  auto slice = logits.getDefiningOp<tensor::ExtractSliceOp>();
  if (!slice || !slice.hasZeroOffset() || !slice.hasUnitStride() ||
      slice.getSourceType().getRank() != 2 ||
      slice.getSourceType().getDimSize(0) != slice.getType().getDimSize(0))
    return {};
  return slice.getSource();
}

static void eraseIfUnused(Operation *op) {
  if (op && op->use_empty())
    op->erase();
}

/// Gives `op` the padded logits that its logits are cut from, if they are.
template <typename LossOp> static bool readPadded(LossOp op) {
  Value logits = op.getLogits();
  auto saved = logits.getDefiningOp<ResidualOp>();
  Value padded = paddedColumns(saved ? saved.getValue() : logits);
  if (!padded)
    return false;
  op.setVocabulary(op.getClasses());
  if (saved) {
    OpBuilder builder(saved);
    padded = ResidualOp::create(builder, saved.getLoc(), padded.getType(),
                                padded, saved.getNameAttr());
  }
  op.getLogitsMutable().assign(padded);
  Operation *slice = (saved ? saved.getValue() : logits).getDefiningOp();
  eraseIfUnused(saved);
  eraseIfUnused(slice);
  return true;
}

/// Lets `gradient`, whose result has the columns `type` of its logits again,
/// be read in place of what pads it; other readers get a slice.
static void widen(CrossEntropyBackwardOp gradient, RankedTensorType type) {
  Value whole = gradient.getDlogits();
  RankedTensorType cut = gradient.getDlogits().getType();
  whole.setType(type);
  OpBuilder builder(gradient->getContext());
  builder.setInsertionPointAfter(gradient);
  Value slice;
  for (OpOperand &use : llvm::make_early_inc_range(whole.getUses())) {
    Operation *reader = use.getOwner();
    auto concat = dyn_cast<tensor::ConcatOp>(reader);
    if (addsZeros(concat) && concat.getDim() == 1 && concat.getType() == type &&
        use.getOperandNumber() == 0) {
      concat.replaceAllUsesWith(whole);
      concat.erase();
      continue;
    }
    // Zeros change no amax.
    if (isa<AmaxOp>(reader))
      continue;
    if (!slice)
      slice = tensor::ExtractSliceOp::create(
          builder, gradient.getLoc(), cut, whole,
          SmallVector<OpFoldResult>(2, builder.getIndexAttr(0)),
          getAsIndexOpFoldResult(builder.getContext(), cut.getShape()),
          SmallVector<OpFoldResult>(2, builder.getIndexAttr(1)));
    use.set(slice);
  }
}

namespace {
struct FusePadding final : te::impl::FusePaddingPassBase<FusePadding> {
  using Base::Base;

  void runOnOperation() override {
    getOperation().walk([&](CrossEntropyOp loss) { numFused += readPadded(loss); });
    SmallVector<CrossEntropyBackwardOp> gradients;
    getOperation().walk(
        [&](CrossEntropyBackwardOp op) { gradients.push_back(op); });
    for (CrossEntropyBackwardOp gradient : gradients)
      if (readPadded(gradient))
        widen(gradient, gradient.getLogits().getType());
  }
};
} // namespace
