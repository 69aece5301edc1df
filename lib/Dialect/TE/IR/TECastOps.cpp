//===- TECastOps.cpp - verifiers of amax, scale and cast ops --------------===//

#include "TEVerifiers.h"

#include "TEDialect/IR/Support.h"

using namespace mlir;
using namespace mlir::te;

LogicalResult AmaxReduceOp::verify() {
  // amax_reduce-c1
  if (static_cast<int32_t>(getGroupId()) < 0)
    return emitOpError() << "expected 'group_id' not to be negative, but got "
                         << static_cast<int32_t>(getGroupId());
  return success();
}

static LogicalResult verifyFp8(Operation *op, Type elementType) {
  if (isa<Float8E4M3FNType, Float8E5M2Type>(elementType))
    return success();
  return op->emitOpError()
         << "expected 'element_type' to be 'f8E4M3FN' or 'f8E5M2', but got "
         << elementType;
}

LogicalResult ComputeScaleOp::verify() {
  // compute_scale-c1
  if (failed(verifyFp8(*this, getElementType())))
    return failure();
  // compute_scale-c2
  return verifyNonNegative(*this, "amax_epsilon", getAmaxEpsilon());
}

LogicalResult DelayedScalingUpdateOp::verify() {
  // delayed_scaling_update-c1
  ArrayRef<int64_t> slots = shapeOf(getAmax().getType());
  ArrayRef<int64_t> history = shapeOf(getHistory().getType());
  if (history.empty() || history.front() < 1 || history.drop_front() != slots)
    return emitOpError() << "expected 'history' to have one row or more, each "
                            "of the shape of 'amax', but got "
                         << getHistory().getType() << " and "
                         << getAmax().getType();
  // delayed_scaling_update-c2
  if (failed(verifyFp8(*this, getElementType())))
    return failure();
  // delayed_scaling_update-c3
  int32_t margin = static_cast<int32_t>(getMargin());
  if (margin < -100 || margin > 100)
    return emitOpError() << "expected 'margin' to be from -100 to 100, but got "
                         << margin;
  return success();
}

void QuantizeOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  if (getAmax())
    setName(getAmax(), "amax");
}

LogicalResult QuantizeOp::verify() {
  // quantize-c1, quantize-c2, quantize-c3
  if (failed(verifyUsages(*this, getUsages().getTypes(),
                          shapeOf(getX().getType()))))
    return failure();
  // quantize-c4
  Scheme scheme = cast<ScaledType>(getUsages()[0].getType()).getScheme();
  bool perTensor = scheme == Scheme::PerTensor;
  if (perTensor != static_cast<bool>(getScale()))
    return emitOpError() << "expected 'scale' to be given exactly for "
                            "'per_tensor' results, but got "
                         << (getScale() ? "one" : "none") << " with '"
                         << stringifyScheme(scheme) << "'";
  // quantize-c5
  if (failed(verifyNonNegative(*this, "amax_epsilon", getAmaxEpsilon())))
    return failure();
  if (perTensor && !getAmaxEpsilon().isZero())
    return emitOpError() << "expected 'amax_epsilon' only for block schemes; "
                            "for 'per_tensor' it belongs to te.compute_scale";
  // quantize-c6
  if (getAmax() && !perTensor)
    return emitOpError() << "expected 'amax' only for 'per_tensor' results, "
                            "but got one with '"
                         << stringifyScheme(scheme) << "'";
  return success();
}

LogicalResult DequantizeOp::verify() {
  // dequantize-c1
  return verifyShape(*this, "x", getX().getType(),
                     cast<ScaledType>(getQ().getType()).getShape());
}

LogicalResult TransposeOp::verify() {
  auto source = cast<ScaledType>(getQ().getType());
  // transpose-c1
  std::string refusal =
      support::refuseTranspose(static_cast<int32_t>(source.getScheme()));
  if (!refusal.empty())
    return emitOpError() << refusal
                         << "; quantise the high-precision tensor for "
                            "'contract = 0' instead";
  // transpose-c2
  if (getTransposed().getType() != source.getTransposedUsage())
    return emitOpError() << "expected the result to be "
                         << source.getTransposedUsage() << ", but got "
                         << getTransposed().getType();
  // transpose-c3
  if (source.getContract() != 1)
    return emitOpError() << "expected an operand made for axis 1, but got "
                         << source;
  return success();
}
