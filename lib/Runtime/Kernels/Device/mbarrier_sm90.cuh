//===- mbarrier_sm90.cuh - mbarriers in shared memory ---------------------===//
//
// Each wrapper is one PTX instruction and is named after it. An mbarrier
// completes a phase once its expected arrivals and all announced bytes of bulk
// copies are in. Compiled for sm_90a only, as are the kernels that use it.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_MBARRIER_SM90_CUH
#define TE_RUNTIME_KERNELS_DEVICE_MBARRIER_SM90_CUH

#include "Kernels/Device/shared_address.cuh"

#include <cstdint>

namespace te::rt::cuda::ptx {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// mbarrier.init: `count` arrivals complete a phase.
__device__ __forceinline__ void mbarrierInit(uint64_t *barrier,
                                             uint32_t count) {
  asm volatile(
      "mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sharedAddress(barrier)),
      "r"(count));
}

/// fence.mbarrier_init: makes initialised mbarriers visible to TMA and to the
/// other CTAs of the cluster.
__device__ __forceinline__ void mbarrierInitFence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// mbarrier.arrive.expect_tx: one arrival that also announces `bytes` of bulk
/// copies.
__device__ __forceinline__ void mbarrierArriveExpectTx(uint64_t *barrier,
                                                       uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   sharedAddress(barrier)),
               "r"(bytes)
               : "memory");
}

/// mapa and mbarrier.arrive: one arrival on the same mbarrier of CTA `rank` of
/// the cluster. It only orders reads of this thread, and not its writes: a
/// release at cluster scope would cost a device-wide fence.
__device__ __forceinline__ void mbarrierArriveCluster(uint64_t *barrier,
                                                      uint32_t rank) {
  asm volatile("{\n"
               ".reg .b32 remote;\n"
               "mapa.shared::cluster.u32 remote, %0, %1;\n"
               "mbarrier.arrive.shared::cluster.b64 _, "
               "[remote];\n"
               "}" ::"r"(sharedAddress(barrier)),
               "r"(rank)
               : "memory");
}

/// mbarrier.try_wait.parity in a loop: returns once the phase with `parity` has
/// completed.
__device__ __forceinline__ void mbarrierWait(uint64_t *barrier,
                                             uint32_t parity) {
  asm volatile("{\n"
               ".reg .pred done;\n"
               "TE_WAIT_%=:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@done bra TE_DONE_%=;\n"
               "bra TE_WAIT_%=;\n"
               "TE_DONE_%=:\n"
               "}" ::"r"(sharedAddress(barrier)),
               "r"(parity)
               : "memory");
}

#endif // __CUDA_ARCH_FEAT_SM90_ALL

} // namespace te::rt::cuda::ptx

#endif // TE_RUNTIME_KERNELS_DEVICE_MBARRIER_SM90_CUH
