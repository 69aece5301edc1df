//===- shard.cuh - code that the kernels of flat shards share -------------===//

#ifndef TE_RUNTIME_KERNELS_SHARD_SHARD_CUH
#define TE_RUNTIME_KERNELS_SHARD_SHARD_CUH

#include <cstdint>

namespace te::rt::cuda {

/// a / b of non-negative numbers. Few matrices need a 64-bit division.
__device__ __forceinline__ int64_t divide(int64_t a, int64_t b) {
  return (a | b) >> 32 == 0
             ? static_cast<uint32_t>(a) / static_cast<uint32_t>(b)
             : a / b;
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_SHARD_SHARD_CUH
