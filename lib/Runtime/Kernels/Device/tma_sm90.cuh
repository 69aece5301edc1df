//===- tma_sm90.cuh - TMA and bulk copies to shared memory ----------------===//
//
// Each wrapper is one PTX instruction. A copy completes on an mbarrier, which
// counts its bytes; a thread that waits for that mbarrier sees the data. One
// thread
// starts a copy. Compiled for sm_90a only, as are the kernels that use it.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_TMA_SM90_CUH
#define TE_RUNTIME_KERNELS_DEVICE_TMA_SM90_CUH

#include "Kernels/Device/shared_address.cuh"

#include <cstdint>
#include <cuda.h>

namespace te::rt::cuda::ptx {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// cp.async.bulk.tensor.2d: the box of `map` at element (x, y).
__device__ __forceinline__ void tmaLoad2d(void *to, const CUtensorMap *map,
                                          uint64_t *barrier, int32_t x,
                                          int32_t y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::"
      "complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(sharedAddress(to)),
      "l"(map), "r"(sharedAddress(barrier)), "r"(x), "r"(y)
      : "memory");
}

/// cp.async.bulk.tensor.3d: the box of a three-dimensional `map`.
__device__ __forceinline__ void tmaLoad3d(void *to, const CUtensorMap *map,
                                          uint64_t *barrier, int32_t x,
                                          int32_t y, int32_t z) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::"
               "complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(
                   sharedAddress(to)),
               "l"(map), "r"(sharedAddress(barrier)), "r"(x), "r"(y), "r"(z)
               : "memory");
}

/// cp.async.bulk.tensor.2d.multicast: copies the box into every CTA whose bit
/// is set in `ctas`, to the same offset in its shared memory. Its bytes are
/// counted on the same mbarrier there.
__device__ __forceinline__ void tmaLoad2dMulticast(void *to,
                                                   const CUtensorMap *map,
                                                   uint64_t *barrier, int32_t x,
                                                   int32_t y, uint16_t ctas) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::"
               "complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], "
               "[%2], %5;" ::"r"(sharedAddress(to)),
               "l"(map), "r"(sharedAddress(barrier)), "r"(x), "r"(y), "h"(ctas)
               : "memory");
}

/// cp.async.bulk: `bytes` contiguous bytes. Both addresses and the size are
/// multiples of 16.
__device__ __forceinline__ void cpAsyncBulk(void *to, const void *from,
                                            uint64_t *barrier, uint32_t bytes) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
               "bytes [%0], [%1], %3, [%2];" ::"r"(sharedAddress(to)),
               "l"(from), "r"(sharedAddress(barrier)), "r"(bytes)
               : "memory");
}

/// cp.async.bulk.prefetch.tensor.2d: brings the box of `map` at element (x, y)
/// into L2.
__device__ __forceinline__ void tmaPrefetch2d(const CUtensorMap *map, int32_t x,
                                              int32_t y) {
  asm volatile(
      "cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(map),
      "r"(x), "r"(y)
      : "memory");
}

/// fence.proxy.async: makes what this thread wrote to shared memory of its CTA
/// visible to wgmma and TMA, which access it through the async proxy. A barrier
/// with the thread that issues these must follow.
__device__ __forceinline__ void fenceProxyAsync() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#endif // __CUDA_ARCH_FEAT_SM90_ALL

} // namespace te::rt::cuda::ptx

#endif // TE_RUNTIME_KERNELS_DEVICE_TMA_SM90_CUH
