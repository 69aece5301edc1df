//===- TECastOps.cpp - verifiers of amax, scale and cast ops --------------===//

#include "TEVerifiers.h"

using namespace mlir;
using namespace mlir::te;

LogicalResult AmaxReduceOp::verify() {
  // amax_reduce-c1
  if (static_cast<int32_t>(getGroupId()) < 0)
    return emitOpError() << "expected 'group_id' not to be negative, but got "
                         << static_cast<int32_t>(getGroupId());
  return success();
}

LogicalResult ComputeScaleOp::verify() {
  // compute_scale-c1
  if (!isa<Float8E4M3FNType, Float8E5M2Type>(getElementType()))
    return emitOpError()
           << "expected 'element_type' to be 'f8E4M3FN' or 'f8E5M2', but got "
           << getElementType();
  // compute_scale-c2
  return verifyNonNegative(*this, "amax_epsilon", getAmaxEpsilon());
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
  if (!source.isTransposeExact())
    return emitOpError() << "expected scheme 'per_tensor' or 'block_128x128', "
                            "whose other usage is the same bytes moved, but "
                            "got '"
                         << stringifyScheme(source.getScheme())
                         << "'; quantise the high-precision tensor for "
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
