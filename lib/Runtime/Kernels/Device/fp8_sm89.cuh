//===- fp8_sm89.cuh - conversion to and from 8-bit floats -----------------===//
//
// The packed conversions of the hardware round to nearest even, saturate to the
// largest finite value (infinities too), and convert NaN to 0x7f. The reference
// backend computes the same bits in software.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_FP8_SM89_CUH
#define TE_RUNTIME_KERNELS_DEVICE_FP8_SM89_CUH

#include <cstdint>
#include <cuda_fp16.h>

namespace te::rt::cuda {

struct E4M3 {
  static constexpr float max = 448.0f;

  /// Two cvt.rn.satfinite.e4m3x2.f32: four values to four bytes, `a` lowest.
  static __device__ __forceinline__ uint32_t pack(float a, float b, float c,
                                                  float d) {
    uint32_t bytes;
    asm("{\n\t.reg .b16 low, high;\n\t"
        "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n\t"
        "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n\t"
        "mov.b32 %0, {low, high};\n\t}"
        : "=r"(bytes)
        : "f"(a), "f"(b), "f"(c), "f"(d));
    return bytes;
  }

  /// cvt.rn.f16x2.e4m3x2: two bytes to two f16, exactly.
  static __device__ __forceinline__ uint32_t toHalves(uint16_t bytes) {
    uint32_t halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(bytes));
    return halves;
  }
};

struct E5M2 {
  static constexpr float max = 57344.0f;

  /// Two cvt.rn.satfinite.e5m2x2.f32: four values to four bytes, `a` lowest.
  static __device__ __forceinline__ uint32_t pack(float a, float b, float c,
                                                  float d) {
    uint32_t bytes;
    asm("{\n\t.reg .b16 low, high;\n\t"
        "cvt.rn.satfinite.e5m2x2.f32 low, %2, %1;\n\t"
        "cvt.rn.satfinite.e5m2x2.f32 high, %4, %3;\n\t"
        "mov.b32 %0, {low, high};\n\t}"
        : "=r"(bytes)
        : "f"(a), "f"(b), "f"(c), "f"(d));
    return bytes;
  }

  /// cvt.rn.f16x2.e5m2x2: two bytes to two f16, exactly.
  static __device__ __forceinline__ uint32_t toHalves(uint16_t bytes) {
    uint32_t halves;
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(bytes));
    return halves;
  }
};

/// Converts four bytes to four f32, exactly.
template <typename F8>
__device__ __forceinline__ void unpackBytes(uint32_t bytes, float *values) {
  const uint32_t low = F8::toHalves(static_cast<uint16_t>(bytes));
  const uint32_t high = F8::toHalves(static_cast<uint16_t>(bytes >> 16));
  const float2 a = __half22float2(reinterpret_cast<const __half2 &>(low));
  const float2 b = __half22float2(reinterpret_cast<const __half2 &>(high));
  values[0] = a.x;
  values[1] = a.y;
  values[2] = b.x;
  values[3] = b.y;
}

/// Transposes in place: byte j of word i becomes byte i of word j.
__device__ __forceinline__ void transposeBytes(uint32_t &a, uint32_t &b,
                                               uint32_t &c, uint32_t &d) {
  const uint32_t ab01 = __byte_perm(a, b, 0x5140); // a0 b0 a1 b1
  const uint32_t cd01 = __byte_perm(c, d, 0x5140);
  const uint32_t ab23 = __byte_perm(a, b, 0x7362); // a2 b2 a3 b3
  const uint32_t cd23 = __byte_perm(c, d, 0x7362);
  a = __byte_perm(ab01, cd01, 0x5410);
  b = __byte_perm(ab01, cd01, 0x7632);
  c = __byte_perm(ab23, cd23, 0x5410);
  d = __byte_perm(ab23, cd23, 0x7632);
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_DEVICE_FP8_SM89_CUH
