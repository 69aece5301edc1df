//===- Random.h - random bits that both backends share --------------------===//
//
// Random bits are a function of a counter and a key, so that a kernel draws the
// same ones on both backends and in any order.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_RANDOM_H
#define TE_RUNTIME_CORE_RANDOM_H

#include "Core/Math.h"

#include <cstdint>

namespace te::rt::math {

/// The upper half of a * b. nvcc multiplies two numbers of 64 bits in more
/// instructions.
TE_HOST_DEVICE uint32_t upperProduct(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
  return __umulhi(a, b);
#else
  return static_cast<uint32_t>(static_cast<uint64_t>(a) * b >> 32);
#endif
}

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
/// 2011): four random words from a counter and a key.
struct PhiloxWords {
  uint32_t word[4];
};
TE_HOST_DEVICE PhiloxWords philox(uint32_t c0, uint32_t c1, uint32_t c2,
                                  uint32_t c3, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    constexpr uint32_t kA = 0xd2511f53u, kB = 0xcd9e8d57u;
    const uint32_t a = c0, b = c2;
    c0 = upperProduct(b, kB) ^ c1 ^ key0;
    c1 = b * kB;
    c2 = upperProduct(a, kA) ^ c3 ^ key1;
    c3 = a * kA;
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return {{c0, c1, c2, c3}};
}

/// The last word of the counter, by what the words are for: no two of them draw
/// the same ones. Casts to NVFP4 have their usage, 0 or 1.
inline constexpr uint32_t kAdamwMoments = 2, kElementDropout = 3,
                          kAttentionDropout = 4;

/// `x` rounded to bf16: away from zero with the probability of its distance
/// from the value nearer to zero, towards zero otherwise. `bits` are 16 fair
/// bits. Infinities and NaN stay as they are.
TE_HOST_DEVICE float roundStochasticBF16(float x, uint32_t bits) {
  const uint32_t u = floatToBits(x);
  if ((u & 0x7f800000u) == 0x7f800000u)
    return x;
  return bitsToFloat((u + (bits & 0xffffu)) & 0xffff0000u);
}

} // namespace te::rt::math

#endif // TE_RUNTIME_CORE_RANDOM_H
