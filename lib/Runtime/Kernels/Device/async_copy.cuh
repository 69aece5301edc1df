//===- async_copy.cuh - copies to shared memory that do not wait ----------===//
//
// cp.async of 16 bytes, in groups of the issuing thread. What a thread copied
// it may read once it has waited; other threads need a barrier after that.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_ASYNC_COPY_CUH
#define TE_RUNTIME_KERNELS_DEVICE_ASYNC_COPY_CUH

#include <cstdint>

namespace te::rt::cuda {

/// Starts filling 16 bytes at `to`, in shared memory; with zeros, and without a
/// look at `from`, if not `inside`. Both are 16-byte aligned.
__device__ __forceinline__ void copyAsync(void *to, const void *from,
                                          bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from), "r"(inside ? 16 : 0)
               : "memory");
}

/// Ends the group of the copies since the last call.
__device__ __forceinline__ void endCopyGroup() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until the thread has at most `kPending` groups under way.
template <int kPending> __device__ __forceinline__ void waitForCopyGroups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_DEVICE_ASYNC_COPY_CUH
