//===- nvfp4.cu - 4-bit quantisation and its helpers ----------------------===//
//
// te_quantize_nvfp4_{1x16,16x16}_{nearest,4over6,stochastic}_<type>: a block
// quantises a tile of 128 x 128, which it reads once for both usages
// (nvfp4.cuh). Row codes are stored from registers. Column codes pass through
// shared memory, where word ty of column c (the eight elements of thread row
// ty) is stored at ty ^ c / 8 % 16.
//
// te_amax_rows_<type>: a warp a row. te_hadamard[_general]: a thread has 16
// rows of two columns (or one). te_nvfp4_alpha. te_rng_advance.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Device/launch_sm90.cuh"
#include "Kernels/Nvfp4/nvfp4.cuh"

namespace te::rt::cuda {
namespace {

using Position = TilePosition<false>;

struct NvShared {
  alignas(16) uint32_t stage[kTile * kTile / 8]; // [col][16 words]
  alignas(16) uint8_t rowScale[kTile * kNvGroups];
  alignas(16) uint8_t colScale[kTile * kNvGroups];
};

/// Loads the thread's elements, or zeros outside the matrix. Pointers are
/// always inside it.
template <typename T>
__device__ __forceinline__ void load(const QuantizeNvfp4Args &args,
                                     const Position &at, Tile<T> &tile) {
  const T *x = static_cast<const T *>(args.x);
  const Position ofX(at.rowTile(), at.colTile(), args.xRows, args.xCols);
  if (args.aligned) {
    loadTile(x, ofX, tile);
  } else {
    x += ofX.row() * ofX.cols + ofX.col();
#pragma unroll
    for (int i = 0; i < kTileRows; ++i) {
      float values[kChunk] = {};
#pragma unroll
      for (int j = 0; j < kChunk; ++j)
        if (ofX.holds(ofX.ty * kTileRows + i, ofX.tx * kChunk + j))
          values[j] = toFloat(x[i * ofX.cols + j]);
      tile[i] = Chunk<T>::pack(values);
    }
  }
#pragma unroll
  for (int i = 0; i < kTileRows; ++i)
#pragma unroll
    for (int w = 0; w < Chunk<T>::kWords; ++w)
      tile[i].words[w] = canonicalNaN<T>(tile[i].words[w]);
}

__device__ __forceinline__ void storeBytes(uint8_t *to, uint32_t word) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    to[i] = static_cast<uint8_t>(word >> 8 * i);
}

__device__ __forceinline__ void storeRows(const QuantizeNvfp4Args &args,
                                          const Position &at,
                                          const uint32_t (&words)[kNvLines]) {
#pragma unroll
  for (int i = 0; i < kNvLines; ++i) {
    if (!at.holds(i))
      continue;
    uint8_t *to = args.row + ((at.row() + i) * at.cols + at.col()) / 2;
    if (args.aligned)
      *reinterpret_cast<uint32_t *>(to) = words[i];
    else
      storeBytes(to, words[i]);
  }
}

__device__ __forceinline__ void stageCols(const Position &at,
                                          const uint32_t (&words)[kNvLines],
                                          NvShared &shared) {
  uint32_t *stage = shared.stage + at.tx * kChunk * 16 + (at.ty ^ at.tx);
#pragma unroll
  for (int i = 0; i < kNvLines; ++i)
    stage[i * 16] = words[i];
}

/// Stores the staged columns, after a barrier: 8 lanes store the 64 bytes of
/// one.
__device__ __forceinline__ void storeCols(const QuantizeNvfp4Args &args,
                                          const Position &at,
                                          const NvShared &shared) {
  const int pair = threadIdx.x % 8;
  if (pair * 2 * kChunk >= at.tileRows)
    return;
#pragma unroll
  for (int i = 0; i < kTile * 8 / kTileThreads; ++i) {
    const int c = i * (kTileThreads / 8) + threadIdx.x / 8;
    if (c >= at.tileCols)
      return;
    // The key exchanges pairs of words, and the words of a pair if it is odd.
    const int key = c >> 3;
    uint2 words = *reinterpret_cast<const uint2 *>(shared.stage + c * 16 +
                                                   (pair * 2 ^ (key & ~1)));
    if (key & 1)
      words = make_uint2(words.y, words.x);
    uint8_t *to = args.col + ((at.col0 + c) * at.rows + at.row0) / 2 + pair * 8;
    if (args.aligned) {
      *reinterpret_cast<uint2 *>(to) = words;
    } else {
      storeBytes(to, words.x);
      storeBytes(to + 4, words.y);
    }
  }
}

/// Stores the staged scales of line `index` of the tile, after a barrier, with
/// their padding: lines to a multiple of 128, groups to a multiple of 4.
__device__ __forceinline__ void storeScales(const QuantizeNvfp4Args &args,
                                            uint8_t *scales,
                                            const uint8_t *staged, int64_t line,
                                            int64_t group0, int64_t groups) {
  const int64_t pitch = up4(groups);
#pragma unroll
  for (int w = 0; w < kNvGroups; w += 4) {
    if (group0 + w >= pitch)
      return;
    const uint32_t word = *reinterpret_cast<const uint32_t *>(staged + w);
    uint8_t *to = scales + line * pitch + group0 + w;
    if (args.aligned)
      *reinterpret_cast<uint32_t *>(to) = word;
    else
      storeBytes(to, word);
  }
}

/// Copies the amax to the outputs.
__device__ __forceinline__ void copyAmax(const QuantizeNvfp4Args &args,
                                         const Position &at) {
  if (args.rowScaled) {
    if (args.rowAmax && at.col0 == 0 && threadIdx.x < at.tileRows)
      args.rowAmax[at.row0 + threadIdx.x] = args.amax[at.row0 + threadIdx.x];
  } else if (blockIdx.x == 0 && threadIdx.x == 0) {
    if (args.rowAmax)
      *args.rowAmax = *args.amax;
    if (args.colAmax)
      *args.colAmax = *args.amax;
  }
}

template <typename T, bool kSquare, NvMode kMode>
__device__ __forceinline__ void quantize(const QuantizeNvfp4Args &stack) {
  if (isSkipped(stack.skip))
    return;
  QuantizeNvfp4Args args = stack;
  args.x = ofMatrix(stack.x, stack.strides.x);
  args.amax = ofMatrix(stack.amax, stack.strides.amax);
  args.row = ofMatrix(stack.row, stack.strides.data);
  args.rowScale = ofMatrix(stack.rowScale, stack.strides.rowScale);
  args.rowAmax = ofMatrix(stack.rowAmax, stack.strides.amax);
  args.col = ofMatrix(stack.col, stack.strides.data);
  args.colScale = ofMatrix(stack.colScale, stack.strides.colScale);
  args.colAmax = ofMatrix(stack.colAmax, stack.strides.amax);
  __shared__ NvShared shared;
  const Position at(blockIdx.x / args.colTiles, blockIdx.x % args.colTiles,
                    args.rows, args.cols);
  const bool wantRow = args.row || args.rowScale;
  const bool wantCol = !args.rowScaled && (args.col || args.colScale);
  copyAmax(args, at);

  Tile<T> tile;
  load<T>(args, at, tile);
  const RowLines<T> rows{tile};
  const ColLines<T> cols{tile};
  // Threads outside the matrix have no amax and do not need one.
  const float *lines =
      args.rowScaled && at.holds(0) ? args.amax + at.row() : nullptr;
  const TensorScale tensor(args.rowScaled ? 0.0f : *args.amax, lines, args);

  const uint32_t seed = args.rng ? args.rng[0] : 0;
  const uint32_t offset = args.rng ? args.rng[1] : 0;
  const int64_t rowGroups = args.cols / kNvBlock;
  const int64_t colGroups = args.rows / kNvBlock;
  const RandomGroups rowRandom{at.row() * rowGroups + at.col() / kNvBlock,
                               rowGroups,
                               0,
                               seed,
                               offset,
                               args.stream};
  const RandomGroups colRandom{at.col() * colGroups + at.row() / kNvBlock,
                               colGroups,
                               1,
                               seed,
                               offset,
                               args.stream};
  uint8_t *rowScales =
      shared.rowScale + at.ty * kTileRows * kNvGroups + at.tx / 2;
  uint8_t *colScales = shared.colScale + at.tx * kChunk * kNvGroups + at.ty / 2;

  float inverse[kNvLines];
  uint32_t words[kNvLines];
  if constexpr (kSquare) {
    const BlockScale block = findSquareScale<T, kMode>(tile, tensor);
#pragma unroll
    for (int i = 0; i < kNvLines; ++i) {
      inverse[i] = block.inverse;
      if (!isUpper<RowLines<T>>())
        rowScales[i * kNvGroups] = static_cast<uint8_t>(block.byte);
      if (!isUpper<ColLines<T>>())
        colScales[i * kNvGroups] = static_cast<uint8_t>(block.byte);
    }
    if (kMode != NvMode::Stochastic || args.row)
      encode<kMode>(rows, inverse, rowRandom, words);
    if (args.row)
      storeRows(args, at, words);
    if (args.col) {
      // Without random bits the column usage has the codes of the row usage.
      if constexpr (kMode == NvMode::Stochastic)
        encode<kMode>(cols, inverse, colRandom, words);
      else
        transposeNibbles(words);
      stageCols(at, words, shared);
    }
  } else {
    if (wantRow) {
      findScales<T, kMode>(rows, tensor, rowScales, inverse);
      if (args.row) {
        encode<kMode>(rows, inverse, rowRandom, words);
        storeRows(args, at, words);
      }
    }
    if (wantCol) {
      findScales<T, kMode>(cols, tensor, colScales, inverse);
      if (args.col) {
        encode<kMode>(cols, inverse, colRandom, words);
        stageCols(at, words, shared);
      }
    }
  }
  // The stage and the scales are complete.
  __syncthreads();
  if (wantCol && args.col)
    storeCols(args, at, shared);
  const int index = threadIdx.x % kTile;
  if (threadIdx.x < kTile) {
    if (args.rowScale && at.tileCols > 0)
      storeScales(args, args.rowScale, shared.rowScale + index * kNvGroups,
                  at.row0 + index, at.col0 / kNvBlock, rowGroups);
  } else {
    if (wantCol && args.colScale && at.tileRows > 0)
      storeScales(args, args.colScale, shared.colScale + index * kNvGroups,
                  at.col0 + index, at.row0 / kNvBlock, colGroups);
  }
}

//===----------------------------------------------------------------------===//
// Smaller kernels
//===----------------------------------------------------------------------===//

template <typename T>
__device__ __forceinline__ void amaxRows(const AmaxRowsArgs &args) {
  const int lane = threadIdx.x % 32;
  const int64_t row =
      static_cast<int64_t>(blockIdx.x) * (kNvThreads / 32) + threadIdx.x / 32;
  if (row >= args.rows)
    return;
  if (isSkipped(args.skip)) {
    if (lane == 0)
      args.amax[row] = 0.0f;
    return;
  }
  const T *x = static_cast<const T *>(args.x) + row * args.cols;
  uint32_t word = 0;
  int64_t done = 0; // elements that go in chunks
  if (reinterpret_cast<uintptr_t>(x) % 16 == 0) {
    done = args.cols / kChunk * kChunk;
#pragma unroll 4
    for (int64_t i = lane * kChunk; i < done; i += 32 * kChunk)
      word = maxAbs<T>(word, maxAbs(Chunk<T>::load(x + i)));
  }
  float result = amaxOf<T>(word);
  for (int64_t i = done + lane; i < args.cols; i += 32)
    result = fmaxf(result, fabsf(toFloat(x[i])));
  result = warpMax(result);
  if (lane == 0)
    args.amax[row] = result;
}

/// A thread transforms kCols columns; two columns are one word.
template <int kCols>
__device__ __forceinline__ void hadamard(const HadamardArgs &args) {
  const int64_t run = blockIdx.x / args.colBlocks;
  const int64_t col =
      (static_cast<int64_t>(blockIdx.x % args.colBlocks) * kNvThreads +
       threadIdx.x) *
      kCols;
  if (col >= args.cols)
    return;
  const int64_t first = run * kNvBlock * args.cols + col;
  const bf16 *x = static_cast<const bf16 *>(args.x) + first;
  bf16 *y = static_cast<bf16 *>(args.y) + first;
  float v[kCols][kNvBlock];
#pragma unroll
  for (int i = 0; i < kNvBlock; ++i) {
    if constexpr (kCols == 2)
      unpackWord<bf16>(*reinterpret_cast<const uint32_t *>(x + i * args.cols),
                       v[0][i], v[1][i]);
    else
      v[0][i] = toFloat(x[i * args.cols]);
  }
#pragma unroll
  for (int c = 0; c < kCols; ++c)
    math::hadamard16(v[c]);
#pragma unroll
  for (int i = 0; i < kNvBlock; ++i) {
    if constexpr (kCols == 2)
      *reinterpret_cast<uint32_t *>(y + i * args.cols) =
          packWord<bf16>(v[0][i], v[1][i]);
    else
      y[i * args.cols] = fromFloat<bf16>(v[0][i]);
  }
}

/// The resident blocks for __launch_bounds__. An f32 tile needs twice the
/// registers.
template <typename T> constexpr int blocksPerSm = sizeof(T) == 4 ? 2 : 3;

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

#define TE_QUANTIZE_NVFP4(scheme, kSquare, mode, kMode, type, T)               \
  extern "C" __global__ void __launch_bounds__(kTileThreads, blocksPerSm<T>)   \
      te_quantize_nvfp4_##scheme##_##mode##_##type(                            \
          const __grid_constant__ QuantizeNvfp4Args args) {                    \
    te::rt::cuda::ptx::beginKernel();                                          \
    quantize<T, kSquare, NvMode::kMode>(args);                                 \
  }
#define TE_QUANTIZE_NVFP4_MODES(scheme, kSquare, type, T)                      \
  TE_QUANTIZE_NVFP4(scheme, kSquare, nearest, Nearest, type, T)                \
  TE_QUANTIZE_NVFP4(scheme, kSquare, 4over6, FourOverSix, type, T)             \
  TE_QUANTIZE_NVFP4(scheme, kSquare, stochastic, Stochastic, type, T)
#define TE_NVFP4_TYPE(type, T)                                                 \
  extern "C" __global__ void __launch_bounds__(kNvThreads)                     \
      te_amax_rows_##type(const __grid_constant__ AmaxRowsArgs args) {         \
    te::rt::cuda::ptx::beginKernel();                                          \
    amaxRows<T>(args);                                                         \
  }                                                                            \
  TE_QUANTIZE_NVFP4_MODES(1x16, false, type, T)                                \
  TE_QUANTIZE_NVFP4_MODES(16x16, true, type, T)
TE_NVFP4_TYPE(bf16, bf16)
TE_NVFP4_TYPE(f16, f16)
TE_NVFP4_TYPE(f32, float)

extern "C" __global__ void __launch_bounds__(kNvThreads)
    te_hadamard(const __grid_constant__ HadamardArgs args) {
  te::rt::cuda::ptx::beginKernel();
  hadamard<2>(args);
}
extern "C" __global__ void __launch_bounds__(kNvThreads)
    te_hadamard_general(const __grid_constant__ HadamardArgs args) {
  te::rt::cuda::ptx::beginKernel();
  hadamard<1>(args);
}

extern "C" __global__ void __launch_bounds__(kNvThreads)
    te_nvfp4_alpha(const __grid_constant__ Nvfp4AlphaArgs args) {
  te::rt::cuda::ptx::beginKernel();
  const int64_t row =
      static_cast<int64_t>(blockIdx.x) * kNvThreads + threadIdx.x;
  if (row < args.matrices * args.rows)
    args.alpha[row] =
        te::rt::math::nvAlpha(args.aAmax[row], args.bAmax[row / args.rows],
                              args.aScaleMax, args.bScaleMax);
}

extern "C" __global__ void
te_rng_advance(const __grid_constant__ RngAdvanceArgs args) {
  te::rt::cuda::ptx::beginKernel();
  const uint32_t seed = args.state[0], offset = args.state[1];
  args.newState[0] = seed;
  args.newState[1] = offset + args.count;
}
