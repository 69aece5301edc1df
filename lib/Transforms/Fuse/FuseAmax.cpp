//===- FuseAmax.cpp - take an amax from an op that has the tensor ---------===//
//
// The ops that can compute the amax of their result or of the tensor they cast
// define it as the amax of the rounded values, so this changes no bit. The op
// that produces the tensor is tried first, because a cast may be removed later.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Fuse/Passes.h"
#include "TEDialect/Transforms/Utils/Padding.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::te {
#define GEN_PASS_DEF_FUSEAMAXPASS
#include "TEDialect/Transforms/Fuse/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// The casts of `x`, and of `x` with zeros behind it, which has the same amax.
static void collectCasts(Value x, SmallVectorImpl<QuantizeOpInterface> &casts) {
  for (Operation *user : x.getUsers())
    if (auto cast = dyn_cast<QuantizeOpInterface>(user))
      casts.push_back(cast);
    else if (auto concat = dyn_cast<tensor::ConcatOp>(user);
             addsZeros(concat) && concat.getInputs().front() == x)
      collectCasts(concat.getResult(), casts);
}

/// The type that `cast` rounds to before it measures and casts, or null.
static Type roundedOf(QuantizeOpInterface cast) {
  auto quantize = dyn_cast<QuantizeOp>(cast.getOperation());
  return quantize ? quantize.getRounded().value_or(Type()) : Type();
}

static bool isScalar(Value value) {
  return cast<ShapedType>(value.getType()).getRank() == 0;
}

/// A per-tensor cast of `op`'s tensor before all readers of `op`, so that its
/// scale does not depend on `op`; null if there is none.
static QuantizeOpInterface findCast(AmaxOp op) {
  Block *block = op->getBlock();
  auto precedesReaders = [&](QuantizeOpInterface cast) {
    return llvm::all_of(op->getUsers(), [&](Operation *user) {
      Operation *reader = block->findAncestorOpInBlock(*user);
      return reader && cast->isBeforeInBlock(reader);
    });
  };
  SmallVector<QuantizeOpInterface> casts;
  collectCasts(op.getX(), casts);
  QuantizeOpInterface first;
  for (QuantizeOpInterface cast : casts)
    // A cast with a scale for each group measures nothing.
    if (cast.getScale() && isScalar(cast.getScale()) &&
        cast.getSkip() == op.getSkip() &&
        roundedOf(cast) == op.getRounded().value_or(Type()) &&
        cast->getBlock() == block && precedesReaders(cast) &&
        (!first || cast->isBeforeInBlock(first)))
      first = cast;
  return first;
}

/// The amax of `op`'s tensor that a cast of the tensor measures, or null.
static Value measuredAmax(AmaxOp op) {
  QuantizeOpInterface cast = findCast(op);
  if (!cast || cast.getAmax())
    return cast ? cast.getAmax() : Value();
  OpBuilder builder(cast);
  QuantizeOpInterface fused = cast.withResults(
      builder, cast.getUsages().getTypes(), op.getAmax().getType());
  for (auto [old, usage] : llvm::zip_equal(cast.getUsages(), fused.getUsages()))
    old.replaceAllUsesWith(usage);
  cast->erase();
  return fused.getAmax();
}

namespace {
struct FuseAmax final : te::impl::FuseAmaxPassBase<FuseAmax> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<AmaxOp> amaxes;
    getOperation().walk([&](AmaxOp op) { amaxes.push_back(op); });
    for (AmaxOp op : amaxes) {
      // A producer measures in every step, also when a cast is skipped.
      auto producer = op.getX().getDefiningOp<AmaxProducerOpInterface>();
      Value fused =
          producer && !op.getSkip()
              ? producer.requireAmax(op.getX(), op.getAmax().getType())
              : Value();
      if (!fused)
        fused = measuredAmax(op);
      if (!fused)
        continue;
      op.getAmax().replaceAllUsesWith(fused);
      op.erase();
      ++numFused;
    }
  }
};
} // namespace
