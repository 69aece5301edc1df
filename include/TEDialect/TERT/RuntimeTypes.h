//===- RuntimeTypes.h - te types as the runtime sees them -----------------===//
//
// The one place where types of the compiler become te_rt_dtype and bytes.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_TERT_RUNTIMETYPES_H
#define TEDIALECT_TERT_RUNTIMETYPES_H

#include "TEDialect/TERT/TERT.h"

namespace mlir::tert {

/// The te_rt_dtype of an element type; nothing where the runtime has none.
std::optional<int32_t> getRuntimeType(Type elementType);

/// One dense array on the device that is a value or a part of one.
struct BufferLayout {
  /// "value", or "data", "scale" and (FP4) "amax" of a scaled value.
  llvm::StringRef part;
  /// Shape as stored, padding included; FP4 counts bytes.
  llvm::SmallVector<int64_t> shape;
  Type elementType;
  int64_t bytes;
};

/// The buffers of a value of `type`; none where the runtime cannot hold it.
llvm::SmallVector<BufferLayout, 2> getBufferLayouts(Type type);

} // namespace mlir::tert

#endif // TEDIALECT_TERT_RUNTIMETYPES_H
