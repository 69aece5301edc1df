//===- RuntimeTypes.cpp - te types as the runtime sees them ---------------===//

#include "TEDialect/TERT/RuntimeTypes.h"

#include "TEDialect/IR/Support.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tert;

std::optional<int32_t> tert::getRuntimeType(Type elementType) {
  return te::getTypeNumber(elementType);
}

/// Bytes of an array; nothing where they do not fit into 63 bits.
static std::optional<int64_t> countBytes(ArrayRef<int64_t> shape,
                                         Type elementType) {
  int64_t bytes = elementType.getIntOrFloatBitWidth() / 8;
  // No bytes, whatever the other sizes.
  if (llvm::is_contained(shape, 0))
    return 0;
  for (int64_t size : shape)
    if (llvm::MulOverflow(bytes, size, bytes))
      return std::nullopt;
  return bytes;
}

SmallVector<BufferLayout, 2> tert::getBufferLayouts(Type type) {
  if (auto scaled = dyn_cast<te::ScaledType>(type)) {
    Type f32 = Float32Type::get(type.getContext());
    // Padding at most multiplies the scales of a small tensor, so a shape that
    // fits has scales that do.
    if (!countBytes(scaled.getShape(), f32))
      return {};
    SmallVector<BufferLayout, 2> layouts = {
        {"data", scaled.getDataShape(), scaled.getElementType(),
         scaled.getDataBytes()},
        {"scale", scaled.getScaleShape(), scaled.getScaleType(),
         scaled.getScaleBytes()}};
    if (int64_t count = scaled.getNumAmaxes())
      layouts.push_back({"amax", {count}, f32, 4 * count});
    return layouts;
  }
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() ||
      !getRuntimeType(tensor.getElementType()))
    return {};
  std::optional<int64_t> bytes =
      countBytes(tensor.getShape(), tensor.getElementType());
  if (!bytes)
    return {};
  return {{"value", SmallVector<int64_t>(tensor.getShape()),
           tensor.getElementType(), *bytes}};
}
