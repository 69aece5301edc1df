//===- reciprocal.cuh - the hardware's approximate reciprocals ------------===//
//
// Approximations to start from; Activation/fast_math.cuh and
// Optimizer/adamw_run.cuh correct them to the rounded results.
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

/// rsqrt.approx.ftz.f32: 1 / sqrt(y), to within a few units in the last place.
__device__ __forceinline__ float rsqrtApprox(float y) {
  float approximate;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(approximate) : "f"(y));
  return approximate;
}

} // namespace te::rt::cuda::ptx

#endif // TE_RUNTIME_KERNELS_DEVICE_RECIPROCAL_CUH
