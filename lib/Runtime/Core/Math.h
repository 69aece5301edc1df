//===- Math.h - the transcendental functions both backends share ----------===//
//
// exp, tanh and what activations build from them, and the codes of the types
// the device has no conversion of, written as one fixed sequence
// of IEEE f32 operations. Host and device compile this same file, so the
// reference backend and the CUDA kernels agree to the last bit. That holds only
// while no compiler reorders or contracts: the host compiles with
// -ffp-contract=off, nvcc with -fmad=false, and every fused multiply-add below
// is spelled out. Accuracy: exp and tanh within 2 ulp of the true value.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_MATH_H
#define TE_RUNTIME_CORE_MATH_H

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define TE_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define TE_HOST_DEVICE inline
#endif

namespace te::rt::math {

TE_HOST_DEVICE float bitsToFloat(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
#endif
}

TE_HOST_DEVICE uint32_t floatToBits(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
#endif
}

/// The value of an f4E2M1FN code, the low four bits of `code`, exactly: its
/// exponent and mantissa are those of an f32 that is 2^126 times smaller.
TE_HOST_DEVICE float e2m1ToFloat(uint32_t code) {
  return bitsToFloat((code & 8) << 28 | (code & 7) << 22) * 0x1p126f;
}

/// 2^n for n in [-126, 127].
TE_HOST_DEVICE float exp2Int(int n) {
  return bitsToFloat(static_cast<uint32_t>(n + 127) << 23);
}

/// 2^f for |f| <= 0.50001, and exactly 1 for 0: 1 + f times a polynomial. The
/// coefficients are the best floats one after another, with a relative error of
/// 2^-28.3 without the roundings of the evaluation.
TE_HOST_DEVICE float exp2Fraction(float f) {
  float p = 0x1.416b52p-13f;
  p = fmaf(p, f, 0x1.5f082ep-10f);
  p = fmaf(p, f, 0x1.3b2de0p-7f);
  p = fmaf(p, f, 0x1.c6af7cp-5f);
  p = fmaf(p, f, 0x1.ebfbdcp-3f);
  p = fmaf(p, f, 0x1.62e430p-1f);
  return fmaf(p, f, 1.0f);
}

/// Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits of the
/// sum. So is the integer plus an even number that the constant has there.
inline constexpr float kRoundingShift = 12582912.0f;

/// e^x is 2^n 2^fraction. `shifted` is n plus the shift.
struct BinaryPower {
  float fraction, shifted;
};
/// x log2(e) = n + fraction. The first product is rounded once, after n is
/// subtracted; the second is what log2(e) as a float leaves.
TE_HOST_DEVICE BinaryPower binaryPower(float x, float shift) {
  const float shifted = fmaf(x, 1.44269504f, shift), n = shifted - shift;
  const float f = fmaf(x, 1.44269504f, -n);
  return {fmaf(x, 1.925963033e-8f, f), shifted};
}

/// e^x.
TE_HOST_DEVICE float exp(float x) {
  if (!(x < 88.8f))
    return x != x ? x : bitsToFloat(0x7f800000u);
  if (x < -104.0f)
    return 0.0f;
  const BinaryPower power = binaryPower(x, kRoundingShift);
  // Two factors, because 2^n alone can leave the normal range.
  const int n = static_cast<int>(power.shifted - kRoundingShift), half = n / 2;
  return exp2Fraction(power.fraction) * exp2Int(half) * exp2Int(n - half);
}

TE_HOST_DEVICE float tanh(float x) {
  const float a = fabsf(x);
  if (a < 0.625f) {
    const float z = x * x;
    float p = -5.70498872745e-3f;
    p = fmaf(p, z, 2.06390887954e-2f);
    p = fmaf(p, z, -5.37397155531e-2f);
    p = fmaf(p, z, 1.33314422036e-1f);
    p = fmaf(p, z, -3.33332819422e-1f);
    return fmaf(p * z, x, x);
  }
  const float t = 1.0f - 2.0f / (exp(a + a) + 1.0f);
  return x < 0.0f ? -t : t;
}

TE_HOST_DEVICE float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }

/// Tanh form.
TE_HOST_DEVICE float gelu(float x) {
  return x * (0.5f + 0.5f * tanh(x * (0.79788456f + 0.03567741f * x * x)));
}
TE_HOST_DEVICE float geluGrad(float x) {
  const float t = tanh(0.79788456f * x * (1.0f + 0.044715f * x * x));
  return 0.5f * x * ((1.0f - t * t) * (0.79788456f + 0.1070322243f * x * x)) +
         0.5f * (1.0f + t);
}

/// The normal distribution function beyond `a` >= 0 divided by e^(-a²/2), with
/// t = 1 / (1 + 0.27 a): a fit of 9 terms, within 5 * 2^-24 of its value for a
/// up to 13, evaluation included.
TE_HOST_DEVICE float normalTailRatio(float t) {
  float p = 0.028778454f;
  p = fmaf(p, t, -0.12556417f);
  p = fmaf(p, t, 0.16780213f);
  p = fmaf(p, t, -0.06683654f);
  p = fmaf(p, t, 0.10610217f);
  p = fmaf(p, t, 0.07282482f);
  p = fmaf(p, t, 0.10160013f);
  p = fmaf(p, t, 0.10757434f);
  p = fmaf(p, t, 0.107718684f);
  return p * t;
}
/// Erf form, x * Phi(x). Phi below -13, which is less than 2^-126, counts as 0;
/// so does the bell there.
struct NormalAt {
  float cdf, bell; // Phi(x) and e^(-x²/2)
};
TE_HOST_DEVICE NormalAt normalOf(float x, float ratio, float bell) {
  const float tail = ratio * bell;
  return {x < 0.0f ? tail : 1.0f - tail, bell};
}
TE_HOST_DEVICE NormalAt normal(float x) {
  const float a = fabsf(x);
  if (!(a < 13.0f))
    return {x < 0.0f ? 0.0f : 1.0f, 0.0f};
  return normalOf(x, normalTailRatio(1.0f / fmaf(0.27f, a, 1.0f)),
                  exp(-0.5f * a * a));
}
TE_HOST_DEVICE float geluErf(float x, const NormalAt &at) { return x * at.cdf; }
TE_HOST_DEVICE float geluErfGrad(float x, const NormalAt &at) {
  return fmaf(x, 0.39894228f * at.bell, at.cdf);
}

/// NaN passes through.
TE_HOST_DEVICE float relu(float x) { return x < 0.0f ? 0.0f : x; }
TE_HOST_DEVICE float reluGrad(float x) { return x > 0.0f ? 1.0f : 0.0f; }
TE_HOST_DEVICE float srelu(float x) { return x < 0.0f ? 0.0f : x * x; }
TE_HOST_DEVICE float sreluGrad(float x) { return x > 0.0f ? x + x : 0.0f; }

} // namespace te::rt::math

#endif // TE_RUNTIME_CORE_MATH_H
