//===- shard.cu - casts of flat shards ------------------------------------===//
//
// te_partial_amax_128x128_<type> has a block of threads for each block of the
// matrix, and reads the shard's part of it row by row. All other amax kernels
// have a warp for each 32x32 elements, and a lane for each column.
// te_quantize_shard_{block,mx}_<type>_<fp8> walks over the shard in chunks, in
// memory order: it finds the blocks of a chunk from its first element, and the
// scale from the amax of the block.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Cast/tile.cuh"
#include "Kernels/Device/launch_sm90.cuh"
#include "Kernels/Shard/shard.cuh"
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
      static_cast<int64_t>(blockIdx.x / args.colTiles) * kShardBlock;
  const int64_t col0 =
      static_cast<int64_t>(blockIdx.x % args.colTiles) * kShardBlock;
  float result = 0.0f;
#pragma unroll 4
  for (int r = warp; r < kShardBlock; r += kWarps) {
    // The index in the shard of the first column of the row's part.
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

/// The lane's column of the warp's tile.
template <typename T> struct TileColumn {
  __device__ TileColumn(const PartialAmaxArgs &args, uint32_t tile)
      : shard(args.shard), colTile(tile % args.colTiles),
        row0(static_cast<int64_t>(tile / args.colTiles) * kShardTile),
        col(static_cast<int64_t>(colTile) * kShardTile + threadIdx.x % 32),
        isRead(!isSkipped(args.skip) && col < shard.cols) {}

  /// The magnitude in row `r` of the tile, or 0 for NaN and outside the shard.
  __device__ __forceinline__ float magnitude(int r) const {
    const int64_t at = (row0 + r) * shard.cols + col - shard.begin;
    const bool isHere =
        isRead && row0 + r < shard.rows && at >= 0 && at < shard.count;
    // fmaxf drops NaN.
    return fmaxf(0.0f, isHere
                           ? fabsf(toFloat(static_cast<const T *>(shard.x)[at]))
                           : 0.0f);
  }

  const Shard &shard;
  const uint32_t colTile;
  const int64_t row0, col;
  const bool isRead;
};

/// The amaxes of blocks of kRows x 16 in the warp's tile: each half of the warp
/// has 16 columns, and a lane of it has rows i and i + 16, or all 16 rows.
template <typename T, int kRows>
__device__ __forceinline__ void
partialAmaxOfSixteens(const PartialAmaxArgs &args, uint32_t tile) {
  const TileColumn<T> column(args, tile);
  const int lane = threadIdx.x % 32, own = lane % 16;
  const auto halfMax = [half = lane < 16 ? 0x0000ffffu : 0xffff0000u](float v) {
    return __uint_as_float(__reduce_max_sync(half, __float_as_uint(v)));
  };
  const int64_t colBlocks = (column.shard.cols + 15) / 16;
  const int64_t colBlock = column.colTile * int64_t{2} + lane / 16;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float result = 0.0f;
#pragma unroll
    for (int r = 0; r < 16; ++r) {
      const float value = column.magnitude(i * 16 + r);
      if constexpr (kRows == 1) {
        const float ofRow = halfMax(value);
        result = own == r ? ofRow : result;
      } else {
        result = fmaxf(result, value);
      }
    }
    const int64_t row = column.row0 + i * 16 + (kRows == 1 ? own : 0);
    if constexpr (kRows != 1)
      result = halfMax(result);
    if (row < column.shard.rows && colBlock < colBlocks &&
        (kRows == 1 || own == 0))
      args.amax[row / kRows * colBlocks + colBlock] = result;
  }
}

/// The amaxes of blocks of 1x32, 32x1 or 32x32 in the warp's tile: the maximum
/// of the lane's row or column, or of the tile.
template <typename T, int kRows, int kCols>
__device__ __forceinline__ void
partialAmaxOfThirtyTwos(const PartialAmaxArgs &args, uint32_t tile) {
  const TileColumn<T> column(args, tile);
  const Shard &shard = column.shard;
  const int lane = threadIdx.x % 32;
  const int64_t row0 = column.row0, col = column.col;
  float result = 0.0f;
#pragma unroll 8
  for (int r = 0; r < kShardTile; ++r) {
    const float value = column.magnitude(r);
    if constexpr (kRows == 1) {
      const float ofRow = warpMax(value);
      result = lane == r ? ofRow : result;
    } else {
      result = fmaxf(result, value);
    }
  }
  if constexpr (kRows == 1) {
    if (row0 + lane < shard.rows)
      args.amax[(row0 + lane) * args.colTiles + column.colTile] = result;
  } else if constexpr (kCols == 1) {
    if (col < shard.cols)
      args.amax[row0 / kShardTile * shard.cols + col] = result;
  } else {
    result = warpMax(result);
    if (lane == 0)
      args.amax[tile] = result;
  }
}

template <typename T, int kRows, int kCols>
__device__ __forceinline__ void partialAmaxOfTile(const PartialAmaxArgs &args) {
  const uint32_t tile = blockIdx.x * (kShardThreads / 32) + threadIdx.x / 32;
  if (tile >= args.tiles)
    return;
  if constexpr (kCols == 16)
    partialAmaxOfSixteens<T, kRows>(args, tile);
  else
    partialAmaxOfThirtyTwos<T, kRows, kCols>(args, tile);
}

/// The block that has element (row, col).
__device__ __forceinline__ int64_t blockOf(const QuantizeShardArgs &args,
                                           int64_t row, int64_t col) {
  return (row >> args.blockRows) * args.colBlocks + (col >> args.blockCols);
}

/// Walks over the elements of a matrix, row by row.
class Walk {
public:
  __device__ Walk(int64_t element, const QuantizeShardArgs &args)
      : args(args), row(divide(element, args.shard.cols)),
        col(element - row * args.shard.cols) {}
  __device__ int64_t block() const { return blockOf(args, row, col); }
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

/// The factor of a cast, and the scale that is stored.
template <typename T, typename F8> struct BlockScale {
  using Stored = float;
  static __device__ float factor(const QuantizeShardArgs &args, float amax) {
    return blockScale<T, F8>(amax, args.pow2, args.epsilon);
  }
  static __device__ float stored(const QuantizeShardArgs &args, float amax) {
    return __frcp_rn(factor(args, amax));
  }
};
template <typename F8> struct MxScale {
  using Stored = uint8_t;
  static __device__ float factor(const QuantizeShardArgs &args, float amax) {
    return math::e8m0Inverse(stored(args, amax));
  }
  static __device__ uint8_t stored(const QuantizeShardArgs &, float amax) {
    return math::mxExponent(amax, F8::max);
  }
};

/// The codes of the eight elements from `first` on, some of which may be
/// outside the matrix.
template <typename F8, typename Scale>
__device__ __forceinline__ uint2 quantizeChunk(const QuantizeShardArgs &args,
                                               int64_t first,
                                               float (&values)[kChunk]) {
  const int64_t elements = args.shard.rows * args.shard.cols;
  const int64_t begin = args.shard.begin + first;
  if (begin >= 0 && begin + kChunk <= elements) {
    Walk walk(begin, args);
    int64_t block = walk.block();
    float scale = Scale::factor(args, args.amax[block]);
#pragma unroll
    for (int k = 0; k < kChunk; ++k) {
      if (walk.block() != block) {
        block = walk.block();
        scale = Scale::factor(args, args.amax[block]);
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
              ? values[k] *
                    Scale::factor(args, args.amax[Walk(element, args).block()])
              : 0.0f;
    }
  }
  return {F8::pack(values[0], values[1], values[2], values[3]),
          F8::pack(values[4], values[5], values[6], values[7])};
}

template <typename T, typename F8, typename Scale>
__device__ __forceinline__ void quantizeShard(const QuantizeShardArgs &args) {
  if (isSkipped(args.skip))
    return;
  const Shard &shard = args.shard;
  const T *x = static_cast<const T *>(shard.x);
  const int64_t thread =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;

  using Stored = typename Scale::Stored;
  auto *scale = static_cast<Stored *>(args.scale);
  for (int64_t i = thread; i < args.scaleRows * args.scaleCols; i += threads) {
    const int64_t line = divide(i, args.scaleCols);
    const int64_t row = line << args.rowsOfScale;
    const int64_t col = (i - line * args.scaleCols) << args.colsOfScale;
    scale[i] = row < shard.rows && col < shard.cols
                   ? Scale::stored(args, args.amax[blockOf(args, row, col)])
                   : Stored{};
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
    const uint2 codes = quantizeChunk<F8, Scale>(args, first, values);
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
      te_quantize_shard_block_##type##_##fp8(                                  \
          const __grid_constant__ QuantizeShardArgs args) {                    \
    te::rt::cuda::ptx::beginKernel();                                          \
    quantizeShard<T, F8, BlockScale<T, F8>>(args);                             \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kShardThreads)                  \
      te_quantize_shard_mx_##type##_##fp8(                                     \
          const __grid_constant__ QuantizeShardArgs args) {                    \
    te::rt::cuda::ptx::beginKernel();                                          \
    quantizeShard<T, F8, MxScale<F8>>(args);                                   \
  }
#define TE_PARTIAL_AMAX(type, T, rows, cols)                                   \
  extern "C" __global__ void __launch_bounds__(kShardThreads)                  \
      te_partial_amax_##rows##x##cols##_##type(                                \
          const __grid_constant__ PartialAmaxArgs args) {                      \
    te::rt::cuda::ptx::beginKernel();                                          \
    partialAmaxOfTile<T, rows, cols>(args);                                    \
  }
#define TE_SHARD_TYPE(type, T)                                                 \
  extern "C" __global__ void __launch_bounds__(kShardThreads)                  \
      te_partial_amax_128x128_##type(                                          \
          const __grid_constant__ PartialAmaxArgs args) {                      \
    te::rt::cuda::ptx::beginKernel();                                          \
    partialAmax<T>(args);                                                      \
  }                                                                            \
  TE_PARTIAL_AMAX(type, T, 1, 32)                                              \
  TE_PARTIAL_AMAX(type, T, 32, 1)                                              \
  TE_PARTIAL_AMAX(type, T, 32, 32)                                             \
  TE_PARTIAL_AMAX(type, T, 1, 16)                                              \
  TE_PARTIAL_AMAX(type, T, 16, 16)                                             \
  TE_QUANTIZE_SHARD(type, T, e4m3, E4M3)                                       \
  TE_QUANTIZE_SHARD(type, T, e5m2, E5M2)
TE_SHARD_TYPE(bf16, bf16)
TE_SHARD_TYPE(f16, f16)
TE_SHARD_TYPE(f32, float)
