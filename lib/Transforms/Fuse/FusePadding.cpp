//===- FusePadding.cpp - losses that read padded logits -------------------===//

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Fuse/Passes.h"
#include "TEDialect/Transforms/Utils/Padding.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::te {
#define GEN_PASS_DEF_FUSEPADDINGPASS
#include "TEDialect/Transforms/Fuse/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// What `logits` are the first columns of, or null. Columns that are not read
/// would be saved and differentiated, too, so at most an eighth is padding.
static Value paddedColumns(Value logits) {
  auto slice = logits.getDefiningOp<tensor::ExtractSliceOp>();
  if (!slice || !slice.hasZeroOffset() || !slice.hasUnitStride() ||
      slice.getSourceType().getRank() != 2 ||
      slice.getSourceType().getDimSize(0) != slice.getType().getDimSize(0) ||
      slice.getType().getDimSize(1) <
          slice.getSourceType().getDimSize(1) / 8 * 7)
    return {};
  return slice.getSource();
}

static void eraseIfUnused(Operation *op) {
  if (op && op->use_empty())
    op->erase();
}

/// `padded`, saved as `saved` is. Gradients of one value share what is saved.
static Value savedLike(ResidualOp saved, Value padded) {
  for (Operation *user : padded.getUsers())
    if (auto other = dyn_cast<ResidualOp>(user);
        other && other.getNameAttr() == saved.getNameAttr() &&
        other->getBlock() == saved->getBlock())
      return other.getHeld();
  OpBuilder builder(saved);
  return ResidualOp::create(builder, saved.getLoc(), padded.getType(), padded,
                            saved.getNameAttr());
}

/// Gives `op` the padded logits that its logits are cut from, if they are.
template <typename LossOp> static bool readPadded(LossOp op) {
  Value logits = op.getLogits();
  auto saved = logits.getDefiningOp<ResidualOp>();
  Value padded = paddedColumns(saved ? saved.getValue() : logits);
  if (!padded)
    return false;
  op.setVocabulary(op.getClasses());
  op.getLogitsMutable().assign(saved ? savedLike(saved, padded) : padded);
  Operation *slice = (saved ? saved.getValue() : logits).getDefiningOp();
  eraseIfUnused(saved);
  eraseIfUnused(slice);
  return true;
}

/// Gives `whole` the columns of `type`, those that it has and padding, and lets
/// its readers have a slice.
static void widenResult(Value whole, RankedTensorType type) {
  auto given = cast<RankedTensorType>(whole.getType());
  OpBuilder builder(whole.getContext());
  builder.setInsertionPointAfterValue(whole);
  whole.setType(type);
  Value slice = cutTo(builder, whole.getLoc(), whole, given);
  whole.replaceAllUsesExcept(slice, slice.getDefiningOp());
}

/// Lets readers of `gradient`, whose logits have padding, read its result with
/// padding: casts and GEMMs in place of what pads it, and what computes each
/// column, or a maximum, by itself. Others read a slice.
static void widen(CrossEntropyBackwardOp gradient) {
  RankedTensorType type = gradient.getLogits().getType();
  Value whole = gradient.getDlogits();
  widenResult(whole, type);
  auto slice = cast<tensor::ExtractSliceOp>(*whole.user_begin());
  for (Operation *reader :
       llvm::make_early_inc_range(slice.getResult().getUsers())) {
    if (auto concat = dyn_cast<tensor::ConcatOp>(reader)) {
      if (!addsZeros(concat) || concat.getDim() != 1 ||
          concat.getType() != type)
        continue;
      concat.replaceAllUsesWith(whole);
      concat.erase();
    } else if (isa<AmaxOp>(reader)) {
      reader->replaceUsesOfWith(slice, whole);
    } else if (auto bias = dyn_cast<BiasGradOp>(reader)) {
      RankedTensorType sums = bias.getDb().getType();
      bias.getDyMutable().assign(whole);
      widenResult(bias.getDb(), sums.clone(type.getDimSize(1)));
    }
  }
  eraseIfUnused(slice);
}

namespace {
struct FusePadding final : te::impl::FusePaddingPassBase<FusePadding> {
  using Base::Base;

  void runOnOperation() override {
    getOperation().walk(
        [&](CrossEntropyOp loss) { numFused += readPadded(loss); });
    SmallVector<CrossEntropyBackwardOp> gradients;
    getOperation().walk(
        [&](CrossEntropyBackwardOp op) { gradients.push_back(op); });
    for (CrossEntropyBackwardOp gradient : gradients)
      if (readPadded(gradient))
        widen(gradient);
  }
};
} // namespace
