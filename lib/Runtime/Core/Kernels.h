//===- Kernels.h - parameter structs and plan table of the kernel list ----===//
//
// C++ view of te_runtime_kernels.inc: one parameter struct per kernel, and the
// index of every buffer of a launch as a named constant, so that backends
// write `buffers[AmaxBuffers::x]` and never a bare number.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_KERNELS_H
#define TE_RUNTIME_CORE_KERNELS_H

#include "TEDialect/Runtime/te_runtime_types.h"

#include <cstdint>

namespace te::rt {

// struct amax_params { int64_t count; int32_t type; };
#define TE_RT_I64(name) int64_t name;
#define TE_RT_I32(name) int32_t name;
#define TE_RT_F32(name) float name;
#define TE_RT_KERNEL(name, parameters, buffers)                                \
  struct name##_params {                                                       \
    parameters                                                                 \
  };
#include "TEDialect/Runtime/te_runtime_kernels.inc"

// namespace amax_buffers { enum : int { x, amax, count_ }; }
#define TE_RT_IN(name) name,
#define TE_RT_OUT(name) name,
#define TE_RT_IN_OPT(name) name,
#define TE_RT_OUT_OPT(name) name,
#define TE_RT_KERNEL(name, parameters, buffers)                                \
  namespace name##_buffers {                                                   \
    enum : int { buffers count_ };                                             \
  }
#include "TEDialect/Runtime/te_runtime_kernels.inc"

/// Kinds from TE_RT_SWIGLU on read [first | second].
inline bool isGated(int32_t activation) { return activation >= TE_RT_SWIGLU; }

inline bool isMx(int32_t scheme) {
  return scheme == TE_RT_MX_1X32 || scheme == TE_RT_MX_32X32;
}
inline bool isNv(int32_t scheme) {
  return scheme == TE_RT_NV_1X16 || scheme == TE_RT_NV_16X16;
}

/// Bytes of one element of a te_rt_dtype.
inline int64_t byteSize(int32_t type) {
  switch (type) {
  case TE_RT_F32:
  case TE_RT_I32:
    return 4;
  case TE_RT_BF16:
  case TE_RT_F16:
    return 2;
  default:
    return 1;
  }
}

inline int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t roundUp(int64_t a, int64_t b) { return ceilDiv(a, b) * b; }

/// A block of 128x128, or of an mx or nv scheme for contraction along `axis`.
struct BlockShape {
  BlockShape(int32_t scheme, int32_t axis) {
    const bool isSquare = scheme == TE_RT_BLOCK_128X128 ||
                          scheme == TE_RT_MX_32X32 || scheme == TE_RT_NV_16X16;
    const int64_t side = isMx(scheme) ? 32 : isNv(scheme) ? 16 : 128;
    rows = isSquare || axis == 0 ? side : 1;
    cols = isSquare || axis == 1 ? side : 1;
  }
  int64_t rows, cols;
};

/// The 8-bit scales of an mx or nv value of logical shape [rows, cols], stored
/// [lines, pitch] for contraction along `axis`.
struct MicroscaleLayout {
  MicroscaleLayout(int32_t scheme, int32_t axis, int64_t rows, int64_t cols)
      : block(isMx(scheme) ? 32 : 16), outerIsRow(axis == 1),
        outerIsLine(axis == 1 || isNv(scheme)) {
    const int64_t outer = roundUp(outerIsRow ? rows : cols, 128);
    const int64_t blocks = roundUp(ceilDiv(outerIsRow ? cols : rows, block), 4);
    lines = outerIsLine ? outer : blocks;
    pitch = outerIsLine ? blocks : outer;
  }
  /// Of the scale of element (row, col).
  int64_t index(int64_t row, int64_t col) const {
    const int64_t outer = outerIsRow ? row : col;
    const int64_t inner = (outerIsRow ? col : row) / block;
    return outerIsLine ? outer * pitch + inner : inner * pitch + outer;
  }
  int64_t size() const { return lines * pitch; }

  int64_t block;
  bool outerIsRow, outerIsLine;
  int64_t lines = 0, pitch = 0;
};

/// Where swizzle_scales puts entry (i, j) of [I, J] scales.
inline int64_t swizzledIndex(int64_t i, int64_t j, int64_t numBlocks) {
  return (i / 128 * (numBlocks / 4) + j / 4) * 512 + i % 32 * 16 +
         i / 32 % 4 * 4 + j % 4;
}

} // namespace te::rt

#endif // TE_RUNTIME_CORE_KERNELS_H
