//===- FuseActivationQuantize.cpp - quantise without storing --------------===//
//
// The fusion is legal only if the cast is the single reader. With another
// reader, the high-precision result must be stored anyway, and computing it
// twice would cost more than the saved read.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Fuse/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"

namespace mlir::te {
#define GEN_PASS_DEF_FUSEACTIVATIONQUANTIZEPASS
#include "TEDialect/Transforms/Fuse/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// The 1x128-block cast that is the only reader of `value`; else null, and
/// `why` is set if a cast reads `value`.
static QuantizeOpInterface soleCast(Value value, std::string &why) {
  QuantizeOpInterface cast;
  for (Operation *user : value.getUsers())
    if (auto quantize = dyn_cast<QuantizeOpInterface>(user))
      cast = quantize;
  if (!cast)
    return {};
  ScaledType type = cast.getUsageType();
  if (type.getScheme() != Scheme::Block1x128) {
    why = ("its scheme is '" + stringifyScheme(type.getScheme()) + "'").str();
    return {};
  }
  if (cast.getSkip()) {
    why = "it is cached over micro-batches";
    return {};
  }
  for (Operation *user : value.getUsers())
    if (user != cast) {
      why = ("'" + user->getName().getStringRef() + "' reads the result too")
                .str();
      return {};
    }
  return cast;
}

static void fuse(ActivationOp op, QuantizeOpInterface cast) {
  OpBuilder builder(cast);
  auto fused = ActivationQuantizeOp::create(
      builder, op.getLoc(), cast->getResultTypes(), op.getKindAttr(), op.getX(),
      op.getGate(), op.getLimitAttr(), op.getAlphaAttr(), op.getOffsetAttr(),
      builder.getFloatAttr(builder.getF32Type(), cast.getAmaxEpsilon()));
  cast->replaceAllUsesWith(fused);
}

static void fuse(ActivationBackwardOp op, QuantizeOpInterface cast) {
  OpBuilder builder(cast);
  auto fused = ActivationBackwardQuantizeOp::create(
      builder, op.getLoc(), cast->getResultTypes(), op.getKindAttr(),
      op.getDy(), op.getX(), op.getLimitAttr(), op.getAlphaAttr(),
      op.getOffsetAttr(),
      builder.getFloatAttr(builder.getF32Type(), cast.getAmaxEpsilon()));
  cast->replaceAllUsesWith(fused);
}

namespace {
struct FuseActivationQuantize final
    : te::impl::FuseActivationQuantizePassBase<FuseActivationQuantize> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<Operation *> activations;
    getOperation().walk([&](Operation *op) {
      if (isa<ActivationOp, ActivationBackwardOp>(op))
        activations.push_back(op);
    });
    for (Operation *op : activations) {
      if (auto forward = dyn_cast<ActivationOp>(op))
        tryFuse(forward);
      else
        tryFuse(cast<ActivationBackwardOp>(op));
    }
  }

  template <typename ActivationLikeOp> void tryFuse(ActivationLikeOp op) {
    auto options = remark::RemarkOpts::name("activation-quantize")
                       .category("te-fuse-activation-quantize")
                       .function(getOperation().getName());
    std::string why;
    QuantizeOpInterface cast = soleCast(op->getResult(0), why);
    if (cast && isa<ActivationBackwardOp>(op) && op.getGate()) {
      why = "it has a second gradient";
      cast = {};
    }
    if (cast && op.getAmax() && !op.getAmax().use_empty()) {
      why = "its amax is read too";
      cast = {};
    }
    if (!cast) {
      if (!why.empty())
        remark::missed(op.getLoc(), options)
            << remark::add("'{0}' is not fused with its cast",
                           op->getName().getStringRef())
            << remark::reason("{0}", why);
      return;
    }
    remark::passed(op.getLoc(), options) << remark::add(
        "'{0}' is fused with its cast", op->getName().getStringRef());
    fuse(op, cast);
    cast->erase();
    op.erase();
    ++numFused;
  }
};
} // namespace
