//===- cluster_sm90.cuh - thread block clusters ---------------------------===//
//
// Each wrapper is one PTX instruction, or the pair that belongs together, and
// is named after it. Compiled for sm_90a only, as are the kernels that use it.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_CLUSTER_SM90_CUH
#define TE_RUNTIME_KERNELS_DEVICE_CLUSTER_SM90_CUH

#include <cstdint>

namespace te::rt::cuda::ptx {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// mov %cluster_ctarank: the rank of this CTA in its cluster.
__device__ __forceinline__ uint32_t clusterCtaRank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// barrier.cluster.arrive.release and barrier.cluster.wait.acquire: waits for
/// every thread of every CTA of the cluster, and orders their shared memory
/// accesses.
__device__ __forceinline__ void clusterSync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n"
               "barrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}

#endif // __CUDA_ARCH_FEAT_SM90_ALL

} // namespace te::rt::cuda::ptx

#endif // TE_RUNTIME_KERNELS_DEVICE_CLUSTER_SM90_CUH
