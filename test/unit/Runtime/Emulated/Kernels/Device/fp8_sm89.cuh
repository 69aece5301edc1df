//===- fp8_sm89.cuh - conversion to and from 8-bit floats, emulated -------===//
//
// The conversions are those of CUDA's headers for the host.
//
//===----------------------------------------------------------------------===//

#ifndef TE_UNITTEST_RUNTIME_EMULATED_FP8_SM89_CUH
#define TE_UNITTEST_RUNTIME_EMULATED_FP8_SM89_CUH

#include "Runtime/Emulated/Emulator.h"

#include <cuda_fp8.h>

// The replaced header's functions without PTX take any type of this form.
#define asm(...) te::emulated::fail("runs PTX")
#define E4M3 PtxE4M3
#define E5M2 PtxE5M2
#include_next "Kernels/Device/fp8_sm89.cuh"
#undef asm
#undef E4M3
#undef E5M2

namespace te::rt::cuda {

template <__nv_fp8_interpretation_t kType> struct EmulatedFp8 {
  static uint32_t byte(float x) {
    return x != x ? 0x7f : __nv_cvt_float_to_fp8(x, __NV_SATFINITE, kType);
  }
  static uint32_t pack(float a, float b, float c, float d) {
    return byte(a) | byte(b) << 8 | byte(c) << 16 | byte(d) << 24;
  }
  static uint32_t toHalves(uint16_t bytes) {
    const uint32_t low =
        __nv_cvt_fp8_to_halfraw(static_cast<uint8_t>(bytes), kType).x;
    const uint32_t high =
        __nv_cvt_fp8_to_halfraw(static_cast<uint8_t>(bytes >> 8), kType).x;
    return high << 16 | low;
  }
};
struct E4M3 : EmulatedFp8<__NV_E4M3> {
  static constexpr float max = 448.0f;
};
struct E5M2 : EmulatedFp8<__NV_E5M2> {
  static constexpr float max = 57344.0f;
};

} // namespace te::rt::cuda

#endif // TE_UNITTEST_RUNTIME_EMULATED_FP8_SM89_CUH
