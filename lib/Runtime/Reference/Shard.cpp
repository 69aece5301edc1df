//===- Shard.cpp - casts of flat shards on the reference backend ----------===//
//
// The definitions of the kernel list, element by element. The only information
// from the group is the number of this rank.
//
//===----------------------------------------------------------------------===//

#include "Core/Nvfp4.h"
#include "Reference/HostGroup.h"
#include "Reference/Reference.h"

#include <cstring>

namespace te::rt::reference {

namespace {

/// Calls `visit(i, row, col)` for every element i of the shard of rank `rank`
/// that is one of the matrix.
template <typename Params, typename Visit>
void forEachElement(const Params &p, int32_t rank, Visit visit) {
  const int64_t begin = p.start + rank * p.count;
  for (int64_t i = 0; i < p.count; ++i) {
    const int64_t element = begin + i;
    if (element >= 0 && element < p.rows * p.cols)
      visit(i, element / p.cols, element % p.cols);
  }
}

void partialAmax(const partial_amax_params &p, int32_t rank,
                 void *const *buffers) {
  namespace b = partial_amax_buffers;
  auto *amax = static_cast<float *>(buffers[b::amax]);
  const int64_t colBlocks = ceilDiv(p.cols, p.block_cols);
  std::fill_n(amax, ceilDiv(p.rows, p.block_rows) * colBlocks, 0.0f);
  if (isSkipped(buffers[b::skip]))
    return;
  forEachElement(p, rank, [&](int64_t i, int64_t row, int64_t col) {
    float &own = amax[row / p.block_rows * colBlocks + col / p.block_cols];
    own = maxMagnitude(own, load(buffers[b::x], i, p.type));
  });
}

/// Of the block of an element: the factor of its cast, and what is stored.
struct BlockScale {
  float factor, inverse;
  uint8_t exponent;
};

void quantizeShard(const quantize_shard_params &p, int32_t rank,
                   void *const *buffers) {
  namespace b = quantize_shard_buffers;
  if (isSkipped(buffers[b::skip]))
    return;
  const auto *amax = static_cast<const float *>(buffers[b::amax]);
  auto *data = static_cast<uint8_t *>(buffers[b::data]);
  const BlockShape block(p.scheme, p.axis);
  const int64_t colBlocks = ceilDiv(p.cols, block.cols);
  const float most = math::maxFinite(p.fp8_type);
  const auto scaleOf = [&](int64_t row, int64_t col) -> BlockScale {
    const float own = amax[row / block.rows * colBlocks + col / block.cols];
    if (isMx(p.scheme)) {
      const uint8_t exponent = math::mxExponent(own, most);
      return {math::e8m0Inverse(exponent), 0.0f, exponent};
    }
    const float scale = math::computeScale(
        own, most, p.pow2_scales != 0, p.amax_epsilon, math::maxFinite(p.type));
    return {scale, 1.0f / scale, 0};
  };
  std::memset(data, 0, p.count);
  forEachElement(p, rank, [&](int64_t i, int64_t row, int64_t col) {
    store(data, i, load(buffers[b::x], i, p.type) * scaleOf(row, col).factor,
          p.fp8_type);
  });

  if (!isMx(p.scheme)) {
    auto *scale = static_cast<float *>(buffers[b::scale]);
    const ScaleLayout layout(p.scheme, p.rows, p.cols);
    std::memset(scale, 0, layout.size() * sizeof(float));
    for (int64_t row = 0; row < p.rows; row += block.rows)
      for (int64_t col = 0; col < p.cols; col += block.cols)
        scale[layout.index(row, col)] = scaleOf(row, col).inverse;
    return;
  }
  auto *scale = static_cast<uint8_t *>(buffers[b::scale]);
  const MicroscaleLayout layout(p.scheme, p.axis, p.rows, p.cols);
  std::memset(scale, 0, layout.size());
  // A square block has its exponent once for each of its lines.
  for (int64_t row = 0; row < p.rows; row += p.axis == 0 ? block.rows : 1)
    for (int64_t col = 0; col < p.cols; col += p.axis == 1 ? block.cols : 1)
      scale[layout.index(row, col)] = scaleOf(row, col).exponent;
}

void quantizeNvfp4Shard(const quantize_nvfp4_shard_params &p, int32_t rank,
                        void *const *buffers) {
  namespace b = quantize_nvfp4_shard_buffers;
  if (isSkipped(buffers[b::skip]))
    return;
  const auto *blockAmax = static_cast<const float *>(buffers[b::block_amax]);
  const BlockShape block(p.scheme, /*axis=*/1);
  const int64_t colBlocks = p.cols / block.cols;
  float &amax = *static_cast<float *>(buffers[b::out_amax]);
  amax = 0.0f;
  for (int64_t i = 0; i < p.rows / block.rows * colBlocks; ++i)
    amax = maxMagnitude(amax, blockAmax[i]);
  const math::NvTensorScale tensor = math::nvTensorScale(amax, p.scale_max);
  const auto scaleOf = [&](int64_t row, int64_t col) {
    return floatToE4M3(math::nvBlockScale(
        blockAmax[row / block.rows * colBlocks + col / block.cols], tensor));
  };

  auto *data = static_cast<uint8_t *>(buffers[b::data]);
  std::memset(data, 0, p.count / 2);
  forEachElement(p, rank, [&](int64_t i, int64_t row, int64_t col) {
    const float x = load(buffers[b::x], i, p.type);
    const float inverse =
        math::nvInverse(e4m3ToFloat(scaleOf(row, col)), tensor);
    const uint32_t sign = std::signbit(x) && x == x ? 8 : 0;
    const uint32_t code = sign | math::e2m1Code(std::fabs(x * inverse));
    data[i / 2] |= static_cast<uint8_t>(code << 4 * (i % 2));
  });

  auto *scale = static_cast<uint8_t *>(buffers[b::scale]);
  const MicroscaleLayout layout(p.scheme, /*axis=*/1, p.rows, p.cols);
  std::memset(scale, 0, layout.size());
  for (int64_t row = 0; row < p.rows; ++row)
    for (int64_t col = 0; col < p.cols; col += block.cols)
      scale[layout.index(row, col)] = scaleOf(row, col);
}

} // namespace

void partial_amax(const partial_amax_params &p, void *const *buffers) {
  partialAmax(p, /*rank=*/0, buffers);
}

void quantize_nvfp4_shard(const quantize_nvfp4_shard_params &p,
                          void *const *buffers) {
  quantizeNvfp4Shard(p, /*rank=*/0, buffers);
}

void quantize_shard(const quantize_shard_params &p, void *const *buffers) {
  quantizeShard(p, /*rank=*/0, buffers);
}

Status overGroup(const partial_amax_params &p, HostGroup &group,
                 void *const *buffers) {
  partialAmax(p, group.rank(), buffers);
  return Status::ok();
}

Status overGroup(const quantize_nvfp4_shard_params &p, HostGroup &group,
                 void *const *buffers) {
  quantizeNvfp4Shard(p, group.rank(), buffers);
  return Status::ok();
}

Status overGroup(const quantize_shard_params &p, HostGroup &group,
                 void *const *buffers) {
  quantizeShard(p, group.rank(), buffers);
  return Status::ok();
}

} // namespace te::rt::reference
