//===- barrier.cuh - named barriers of a CTA ------------------------------===//
//
// __syncthreads is barrier 0. Barriers 1 to 15 are for some of the warps of a
// CTA.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_BARRIER_CUH
#define TE_RUNTIME_KERNELS_DEVICE_BARRIER_CUH

#include <cstdint>

namespace te::rt::cuda::ptx {

/// barrier.sync: waits for `Threads` threads, which are whole warps, at named
/// barrier `Barrier`. Warps may wait in different places of the code, which
/// bar.sync, the aligned form, does not allow.
template <int Barrier, int Threads>
__device__ __forceinline__ void namedBarrierSync() {
  asm volatile("barrier.sync %0, %1;" ::"n"(Barrier), "n"(Threads) : "memory");
}

/// Emits no instruction. The compiler moves no memory access across it.
__device__ __forceinline__ void compilerMemoryFence() {
  asm volatile("" ::: "memory");
}

} // namespace te::rt::cuda::ptx

#endif // TE_RUNTIME_KERNELS_DEVICE_BARRIER_CUH
