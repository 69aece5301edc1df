//===- Nvfp4.cpp - 4-bit quantisation on the reference backend ------------===//
//
// A usage is quantised block by block: the scale from the block's amax (of two
// candidates with 4over6), then each group of 16 elements with it. A block has
// one line of 16 elements, a square one has 16.
//
//===----------------------------------------------------------------------===//

#include "Core/Nvfp4.h"

#include "Reference/Reference.h"

#include <cstring>

namespace te::rt::reference {

namespace {

/// What a usage needs besides its values.
struct Quantiser {
  const quantize_nvfp4_params &p;
  const float *amax; // [1], or [rows] of a row-scaled value
  uint32_t seed, offset;

  int64_t lines() const { return p.scheme == TE_RT_NV_16X16 ? kNvBlock : 1; }

  /// Error of a block with this scale; `at(line, i)` are its elements.
  template <typename At>
  float error(float scale, math::NvTensorScale tensor, float tensorAmax,
              At at) const {
    const float inverse = math::nvInverse(scale, tensor);
    const float reach = 6.0f * static_cast<float>(p.scale_max);
    float sums[kNvBlock] = {};
    for (int64_t line = 0; line < lines(); ++line)
      for (int i = 0; i < kNvBlock; ++i) {
        const float x = std::fabs(at(line, i));
        const float q = math::e2m1ToFloat(math::e2m1Code(x * inverse));
        sums[line] +=
            math::nvError(p.four_over_six, q, scale, tensorAmax, reach, x);
      }
    for (int64_t s = lines() / 2; s != 0; s /= 2)
      for (int64_t line = 0; line < s; ++line)
        sums[line] += sums[line + s];
    return sums[0];
  }

  /// The scale of a block, as stored.
  template <typename At>
  uint8_t scale(math::NvTensorScale tensor, float tensorAmax, At at) const {
    float amax = 0.0f;
    for (int64_t line = 0; line < lines(); ++line)
      for (int i = 0; i < kNvBlock; ++i)
        amax = maxMagnitude(amax, at(line, i));
    if (p.four_over_six == kNvNoError)
      return floatToE4M3(math::nvBlockScale(amax, tensor));
    uint8_t codes[2];
    float errors[2];
    for (int four = 0; four < 2; ++four) {
      codes[four] = floatToE4M3(math::nvBlockScale46(amax, tensor, four != 0));
      errors[four] = error(e4m3ToFloat(codes[four]), tensor, tensorAmax, at);
    }
    return codes[errors[1] < errors[0]];
  }

  /// The code of element `i` of a group.
  uint32_t code(float x, float inverse, const math::PhiloxWords &random,
                int i) const {
    const float magnitude = std::fabs(x * inverse);
    const uint32_t bits =
        math::nvRandomBits(random.word[i / 4], random.word[i / 4 ^ 1], i);
    const uint32_t sign = std::signbit(x) && x == x ? 8 : 0;
    return sign | (p.stochastic ? math::e2m1CodeStochastic(magnitude, bits)
                                : math::e2m1Code(magnitude));
  }

  /// One usage, of values x(outer, inner). `source(line, i, outer, inner)` is
  /// the element in line `line` of x, as it is stored, of the block at
  /// (outer, inner).
  template <typename X, typename Source>
  void run(int64_t outer, int64_t inner, uint32_t usage, X x, Source source,
           uint8_t *data, uint8_t *scales) const {
    const int64_t groups = inner / kNvBlock, pitch = roundUp(groups, 4);
    if (scales)
      std::memset(scales, 0, roundUp(outer, 128) * pitch);
    auto block = [&](int64_t o0, int64_t group) {
      const float tensorAmax = amax[p.row_scaled ? o0 : 0];
      const math::NvTensorScale tensor =
          math::nvTensorScale(tensorAmax, p.scale_max);
      const int64_t i0 = group * kNvBlock;
      const uint8_t stored =
          scale(tensor, tensorAmax,
                [&](int64_t line, int i) { return source(line, i, o0, i0); });
      const float inverse = math::nvInverse(e4m3ToFloat(stored), tensor);
      for (int64_t o = o0; o < o0 + lines(); ++o) {
        if (scales)
          scales[o * pitch + group] = stored;
        if (!data)
          continue;
        math::PhiloxWords random{};
        if (p.stochastic)
          random = math::nvRandom(o * groups + group, usage, seed, offset,
                                  static_cast<uint32_t>(p.stream));
        for (int i = 0; i < kNvBlock; i += 2)
          data[(o * inner + i0 + i) / 2] = static_cast<uint8_t>(
              code(x(o, i0 + i), inverse, random, i) |
              code(x(o, i0 + i + 1), inverse, random, i + 1) << 4);
      }
    };
    parallelFor(outer / lines(), outer * inner * 64,
                [&](int64_t begin, int64_t end) {
                  for (int64_t o = begin; o < end; ++o)
                    for (int64_t group = 0; group < groups; ++group)
                      block(o * lines(), group);
                });
  }
};

} // namespace

void quantize_nvfp4(const quantize_nvfp4_params &p, void *const *buffers) {
  namespace b = quantize_nvfp4_buffers;
  if (isSkipped(buffers[b::skip]))
    return;
  const auto *amax = static_cast<const float *>(buffers[b::amax]);
  const auto *rng = static_cast<const uint32_t *>(buffers[b::rng]);
  const Quantiser quantiser{p, amax, rng ? rng[0] : 0, rng ? rng[1] : 0};
  auto x = [&, data = buffers[b::x]](int64_t r, int64_t c) {
    return loadPadded(data, r, c, p);
  };
  auto bytes = [&](int index) {
    return static_cast<uint8_t *>(buffers[index]);
  };
  if (bytes(b::row) || bytes(b::row_scale))
    quantiser.run(
        p.rows, p.cols, 0, x,
        [&](int64_t line, int i, int64_t r0, int64_t c0) {
          return x(r0 + line, c0 + i);
        },
        bytes(b::row), bytes(b::row_scale));
  if (bytes(b::row_amax))
    std::memcpy(bytes(b::row_amax), amax, (p.row_scaled ? p.rows : 1) * 4);
  if (p.row_scaled)
    return;
  if (bytes(b::col) || bytes(b::col_scale))
    quantiser.run(
        p.cols, p.rows, 1, [&](int64_t c, int64_t r) { return x(r, c); },
        [&](int64_t line, int i, int64_t c0, int64_t r0) {
          // A 1x16 block runs down a column, the lines of a square run along
          // rows.
          return p.scheme == TE_RT_NV_16X16 ? x(r0 + line, c0 + i)
                                            : x(r0 + i, c0);
        },
        bytes(b::col), bytes(b::col_scale));
  if (bytes(b::col_amax))
    std::memcpy(bytes(b::col_amax), amax, 4);
}

void amax_rows(const amax_rows_params &p, void *const *buffers) {
  namespace b = amax_rows_buffers;
  auto *amax = static_cast<float *>(buffers[b::amax]);
  const int64_t cols = isSkipped(buffers[b::skip]) ? 0 : p.cols;
  for (int64_t r = 0; r < p.rows; ++r) {
    amax[r] = 0.0f;
    for (int64_t c = 0; c < cols; ++c)
      amax[r] =
          maxMagnitude(amax[r], load(buffers[b::x], r * p.cols + c, p.type));
  }
}

void hadamard(const hadamard_params &p, void *const *buffers) {
  namespace b = hadamard_buffers;
  for (int64_t r0 = 0; r0 < p.rows; r0 += kNvBlock)
    for (int64_t c = 0; c < p.cols; ++c) {
      float v[kNvBlock];
      for (int i = 0; i < kNvBlock; ++i)
        v[i] = load(buffers[b::x], (r0 + i) * p.cols + c, TE_RT_BF16);
      math::hadamard16(v);
      for (int i = 0; i < kNvBlock; ++i)
        store(buffers[b::y], (r0 + i) * p.cols + c, v[i], TE_RT_BF16);
    }
}

void nvfp4_alpha(const nvfp4_alpha_params &p, void *const *buffers) {
  namespace b = nvfp4_alpha_buffers;
  const auto *aAmax = static_cast<const float *>(buffers[b::a_amax]);
  const float bAmax = *static_cast<const float *>(buffers[b::b_amax]);
  auto *alpha = static_cast<float *>(buffers[b::alpha]);
  for (int64_t r = 0; r < p.rows; ++r)
    alpha[r] = math::nvAlpha(aAmax[r], bAmax, p.a_scale_max, p.b_scale_max);
}

void rng_advance(const rng_advance_params &p, void *const *buffers) {
  namespace b = rng_advance_buffers;
  const auto *state = static_cast<const uint32_t *>(buffers[b::state]);
  auto *next = static_cast<uint32_t *>(buffers[b::new_state]);
  const uint32_t seed = state[0], offset = state[1];
  next[0] = seed;
  next[1] = offset + static_cast<uint32_t>(p.count);
}

} // namespace te::rt::reference
