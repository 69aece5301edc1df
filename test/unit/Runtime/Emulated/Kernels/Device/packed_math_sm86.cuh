//===- packed_math_sm86.cuh - two 16-bit floats, emulated -----------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_PACKED_MATH_SM86_CUH
#define TE_RUNTIME_KERNELS_DEVICE_PACKED_MATH_SM86_CUH

#include "Runtime/Emulated/Emulator.h"

namespace te::rt::cuda::ptx {

/// The larger magnitude, with the sign of the product.
template <bool kNan, typename T> uint16_t maxAbsOf(uint16_t a, uint16_t b) {
  constexpr uint16_t kInfinity = std::is_same_v<T, __half> ? 0x7c00 : 0x7f80;
  const uint16_t sign = (a ^ b) & 0x8000;
  a &= 0x7fff, b &= 0x7fff;
  // The order of magnitudes is that of their bits.
  const bool isNan =
      kNan ? a > kInfinity || b > kInfinity : a > kInfinity && b > kInfinity;
  if (isNan)
    return 0x7fff;
  if (a > kInfinity || b > kInfinity)
    return sign | (a > kInfinity ? b : a);
  return sign | (a > b ? a : b);
}
template <bool kNan, typename T>
uint32_t maxAbsOfWords(uint32_t a, uint32_t b) {
  const uint32_t low =
      maxAbsOf<kNan, T>(static_cast<uint16_t>(a), static_cast<uint16_t>(b));
  const uint32_t high = maxAbsOf<kNan, T>(static_cast<uint16_t>(a >> 16),
                                          static_cast<uint16_t>(b >> 16));
  return high << 16 | low;
}

inline uint32_t maxAbsBf16x2(uint32_t a, uint32_t b) {
  return maxAbsOfWords<false, __nv_bfloat16>(a, b);
}
inline uint32_t maxAbsF16x2(uint32_t a, uint32_t b) {
  return maxAbsOfWords<false, __half>(a, b);
}
inline uint32_t maxAbsNanBf16x2(uint32_t a, uint32_t b) {
  return maxAbsOfWords<true, __nv_bfloat16>(a, b);
}

/// a * b + c, rounded once. The product is exact in f64. The sum is rounded to
/// odd, so that rounding it again to far fewer bits gives the right result.
inline double fmaToOdd(double a, double b, double c) {
  const double product = a * b, sum = product + c;
  const double part = sum - product;
  const double error = (product - (sum - part)) + (c - part);
  auto bits = std::bit_cast<uint64_t>(sum);
  if (std::isfinite(sum) && error != 0 && bits % 2 == 0)
    bits += (error > 0) == (sum > 0) ? 1 : -1;
  return std::bit_cast<double>(bits);
}
inline uint32_t fmaBf16x2(uint32_t a, uint32_t b, uint32_t c) {
  auto at = [](uint32_t word, int shift) {
    return double{std::bit_cast<float>(word >> shift << 16)};
  };
  uint32_t result = 0;
  for (int shift : {0, 16})
    result |= uint32_t{__bfloat16_as_ushort(__double2bfloat16(
                  fmaToOdd(at(a, shift), at(b, shift), at(c, shift))))}
              << shift;
  return result;
}
inline uint32_t fmaF16x2(uint32_t a, uint32_t b, uint32_t c) {
  auto at = [](uint32_t word, int shift) {
    return double{__half2float(
        __ushort_as_half(static_cast<unsigned short>(word >> shift)))};
  };
  uint32_t result = 0;
  for (int shift : {0, 16})
    result |= uint32_t{__half_as_ushort(__double2half(
                  fmaToOdd(at(a, shift), at(b, shift), at(c, shift))))}
              << shift;
  return result;
}

} // namespace te::rt::cuda::ptx

#endif // TE_RUNTIME_KERNELS_DEVICE_PACKED_MATH_SM86_CUH
