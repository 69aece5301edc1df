//===- Nvfp4.h - two-level scales, 4-bit codes, random rounding -----------===//
//
// The formulas of the nv schemes, compiled by host and device alike (see
// Math.h). A value is a 4-bit e2m1 code times an e4m3 scale of its block times
// a factor of the tensor (or row), which follows from the amax alone.
//
// Rounding rests on one piecewise linear function, p(m) = min(2m, m + 2,
// m/2 + 4): it is 0, 1, ..., 7 at the eight magnitudes of e2m1 and linear
// between two neighbours. So rounding m to a code is rounding p(m) to an
// integer. Added to 2^23, where floats are integers, each of its three lines is
// rounded once, ties to the even code; and rounding keeps the order, so the
// least of the rounded lines is the rounded least.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_NVFP4_H
#define TE_RUNTIME_CORE_NVFP4_H

#include "Core/Formulas.h"

namespace te::rt {

/// Elements along the contraction axis that share a scale; a square block has
/// as many lines.
inline constexpr int kNvBlock = 16;

/// How a block of 4over6 measures the error of a scale.
enum : int32_t { kNvNoError = 0, kNvAbsoluteError = 1, kNvSquaredError = 2 };

namespace math {

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

/// The factor of a tensor or row, and its rounded inverse.
struct NvTensorScale {
  float factor, inverse;
};

/// `scaleMax` (448 or 256) is the largest block scale aimed at.
TE_HOST_DEVICE NvTensorScale nvTensorScale(float amax, int32_t scaleMax) {
  float factor = fminf((6.0f * static_cast<float>(scaleMax)) / amax, kFloatMax);
  if (amax == 0.0f || factor == 0.0f)
    factor = 1.0f;
  return {factor, 1.0f / factor};
}

/// What is rounded to e4m3 to be the scale of a block.
TE_HOST_DEVICE float nvBlockScale(float blockAmax, NvTensorScale tensor) {
  // The f32 nearest to 1/6.
  const float sixth = bitsToFloat(0x3e2aaaabu);
  return fminf(blockAmax * (tensor.factor * sixth), kFloatMax);
}

/// As nvBlockScale, of 4over6: a block's amax becomes 6, or 4 where
/// `mapsToFour`.
TE_HOST_DEVICE float nvBlockScale46(float blockAmax, NvTensorScale tensor,
                                    bool mapsToFour) {
  const float scale = blockAmax / 6.0f * tensor.factor;
  return fminf(mapsToFour ? scale * 1.5f : scale, 448.0f);
}

/// What an element is multiplied by before it is rounded to e2m1. `blockScale`
/// is the stored scale.
TE_HOST_DEVICE float nvInverse(float blockScale, NvTensorScale tensor) {
  return fminf(1.0f / (blockScale * tensor.inverse), kFloatMax);
}

/// The factor of row r of a product of nv operands, from their amaxes.
TE_HOST_DEVICE float nvAlpha(float aAmax, float bAmax, int32_t aScaleMax,
                             int32_t bScaleMax) {
  // 36 * 448 * 448 is exact in f32.
  return aAmax * bAmax *
         (1.0f / (36.0f * static_cast<float>(aScaleMax) *
                  static_cast<float>(bScaleMax)));
}

//===----------------------------------------------------------------------===//
// e2m1
//===----------------------------------------------------------------------===//

/// 2^23, where neighbouring floats are 1 apart and the low bits count.
inline constexpr float kCodeBase = 8388608.0f;

/// kCodeBase plus the code of `magnitude`, rounded to nearest even; 7 (the
/// value 6) for what is larger and for NaN.
TE_HOST_DEVICE float e2m1CodeOnBase(float magnitude) {
  const float low = fmaf(magnitude, 2.0f, kCodeBase);
  const float middle = magnitude + (kCodeBase + 2.0f);
  const float high = fmaf(magnitude, 0.5f, kCodeBase + 4.0f);
  return fminf(fminf(low, middle), fminf(high, kCodeBase + 7.0f));
}
TE_HOST_DEVICE uint32_t e2m1Code(float magnitude) {
  return floatToBits(e2m1CodeOnBase(magnitude)) & 7;
}

/// offset + floor(x * factor) for 0 <= x <= 6, a power of two `factor` up to
/// 2^17, and an integer `offset` from kCodeBase, less than 2^23 above it.
TE_HOST_DEVICE float addFloor(float x, float factor, float offset) {
#ifdef __CUDA_ARCH__
  return __fmaf_rz(x, factor, offset);
#else
  return static_cast<float>(static_cast<int32_t>(x * factor)) + offset;
#endif
}

/// The code of `magnitude` rounded up with the probability of its place between
/// two neighbours, cut to 16 bits: `random` is 0 to 65535. Saturates as
/// e2m1Code.
TE_HOST_DEVICE uint32_t e2m1CodeStochastic(float magnitude, uint32_t random) {
  // floor(65536 p), line by line.
  const float m = fminf(magnitude, 6.0f);
  const float p = fminf(addFloor(m, 131072.0f, kCodeBase),
                        fminf(addFloor(m, 65536.0f, kCodeBase + 131072.0f),
                              addFloor(m, 32768.0f, kCodeBase + 262144.0f)));
  return ((floatToBits(p) & 0x7fffff) + random) >> 16;
}

/// Error of an element of 4over6, from magnitudes: `q` of its code, `x` its
/// own. `reach` is 6 * scaleMax.
TE_HOST_DEVICE float nvError(int32_t measure, float q, float blockScale,
                             float amax, float reach, float x) {
  const float error = q * blockScale * amax / reach - x;
  return measure == kNvAbsoluteError ? fabsf(error) : error * error;
}

//===----------------------------------------------------------------------===//
// Random bits
//===----------------------------------------------------------------------===//

/// The random words of a group of 16 elements. `group` counts groups in storage
/// order, `usage` is 0 for row and 1 for col.
TE_HOST_DEVICE PhiloxWords nvRandom(int64_t group, uint32_t usage,
                                    uint32_t seed, uint32_t offset,
                                    uint32_t stream) {
  return philox(static_cast<uint32_t>(group),
                static_cast<uint32_t>(static_cast<uint64_t>(group) >> 32),
                offset, usage, seed, stream);
}
/// The 16 bits of element j % 4 of the four whose word is `word`: its own byte
/// above that of its partner, element j ^ 4, whose word is `partner`. So each
/// has 16 fair bits of the 128; partners, which decide by different bytes but
/// once in 256, are as good as independent.
TE_HOST_DEVICE uint32_t nvRandomBits(uint32_t word, uint32_t partner, int j) {
  const int shift = 8 * (j % 4);
  return (word >> shift & 0xff) << 8 | (partner >> shift & 0xff);
}

//===----------------------------------------------------------------------===//
// Hadamard transform
//===----------------------------------------------------------------------===//

/// In place v := v diag(s) H / 4, with H the Sylvester matrix of order 16 and
/// the signs s of the recipe; s is -1 where the bit of this mask is set. No sum
/// overflows unless the result does, because the sums are those of v / 16. That
/// is exact for bf16: its smallest number is 2^-133, and that of f32 2^-149.
inline constexpr uint32_t kHadamardNegative = 0xd7e8;
TE_HOST_DEVICE void hadamard16(float (&v)[16]) {
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int i = 0; i < 16; ++i)
    v[i] *= kHadamardNegative >> i & 1 ? -0.0625f : 0.0625f;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int step = 1; step < 16; step *= 2)
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int i = 0; i < 16; ++i)
      if (!(i & step)) {
        const float a = v[i], b = v[i + step];
        v[i] = a + b;
        v[i + step] = a - b;
      }
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int i = 0; i < 16; ++i)
    v[i] *= 4.0f;
}

} // namespace math
} // namespace te::rt

#endif // TE_RUNTIME_CORE_NVFP4_H
