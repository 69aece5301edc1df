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

float te_scalar_exp(float x) { return math::exp(x); }
float te_scalar_tanh(float x) { return math::tanh(x); }
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
