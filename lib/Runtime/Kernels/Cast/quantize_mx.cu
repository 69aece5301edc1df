//===- quantize_mx.cu - MXFP8 quantisation --------------------------------===//
//
// te_quantize_mx_{1x32,32x32}_<type>_<fp8>. A block of threads has a tile of
// 128 x 128 elements, each of its eight warps 32 rows of 64 columns of it, and
// each thread eight rows of one chunk (8 columns). Four lanes of one warp then
// have an mx block of either usage: amaxes are computed with shuffles, and both
// usages are stored row by row from registers, since mx data is never
// transposed.
//
// The scales of a tile are 512 bytes for each usage. Elements outside the
// matrix are loaded as zero, whose exponent is 0, which is the value of the
// padding.
//
// The kernel whose name ends in _general takes any alignment.
//
//===----------------------------------------------------------------------===//

#include "Core/Formulas.h"
#include "Kernels/Cast/cast_args.h"
#include "Kernels/Cast/microscale_args.h"
#include "Kernels/Device/chunk.cuh"
#include "Kernels/Device/fp8_sm89.cuh"
#include "Kernels/Device/launch_sm90.cuh"

namespace te::rt::cuda {
namespace {

/// Rows of one thread.
constexpr int kRows = 8;
constexpr int kMxBlock = 32;
constexpr int kTileBlocks = kTile / kMxBlock;

/// The position of a thread's part of the tile; row and col count from the
/// first element of the tile.
struct Position {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  /// The position of the thread in its warp: 4 rows of 8 threads.
  int tx = lane % 8, ty = lane / 8;
  int row = warp / 2 * 32 + ty * kRows;
  int col = warp % 2 * 64 + tx * kChunk;
};

/// Loads the first `count` elements of a chunk; the others are zero. With
/// `kAligned` all of them are there, or none.
template <typename T, bool kAligned>
__device__ __forceinline__ Chunk<T> loadChunk(int64_t count, const T *from) {
  if constexpr (kAligned) {
    return Chunk<T>::loadIf(count > 0, from);
  } else {
    float values[kChunk];
#pragma unroll
    for (int j = 0; j < kChunk; ++j)
      values[j] = j < count ? toFloat(from[j]) : 0.0f;
    return Chunk<T>::pack(values);
  }
}

template <bool kAligned>
__device__ __forceinline__ void storeBytes(uint8_t *to, uint2 bytes) {
  if constexpr (kAligned) {
    *reinterpret_cast<uint2 *>(to) = bytes;
  } else {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      to[j] = static_cast<uint8_t>(bytes.x >> (8 * j));
      to[j + 4] = static_cast<uint8_t>(bytes.y >> (8 * j));
    }
  }
}

/// Every lane gets the maximum over the lanes that differ from it only in the
/// bits of kMasks.
template <typename T, int... kMasks>
__device__ __forceinline__ uint32_t lanesMax(uint32_t word) {
  ((word = maxAbs<T>(word, __shfl_xor_sync(~0u, word, kMasks))), ...);
  return word;
}

/// The maximum of each column over the thread's rows, as words of a chunk.
template <typename T>
__device__ __forceinline__ uint32_t columnWord(const Chunk<T> (&tile)[kRows],
                                               int w) {
  uint32_t word = maxAbs<T>(tile[0].words[w], tile[1].words[w]);
#pragma unroll
  for (int i = 2; i < kRows; ++i)
    word = maxAbs<T>(word, tile[i].words[w]);
  return word;
}

/// The scale codes of the 1x32 blocks of the thread's rows.
template <typename T, typename F8>
__device__ __forceinline__ void rowCodes(const Chunk<T> (&tile)[kRows],
                                         uint8_t (&codes)[kRows]) {
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      codes[i] = math::mxExponent(amaxOf<T>(lanesMax<T, 1, 2>(maxAbs(tile[i]))),
                                  F8::max);
  } else {
    // A word has the maxima of two rows.
#pragma unroll
    for (int i = 0; i < kRows; i += 2) {
      const uint32_t a = maxAbs(tile[i]), b = maxAbs(tile[i + 1]);
      const uint32_t word = lanesMax<T, 1, 2>(
          maxAbs<T>(__byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632)));
      codes[i] = math::mxExponent(amaxOf<T>(word, false), F8::max);
      codes[i + 1] = math::mxExponent(amaxOf<T>(word, true), F8::max);
    }
  }
}

/// The scale codes of the 32x1 blocks of the thread's columns.
template <typename T, typename F8>
__device__ __forceinline__ void colCodes(const Chunk<T> (&tile)[kRows],
                                         uint8_t (&codes)[kChunk]) {
  constexpr int kPerWord = 4 / sizeof(T);
#pragma unroll
  for (int w = 0; w < Chunk<T>::kWords; ++w) {
    const uint32_t word = lanesMax<T, 8, 16>(columnWord<T>(tile, w));
#pragma unroll
    for (int k = 0; k < kPerWord; ++k)
      codes[w * kPerWord + k] =
          math::mxExponent(amaxOf<T>(word, k != 0), F8::max);
  }
}

/// The scale code of the 32x32 block of the thread.
template <typename T, typename F8>
__device__ __forceinline__ uint8_t squareCode(const Chunk<T> (&tile)[kRows]) {
  uint32_t word = maxAbs(tile[0]);
#pragma unroll
  for (int i = 1; i < kRows; ++i)
    word = maxAbs<T>(word, maxAbs(tile[i]));
  return math::mxExponent(amaxOf<T>(lanesMax<T, 1, 2, 8, 16>(word)), F8::max);
}

__device__ __forceinline__ uint2 packCodes(const uint8_t (&codes)[8]) {
  return make_uint2(codes[0] | codes[1] << 8 | codes[2] << 16 |
                        static_cast<uint32_t>(codes[3]) << 24,
                    codes[4] | codes[5] << 8 | codes[6] << 16 |
                        static_cast<uint32_t>(codes[7]) << 24);
}

template <typename F8>
__device__ __forceinline__ uint2 pack(const float (&x)[kChunk],
                                      const float (&factors)[kChunk]) {
  return make_uint2(F8::pack(x[0] * factors[0], x[1] * factors[1],
                             x[2] * factors[2], x[3] * factors[3]),
                    F8::pack(x[4] * factors[4], x[5] * factors[5],
                             x[6] * factors[6], x[7] * factors[7]));
}
template <typename F8>
__device__ __forceinline__ uint2 pack(const float (&x)[kChunk], float factor) {
  return make_uint2(
      F8::pack(x[0] * factor, x[1] * factor, x[2] * factor, x[3] * factor),
      F8::pack(x[4] * factor, x[5] * factor, x[6] * factor, x[7] * factor));
}

/// Stores the row scales of the tile, four bytes a row, through shared memory.
/// Every thread calls it.
template <bool kAligned>
__device__ __forceinline__ void
storeRowScales(const QuantizeMxArgs &args, const Position &at, int64_t rowTile,
               int64_t colTile, const uint8_t (&codes)[kRows]) {
  __shared__ uint32_t staged[kTile];
  if (at.tx % 4 == 0) {
    uint8_t *to = reinterpret_cast<uint8_t *>(staged + at.row);
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      to[i * kTileBlocks + at.col / kMxBlock] = codes[i];
  }
  __syncthreads();
  const int row = threadIdx.x;
  if (row >= kTile)
    return;
  const int64_t colTiles = args.colTiles;
  const uint32_t word = staged[row];
  uint8_t *to = args.rowScale +
                ((rowTile * kTile + row) * colTiles + colTile) * kTileBlocks;
  if constexpr (kAligned) {
    *reinterpret_cast<uint32_t *>(to) = word;
  } else {
#pragma unroll
    for (int j = 0; j < kTileBlocks; ++j)
      to[j] = static_cast<uint8_t>(word >> (8 * j));
  }
}

/// With `kAligned`, x is 16-byte aligned, data and column scales are 8-byte
/// aligned, and row scales 4-byte aligned.
template <typename T, typename F8, bool kSquare, bool kAligned>
__device__ __forceinline__ void quantizeMx(const QuantizeMxArgs &stack) {
  if (isSkipped(stack.skip))
    return;
  QuantizeMxArgs args = stack;
  args.x = ofMatrix(stack.x, stack.strides.x);
  args.row = ofMatrix(stack.row, stack.strides.data);
  args.rowScale = ofMatrix(stack.rowScale, stack.strides.rowScale);
  args.col = ofMatrix(stack.col, stack.strides.data);
  args.colScale = ofMatrix(stack.colScale, stack.strides.colScale);
  const int64_t rowTile = blockIdx.x / args.colTiles;
  const int64_t colTile = blockIdx.x % args.colTiles;
  const Position at;
  const int64_t row = rowTile * kTile + at.row, col = colTile * kTile + at.col;
  const int64_t offset = row * args.cols + col;
  // rows and cols are multiples of 32, so either all elements of a thread are
  // inside the matrix or none.
  const bool inside = row < args.rows && col < args.cols;
  const T *x = static_cast<const T *>(args.x) + row * args.xCols + col;
  Chunk<T> tile[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i)
    tile[i] = loadChunk<T, kAligned>(
        row + i < args.xRows ? args.xCols - col : 0, x + i * args.xCols);

  uint8_t ofRows[kRows] = {}, ofCols[kChunk] = {};
  if constexpr (kSquare) {
    const uint8_t code = squareCode<T, F8>(tile);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      ofRows[i] = ofCols[i] = code;
  } else {
    if (args.row || args.rowScale)
      rowCodes<T, F8>(tile, ofRows);
    if (args.col || args.colScale)
      colCodes<T, F8>(tile, ofCols);
  }
  if (args.rowScale)
    storeRowScales<kAligned>(args, at, rowTile, colTile, ofRows);
  if (args.colScale && at.ty == 0) {
    const int64_t line = rowTile * kTileBlocks + at.row / kMxBlock;
    const int64_t pitch = static_cast<int64_t>(args.colTiles) * kTile;
    storeBytes<kAligned>(args.colScale + line * pitch + col, packCodes(ofCols));
  }

  if (!inside)
    return;
  float colFactors[kChunk];
#pragma unroll
  for (int j = 0; j < kChunk; ++j)
    colFactors[j] = math::e8m0Inverse(ofCols[j]);
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    float values[kChunk];
    tile[i].unpack(values);
    const int64_t to = offset + i * args.cols;
    if constexpr (kSquare) {
      const uint2 bytes = pack<F8>(values, colFactors[0]);
      if (args.row)
        storeBytes<kAligned>(args.row + to, bytes);
      if (args.col)
        storeBytes<kAligned>(args.col + to, bytes);
    } else {
      if (args.row)
        storeBytes<kAligned>(args.row + to,
                             pack<F8>(values, math::e8m0Inverse(ofRows[i])));
      if (args.col)
        storeBytes<kAligned>(args.col + to, pack<F8>(values, colFactors));
    }
  }
}

/// The resident blocks for __launch_bounds__. An f32 tile needs twice the
/// registers.
template <typename T> constexpr int blocksPerSm = sizeof(T) == 4 ? 2 : 3;

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

#define TE_QUANTIZE_MX(scheme, kSquare, type, T, fp8, F8)                      \
  extern "C" __global__ void __launch_bounds__(kTileThreads, blocksPerSm<T>)   \
      te_quantize_mx_##scheme##_##type##_##fp8(                                \
          const __grid_constant__ QuantizeMxArgs args) {                       \
    te::rt::cuda::ptx::beginKernel();                                          \
    quantizeMx<T, F8, kSquare, true>(args);                                    \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kTileThreads, 2)                \
      te_quantize_mx_##scheme##_##type##_##fp8##_general(                      \
          const __grid_constant__ QuantizeMxArgs args) {                       \
    te::rt::cuda::ptx::beginKernel();                                          \
    quantizeMx<T, F8, kSquare, false>(args);                                   \
  }
#define TE_QUANTIZE_MX_FP8(type, T, fp8, F8)                                   \
  TE_QUANTIZE_MX(1x32, false, type, T, fp8, F8)                                \
  TE_QUANTIZE_MX(32x32, true, type, T, fp8, F8)
#define TE_QUANTIZE_MX_TYPE(type, T)                                           \
  TE_QUANTIZE_MX_FP8(type, T, e4m3, E4M3)                                      \
  TE_QUANTIZE_MX_FP8(type, T, e5m2, E5M2)
TE_QUANTIZE_MX_TYPE(bf16, bf16)
TE_QUANTIZE_MX_TYPE(f16, f16)
TE_QUANTIZE_MX_TYPE(f32, float)
