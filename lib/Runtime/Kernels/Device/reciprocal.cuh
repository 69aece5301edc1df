//===- reciprocal.cuh - the hardware's approximate reciprocal -------------===//
//
// An approximation to start from; Activation/fast_math.cuh corrects it to the
// rounded result.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_RECIPROCAL_CUH
#define TE_RUNTIME_KERNELS_DEVICE_RECIPROCAL_CUH

namespace te::rt::cuda::ptx {

/// rcp.approx.ftz.f32: 1 / y, to within one unit in the last place. Subnormal
/// numbers count as zero.
__device__ __forceinline__ float rcpApprox(float y) {
  float approximate;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(approximate) : "f"(y));
  return approximate;
}

} // namespace te::rt::cuda::ptx

#endif // TE_RUNTIME_KERNELS_DEVICE_RECIPROCAL_CUH
