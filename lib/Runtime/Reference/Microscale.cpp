//===- Microscale.cpp - mx and nv values on the reference backend ---------===//
//
// Blocks of 32 or 16 elements with 8-bit scales. MicroscaleLayout says where
// the scale of an element is; what is left is which elements share one.
//
//===----------------------------------------------------------------------===//

#include "Reference/Reference.h"

#include <cstring>

namespace te::rt::reference {

namespace {

constexpr int64_t kMxBlock = 32;

/// One usage: the data where it is, and every block's exponent.
void quantizeMxUsage(const quantize_mx_params &p, int32_t axis, const void *x,
                     uint8_t *data, uint8_t *scale) {
  const MicroscaleLayout layout(p.scheme, axis, p.rows, p.cols);
  if (scale)
    std::memset(scale, 0, layout.size());
  const bool isSquare = p.scheme == TE_RT_MX_32X32;
  const int64_t height = isSquare || axis == 0 ? kMxBlock : 1;
  const int64_t width = isSquare || axis == 1 ? kMxBlock : 1;
  parallelFor(
      p.rows / height, p.rows * p.cols * 16, [&](int64_t begin, int64_t end) {
        for (int64_t r0 = begin * height; r0 < end * height; r0 += height)
          for (int64_t c0 = 0; c0 < p.cols; c0 += width) {
            float amax = 0.0f;
            for (int64_t r = r0; r < r0 + height; ++r)
              for (int64_t c = c0; c < c0 + width; ++c)
                amax = maxMagnitude(amax, loadPadded(x, r, c, p));
            const uint8_t exponent =
                math::mxExponent(amax, math::maxFinite(p.fp8_type));
            const float factor = math::e8m0Inverse(exponent);
            for (int64_t r = r0; r < r0 + height; ++r)
              for (int64_t c = c0; c < c0 + width; ++c) {
                const int64_t i = r * p.cols + c;
                if (scale)
                  scale[layout.index(r, c)] = exponent;
                if (data)
                  store(data, i, loadPadded(x, r, c, p) * factor, p.fp8_type);
              }
          }
      });
}

uint8_t nibble(const uint8_t *array, int64_t i) {
  return i % 2 == 0 ? array[i / 2] & 0xf : array[i / 2] >> 4;
}

} // namespace

void block_to_mx_scales(const block_to_mx_scales_params &p,
                        void *const *buffers) {
  namespace b = block_to_mx_scales_buffers;
  const auto *scale = static_cast<const float *>(buffers[b::scale]);
  auto *mxScale = static_cast<uint8_t *>(buffers[b::mx_scale]);
  const int64_t blocks = ceilDiv(p.inner, kMxBlock);
  const int64_t stride4 = roundUp(ceilDiv(p.inner, 128), 4);
  const int64_t pitch = roundUp(blocks, 4);
  std::memset(mxScale, 0, roundUp(p.outer, 128) * pitch);
  for (int64_t o = 0; o < p.outer; ++o)
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t slice = block * kMxBlock / 128;
      mxScale[swizzledIndex(o, block, pitch)] = math::e8m0OfPowerOfTwo(
          p.scheme == TE_RT_BLOCK_1X128 ? scale[slice * roundUp(p.outer, 4) + o]
                                        : scale[o / 128 * stride4 + slice]);
    }
}

void quantize_mx(const quantize_mx_params &p, void *const *buffers) {
  namespace b = quantize_mx_buffers;
  if (isSkipped(buffers[b::skip]))
    return;
  auto bytes = [&](int index) {
    return static_cast<uint8_t *>(buffers[index]);
  };
  if (bytes(b::row) || bytes(b::row_scale))
    quantizeMxUsage(p, 1, buffers[b::x], bytes(b::row), bytes(b::row_scale));
  if (bytes(b::col) || bytes(b::col_scale))
    quantizeMxUsage(p, 0, buffers[b::x], bytes(b::col), bytes(b::col_scale));
}

void dequantizeMicroscaled(const dequantize_params &p, void *const *buffers) {
  namespace b = dequantize_buffers;
  const void *data = buffers[b::data];
  const auto *scale = static_cast<const uint8_t *>(buffers[b::scale]);
  const auto *amax = static_cast<const float *>(buffers[b::amax]);
  const MicroscaleLayout layout(p.scheme, p.axis, p.rows, p.cols);
  for (int64_t r = 0; r < p.rows; ++r)
    for (int64_t c = 0; c < p.cols; ++c) {
      const int64_t i = r * p.cols + c;
      const uint8_t code = scale[layout.index(r, c)];
      float value;
      if (isMx(p.scheme)) {
        value = load(data, i, p.fp8_type) * math::e8m0ToFloat(code);
      } else {
        const float q = loadE2M1(data, p.axis == 1 ? i : c * p.rows + r);
        const float s = e4m3ToFloat(code);
        value = q * (amax ? math::nvFactor(s, amax[p.row_scaled ? r : 0],
                                           p.scale_max)
                          : s);
      }
      store(buffers[b::out], i, value, p.out_type);
    }
}

void swizzle_scales(const swizzle_scales_params &p, void *const *buffers) {
  namespace b = swizzle_scales_buffers;
  const auto *scale = static_cast<const uint8_t *>(buffers[b::scale]);
  auto *swizzled = static_cast<uint8_t *>(buffers[b::swizzled]);
  const MicroscaleLayout layout(p.scheme, p.axis, p.rows, p.cols);
  const int64_t count = layout.outerIsLine ? layout.lines : layout.pitch;
  const int64_t blocks = layout.outerIsLine ? layout.pitch : layout.lines;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < blocks; ++j)
      swizzled[swizzledIndex(i, j, blocks)] =
          scale[layout.outerIsLine ? i * blocks + j : j * count + i];
}

void transposeMicroscaled(const transpose_scaled_params &p,
                          void *const *buffers) {
  namespace b = transpose_scaled_buffers;
  const auto *data = static_cast<const uint8_t *>(buffers[b::data]);
  const auto *scale = static_cast<const uint8_t *>(buffers[b::scale]);
  auto *outData = static_cast<uint8_t *>(buffers[b::out_data]);
  auto *outScale = static_cast<uint8_t *>(buffers[b::out_scale]);
  const MicroscaleLayout from(p.scheme, 1, p.rows, p.cols),
      to(p.scheme, 0, p.rows, p.cols);
  std::memset(outScale, 0, to.size());
  for (int64_t r = 0; r < p.rows; ++r)
    for (int64_t c = 0; c < p.cols; ++c)
      outScale[to.index(r, c)] = scale[from.index(r, c)];
  if (isMx(p.scheme)) {
    if (p.rows * p.cols != 0)
      std::memcpy(outData, data, p.rows * p.cols);
    return;
  }
  for (int64_t c = 0; c < p.cols; ++c)
    for (int64_t r = 0; r < p.rows; r += 2)
      outData[(c * p.rows + r) / 2] =
          static_cast<uint8_t>(nibble(data, r * p.cols + c) |
                               nibble(data, (r + 1) * p.cols + c) << 4);
  if (buffers[b::amax] && buffers[b::out_amax])
    std::memcpy(buffers[b::out_amax], buffers[b::amax], sizeof(float));
}

} // namespace te::rt::reference
