//===- layout.cu - dequantise, and transpose scaled values ----------------===//
//
// te_dequantize_axis<axis>_<fp8>_<type> and te_transpose_scaled work on tiles
// as tile.cuh does. The kernels whose name ends in _general compute one element
// per thread and support any shape and alignment.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Cast/tile.cuh"
#include "Kernels/Device/launch_sm90.cuh"

namespace te::rt::cuda {
namespace {

//===----------------------------------------------------------------------===//
// Dequantise
//===----------------------------------------------------------------------===//

__device__ __forceinline__ int64_t tiles(int64_t n) {
  return (n + kTile - 1) / kTile;
}

/// The scale of the block that has element (outer, contraction) of an [outers,
/// contractions] operand.
__device__ __forceinline__ float scaleAt(const float *scales, int32_t scheme,
                                         int64_t outer, int64_t contraction,
                                         int64_t outers, int64_t contractions) {
  switch (scheme) {
  case TE_RT_BLOCK_1X128:
    return scales[contraction / kTile * up4(outers) + outer];
  case TE_RT_BLOCK_128X128:
    return scales[outer / kTile * up4(tiles(contractions)) +
                  contraction / kTile];
  default:
    return scales[0];
  }
}

/// The arguments of the matrix of this block.
__device__ __forceinline__ DequantizeArgs
matrixOf(const DequantizeArgs &stack) {
  DequantizeArgs args = stack;
  args.data = ofMatrix(stack.data, stack.strides.data);
  args.scale = ofMatrix(stack.scale, stack.strides.scale);
  args.out = ofMatrix(stack.out, stack.strides.out);
  return args;
}

template <typename F8, typename T>
__device__ __forceinline__ void dequantizeGeneral(const DequantizeArgs &stack) {
  const DequantizeArgs args = matrixOf(stack);
  const int64_t count = args.rows * args.cols;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += threads) {
    const int64_t row = i / args.cols, col = i % args.cols;
    const bool swap = args.axis == 0;
    const int64_t outer = swap ? col : row, inner = swap ? row : col;
    const int64_t outers = swap ? args.cols : args.rows;
    const int64_t inners = swap ? args.rows : args.cols;
    float value[4];
    unpackBytes<F8>(args.data[outer * inners + inner], value);
    const float scale =
        scaleAt(args.scale, args.scheme, outer, inner, outers, inners);
    static_cast<T *>(args.out)[i] = fromFloat<T>(value[0] * scale);
  }
}

/// `data` is 8-byte aligned and `out` 16-byte aligned; rows and cols are
/// multiples of 8.
template <typename F8, typename T, int kAxis>
__device__ __forceinline__ void dequantizeTile(const DequantizeArgs &stack) {
  const DequantizeArgs args = matrixOf(stack);
  const TilePosition<false> at(blockIdx.x / args.colTiles,
                               blockIdx.x % args.colTiles, args.rows,
                               args.cols);
  const int tx = at.tx, ty = at.ty;
  uint2 bytes[kTileRows];
  float rowScales[kTileRows], colScales[kChunk];
  if constexpr (kAxis == 1) {
    const uint8_t *data = args.data + at.row() * args.cols + at.col();
#pragma unroll
    for (int i = 0; i < kTileRows; ++i) {
      const bool inside = at.holds(i);
      bytes[i] = inside ? *reinterpret_cast<const uint2 *>(data + i * args.cols)
                        : make_uint2(0, 0);
      rowScales[i] = inside ? scaleAt(args.scale, args.scheme, at.row() + i,
                                      at.col(), args.rows, args.cols)
                            : 0.0f;
    }
  } else {
    // Loads with the axes exchanged, then transposes the tile.
    const int64_t row = at.row0 + tx * kChunk, col = at.col0 + ty * kTileRows;
    const uint8_t *data = args.data + col * args.rows + row;
#pragma unroll
    for (int i = 0; i < kTileRows; ++i)
      bytes[i] = row < args.rows && col + i < args.cols
                     ? *reinterpret_cast<const uint2 *>(data + i * args.rows)
                     : make_uint2(0, 0);
    TileShared &shared = tileShared();
    stageTransposed(bytes, at, shared.stage);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTileRows; ++i)
      bytes[i] = *reinterpret_cast<const uint2 *>(
          shared.stage + stageOffset(ty * kTileRows + i, tx * kChunk));
#pragma unroll
    for (int j = 0; j < kChunk; ++j)
      colScales[j] = at.row() < args.rows && at.col() + j < args.cols
                         ? scaleAt(args.scale, args.scheme, at.col() + j,
                                   at.row(), args.cols, args.rows)
                         : 0.0f;
  }
  T *out = static_cast<T *>(args.out) + at.row() * args.cols + at.col();
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    float values[kChunk];
    unpackBytes<F8>(bytes[i].x, values);
    unpackBytes<F8>(bytes[i].y, values + 4);
#pragma unroll
    for (int j = 0; j < kChunk; ++j)
      values[j] *= kAxis == 1 ? rowScales[i] : colScales[j];
    if (at.holds(i)) {
      const Chunk<T> chunk = Chunk<T>::pack(values);
#pragma unroll
      for (int w = 0; w < Chunk<T>::kWords; w += 4)
        ptx::store16(reinterpret_cast<uint32_t *>(out + i * args.cols) + w,
                     chunk.words[w], chunk.words[w + 1], chunk.words[w + 2],
                     chunk.words[w + 3]);
    }
  }
}

//===----------------------------------------------------------------------===//
// Transpose
//===----------------------------------------------------------------------===//

/// The block that has a tile writes its scales: those of the 128x128 block,
/// with the padding after the last one, or the scale of the tensor.
__device__ __forceinline__ void
transposeScale(const TransposeArgs &args, int64_t rowTile, int64_t colTile) {
  if (args.scheme == TE_RT_PER_TENSOR) {
    if (rowTile == 0 && colTile == 0)
      args.outScale[0] = args.scale[0];
    return;
  }
  const int64_t rowTiles = tiles(args.rows);
  float *to = args.outScale + colTile * up4(rowTiles);
  to[rowTile] = args.scale[rowTile * up4(args.colTiles) + colTile];
  if (rowTile == rowTiles - 1)
#pragma unroll 1
    for (int64_t i = rowTiles; i < up4(rowTiles); ++i)
      to[i] = 0.0f;
}

/// The offset of byte (col, row) of the transposed tile, which is swizzled in
/// units of 16 bytes: a thread writes four rows of a column at once, and a warp
/// 16 rows of 8 columns that are 16 apart.
__device__ __forceinline__ int wideStageOffset(int col, int row) {
  return col * kTile + (((row >> 4) ^ (col >> 4)) << 4) + (row & 15);
}

/// Pointers are 16-byte aligned; rows and cols are multiples of 16. Thread
/// (tid / 8, tid % 8) has 4 rows of 16 columns.
__device__ __forceinline__ void
transposeTile(const TransposeArgs &args, int64_t rowTile, int64_t colTile) {
  const int tx = threadIdx.x % 8, ty = threadIdx.x / 8;
  const int64_t row = rowTile * kTile + ty * 4, col = colTile * kTile + tx * 16;
  const uint8_t *data = args.data + row * args.cols + col;
  uint4 bytes[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    bytes[i] =
        row + i < args.rows && col < args.cols
            ? __ldcs(reinterpret_cast<const uint4 *>(data + i * args.cols))
            : make_uint4(0, 0, 0, 0);
  transposeBytes(bytes[0].x, bytes[1].x, bytes[2].x, bytes[3].x);
  transposeBytes(bytes[0].y, bytes[1].y, bytes[2].y, bytes[3].y);
  transposeBytes(bytes[0].z, bytes[1].z, bytes[2].z, bytes[3].z);
  transposeBytes(bytes[0].w, bytes[1].w, bytes[2].w, bytes[3].w);
  uint8_t *stage = tileShared().stage;
  uint8_t *to = stage + wideStageOffset(tx * 16, ty * 4);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    *reinterpret_cast<uint32_t *>(to + j * kTile) = bytes[j].x;
    *reinterpret_cast<uint32_t *>(to + (j + 4) * kTile) = bytes[j].y;
    *reinterpret_cast<uint32_t *>(to + (j + 8) * kTile) = bytes[j].z;
    *reinterpret_cast<uint32_t *>(to + (j + 12) * kTile) = bytes[j].w;
  }
  __syncthreads();
  const int64_t outCol = rowTile * kTile + tx * 16;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int c = i * 32 + ty;
    const int64_t outRow = colTile * kTile + c;
    if (outRow < args.cols && outCol < args.rows)
      *reinterpret_cast<uint4 *>(args.outData + outRow * args.rows + outCol) =
          *reinterpret_cast<const uint4 *>(stage + wideStageOffset(c, tx * 16));
  }
}

__device__ __forceinline__ void
transposeGeneral(const TransposeArgs &args, int64_t rowTile, int64_t colTile) {
  uint8_t *stage = tileShared().stage;
  for (int i = threadIdx.x; i < kTile * kTile; i += kTileThreads) {
    const int r = i / kTile, c = i % kTile;
    const int64_t row = rowTile * kTile + r, col = colTile * kTile + c;
    if (row < args.rows && col < args.cols)
      stage[wideStageOffset(c, r)] = args.data[row * args.cols + col];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kTile * kTile; i += kTileThreads) {
    const int c = i / kTile, r = i % kTile;
    const int64_t row = rowTile * kTile + r, col = colTile * kTile + c;
    if (row < args.rows && col < args.cols)
      args.outData[col * args.rows + row] = stage[wideStageOffset(c, r)];
  }
}

template <bool kAligned>
__device__ __forceinline__ void transpose(const TransposeArgs &stack) {
  if (isSkipped(stack.skip))
    return;
  TransposeArgs args = stack;
  args.data = ofMatrix(stack.data, stack.strides.data);
  args.scale = ofMatrix(stack.scale, stack.strides.scale);
  args.outData = ofMatrix(stack.outData, stack.strides.data);
  args.outScale = ofMatrix(stack.outScale, stack.strides.outScale);
  const int64_t rowTile = blockIdx.x / args.colTiles;
  const int64_t colTile = blockIdx.x % args.colTiles;
  if (threadIdx.x == 0)
    transposeScale(args, rowTile, colTile);
  if constexpr (kAligned)
    transposeTile(args, rowTile, colTile);
  else
    transposeGeneral(args, rowTile, colTile);
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

extern "C" __global__ void __launch_bounds__(kTileThreads, 8)
    te_transpose_scaled(const __grid_constant__ TransposeArgs args) {
  te::rt::cuda::ptx::beginKernel();
  transpose<true>(args);
}
extern "C" __global__ void __launch_bounds__(kTileThreads)
    te_transpose_scaled_general(const __grid_constant__ TransposeArgs args) {
  te::rt::cuda::ptx::beginKernel();
  transpose<false>(args);
}

#define TE_DEQUANTIZE(fp8, F8, type, T)                                        \
  extern "C" __global__ void __launch_bounds__(kTileThreads, 4)                \
      te_dequantize_axis1_##fp8##_##type(                                      \
          const __grid_constant__ DequantizeArgs args) {                       \
    te::rt::cuda::ptx::beginKernel();                                          \
    dequantizeTile<F8, T, 1>(args);                                            \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kTileThreads, 4)                \
      te_dequantize_axis0_##fp8##_##type(                                      \
          const __grid_constant__ DequantizeArgs args) {                       \
    te::rt::cuda::ptx::beginKernel();                                          \
    dequantizeTile<F8, T, 0>(args);                                            \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kTileThreads)                   \
      te_dequantize_general_##fp8##_##type(                                    \
          const __grid_constant__ DequantizeArgs args) {                       \
    te::rt::cuda::ptx::beginKernel();                                          \
    dequantizeGeneral<F8, T>(args);                                            \
  }
#define TE_DEQUANTIZE_TYPES(fp8, F8)                                           \
  TE_DEQUANTIZE(fp8, F8, bf16, bf16)                                           \
  TE_DEQUANTIZE(fp8, F8, f16, f16)                                             \
  TE_DEQUANTIZE(fp8, F8, f32, float)
TE_DEQUANTIZE_TYPES(e4m3, E4M3)
TE_DEQUANTIZE_TYPES(e5m2, E5M2)
