//===- TELayerOps.cpp - verifiers of norm, activation, embedding, loss ----===//

#include "TEVerifiers.h"

using namespace mlir;
using namespace mlir::te;

/// 'gamma' is `[columns of x]` with the element type of `x`.
static LogicalResult verifyGamma(Operation *op, Type x, Type gamma) {
  if (failed(verifyShape(op, "gamma", gamma, {shapeOf(x)[1]})))
    return failure();
  return verifySameElementType(op, "gamma", gamma, "x", x);
}

/// `other`, if it is given, has the type of 'x'.
template <typename Op>
static LogicalResult verifyTypeOfX(Op op, StringRef name, Value other) {
  Type x = op.getX().getType();
  if (other && other.getType() != x)
    return op.emitOpError() << "expected '" << name << "' to be " << x
                            << " as 'x' is, but got " << other.getType();
  return success();
}

/// 'addend' and 'sum' of a norm are given together, with the type of 'x'.
template <typename NormOp> static LogicalResult verifySum(NormOp norm) {
  Value addend = norm.getAddend(), sum = norm.getSum();
  if (!addend != !sum)
    return norm.emitOpError() << "expected operand 'addend' and result 'sum' "
                                 "together, but got only '"
                              << (addend ? "addend" : "sum") << "'";
  return failure(failed(verifyTypeOfX(norm, "addend", addend)) ||
                 failed(verifyTypeOfX(norm, "sum", sum)));
}

LogicalResult RmsNormOp::verify() {
  Type x = getX().getType();
  // rms_norm-c1
  if (failed(verifyGamma(*this, x, getGamma().getType())))
    return failure();
  // rms_norm-c2
  if (getRsigma() && failed(verifyShape(*this, "rsigma", getRsigma().getType(),
                                        {shapeOf(x)[0]})))
    return failure();
  // rms_norm-c3
  if (failed(verifyNonNegative(*this, "epsilon", getEpsilon())))
    return failure();
  // rms_norm-c4
  if (failed(verifySum(*this)))
    return failure();
  // rms_norm-c5
  return verifyTypeOfX(*this, "base", getBase());
}

LogicalResult RmsNormBackwardOp::verify() {
  Type x = getX().getType();
  // rms_norm_backward-c1
  if (failed(verifyGamma(*this, x, getGamma().getType())) ||
      failed(
          verifyShape(*this, "rsigma", getRsigma().getType(), {shapeOf(x)[0]})))
    return failure();
  // rms_norm_backward-c2
  return verifyTypeOfX(*this, "addend", getAddend());
}

LogicalResult LayerNormOp::verify() {
  Type x = getX().getType();
  // layer_norm-c1
  if (failed(verifyGamma(*this, x, getGamma().getType())))
    return failure();
  // layer_norm-c2
  if (!getMu() != !getRsigma())
    return emitOpError() << "expected results 'mu' and 'rsigma' together, but "
                            "got only '"
                         << (getMu() ? "mu" : "rsigma") << "'";
  for (auto [name, value] :
       {std::pair("mu", getMu()), std::pair("rsigma", getRsigma())})
    if (value &&
        failed(verifyShape(*this, name, value.getType(), {shapeOf(x)[0]})))
      return failure();
  // layer_norm-c3
  if (failed(verifyNonNegative(*this, "epsilon", getEpsilon())))
    return failure();
  // layer_norm-c4
  if (failed(verifySum(*this)))
    return failure();
  // layer_norm-c5
  return verifyTypeOfX(*this, "base", getBase());
}

LogicalResult LayerNormBackwardOp::verify() {
  Type x = getX().getType();
  // layer_norm_backward-c1
  if (failed(verifyGamma(*this, x, getGamma().getType())) ||
      failed(
          verifyShape(*this, "rsigma", getRsigma().getType(), {shapeOf(x)[0]})))
    return failure();
  // layer_norm_backward-c2
  return verifyTypeOfX(*this, "addend", getAddend());
}

/// The shape of what the activation computes of `x`: that of `x`, with half the
/// columns for gated kinds if `x` has both halves.
static FailureOr<SmallVector<int64_t>>
activatedShape(Operation *op, ActivationKind kind, Type x, bool isPacked) {
  SmallVector<int64_t> shape(shapeOf(x));
  if (!isGated(kind) || !isPacked)
    return shape;
  if (shape[1] % 2)
    return op->emitOpError()
           << "expected 'x' to have an even number of columns for '"
           << stringifyActivationKind(kind) << "', but got " << shape[1];
  shape[1] /= 2;
  return shape;
}

/// 'name' is what the activation computes of `x`.
static LogicalResult verifyActivated(Operation *op, ActivationKind kind, Type x,
                                     bool isPacked, StringRef name,
                                     Type activated) {
  auto shape = activatedShape(op, kind, x, isPacked);
  if (failed(shape) || failed(verifyShape(op, name, activated, *shape)))
    return failure();
  return isa<ScaledType>(activated)
             ? success()
             : verifySameElementType(op, name, activated, "x", x);
}

/// The parameters of clamped_swiglu mean something, and nothing elsewhere.
template <typename ActivationLikeOp>
static LogicalResult verifyClamp(ActivationLikeOp op) {
  typename ActivationLikeOp::Properties usual;
  ActivationLikeOp::populateDefaultProperties(op->getName(), usual);
  for (auto [name, value, usualValue] :
       {std::tuple("limit", op.getLimitAttr(), usual.limit),
        std::tuple("alpha", op.getAlphaAttr(), usual.alpha),
        std::tuple("offset", op.getOffsetAttr(), usual.offset)}) {
    if (value != usualValue && op.getKind() != ActivationKind::ClampedSwiglu)
      return op->emitOpError()
             << "expected '" << name
             << "' with kind 'clamped_swiglu' only, but got kind '"
             << stringifyActivationKind(op.getKind()) << "'";
    if (failed(verifyFinite(op, name, value.getValue())))
      return failure();
  }
  return verifyNonNegative(op, "limit", op.getLimit());
}

/// A second half is of a gated kind, and lies as the first does.
template <typename ActivationLikeOp>
static LogicalResult verifyGate(ActivationLikeOp op) {
  if (!op.getGate())
    return success();
  if (!isGated(op.getKind()))
    return op->emitOpError()
           << "expected 'gate' with gated kinds only, but got kind '"
           << stringifyActivationKind(op.getKind()) << "'";
  if (op.getGate().getType() != op.getX().getType())
    return op->emitOpError()
           << "expected 'gate' to have the type of 'x', " << op.getX().getType()
           << ", but got " << op.getGate().getType();
  return success();
}

LogicalResult ActivationOp::verify() {
  // activation-c1
  if (failed(verifyActivated(*this, getKind(), getX().getType(), !getGate(),
                             "y", getY().getType())))
    return failure();
  // activation-c2
  if (failed(verifyClamp(*this)))
    return failure();
  // activation-c3
  return verifyGate(*this);
}

LogicalResult ActivationBackwardOp::verify() {
  // activation_backward-c1
  if (failed(verifyActivated(*this, getKind(), getX().getType(), !getGate(),
                             "dy", getDy().getType())))
    return failure();
  // activation_backward-c2
  if (failed(verifyClamp(*this)))
    return failure();
  // activation_backward-c3
  if (failed(verifyGate(*this)))
    return failure();
  if (bool(getDgate()) != bool(getGate()) || (getDgateAmax() && !getGate()))
    return emitOpError("expected results of 'gate' with it, and without it "
                       "none, but got ")
           << (getDgate() ? "'dgate'" : "none")
           << (getGate() ? " with it" : " without it");
  if (getDgate() && getDgate().getType() != getGate().getType())
    return emitOpError() << "expected 'dgate' to have the type of 'gate', "
                         << getGate().getType() << ", but got "
                         << getDgate().getType();
  return success();
}

/// Checks the results of a cast of what `op` computes, which has the given
/// shape, and its scale and amax, whose names start with `prefix`.
static LogicalResult verifyOwnCast(Operation *op, TypeRange usages,
                                   ArrayRef<int64_t> shape, StringRef prefix,
                                   Value scale, Value amax) {
  if (failed(verifyUsages(op, usages, shape)))
    return failure();
  const Scheme scheme = cast<ScaledType>(usages[0]).getScheme();
  const bool isPerTensor = scheme == Scheme::PerTensor;
  if (!isPerTensor && scheme != Scheme::Block1x128)
    return op->emitOpError() << "expected results of scheme 'block_1x128' or "
                                "'per_tensor', but got '"
                             << stringifyScheme(scheme) << "'";
  if (isPerTensor != static_cast<bool>(scale))
    return op->emitOpError()
           << "expected '" << prefix << "scale' exactly for scheme "
           << "'per_tensor', but got "
           << (isPerTensor ? "none" : "one for 'block_1x128'");
  if (!isPerTensor && amax)
    return op->emitOpError()
           << "expected '" << prefix << "amax' only for scheme "
           << "'per_tensor', but got it for 'block_1x128'";
  return success();
}

/// Checks `amax_epsilon` of an op that casts what it computes.
template <typename OpT> static LogicalResult verifyCastEpsilon(OpT op) {
  if (failed(verifyNonNegative(op, "amax_epsilon", op.getAmaxEpsilon())))
    return failure();
  if (op.getScale() && !op.getAmaxEpsilon().isZero())
    return op.emitOpError() << "expected 'amax_epsilon' only for scheme "
                               "'block_1x128', but got it for 'per_tensor'";
  return success();
}

void ActivationQuantizeOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  if (getAmax())
    setName(getAmax(), "amax");
}

void ActivationBackwardQuantizeOp::getAsmResultNames(
    OpAsmSetValueNameFn setName) {
  if (!getGateUsages().empty())
    setName(getGateUsages().front(), "gate");
  if (getAmax())
    setName(getAmax(), "amax");
  if (getGateAmax())
    setName(getGateAmax(), "gate_amax");
}

LogicalResult ActivationQuantizeOp::verify() {
  // activation_quantize-c1, activation_quantize-c5
  auto shape = activatedShape(*this, getKind(), getX().getType(),
                              /*isPacked=*/!getGate());
  if (failed(shape) || failed(verifyOwnCast(*this, getUsages().getTypes(),
                                            *shape, "", getScale(), getAmax())))
    return failure();
  // activation_quantize-c2
  if (failed(verifyCastEpsilon(*this)))
    return failure();
  // activation_quantize-c3
  if (failed(verifyClamp(*this)))
    return failure();
  // activation_quantize-c4
  return verifyGate(*this);
}

LogicalResult ActivationBackwardQuantizeOp::verify() {
  const SmallVector<int64_t> shape(shapeOf(getX().getType()));
  // activation_backward_quantize-c1, activation_backward_quantize-c5
  if (failed(verifyOwnCast(*this, getUsages().getTypes(), shape, "", getScale(),
                           getAmax())))
    return failure();
  // activation_backward_quantize-c2
  if (failed(verifyActivated(*this, getKind(), getX().getType(),
                             /*isPacked=*/!getGate(), "dy", getDy().getType())))
    return failure();
  // activation_backward_quantize-c3
  if (failed(verifyCastEpsilon(*this)))
    return failure();
  // activation_backward_quantize-c4
  if (failed(verifyClamp(*this)) || failed(verifyGate(*this)))
    return failure();
  // activation_backward_quantize-c6
  if (!getGate()) {
    if (!getGateUsages().empty() || getGateScale() || getGateAmax())
      return emitOpError() << "expected results, 'gate_scale' and 'gate_amax' "
                              "of a second gradient only with 'gate'";
    return success();
  }
  // activation_backward_quantize-c6, activation_backward_quantize-c7
  if (failed(verifyOwnCast(*this, getGateUsages().getTypes(), shape, "gate_",
                           getGateScale(), getGateAmax())))
    return failure();
  auto dx = cast<ScaledType>(getUsages()[0].getType());
  auto dgate = cast<ScaledType>(getGateUsages()[0].getType());
  if (dx != dgate && dx != dgate.getTransposedUsage())
    return emitOpError() << "expected both gradients to be cast alike, but got "
                         << dx << " and " << dgate;
  return success();
}

/// The longest row that generated code reduces.
static LogicalResult verifyCols(Operation *op, Value matrix) {
  constexpr int64_t kMostCols = int64_t(1) << 24;
  const int64_t cols = cast<ShapedType>(matrix.getType()).getDimSize(1);
  if (ShapedType::isDynamic(cols) || cols <= kMostCols)
    return success();
  return op->emitOpError() << "expected at most " << kMostCols
                           << " columns, but got " << cols;
}

LogicalResult SoftmaxOp::verify() {
  // softmax-c2
  if (failed(verifyCols(*this, getX())))
    return failure();
  // softmax-c1
  return verifyFinite(*this, "scale", getScale());
}

LogicalResult SoftmaxBackwardOp::verify() {
  // softmax_backward-c2
  if (failed(verifyCols(*this, getY())))
    return failure();
  // softmax_backward-c1
  return verifyFinite(*this, "scale", getScale());
}

LogicalResult DropoutOp::verify() {
  // dropout-c1
  const APFloat probability = getProbability(), one(1.0f);
  if (!probability.isNegative() && probability <= one)
    return success();
  SmallString<16> text;
  probability.toString(text);
  return emitOpError() << "expected 'probability' to be from 0 to 1, but got "
                       << text;
}

LogicalResult EmbeddingOp::verify() {
  // embedding-c1
  if (failed(verifyShape(
          *this, "y", getY().getType(),
          {shapeOf(getIds().getType())[0], shapeOf(getTable().getType())[1]})))
    return failure();
  return verifySameElementType(*this, "table", getTable().getType(), "y",
                               getY().getType());
}

LogicalResult EmbeddingBackwardOp::verify() {
  Type dy = getDy().getType(), dtable = getDtable().getType();
  // embedding_backward-c1
  if (failed(verifyShape(*this, "dy", dy,
                         {shapeOf(getIds().getType())[0], shapeOf(dtable)[1]})))
    return failure();
  if (!getElementTypeOrSelf(dtable).isF32() &&
      failed(verifySameElementType(*this, "dy", dy, "dtable", dtable)))
    return failure();
  // embedding_backward-c2
  if (getAccumulate() && getAccumulate().getType() != dtable)
    return emitOpError() << "expected 'accumulate' to be " << dtable
                         << " as the result is, but got "
                         << getAccumulate().getType();
  return success();
}

/// 'targets' (and 'lse', when there) are `[tokens]`.
static LogicalResult verifyTokens(Operation *op, Value logits, Value targets,
                                  Value lse) {
  int64_t tokens = shapeOf(logits.getType())[0];
  if (failed(verifyShape(op, "targets", targets.getType(), {tokens})))
    return failure();
  return lse ? verifyShape(op, "lse", lse.getType(), {tokens}) : success();
}

/// 'vocabulary', when there, names columns of the logits.
template <typename LossOp> static LogicalResult verifyClasses(LossOp op) {
  const int64_t columns = shapeOf(op.getLogits().getType())[1];
  const std::optional<int64_t> classes = op.getVocabulary();
  if (!classes || (*classes > 0 && *classes <= columns))
    return success();
  return op.emitOpError() << "expected 'vocabulary' to be between 1 and the "
                          << columns << " columns of 'logits', but got "
                          << *classes;
}

LogicalResult CrossEntropyOp::verify() {
  // cross_entropy-c1
  if (failed(verifyTokens(*this, getLogits(), getTargets(), getLse())))
    return failure();
  // cross_entropy-c2
  return verifyClasses(*this);
}

LogicalResult CrossEntropyWeightOp::verify() {
  // cross_entropy_weight-c1
  if (getVocabulary() > 0)
    return success();
  return emitOpError() << "expected 'vocabulary' to be positive, but got "
                       << getVocabulary();
}

LogicalResult CrossEntropyBackwardOp::verify() {
  // cross_entropy_backward-c1
  if (failed(verifyTokens(*this, getLogits(), getTargets(), getLse())))
    return failure();
  // cross_entropy_backward-c2
  return verifyClasses(*this);
}
