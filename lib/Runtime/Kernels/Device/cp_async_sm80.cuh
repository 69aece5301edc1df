//===- cp_async_sm80.cuh - asynchronous 16-byte copies to shared memory ---===//
//
// Each wrapper is one PTX instruction and is named after it. A thread may read
// what it copied once it has waited for the group; other threads need a barrier
// after that wait.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_CP_ASYNC_SM80_CUH
#define TE_RUNTIME_KERNELS_DEVICE_CP_ASYNC_SM80_CUH

#include "Kernels/Device/shared_address.cuh"

#include <cstdint>

namespace te::rt::cuda::ptx {

/// cp.async.cg: starts to fill 16 bytes of shared memory at `to`. They become
/// zeros, and `from` is not read, unless `inside`. Both pointers are 16-byte
/// aligned.
__device__ __forceinline__ void cpAsync16(void *to, const void *from,
                                          bool inside) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sharedAddress(to)),
      "l"(from), "r"(inside ? 16 : 0)
      : "memory");
}

/// cp.async.commit_group: ends the group of the copies since the last call.
__device__ __forceinline__ void cpAsyncCommitGroup() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// cp.async.wait_group: waits until at most `Pending` groups of this thread are
/// unfinished.
template <int Pending> __device__ __forceinline__ void cpAsyncWaitGroup() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

} // namespace te::rt::cuda::ptx

#endif // TE_RUNTIME_KERNELS_DEVICE_CP_ASYNC_SM80_CUH
