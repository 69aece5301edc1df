//===- packed_math_sm86.cuh - arithmetic on two 16-bit floats -------------===//
//
// Each wrapper is one PTX instruction on a word of two bf16 or two f16.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_PACKED_MATH_SM86_CUH
#define TE_RUNTIME_KERNELS_DEVICE_PACKED_MATH_SM86_CUH

#include <cstdint>

namespace te::rt::cuda::ptx {

/// max.xorsign.abs.bf16x2: the larger magnitude of each half; a NaN is dropped
/// if the other operand is a number. The sign is that of the product.
__device__ __forceinline__ uint32_t maxAbsBf16x2(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("max.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

/// max.xorsign.abs.f16x2: the same in f16.
__device__ __forceinline__ uint32_t maxAbsF16x2(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("max.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

/// max.NaN.xorsign.abs.bf16x2: as maxAbsBf16x2, but NaN if either is NaN.
__device__ __forceinline__ uint32_t maxAbsNanBf16x2(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

/// fma.rn.bf16x2: a * b + c of each half. A NaN becomes the canonical one,
/// 0x7fff.
__device__ __forceinline__ uint32_t fmaBf16x2(uint32_t a, uint32_t b,
                                              uint32_t c) {
  uint32_t result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}

/// fma.rn.f16x2: the same in f16.
__device__ __forceinline__ uint32_t fmaF16x2(uint32_t a, uint32_t b,
                                             uint32_t c) {
  uint32_t result;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}

} // namespace te::rt::cuda::ptx

#endif // TE_RUNTIME_KERNELS_DEVICE_PACKED_MATH_SM86_CUH
