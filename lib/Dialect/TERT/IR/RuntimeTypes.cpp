//===- RuntimeTypes.cpp - te types as the runtime sees them ---------------===//

#include "TEDialect/TERT/RuntimeTypes.h"

#include "TEDialect/Runtime/te_runtime_types.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tert;

std::optional<int32_t> tert::getRuntimeType(Type elementType) {
  using Result = std::optional<int32_t>;
  return llvm::TypeSwitch<Type, Result>(elementType)
      .Case([](Float32Type) { return Result(TE_RT_F32); })
      .Case([](BFloat16Type) { return Result(TE_RT_BF16); })
      .Case([](Float16Type) { return Result(TE_RT_F16); })
      .Case([](Float8E4M3FNType) { return Result(TE_RT_F8E4M3FN); })
      .Case([](Float8E5M2Type) { return Result(TE_RT_F8E5M2); })
      .Default([](Type type) {
        return type.isSignlessInteger(32) ? Result(TE_RT_I32) : std::nullopt;
      });
}

SmallVector<BufferLayout, 2> tert::getBufferLayouts(Type type) {
  if (auto scaled = dyn_cast<te::ScaledType>(type)) {
    Type f32 = Float32Type::get(type.getContext());
    return {{"data",
             {scaled.getOuter(), scaled.getContraction()},
             scaled.getElementType(),
             scaled.getDataBytes()},
            {"scale", scaled.getScaleShape(), f32, scaled.getScaleBytes()}};
  }
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() ||
      !getRuntimeType(tensor.getElementType()))
    return {};
  return {{"value", SmallVector<int64_t>(tensor.getShape()),
           tensor.getElementType(),
           tensor.getNumElements() * tensor.getElementTypeBitWidth() / 8}};
}
