//===- Shard.cpp - casts of flat shards on the reference backend ----------===//
//
// The definitions of the kernel list, element by element. Only the number of
// this rank is asked of the group.
//
//===----------------------------------------------------------------------===//

#include "Reference/HostGroup.h"
#include "Reference/Reference.h"

#include <cstring>

namespace te::rt::reference {

namespace {

/// Calls `visit(i, block)` for every element i of the shard of rank `rank`, and
/// the block of the matrix that it is of.
template <typename Params, typename Visit>
void forEachElement(const Params &p, int32_t rank, Visit visit) {
  const int64_t begin = p.start + rank * p.count;
  for (int64_t i = 0; i < p.count; ++i) {
    const int64_t element = begin + i;
    if (element >= 0 && element < p.rows * p.cols)
      visit(i, element / p.cols / 128 * ceilDiv(p.cols, 128) +
                   element % p.cols / 128);
  }
}

void partialAmax(const partial_amax_params &p, int32_t rank,
                 void *const *buffers) {
  namespace b = partial_amax_buffers;
  auto *amax = static_cast<float *>(buffers[b::amax]);
  std::fill_n(amax, ceilDiv(p.rows, 128) * ceilDiv(p.cols, 128), 0.0f);
  if (isSkipped(buffers[b::skip]))
    return;
  forEachElement(p, rank, [&](int64_t i, int64_t block) {
    amax[block] = maxMagnitude(amax[block], load(buffers[b::x], i, p.type));
  });
}

void quantizeShard(const quantize_shard_params &p, int32_t rank,
                   void *const *buffers) {
  namespace b = quantize_shard_buffers;
  if (isSkipped(buffers[b::skip]))
    return;
  const auto *amax = static_cast<const float *>(buffers[b::amax]);
  auto *data = static_cast<uint8_t *>(buffers[b::data]);
  auto *scaleInv = static_cast<float *>(buffers[b::row_scale]);
  const auto scaleOf = [&](int64_t block) {
    return math::computeScale(amax[block], math::maxFinite(p.fp8_type),
                              p.pow2_scales != 0, p.amax_epsilon,
                              math::maxFinite(p.type));
  };
  std::memset(data, 0, p.count);
  forEachElement(p, rank, [&](int64_t i, int64_t block) {
    const float scaled = load(buffers[b::x], i, p.type) * scaleOf(block);
    data[i] = p.fp8_type == TE_RT_F8E4M3FN ? floatToE4M3(scaled)
                                           : floatToE5M2(scaled);
  });
  const ScaleLayout layout(TE_RT_BLOCK_128X128, p.rows, p.cols);
  std::memset(scaleInv, 0, layout.size() * sizeof(float));
  for (int64_t r = 0; r < p.rows; r += 128)
    for (int64_t c = 0; c < p.cols; c += 128)
      scaleInv[layout.index(r, c)] =
          1.0f / scaleOf(r / 128 * ceilDiv(p.cols, 128) + c / 128);
}

} // namespace

void partial_amax(const partial_amax_params &p, void *const *buffers) {
  partialAmax(p, /*rank=*/0, buffers);
}

void quantize_shard(const quantize_shard_params &p, void *const *buffers) {
  quantizeShard(p, /*rank=*/0, buffers);
}

Status overGroup(const partial_amax_params &p, HostGroup &group,
                 void *const *buffers) {
  partialAmax(p, group.rank(), buffers);
  return Status::ok();
}

Status overGroup(const quantize_shard_params &p, HostGroup &group,
                 void *const *buffers) {
  quantizeShard(p, group.rank(), buffers);
  return Status::ok();
}

} // namespace te::rt::reference
