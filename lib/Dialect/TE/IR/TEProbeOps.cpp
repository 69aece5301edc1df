//===- TEProbeOps.cpp - verifiers of the ops that look at values ----------===//

#include "TEVerifiers.h"

#include "TEDialect/Runtime/te_runtime_types.h"

using namespace mlir;
using namespace mlir::te;

LogicalResult CountNonfiniteOp::inferReturnTypes(
    MLIRContext *, std::optional<Location>, ValueRange operands, DictionaryAttr,
    OpaqueProperties, RegionRange, SmallVectorImpl<Type> &types) {
  types.push_back(operands.back().getType());
  return success();
}

LogicalResult CountNonfiniteOp::verify() {
  // count_nonfinite-c1
  ArrayRef<int64_t> counts = shapeOf(getCounts().getType());
  if (counts[1] != 3)
    return emitOpError() << "expected 'counts' to have 3 columns, but got "
                         << counts[1];
  // count_nonfinite-c2
  int64_t index = getIndexAttr().getInt();
  if (index < 0 || index >= counts[0])
    return emitOpError() << "expected 'index' to be a row of 'counts', which "
                            "has "
                         << counts[0] << ", but got " << index;
  // count_nonfinite-c3
  std::optional<Type> type = getElementType();
  if (static_cast<bool>(getScale()) != type.has_value())
    return emitOpError()
           << "expected 'element_type' to be given with 'scale', but got "
           << (type ? "one without" : "none");
  if (type && !isa<Float8E4M3FNType, Float8E5M2Type>(*type))
    return emitOpError()
           << "expected 'element_type' to be 'f8E4M3FN' or 'f8E5M2', but got "
           << *type;
  return success();
}

LogicalResult TensorStatsOp::verify() {
  int64_t numStats = TE_RT_STAT_UNDERFLOWS;
  if (Value q = getQ()) {
    auto type = cast<ScaledType>(q.getType());
    // tensor_stats-c1
    if (failed(verifyShape(*this, "x", getX().getType(), type.getShape())))
      return failure();
    // tensor_stats-c2
    if (type.is(ScaleVariant::Swizzled))
      return emitOpError() << "expected 'q' not to be swizzled, but got "
                           << type;
    numStats = TE_RT_STAT_SCALES_CLIPPED + 1;
  }
  // tensor_stats-c3
  return verifyShape(*this, "stats", getStats().getType(), numStats);
}
