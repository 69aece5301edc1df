//===- Stack.h - one launch for the matrices of a stack -------------------===//
//
// The rows of Kernels.td with `matrices` do to each matrix of a
// stack what they do to one. Where the next matrix starts in each buffer is
// said here, once: the reference backend calls its kernel again with every
// pointer moved, a kernel of the cuda backend moves them by blockIdx.y.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_STACK_H
#define TE_RUNTIME_CORE_STACK_H

#include "Core/Kernels.h"

#include <array>
#include <cstddef>

namespace te::rt {

/// Bytes of the data of a scaled [rows, cols] value.
inline int64_t scaledDataBytes(int32_t scheme, int64_t rows, int64_t cols) {
  return isNv(scheme) ? rows * cols / 2 : rows * cols;
}

/// Bytes of its scales where it is made for contraction along `axis`.
inline int64_t scaleBytes(int32_t scheme, int32_t axis, int64_t rows,
                          int64_t cols) {
  const int64_t outer = axis == 1 ? rows : cols;
  const int64_t inner = axis == 1 ? cols : rows;
  constexpr int64_t size = sizeof(float);
  switch (scheme) {
  case TE_RT_PER_TENSOR:
    return size;
  case TE_RT_BLOCK_1X128:
    return ceilDiv(inner, 128) * roundUp(outer, 4) * size;
  case TE_RT_BLOCK_128X128:
    return ceilDiv(outer, 128) * roundUp(ceilDiv(inner, 128), 4) * size;
  default:
    return MicroscaleLayout(scheme, axis, rows, cols).size();
  }
}

/// Bytes from one matrix to the next in each buffer of a launch; 0 in a buffer
/// that all share.
template <int kBuffers> using StackStrides = std::array<int64_t, kBuffers>;

namespace detail {
/// Of a cast into both usages, whose outputs start at buffer `row` and have as
/// many parts each.
template <std::size_t kBuffers>
void setUsageStrides(std::array<int64_t, kBuffers> &strides, int row, int parts,
                     int32_t scheme, int64_t rows, int64_t cols,
                     int64_t amaxBytes) {
  for (int32_t axis : {1, 0}) {
    const int first = axis == 1 ? row : row + parts;
    strides[first] = scaledDataBytes(scheme, rows, cols);
    strides[first + 1] = scaleBytes(scheme, axis, rows, cols);
    if (parts == 3)
      strides[first + 2] = amaxBytes;
  }
}
} // namespace detail

inline auto stackStrides(const dequantize_params &p) {
  namespace b = dequantize_buffers;
  StackStrides<b::count_> strides{};
  strides[b::data] = scaledDataBytes(p.scheme, p.rows, p.cols);
  strides[b::scale] = scaleBytes(p.scheme, p.axis, p.rows, p.cols);
  strides[b::amax] = (p.row_scaled ? p.rows : 1) * int64_t{sizeof(float)};
  strides[b::out] = p.rows * p.cols * byteSize(p.out_type);
  return strides;
}

inline auto stackStrides(const nvfp4_alpha_params &p) {
  namespace b = nvfp4_alpha_buffers;
  StackStrides<b::count_> strides{};
  strides[b::a_amax] = strides[b::alpha] = p.rows * int64_t{sizeof(float)};
  strides[b::b_amax] = sizeof(float);
  return strides;
}

inline auto stackStrides(const quantize_block_params &p) {
  namespace b = quantize_block_buffers;
  StackStrides<b::count_> strides{};
  strides[b::x] = p.x_rows * p.x_cols * byteSize(p.x_type);
  detail::setUsageStrides(strides, b::row, 2, p.scheme, p.rows, p.cols, 0);
  return strides;
}

inline auto stackStrides(const quantize_mx_params &p) {
  namespace b = quantize_mx_buffers;
  StackStrides<b::count_> strides{};
  strides[b::x] = p.x_rows * p.x_cols * byteSize(p.type);
  detail::setUsageStrides(strides, b::row, 2, p.scheme, p.rows, p.cols, 0);
  return strides;
}

inline auto stackStrides(const quantize_nvfp4_params &p) {
  namespace b = quantize_nvfp4_buffers;
  StackStrides<b::count_> strides{};
  const int64_t amaxBytes =
      (p.row_scaled ? p.rows : 1) * int64_t{sizeof(float)};
  strides[b::x] = p.x_rows * p.x_cols * byteSize(p.type);
  strides[b::amax] = amaxBytes;
  detail::setUsageStrides(strides, b::row, 3, p.scheme, p.rows, p.cols,
                          amaxBytes);
  return strides;
}

inline auto stackStrides(const quantize_tensor_params &p) {
  namespace b = quantize_tensor_buffers;
  StackStrides<b::count_> strides{};
  strides[b::x] = p.x_rows * p.x_cols * byteSize(p.x_type);
  strides[b::scale] = strides[b::amax] = sizeof(float);
  detail::setUsageStrides(strides, b::row, 2, TE_RT_PER_TENSOR, p.rows, p.cols,
                          0);
  return strides;
}

inline auto stackStrides(const transpose_scaled_params &p) {
  namespace b = transpose_scaled_buffers;
  StackStrides<b::count_> strides{};
  strides[b::data] = strides[b::out_data] =
      scaledDataBytes(p.scheme, p.rows, p.cols);
  strides[b::scale] = scaleBytes(p.scheme, 1, p.rows, p.cols);
  strides[b::out_scale] = scaleBytes(p.scheme, 0, p.rows, p.cols);
  strides[b::amax] = strides[b::out_amax] = sizeof(float);
  return strides;
}

} // namespace te::rt

#endif // TE_RUNTIME_CORE_STACK_H
