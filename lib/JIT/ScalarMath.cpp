//===- ScalarMath.cpp - what generated code calls -------------------------===//
//
// Compiled to LLVM bitcode and linked into generated code, for the CPU and for
// GPUs: one definition for both, and the one that the runtime's kernels have.
//
//===----------------------------------------------------------------------===//

#include "Core/Formulas.h"
#include "Core/Types.h"

using namespace te::rt;

extern "C" {

/// An approximation of 1 / y on a GPU, the exact quotient elsewhere: lib/JIT
/// replaces calls of it.
float te_scalar_approximate_reciprocal(float y);

// The bits of math::exp and math::tanh without branches, so that a GPU computes
// several elements side by side.

/// The bounds are where the result becomes 0 and infinity. The sum with 1.5 *
/// 2^23 is a rounded one, whose low bits are the integer.
float te_scalar_exp(float x) {
  x = x < -104.0f ? -104.0f : x > 88.8f ? 88.8f : x;
  const float shift = 12582912.0f;
  const float shifted = x * 1.44269504f + shift;
  const float n = shifted - shift;
  float r = fmaf(n, -0.693359375f, x);
  r = fmaf(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = fmaf(p, r, 1.3981999507e-3f);
  p = fmaf(p, r, 8.3334519073e-3f);
  p = fmaf(p, r, 4.1665795894e-2f);
  p = fmaf(p, r, 1.6666665459e-1f);
  p = fmaf(p, r, 5.0000001201e-1f);
  p = fmaf(p, r * r, r) + 1.0f;
  const int power =
      static_cast<int>(math::floatToBits(shifted) - math::floatToBits(shift));
  // A NaN has any bits, and stays one.
  const int half = power / 2;
  return p * math::bitsToFloat(static_cast<uint32_t>(half + 127) << 23) *
         math::bitsToFloat(static_cast<uint32_t>(power - half + 127) << 23);
}

/// From 9.1 on the result is 1, so the argument of exp can end at 10. The
/// reciprocal on a GPU is that of the runtime's kernels (fast_math.cuh).
float te_scalar_tanh(float x) {
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = fmaf(p, z, 2.06390887954e-2f);
  p = fmaf(p, z, -5.37397155531e-2f);
  p = fmaf(p, z, 1.33314422036e-1f);
  p = fmaf(p, z, -3.33332819422e-1f);
  const float small = fmaf(p * z, x, x);
  const float size = std::fabs(x), a = size > 10.0f ? 10.0f : size;
  const float y = te_scalar_exp(a + a) + 1.0f;
  const float near = te_scalar_approximate_reciprocal(y);
  const float reciprocal = fmaf(near, fmaf(-y, near, 1.0f), near);
  const float large = std::copysign(fmaf(-2.0f, reciprocal, 1.0f), x);
  const float result = size < 0.625f ? small : large;
  return x != x ? x : result;
}
float te_scalar_max(float a, float b) {
  return math::pointwise(TE_RT_MAX, a, b);
}
float te_scalar_min(float a, float b) {
  return math::pointwise(TE_RT_MIN, a, b);
}
float te_scalar_from_bf16(uint16_t bits) { return bf16ToFloat(bits); }
uint16_t te_scalar_to_bf16(float value) { return floatToBf16(value); }
float te_scalar_from_f16(uint16_t bits) { return f16ToFloat(bits); }
uint16_t te_scalar_to_f16(float value) { return floatToF16(value); }

// What a processor without the instruction would call libm for; see
// makePortable. fma: the product is exact in f64, the sum is rounded to odd
// there, and f64 has enough bits that the second rounding is the only one.
float te_scalar_fma(float a, float b, float c) {
  const double product = static_cast<double>(a) * b, summand = c;
  const double sum = product + summand;
  const double back = sum - product;
  const double lost = (product - (sum - back)) + (summand - back);
  uint64_t bits = std::bit_cast<uint64_t>(sum);
  const bool isFinite = (bits >> 52 & 0x7ff) != 0x7ff;
  if (isFinite && lost != 0 && (bits & 1) == 0)
    bits += (lost > 0) == (sum > 0) ? 1 : -1;
  return static_cast<float>(std::bit_cast<double>(bits));
}
/// From 2^23 on there is nothing to round.
float te_scalar_rint(float x) {
  const float magic = std::fabs(x) < 0x1p23f ? 0x1p23f : 0.0f;
  return std::copysign((std::fabs(x) + magic) - magic, x);
}

} // extern "C"
