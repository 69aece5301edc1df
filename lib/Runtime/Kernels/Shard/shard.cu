//===- shard.cu - casts of flat shards ------------------------------------===//
//
// te_partial_amax_<type> has a block of threads for each block of the matrix,
// and reads what the shard has of it, row by row.
// te_quantize_shard_<type>_<fp8> goes along the shard in chunks, as it lies in
// memory: the blocks that a chunk is of are found from its first element, the
// scale from the block's amax.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Cast/tile.cuh"
#include "Kernels/Shard/shard_args.h"

namespace te::rt::cuda {
namespace {

template <typename T>
__device__ __forceinline__ void partialAmax(const PartialAmaxArgs &args) {
  if (isSkipped(args.skip)) {
    if (threadIdx.x == 0)
      args.amax[blockIdx.x] = 0.0f;
    return;
  }
  const Shard &shard = args.shard;
  const T *x = static_cast<const T *>(shard.x);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  constexpr int kWarps = kShardThreads / 32;
  const int64_t row0 =
      static_cast<int64_t>(blockIdx.x / args.colBlocks) * kShardBlock;
  const int64_t col0 =
      static_cast<int64_t>(blockIdx.x % args.colBlocks) * kShardBlock;
  float result = 0.0f;
#pragma unroll 4
  for (int r = warp; r < kShardBlock; r += kWarps) {
    // Where the first column of the row's part is in the shard.
    const int64_t from = (row0 + r) * shard.cols + col0 - shard.begin;
#pragma unroll
    for (int k = 0; k < kShardBlock / 32; ++k) {
      const int column = k * 32 + lane;
      const int64_t at = from + column;
      if (row0 + r < shard.rows && col0 + column < shard.cols && at >= 0 &&
          at < shard.count)
        // fmaxf drops NaN.
        result = fmaxf(result, fabsf(toFloat(x[at])));
    }
  }
  __shared__ float partial[kWarps];
  result = warpMax(result);
  if (lane == 0)
    partial[warp] = result;
  __syncthreads();
  if (threadIdx.x != 0)
    return;
#pragma unroll
  for (int i = 1; i < kWarps; ++i)
    result = fmaxf(result, partial[i]);
  args.amax[blockIdx.x] = result;
}

/// Walks along the elements of a matrix, row by row.
class Walk {
public:
  __device__ Walk(int64_t element, const QuantizeShardArgs &args) : args(args) {
    const int64_t cols = args.shard.cols;
    // Few matrices need the long division.
    row = (element | cols) >> 32 == 0
              ? static_cast<uint32_t>(element) / static_cast<uint32_t>(cols)
              : element / cols;
    col = element - row * cols;
  }
  __device__ int64_t block() const {
    return row / kShardBlock * args.colBlocks + col / kShardBlock;
  }
  __device__ void step() {
    if (++col == args.shard.cols) {
      col = 0;
      ++row;
    }
  }

private:
  const QuantizeShardArgs &args;
  int64_t row, col;
};

template <typename T, typename F8>
__device__ __forceinline__ float scaleOf(const QuantizeShardArgs &args,
                                         int64_t block) {
  return blockScale<T, F8>(args.amax[block], args.pow2, args.epsilon);
}

/// The codes of the eight elements from `first` on, of which the matrix has
/// those that it has.
template <typename T, typename F8>
__device__ __forceinline__ uint2 quantizeChunk(const QuantizeShardArgs &args,
                                               int64_t first,
                                               float (&values)[kChunk]) {
  const int64_t elements = args.shard.rows * args.shard.cols;
  const int64_t begin = args.shard.begin + first;
  if (begin >= 0 && begin + kChunk <= elements) {
    Walk walk(begin, args);
    int64_t block = walk.block();
    float scale = scaleOf<T, F8>(args, block);
#pragma unroll
    for (int k = 0; k < kChunk; ++k) {
      if (walk.block() != block) {
        block = walk.block();
        scale = scaleOf<T, F8>(args, block);
      }
      values[k] *= scale;
      walk.step();
    }
  } else {
#pragma unroll
    for (int k = 0; k < kChunk; ++k) {
      const int64_t element = begin + k;
      values[k] =
          element >= 0 && element < elements
              ? values[k] * scaleOf<T, F8>(args, Walk(element, args).block())
              : 0.0f;
    }
  }
  return {F8::pack(values[0], values[1], values[2], values[3]),
          F8::pack(values[4], values[5], values[6], values[7])};
}

template <typename T, typename F8>
__device__ __forceinline__ void quantizeShard(const QuantizeShardArgs &args) {
  if (isSkipped(args.skip))
    return;
  const Shard &shard = args.shard;
  const T *x = static_cast<const T *>(shard.x);
  const int64_t thread =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;

  const int64_t pitch = (args.colBlocks + 3) / 4 * 4;
  for (int64_t i = thread; i < args.rowBlocks * pitch; i += threads) {
    const int64_t col = i % pitch;
    args.scale[i] =
        col < args.colBlocks
            ? __frcp_rn(scaleOf<T, F8>(args, i / pitch * args.colBlocks + col))
            : 0.0f;
  }

  const bool isAligned = reinterpret_cast<uintptr_t>(x) % 16 == 0 &&
                         reinterpret_cast<uintptr_t>(args.data) % 8 == 0;
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
    const uint2 codes = quantizeChunk<T, F8>(args, first, values);
    if (isWhole) {
      *reinterpret_cast<uint2 *>(args.data + first) = codes;
    } else {
#pragma unroll
      for (int k = 0; k < kChunk; ++k)
        if (first + k < shard.count)
          args.data[first + k] = static_cast<uint8_t>(
              (k < 4 ? codes.x : codes.y) >> (8 * (k % 4)));
    }
  }
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

#define TE_QUANTIZE_SHARD(type, T, fp8, F8)                                    \
  extern "C" __global__ void __launch_bounds__(kShardThreads)                  \
      te_quantize_shard_##type##_##fp8(                                        \
          const __grid_constant__ QuantizeShardArgs args) {                    \
    quantizeShard<T, F8>(args);                                                \
  }
#define TE_SHARD_TYPE(type, T)                                                 \
  extern "C" __global__ void __launch_bounds__(kShardThreads)                  \
      te_partial_amax_##type(const __grid_constant__ PartialAmaxArgs args) {   \
    partialAmax<T>(args);                                                      \
  }                                                                            \
  TE_QUANTIZE_SHARD(type, T, e4m3, E4M3)                                       \
  TE_QUANTIZE_SHARD(type, T, e5m2, E5M2)
TE_SHARD_TYPE(bf16, bf16)
TE_SHARD_TYPE(f16, f16)
TE_SHARD_TYPE(f32, float)
