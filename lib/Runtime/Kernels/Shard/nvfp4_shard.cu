//===- nvfp4_shard.cu - 4-bit casts of flat shards ------------------------===//
//
// te_quantize_nvfp4_shard_<type>: a thread walks over the shard in chunks of
// eight elements, which are four bytes of codes, in memory order. Rows are
// multiples of 16 elements, so groups of 16 follow one another across rows,
// too: a chunk belongs to one or two of them, and a byte to one.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Device/launch_sm90.cuh"
#include "Kernels/Nvfp4/nvfp4.cuh"
#include "Kernels/Shard/shard.cuh"
#include "Kernels/Shard/shard_args.h"

namespace te::rt::cuda {
namespace {

/// The amax of the block of group `group` of row `row`.
__device__ __forceinline__ float blockAmax(const QuantizeNvfp4ShardArgs &args,
                                           int64_t row, int64_t group) {
  return args.blockAmax[(row >> args.blockRows) * args.colBlocks + group];
}

/// The factor of the elements of group `group` of the matrix, counted over all
/// rows; 0 for padding.
__device__ __forceinline__ float inverseOf(const QuantizeNvfp4ShardArgs &args,
                                           int64_t group,
                                           math::NvTensorScale tensor) {
  if (group < 0 || group >= args.shard.rows * args.colBlocks)
    return 0.0f;
  const int64_t row = divide(group, args.colBlocks);
  const float amax = blockAmax(args, row, group - row * args.colBlocks);
  return BlockScale(math::nvBlockScale(amax, tensor), tensor).inverse;
}

/// Stores all scales of the matrix, four groups of a row in a word.
__device__ __forceinline__ void storeScales(const QuantizeNvfp4ShardArgs &args,
                                            math::NvTensorScale tensor,
                                            int64_t thread, int64_t threads) {
  const int64_t words = (args.shard.rows + 127) / 128 * 128 * (args.pitch / 4);
  for (int64_t i = thread; i < words; i += threads) {
    const int64_t row = divide(i, args.pitch / 4);
    const int64_t group = (i - row * (args.pitch / 4)) * 4;
    float exact[4];
#pragma unroll
    for (int k = 0; k < 4; ++k)
      exact[k] =
          row < args.shard.rows && group + k < args.colBlocks
              ? math::nvBlockScale(blockAmax(args, row, group + k), tensor)
              : 0.0f;
    const uint32_t word = E4M3::pack(exact[0], exact[1], exact[2], exact[3]);
    uint8_t *to = args.scale + i * 4;
#pragma unroll
    for (int k = 0; k < 4; ++k)
      to[k] = static_cast<uint8_t>(word >> 8 * k);
  }
}

template <typename T>
__device__ __forceinline__ void
quantizeNvfp4Shard(const QuantizeNvfp4ShardArgs &args) {
  if (isSkipped(args.skip))
    return;
  const Shard &shard = args.shard;
  const T *x = static_cast<const T *>(shard.x);
  const int64_t thread =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const float amax = *args.amax;
  if (thread == 0)
    *args.outAmax = amax;
  const math::NvTensorScale tensor = math::nvTensorScale(amax, args.scaleMax);
  storeScales(args, tensor, thread, threads);

  const bool isAligned = reinterpret_cast<uintptr_t>(x) % 16 == 0 &&
                         reinterpret_cast<uintptr_t>(args.data) % 4 == 0;
  const int64_t elements = shard.rows * shard.cols;
  for (int64_t first = thread * kChunk; first < shard.count;
       first += threads * kChunk) {
    float values[kChunk] = {};
    const bool isWhole = isAligned && first + kChunk <= shard.count;
    if (isWhole) {
      Chunk<T>::load(x + first).unpack(values);
    } else {
#pragma unroll
      for (int k = 0; k < kChunk; ++k)
        if (first + k < shard.count)
          values[k] = toFloat(x[first + k]);
    }
    const int64_t begin = shard.begin + first;
    // Rounded down, also before the start of the matrix.
    const int64_t group = begin >> 4, last = (begin + kChunk - 1) >> 4;
    const float inverse = inverseOf(args, group, tensor);
    const float next = last == group ? inverse : inverseOf(args, last, tensor);
    uint32_t word = 0;
#pragma unroll
    for (int k = 0; k < kChunk; ++k) {
      const int64_t element = begin + k;
      const float value = values[k];
      const uint32_t sign = value == value ? __float_as_uint(value) >> 31 : 0;
      const uint32_t code = math::e2m1Code(
          fabsf(value) * (element >> 4 == group ? inverse : next));
      if (element >= 0 && element < elements)
        word |= (sign << 3 | code) << 4 * k;
    }
    if (isWhole) {
      *reinterpret_cast<uint32_t *>(args.data + first / 2) = word;
    } else {
#pragma unroll
      for (int k = 0; k < kChunk; k += 2)
        if (first + k < shard.count)
          args.data[(first + k) / 2] = static_cast<uint8_t>(word >> 4 * k);
    }
  }
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

#define TE_QUANTIZE_NVFP4_SHARD(type, T)                                       \
  extern "C" __global__ void __launch_bounds__(kShardThreads)                  \
      te_quantize_nvfp4_shard_##type(                                          \
          const __grid_constant__ QuantizeNvfp4ShardArgs args) {               \
    te::rt::cuda::ptx::beginKernel();                                          \
    quantizeNvfp4Shard<T>(args);                                               \
  }
TE_QUANTIZE_NVFP4_SHARD(bf16, bf16)
TE_QUANTIZE_NVFP4_SHARD(f16, f16)
TE_QUANTIZE_NVFP4_SHARD(f32, float)
