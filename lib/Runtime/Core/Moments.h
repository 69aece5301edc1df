//===- Moments.h - the rounding of AdamW's moments to 8 bits --------------===//
//
// f8E4M3FN for first moments and f8E5M2 for second ones, as the kernel
// adamw_fp8 defines it; both backends share it.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_MOMENTS_H
#define TE_RUNTIME_CORE_MOMENTS_H

#include "Core/Math.h"

#include <cstdint>

namespace te::rt::math {

/// The bits of |x| if it is finite, and 0 otherwise: what the scale of a block
/// of 8-bit moments depends on is the largest of these.
TE_HOST_DEVICE uint32_t finiteMagnitude(float x) {
  const uint32_t bits = floatToBits(x) & 0x7fffffffu;
  return bits < 0x7f800000u ? bits : 0;
}

/// The scale of a block of moments with `kMantissa` bits (3 for f8E4M3FN, 2 for
/// f8E5M2), from the largest finite magnitude. That one over the scale is in
/// the second largest binade of the type, so that rounding it up is no
/// overflow.
template <int kMantissa>
TE_HOST_DEVICE float momentScale(uint32_t largestMagnitude) {
  constexpr uint32_t kTop = kMantissa == 3 ? 7 : 14;
  const uint32_t exponent = largestMagnitude >> 23;
  return bitsToFloat((exponent > kTop ? exponent - kTop : 1) << 23);
}

/// The code of `x` divided by `scale`, rounded as adamw_fp8 says. `random` has
/// 16 fair bits.
template <int kMantissa>
TE_HOST_DEVICE uint32_t momentCode(float x, float scale, uint32_t random) {
  constexpr int kDropped = 23 - kMantissa;
  constexpr uint32_t kBias = kMantissa == 3 ? 7 : 15;
  constexpr uint32_t kNormal = (128 - kBias) << 23; // the smallest one
  const uint32_t bits = floatToBits(x), magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x7f800000u)
    return 0x7f;
  // The scale is a power of two, so that its reciprocal is exact.
  const float reciprocal = bitsToFloat((254u << 23) - floatToBits(scale));
  const float y = bitsToFloat(magnitude) * reciprocal;
  const bool isSubnormal = y < bitsToFloat(kNormal);
  const float sum = isSubnormal ? y + bitsToFloat(kNormal) : y;
  const uint32_t rounded =
      floatToBits(sum) + ((random & 0xffffu) << (kDropped - 16));
  return (bits >> 24 & 0x80u) | (((rounded - kNormal) >> kDropped) +
                                 (isSubnormal ? 0u : 1u << kMantissa));
}

/// The codes of a first and a second moment. A second one above 0 does not
/// become 0, because the first one is divided by it.
TE_HOST_DEVICE uint32_t firstMomentCode(float m, float scale, uint32_t word) {
  return momentCode<3>(m, scale, word);
}
TE_HOST_DEVICE uint32_t secondMomentCode(float v, float scale, uint32_t word) {
  const uint32_t code = momentCode<2>(v, scale, word >> 16);
  return v > 0.0f && code == 0 ? 1 : code;
}

} // namespace te::rt::math

#endif // TE_RUNTIME_CORE_MOMENTS_H
