//===- FuseAmax.cpp - take an amax from an op that has the tensor ---------===//
//
// The ops that can compute the amax of their result, or of what they cast,
// define it as the amax of the rounded values, so this changes no bit. An op
// that makes the tensor comes first: it is there whatever becomes of the cast.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Fuse/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::te {
#define GEN_PASS_DEF_FUSEAMAXPASS
#include "TEDialect/Transforms/Fuse/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// Replaces `op` by itself with an amax result of type `scalar`; returns that
/// result.
static Value withAmax(RmsNormOp op, Type scalar) {
  OpBuilder builder(op);
  auto fused = RmsNormOp::create(
      builder, op.getLoc(), op.getY().getType(),
      op.getRsigma() ? op.getRsigma().getType() : Type(), scalar, op.getX(),
      op.getGamma(), op.getEpsilonAttr(), op.getZeroCenteredGammaAttr());
  fused->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  op.getY().replaceAllUsesWith(fused.getY());
  if (op.getRsigma())
    op.getRsigma().replaceAllUsesWith(fused.getRsigma());
  op.erase();
  return fused.getAmax();
}

static Value withAmax(LayerNormOp op, Type scalar) {
  OpBuilder builder(op);
  Type statistics = op.getMu() ? op.getMu().getType() : Type();
  auto fused = LayerNormOp::create(
      builder, op.getLoc(), op.getY().getType(), statistics, statistics, scalar,
      op.getX(), op.getGamma(), op.getBeta(), op.getEpsilonAttr(),
      op.getZeroCenteredGammaAttr());
  fused->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  op.getY().replaceAllUsesWith(fused.getY());
  if (statistics) {
    op.getMu().replaceAllUsesWith(fused.getMu());
    op.getRsigma().replaceAllUsesWith(fused.getRsigma());
  }
  op.erase();
  return fused.getAmax();
}

static Value withAmax(ActivationOp op, Type scalar) {
  OpBuilder builder(op);
  auto fused = ActivationOp::create(builder, op.getLoc(), op.getY().getType(),
                                    scalar, op.getKindAttr(), op.getX(),
                                    op.getGate(), op.getLimitAttr(),
                                    op.getAlphaAttr(), op.getOffsetAttr());
  fused->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  op.getY().replaceAllUsesWith(fused.getY());
  op.erase();
  return fused.getAmax();
}

/// With the amax of dx, or of dgate, beside those that it has.
static Value withAmax(ActivationBackwardOp op, bool ofGate, Type scalar) {
  OpBuilder builder(op);
  const bool ofX = !ofGate || op.getAmax();
  const bool ofBoth = ofGate || op.getDgateAmax();
  auto fused = ActivationBackwardOp::create(
      builder, op.getLoc(), op.getDx().getType(),
      op.getDgate() ? op.getDgate().getType() : Type(), ofX ? scalar : Type(),
      ofBoth ? scalar : Type(), op.getKindAttr(), op.getDy(), op.getX(),
      op.getGate(), op.getLimitAttr(), op.getAlphaAttr(), op.getOffsetAttr());
  fused->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  for (auto [before, after] :
       {std::pair(Value(op.getDx()), Value(fused.getDx())),
        std::pair(Value(op.getDgate()), Value(fused.getDgate())),
        std::pair(Value(op.getAmax()), Value(fused.getAmax())),
        std::pair(Value(op.getDgateAmax()), Value(fused.getDgateAmax()))})
    if (before)
      before.replaceAllUsesWith(after);
  op.erase();
  return ofGate ? fused.getDgateAmax() : fused.getAmax();
}

/// The amax of `value` from the op that makes it, or null when that op cannot.
static Value producedAmax(Value value, Type scalar) {
  auto amaxOf = [&](auto op, Value rounded) -> Value {
    if (value != rounded)
      return {};
    return op.getAmax() ? Value(op.getAmax()) : withAmax(op, scalar);
  };
  Operation *producer = value.getDefiningOp();
  if (!producer)
    return {};
  return llvm::TypeSwitch<Operation *, Value>(producer)
      .Case([&](RmsNormOp op) { return amaxOf(op, op.getY()); })
      .Case([&](LayerNormOp op) { return amaxOf(op, op.getY()); })
      .Case([&](ActivationOp op) { return amaxOf(op, op.getY()); })
      .Case([&](ActivationBackwardOp op) -> Value {
        const bool ofGate = value == op.getDgate();
        if (!ofGate && value != op.getDx())
          return {};
        Value amax = ofGate ? op.getDgateAmax() : op.getAmax();
        return amax ? amax : withAmax(op, ofGate, scalar);
      })
      .Default([](Operation *) { return Value(); });
}

static bool isScalar(Value value) {
  return cast<ShapedType>(value.getType()).getRank() == 0;
}

/// A per-tensor cast of `op`'s tensor before everything that reads `op`, hence
/// with a scale that does not come from it; null where there is none.
static QuantizeOpInterface findCast(AmaxOp op) {
  Block *block = op->getBlock();
  auto precedesReaders = [&](QuantizeOpInterface cast) {
    return llvm::all_of(op->getUsers(), [&](Operation *user) {
      Operation *reader = block->findAncestorOpInBlock(*user);
      return reader && cast->isBeforeInBlock(reader);
    });
  };
  QuantizeOpInterface first;
  for (Operation *user : op.getX().getUsers()) {
    auto cast = dyn_cast<QuantizeOpInterface>(user);
    // A cast with a scale for each group measures nothing.
    if (cast && cast.getScale() && isScalar(cast.getScale()) &&
        cast.getSkip() == op.getSkip() && cast->getBlock() == block &&
        precedesReaders(cast) && (!first || cast->isBeforeInBlock(first)))
      first = cast;
  }
  return first;
}

/// The amax of `op`'s tensor from a cast that reads it, or null.
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
      // A producer measures in every step.
      Value fused = op.getSkip()
                        ? Value()
                        : producedAmax(op.getX(), op.getAmax().getType());
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
