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

namespace {
/// A result of an activation, or of its gradient, and its only reader.
struct Cast {
  Value result, amax; // `amax` may be null
  QuantizeOpInterface op;

  ScaledType type() { return op.getUsageType(); }
  /// The amax that the producer measures, or else the cast; null if neither is
  /// read. Both are that of the rounded values.
  Value measured() {
    for (Value value : {amax, op.getAmax()})
      if (value && !value.use_empty())
        return value;
    return {};
  }
};
} // namespace

/// Why the producer of `cast` cannot cast its result itself, or an empty text.
static std::string whyNot(Cast &cast, const DominanceInfo &dominance) {
  const Scheme scheme = cast.type().getScheme();
  if (scheme == Scheme::Block1x128)
    return cast.measured() ? "its amax is read too" : "";
  if (scheme != Scheme::PerTensor)
    return ("its scheme is '" + stringifyScheme(scheme) + "'").str();
  if (cast.type().isGrouped())
    return "it has a scale for each group";
  return dominance.properlyDominates(cast.op.getScale(),
                                     cast.result.getDefiningOp())
             ? ""
             : "its scale is not known before";
}

/// Whether one launch can compute both casts.
static bool areAlike(QuantizeOpInterface a, QuantizeOpInterface b) {
  const ScaledType type = a.getUsageType(), other = b.getUsageType();
  return (type == other || type == other.getTransposedUsage()) &&
         a.getAmaxEpsilon().bitwiseIsEqual(b.getAmaxEpsilon());
}

static Type typeOrNull(Value value) { return value ? value.getType() : Type(); }

/// Replaces the results of a cast, and the amax of its producer.
static void replace(Cast &cast, ValueRange usages, Value amax) {
  for (auto [old, usage] : llvm::zip_equal(cast.op.getUsages(), usages))
    old.replaceAllUsesWith(usage);
  for (Value old : {cast.amax, cast.op.getAmax()})
    if (old && amax)
      old.replaceAllUsesWith(amax);
  cast.op->erase();
}

static void fuse(ActivationOp op, MutableArrayRef<Cast> casts) {
  OpBuilder builder(op);
  Cast &cast = casts.front();
  auto fused = ActivationQuantizeOp::create(
      builder, op.getLoc(), cast.op.getUsages().getTypes(),
      typeOrNull(cast.measured()), op.getKindAttr(), op.getX(), op.getGate(),
      cast.op.getScale(), op.getLimitAttr(), op.getAlphaAttr(),
      op.getOffsetAttr(),
      builder.getFloatAttr(builder.getF32Type(), cast.op.getAmaxEpsilon()));
  replace(cast, fused.getUsages(), fused.getAmax());
  op.erase();
}

static void fuse(ActivationBackwardOp op, MutableArrayRef<Cast> casts) {
  OpBuilder builder(op);
  Cast &dx = casts.front();
  Cast *gate = casts.size() == 2 ? &casts.back() : nullptr;
  auto fused = ActivationBackwardQuantizeOp::create(
      builder, op.getLoc(), dx.op.getUsages().getTypes(),
      gate ? TypeRange(gate->op.getUsages().getTypes()) : TypeRange(),
      typeOrNull(dx.measured()), gate ? typeOrNull(gate->measured()) : Type(),
      op.getKindAttr(), op.getDy(), op.getX(), op.getGate(), dx.op.getScale(),
      gate ? gate->op.getScale() : Value(), op.getLimitAttr(),
      op.getAlphaAttr(), op.getOffsetAttr(),
      builder.getFloatAttr(builder.getF32Type(), dx.op.getAmaxEpsilon()));
  replace(dx, fused.getUsages(), fused.getAmax());
  if (gate)
    replace(*gate, fused.getGateUsages(), fused.getGateAmax());
  op.erase();
}

/// The results that may be cast.
static SmallVector<Cast, 2> resultsOf(ActivationOp op) {
  return {{op.getY(), op.getAmax(), {}}};
}
static SmallVector<Cast, 2> resultsOf(ActivationBackwardOp op) {
  SmallVector<Cast, 2> results = {{op.getDx(), op.getAmax(), {}}};
  if (op.getDgate())
    results.push_back({op.getDgate(), op.getDgateAmax(), {}});
  return results;
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
    SmallVector<Cast, 2> casts = resultsOf(op);
    bool areCast = true;
    for (Cast &cast : casts) {
      if (!why.empty())
        break;
      cast.op = soleCast(cast.result, why);
      areCast &= static_cast<bool>(cast.op);
      if (cast.op)
        why = whyNot(cast, dominance);
    }
    if (areCast && why.empty() && !areAlike(casts.front().op, casts.back().op))
      why = "its two gradients are cast differently";
    if (!why.empty())
      remark::missed(op.getLoc(), options)
          << remark::add("'{0}' is not fused with its cast",
                         op->getName().getStringRef())
          << remark::reason("{0}", why);
    if (!areCast || !why.empty())
      return;
    remark::passed(op.getLoc(), options) << remark::add(
        "'{0}' is fused with its cast", op->getName().getStringRef());
    fuse(op, casts);
    ++numFused;
  }
};
} // namespace
