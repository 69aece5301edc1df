//===- keep.cuh - what a skipped update does ------------------------------===//

#ifndef TE_RUNTIME_KERNELS_OPTIMIZER_KEEP_CUH
#define TE_RUNTIME_KERNELS_OPTIMIZER_KEEP_CUH

#include "Kernels/Device/chunk.cuh"

#include <cstdint>

namespace te::rt::cuda {

/// Copies `count` elements of a state with the whole grid, unless it is updated
/// in place. A state that is absent counts as 0.
template <typename T>
__device__ __forceinline__ void keep(const T *from, T *to, int64_t count) {
  if (from == to)
    return;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += step)
    to[i] = from ? from[i] : T{};
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_OPTIMIZER_KEEP_CUH
