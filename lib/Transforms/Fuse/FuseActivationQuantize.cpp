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
#include "mlir/IR/Dominance.h"
#include "mlir/IR/Remarks.h"

namespace mlir::te {
#define GEN_PASS_DEF_FUSEACTIVATIONQUANTIZEPASS
#include "TEDialect/Transforms/Fuse/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// The cast that is the only reader of `value`, the result of `op`; else null,
/// and `why` is set if a cast reads `value`.
static QuantizeOpInterface soleCast(Value value, std::string &why) {
  QuantizeOpInterface cast;
  for (Operation *user : value.getUsers())
    if (auto quantize = dyn_cast<QuantizeOpInterface>(user))
      cast = quantize;
  if (!cast)
    return {};
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

/// Why `op` cannot compute `cast` itself, or an empty text.
template <typename ActivationLikeOp>
static std::string whyNot(ActivationLikeOp op, QuantizeOpInterface cast,
                          const DominanceInfo &dominance) {
  const ScaledType type = cast.getUsageType();
  if (isa<ActivationBackwardOp>(op) && op.getGate())
    return "it has a second gradient";
  if (type.getScheme() == Scheme::Block1x128)
    return op.getAmax() && !op.getAmax().use_empty() ? "its amax is read too"
                                                     : "";
  if (type.getScheme() != Scheme::PerTensor)
    return ("its scheme is '" + stringifyScheme(type.getScheme()) + "'").str();
  if (type.isGrouped())
    return "it has a scale for each group";
  return dominance.properlyDominates(cast.getScale(), op)
             ? ""
             : "its scale is not known before";
}

static ActivationQuantizeOp createFused(OpBuilder &builder, ActivationOp op,
                                        QuantizeOpInterface cast, Type amax) {
  return ActivationQuantizeOp::create(
      builder, op.getLoc(), cast.getUsages().getTypes(), amax, op.getKindAttr(),
      op.getX(), op.getGate(), cast.getScale(), op.getLimitAttr(),
      op.getAlphaAttr(), op.getOffsetAttr(),
      builder.getFloatAttr(builder.getF32Type(), cast.getAmaxEpsilon()));
}

static ActivationBackwardQuantizeOp createFused(OpBuilder &builder,
                                                ActivationBackwardOp op,
                                                QuantizeOpInterface cast,
                                                Type amax) {
  return ActivationBackwardQuantizeOp::create(
      builder, op.getLoc(), cast.getUsages().getTypes(), amax, op.getKindAttr(),
      op.getDy(), op.getX(), cast.getScale(), op.getLimitAttr(),
      op.getAlphaAttr(), op.getOffsetAttr(),
      builder.getFloatAttr(builder.getF32Type(), cast.getAmaxEpsilon()));
}

/// Replaces `op` and its cast by one op in the place of `op`. The amax that one
/// of them measures is that of the rounded values in both.
template <typename ActivationLikeOp>
static void fuse(ActivationLikeOp op, QuantizeOpInterface cast) {
  OpBuilder builder(op);
  Value measured =
      op.getAmax() && !op.getAmax().use_empty() ? op.getAmax() : cast.getAmax();
  auto fused =
      createFused(builder, op, cast, measured ? measured.getType() : Type());
  for (auto [old, usage] : llvm::zip_equal(cast.getUsages(), fused.getUsages()))
    old.replaceAllUsesWith(usage);
  for (Value amax : {Value(op.getAmax()), cast.getAmax()})
    if (amax)
      amax.replaceAllUsesWith(fused.getAmax());
  cast->erase();
  op.erase();
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
    const auto &dominance = getAnalysis<DominanceInfo>();
    for (Operation *op : activations) {
      if (auto forward = dyn_cast<ActivationOp>(op))
        tryFuse(forward, dominance);
      else
        tryFuse(cast<ActivationBackwardOp>(op), dominance);
    }
  }

  template <typename ActivationLikeOp>
  void tryFuse(ActivationLikeOp op, const DominanceInfo &dominance) {
    auto options = remark::RemarkOpts::name("activation-quantize")
                       .category("te-fuse-activation-quantize")
                       .function(getOperation().getName());
    std::string why;
    QuantizeOpInterface cast = soleCast(op->getResult(0), why);
    if (cast)
      why = whyNot(op, cast, dominance);
    if (!why.empty())
      remark::missed(op.getLoc(), options)
          << remark::add("'{0}' is not fused with its cast",
                         op->getName().getStringRef())
          << remark::reason("{0}", why);
    if (!cast || !why.empty())
      return;
    remark::passed(op.getLoc(), options) << remark::add(
        "'{0}' is fused with its cast", op->getName().getStringRef());
    fuse(op, cast);
    ++numFused;
  }
};
} // namespace
