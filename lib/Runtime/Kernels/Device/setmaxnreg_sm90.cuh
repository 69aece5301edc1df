//===- setmaxnreg_sm90.cuh - registers of a warpgroup ---------------------===//
//
// setmaxnreg moves registers between warpgroups: every warp of a warpgroup
// executes it. Compiled for sm_90a only, as are the kernels that use it.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_SETMAXNREG_SM90_CUH
#define TE_RUNTIME_KERNELS_DEVICE_SETMAXNREG_SM90_CUH

#include <cstdint>

namespace te::rt::cuda::ptx {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// setmaxnreg with .inc: waits until `Registers` per thread are available.
template <int Registers> __device__ __forceinline__ void setmaxnregInc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
/// setmaxnreg with .dec: gives up all but `Registers` per thread.
template <int Registers> __device__ __forceinline__ void setmaxnregDec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

#endif // __CUDA_ARCH_FEAT_SM90_ALL

} // namespace te::rt::cuda::ptx

#endif // TE_RUNTIME_KERNELS_DEVICE_SETMAXNREG_SM90_CUH
