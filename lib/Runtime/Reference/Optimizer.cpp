//===- Optimizer.cpp - parameter updates on the reference backend ---------===//
//
// Outputs may be the matching inputs, so every element is read before it is
// written.
//
//===----------------------------------------------------------------------===//

#include "Core/KernelGroups.h"
#include "Core/Moments.h"
#include "Reference/Reference.h"

#include "TEDialect/Support/KernelRows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

namespace te::rt::reference {

/// Element `i` of a gradient, multiplied by `*scale` unless it is null.
static float gradAt(const void *grad, int64_t i, int32_t type,
                    const void *scale) {
  const float value = load(grad, i, type);
  return scale ? value * *static_cast<const float *>(scale) : value;
}

/// Copies the `count` elements of a state that a skipped update keeps, unless
/// it is updated in place.
static void keep(const void *from, void *to, int64_t count, int32_t type) {
  if (from != to)
    std::memcpy(to, from, static_cast<size_t>(count * byteSize(type)));
}

void adamw(const adamw_params &p, void *const *buffers) {
  namespace b = adamw_buffers;
  if (isSkipped(buffers[b::skip])) {
    keep(buffers[b::param], buffers[b::new_param], p.count, p.param_type);
    keep(buffers[b::m], buffers[b::new_m], p.count, p.moment_type);
    keep(buffers[b::v], buffers[b::new_v], p.count, p.moment_type);
    return;
  }
  auto scalar = [&](int index) {
    return *static_cast<const float *>(buffers[index]);
  };
  const float lr = scalar(b::lr), step = scalar(b::step);
  const float correction1 = math::adamwBiasCorrection(p.beta1, step);
  const float correction2 = math::adamwBiasCorrection(p.beta2, step);
  for (int64_t i = 0; i < p.count; ++i) {
    float m = load(buffers[b::m], i, p.moment_type);
    float v = load(buffers[b::v], i, p.moment_type);
    const float param = math::adamw(
        p, load(buffers[b::param], i, p.param_type),
        gradAt(buffers[b::grad], i, p.grad_type, buffers[b::grad_scale]), m, v,
        lr, correction1, correction2);
    if (p.moment_type == TE_RT_BF16) {
      const uint32_t word = math::adamwRandom(p.seed, i / 4, step).word[i % 4];
      m = math::roundStochasticBF16(m, word);
      v = math::roundStochasticBF16(v, word >> 16);
    }
    store(buffers[b::new_m], i, m, p.moment_type);
    store(buffers[b::new_v], i, v, p.moment_type);
    store(buffers[b::new_param], i, param, p.param_type);
  }
}

void adamw_group(const adamw_group_params &p, void *const *buffers) {
  for (int i = 0; i < kAdamwGroup; ++i)
    if (const adamw_params member = memberOf(p, i); member.count != 0)
      adamw(member, adamwBuffersOf(buffers, i).data());
}

void adamw_fp8(const adamw_fp8_params &p, void *const *buffers) {
  namespace b = adamw_fp8_buffers;
  constexpr int64_t kBlock = te_table::kernel_rows::kMomentBlock;
  const int64_t blocks = ceilDiv(p.count, kBlock);
  if (isSkipped(buffers[b::skip])) {
    keep(buffers[b::param], buffers[b::new_param], p.count, p.param_type);
    keep(buffers[b::m], buffers[b::new_m], p.count, TE_RT_F8E4M3FN);
    keep(buffers[b::v], buffers[b::new_v], p.count, TE_RT_F8E5M2);
    keep(buffers[b::scales], buffers[b::new_scales], 2 * blocks, TE_RT_F32);
    return;
  }
  auto floats = [&](int index) { return static_cast<float *>(buffers[index]); };
  const float lr = *floats(b::lr), step = *floats(b::step);
  const float correction1 = math::adamwBiasCorrection(p.beta1, step);
  const float correction2 = math::adamwBiasCorrection(p.beta2, step);
  const float *scales = floats(b::scales);
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t first = block * kBlock,
                  size = std::min(kBlock, p.count - first);
    std::array<float, kBlock> m, v;
    uint32_t largestM = 0, largestV = 0;
    for (int64_t k = 0; k < size; ++k) {
      const int64_t i = first + k;
      m[k] = load(buffers[b::m], i, TE_RT_F8E4M3FN) * scales[block];
      v[k] = load(buffers[b::v], i, TE_RT_F8E5M2) * scales[blocks + block];
      const float param = math::adamw(
          p, load(buffers[b::param], i, p.param_type),
          gradAt(buffers[b::grad], i, p.grad_type, buffers[b::grad_scale]),
          m[k], v[k], lr, correction1, correction2);
      store(buffers[b::new_param], i, param, p.param_type);
      largestM = std::max(largestM, math::finiteMagnitude(m[k]));
      largestV = std::max(largestV, math::finiteMagnitude(v[k]));
    }
    const float mScale = math::momentScale<3>(largestM);
    const float vScale = math::momentScale<2>(largestV);
    for (int64_t k = 0; k < size; ++k) {
      const int64_t i = first + k;
      const uint32_t word = math::adamwRandom(p.seed, i / 4, step).word[i % 4];
      static_cast<uint8_t *>(buffers[b::new_m])[i] =
          static_cast<uint8_t>(math::firstMomentCode(m[k], mScale, word));
      static_cast<uint8_t *>(buffers[b::new_v])[i] =
          static_cast<uint8_t>(math::secondMomentCode(v[k], vScale, word));
    }
    floats(b::new_scales)[block] = mScale;
    floats(b::new_scales)[blocks + block] = vScale;
  }
}

void sgd(const sgd_params &p, void *const *buffers) {
  namespace b = sgd_buffers;
  if (isSkipped(buffers[b::skip])) {
    keep(buffers[b::param], buffers[b::new_param], p.count, p.param_type);
    if (buffers[b::buf] && buffers[b::new_buf])
      keep(buffers[b::buf], buffers[b::new_buf], p.count, TE_RT_F32);
    else if (auto *newBuf = static_cast<float *>(buffers[b::new_buf]))
      std::fill_n(newBuf, p.count, 0.0f);
    return;
  }
  const float lr = *static_cast<const float *>(buffers[b::lr]);
  for (int64_t i = 0; i < p.count; ++i) {
    float buf = buffers[b::buf] ? load(buffers[b::buf], i, TE_RT_F32) : 0.0f;
    const float param = math::sgd(
        p, load(buffers[b::param], i, p.param_type),
        gradAt(buffers[b::grad], i, p.grad_type, buffers[b::grad_scale]), buf,
        lr);
    if (buffers[b::new_buf])
      store(buffers[b::new_buf], i, buf, TE_RT_F32);
    store(buffers[b::new_param], i, param, p.param_type);
  }
}

static float squaresOf(const void *x, const SquaresMember &member) {
  constexpr int64_t kRun = te_table::kernel_rows::kSquaresRun;
  std::vector<float> runs(ceilDiv(member.count, kRun));
  parallelFor(runs.size(), member.count, [&](int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; ++run) {
      const int64_t first = run * kRun;
      runs[run] = laneSum(std::min(kRun, member.count - first),
                          [&](float acc, int64_t i) {
                            const float value = load(x, first + i, member.type);
                            return std::fmaf(value, value, acc);
                          });
    }
  });
  return laneSum(static_cast<int64_t>(runs.size()),
                 [&](float acc, int64_t run) { return acc + runs[run]; });
}

void sum_of_squares(const sum_of_squares_params &p, void *const *buffers) {
  namespace b = sum_of_squares_buffers;
  auto *newSum = static_cast<float *>(buffers[b::new_sum]);
  if (isSkipped(buffers[b::skip])) {
    *newSum = 0.0f;
    return;
  }
  const auto *sum = static_cast<const float *>(buffers[b::sum]);
  float total = sum ? *sum : 0.0f;
  for (int i = 0; i < kSquaresGroup; ++i)
    if (const SquaresMember member = memberOf(p, i); member.count != 0)
      total += squaresOf(buffers[b::x0 + i], member);
  *newSum = total;
}

void clip_factor(const clip_factor_params &p, void *const *buffers) {
  namespace b = clip_factor_buffers;
  const float norm = std::sqrt(*static_cast<const float *>(buffers[b::sum]));
  *static_cast<float *>(buffers[b::norm]) = norm;
  *static_cast<float *>(buffers[b::factor]) =
      math::clipFactor(norm, p.max_norm);
}

} // namespace te::rt::reference
