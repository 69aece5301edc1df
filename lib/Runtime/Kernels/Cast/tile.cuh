//===- tile.cuh - one 128 x 128 tile from registers to FP8 ----------------===//
//
// 256 threads have the tile in registers, each eight rows of one chunk of 8
// columns: thread (ty, tx) = (tid / 16, tid % 16) has rows 8 ty to 8 ty + 7 and
// columns 8 tx to 8 tx + 7. The 16 lanes that load or store a row then access
// 256 or 128 consecutive bytes, the maximum of a row is computed within half a
// warp, and the eight rows of a thread in one column are eight consecutive
// bytes of the transposed output.
//
// The transposed bytes pass through shared memory in units of 8 bytes. Unit u
// of column c is stored at u ^ (c / 8 % 16), so that neither the writes (16
// columns, 8 apart) nor the reads (whole columns) have bank conflicts.
//
// The barriers are numbered in quantizeTile1x128, which may be called again for
// another tile without a barrier in between.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_CAST_TILE_CUH
#define TE_RUNTIME_KERNELS_CAST_TILE_CUH

#include "Core/Formulas.h"
#include "Kernels/Cast/cast_args.h"
#include "Kernels/Device/chunk.cuh"
#include "Kernels/Device/fp8_sm89.cuh"

namespace te::rt::cuda {

/// Rows of the tile in one thread.
inline constexpr int kTileRows = 8;
inline constexpr int kTileWarps = kTileThreads / 32;

struct TileShared {
  alignas(16) float rowScale[kTile];
  alignas(16) float colScale[kTile];
  alignas(16) uint32_t partial[kTileWarps * kTile];
  alignas(16) uint8_t stage[kTile * kTile];
};
static_assert(sizeof(TileShared) == kTileSharedBytes);

extern __shared__ __align__(16) uint8_t dynamicShared[];
__device__ __forceinline__ TileShared &tileShared() {
  return *reinterpret_cast<TileShared *>(dynamicShared);
}
/// The shared memory after TileShared.
__device__ __forceinline__ uint8_t *extraShared() {
  return dynamicShared + sizeof(TileShared);
}

template <typename T> using Tile = Chunk<T>[kTileRows];

/// The position of a tile and of a thread's part of it. `kWhole` says that the
/// whole tile is inside the matrix, which saves every test against the edges.
template <bool kWhole> struct TilePosition {
  int64_t row0, col0;     // of the tile
  int64_t rows, cols;     // of the matrix
  int tileRows, tileCols; // kTile, but less at the matrix's edge
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16;

  __device__ TilePosition(uint32_t rowTile, uint32_t colTile, int64_t rows,
                          int64_t cols)
      : row0(static_cast<int64_t>(rowTile) * kTile),
        col0(static_cast<int64_t>(colTile) * kTile), rows(rows), cols(cols),
        tileRows(static_cast<int>(min(rows - row0, int64_t{kTile}))),
        tileCols(static_cast<int>(min(cols - col0, int64_t{kTile}))) {}

  /// Whether the whole tile is in the matrix.
  __device__ bool isWhole() const {
    return tileRows == kTile && tileCols == kTile;
  }
  /// The thread's first element.
  __device__ int64_t row() const { return row0 + ty * kTileRows; }
  __device__ int64_t col() const { return col0 + tx * kChunk; }
  /// Whether the thread's chunk `i` is in the matrix, which has whole chunks.
  __device__ bool holds(int i) const {
    return kWhole || (tx * kChunk < tileCols && ty * kTileRows + i < tileRows);
  }
  /// Whether element (row, col) of the tile is in the matrix.
  __device__ bool holds(int row, int col) const {
    return kWhole || (row < tileRows && col < tileCols);
  }
  __device__ int64_t rowTile() const { return row0 / kTile; }
  __device__ int64_t colTile() const { return col0 / kTile; }
};

/// Calls `body` with the position of this block's tile, numbered along the
/// columns first.
template <typename Body>
__device__ __forceinline__ void withTile(uint32_t colTiles, int64_t rows,
                                         int64_t cols, const Body &body) {
  const uint32_t rowTile = blockIdx.x / colTiles;
  const uint32_t colTile = blockIdx.x % colTiles;
  const TilePosition<false> at(rowTile, colTile, rows, cols);
  if (at.isWhole())
    body(TilePosition<true>(rowTile, colTile, rows, cols));
  else
    body(at);
}

__device__ __forceinline__ int64_t up4(int64_t n) { return (n + 3) & ~3ll; }

/// The offset of (column, row) of the tile in the transposed stage. Eight rows
/// are consecutive if the first is a multiple of 8.
__device__ __forceinline__ int stageOffset(int col, int row) {
  return col * kTile + (((row >> 3) ^ (col >> 3)) << 3) + (row & 7);
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

/// Loads the thread's part, rounded to T. x is 16-byte aligned and `cols` a
/// multiple of 8.
template <typename X, typename T, typename Position>
__device__ __forceinline__ void loadTile(const X *x, const Position &at,
                                         Tile<T> &tile) {
  x += at.row() * at.cols + at.col();
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const Chunk<X> chunk = Chunk<X>::loadIf(at.holds(i), x + i * at.cols);
    if constexpr (std::is_same_v<X, T>) {
      tile[i] = chunk;
    } else {
      float values[kChunk];
      chunk.unpack(values);
      tile[i] = Chunk<T>::pack(values);
    }
  }
}

/// The same for any shape and alignment: passes each `element(row, col)`
/// through shared memory.
template <typename T, typename Element, typename Position>
__device__ __forceinline__ void
loadTileGeneral(const Element &element, const Position &at, Tile<T> &tile) {
  T *staged = reinterpret_cast<T *>(extraShared());
#pragma unroll 1
  for (int i = threadIdx.x; i < kTile * kTile; i += kTileThreads) {
    const int64_t row = at.row0 + i / kTile, col = at.col0 + i % kTile;
    staged[i] =
        row < at.rows && col < at.cols ? element(row, col) : fromFloat<T>(0.0f);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kTileRows; ++i)
    tile[i] = *reinterpret_cast<const Chunk<T> *>(
        staged + (at.ty * kTileRows + i) * kTile + at.tx * kChunk);
}

//===----------------------------------------------------------------------===//
// Storing
//===----------------------------------------------------------------------===//

/// Stores row `i` of the thread. `row` is 8-byte aligned and `cols` a multiple
/// of 8.
template <typename Position>
__device__ __forceinline__ void storeRow(uint8_t *row, int i, uint2 bytes,
                                         const Position &at) {
  if (at.holds(i))
    *reinterpret_cast<uint2 *>(row + (at.row() + i) * at.cols + at.col()) =
        bytes;
}

/// Stores all rows of the thread. With `kAligned` the alignment is that of
/// storeRow; without it the rows pass through the stage, which no other code
/// may use until the return.
template <bool kAligned, typename Position>
__device__ __forceinline__ void
storeRows(uint8_t *row, const uint2 (&bytes)[kTileRows], const Position &at,
          TileShared &shared) {
  if constexpr (kAligned) {
#pragma unroll
    for (int i = 0; i < kTileRows; ++i)
      storeRow(row, i, bytes[i], at);
  } else {
#pragma unroll
    for (int i = 0; i < kTileRows; ++i)
      *reinterpret_cast<uint2 *>(
          shared.stage + (at.ty * kTileRows + i) * kTile + at.tx * kChunk) =
          bytes[i];
    __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < kTile * kTile; i += kTileThreads) {
      const int r = i / kTile, c = i % kTile;
      if (r < at.tileRows && c < at.tileCols)
        row[(at.row0 + r) * at.cols + at.col0 + c] = shared.stage[i];
    }
    __syncthreads();
  }
}

/// Stores the transposed tile from the stage, after a barrier, to columns that
/// are `pitch` bytes apart. With `kAligned`, `col` is 16-byte aligned, and
/// `rows` and `pitch` are multiples of 16.
template <bool kAligned, typename Position>
__device__ __forceinline__ void storeStage(uint8_t *col, int64_t pitch,
                                           const Position &at,
                                           const uint8_t *stage) {
  if constexpr (kAligned) {
    // 8 lanes store the 128 bytes of a column, 16 each. The swizzle exchanges
    // 16-byte pairs of units, and the units of a pair if c / 8 is odd.
    const int pair = threadIdx.x % 8;
    col += (at.col0 + threadIdx.x / 8) * pitch + at.row0 + pair * 16;
#pragma unroll
    for (int i = 0; i < kTile * 8 / kTileThreads; ++i) {
      const int c = i * (kTileThreads / 8) + threadIdx.x / 8;
      const int key = c >> 3;
      uint4 units = *reinterpret_cast<const uint4 *>(
          stage + c * kTile + ((pair ^ (key >> 1)) << 4));
      if (key & 1)
        units = make_uint4(units.z, units.w, units.x, units.y);
      if (at.holds(pair * 16, c))
        *reinterpret_cast<uint4 *>(col + i * (kTileThreads / 8) * pitch) =
            units;
    }
  } else {
#pragma unroll 1
    for (int i = threadIdx.x; i < kTile * kTile; i += kTileThreads) {
      const int c = i / kTile, r = i % kTile;
      if (c < at.tileCols && r < at.tileRows)
        col[(at.col0 + c) * pitch + at.row0 + r] = stage[stageOffset(c, r)];
    }
  }
}

/// Writes the thread's bytes, eight rows of eight, to a transposed stage.
template <typename Position>
__device__ __forceinline__ void
stageTransposed(uint2 (&bytes)[kTileRows], const Position &at, uint8_t *stage) {
  transposeBytes(bytes[0].x, bytes[1].x, bytes[2].x, bytes[3].x);
  transposeBytes(bytes[0].y, bytes[1].y, bytes[2].y, bytes[3].y);
  transposeBytes(bytes[4].x, bytes[5].x, bytes[6].x, bytes[7].x);
  transposeBytes(bytes[4].y, bytes[5].y, bytes[6].y, bytes[7].y);
  stage += stageOffset(at.tx * kChunk, at.ty * kTileRows);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    *reinterpret_cast<uint2 *>(stage + j * kTile) =
        make_uint2(bytes[j].x, bytes[j + 4].x);
    *reinterpret_cast<uint2 *>(stage + (j + 4) * kTile) =
        make_uint2(bytes[j].y, bytes[j + 4].y);
  }
}

/// Stores the inverse scale of one 1x128 block as entry `index` of `line` of a
/// scale tensor [lines, up(count, 4)], and 0 as its padding.
__device__ __forceinline__ void storeLineScale(float *scales, int64_t line,
                                               int64_t index, int64_t count,
                                               float scale) {
  if (index < up4(count))
    scales[line * up4(count) + index] = index < count ? __frcp_rn(scale) : 0.0f;
}

//===----------------------------------------------------------------------===//
// 1x128 blocks
//===----------------------------------------------------------------------===//

/// The maximum over the 16 lanes of each half warp, for N words a lane. The
/// lanes share the work: each returns the maximum of word (lane % 16) * N / 16.
template <typename T, int N>
__device__ __forceinline__ uint32_t halfWarpMax(uint32_t (&words)[N],
                                                int lane) {
  int count = N;
#pragma unroll
  for (int mask = 8; mask != 0; mask >>= 1) {
    if (count == 1) {
      words[0] = maxAbs<T>(words[0], __shfl_xor_sync(~0u, words[0], mask));
      continue;
    }
    count /= 2;
    const bool upper = lane & mask;
#pragma unroll
    for (int i = 0; i < N / 2; ++i)
      if (i < count) {
        const uint32_t keep = upper ? words[i + count] : words[i];
        const uint32_t send = upper ? words[i] : words[i + count];
        words[i] = maxAbs<T>(keep, __shfl_xor_sync(~0u, send, mask));
      }
  }
  return words[0];
}

/// Writes the amaxes of the warp's sixteen rows to `amax`, which has one for
/// each row of the tile.
template <typename T, typename Position>
__device__ __forceinline__ void storeRowAmax(const Tile<T> &tile,
                                             const Position &at, float *amax) {
  amax += at.ty * kTileRows;
  if constexpr (sizeof(T) == 4) {
    uint32_t words[kTileRows];
#pragma unroll
    for (int i = 0; i < kTileRows; ++i)
      words[i] = maxAbs(tile[i]);
    const uint32_t word = halfWarpMax<T>(words, at.lane);
    if (!(at.lane & 1))
      amax[(at.lane >> 1) % 8] = amaxOf<T>(word, false);
  } else {
    // From here on a word has the maxima of two rows.
    uint32_t words[kTileRows / 2];
#pragma unroll
    for (int i = 0; i < kTileRows / 2; ++i) {
      const uint32_t a = maxAbs(tile[2 * i]), b = maxAbs(tile[2 * i + 1]);
      words[i] =
          maxAbs<T>(__byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632));
    }
    const uint32_t word = halfWarpMax<T>(words, at.lane);
    if (!(at.lane & 2))
      amax[(at.lane >> 2) % 4 * 2 + (at.lane & 1)] =
          amaxOf<T>(word, at.lane & 1);
  }
}

/// Writes the column maxima of the warp's sixteen rows to `partial`.
template <typename T, typename Position>
__device__ __forceinline__ void
storeColPartial(const Tile<T> &tile, const Position &at, uint32_t *partial) {
  constexpr int kWords = Chunk<T>::kWords;
  uint32_t words[kWords];
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    words[w] = maxAbs<T>(tile[0].words[w], tile[1].words[w]);
#pragma unroll
    for (int i = 2; i < kTileRows; ++i)
      words[w] = maxAbs<T>(words[w], tile[i].words[w]);
  }
  // The two half warps have the same columns; each finishes half of them.
  const bool upper = at.lane & 16;
  partial +=
      at.warp * (16 * kWords) + at.tx * kWords + (upper ? kWords / 2 : 0);
  uint32_t kept[kWords / 2];
#pragma unroll
  for (int w = 0; w < kWords / 2; ++w) {
    const uint32_t keep = upper ? words[w + kWords / 2] : words[w];
    const uint32_t send = upper ? words[w] : words[w + kWords / 2];
    kept[w] = maxAbs<T>(keep, __shfl_xor_sync(~0u, send, 16));
  }
  if constexpr (kWords == 4)
    *reinterpret_cast<uint2 *>(partial) = make_uint2(kept[0], kept[1]);
  else
    *reinterpret_cast<uint4 *>(partial) =
        make_uint4(kept[0], kept[1], kept[2], kept[3]);
}

/// The amax of column `col` of the tile, from what storeColPartial wrote.
template <typename T>
__device__ __forceinline__ float colAmax(int col, const uint32_t *partial) {
  constexpr int kPerWord = 4 / sizeof(T);
  constexpr int kPitch = kTile / kPerWord;
  partial += col / kPerWord;
  uint32_t word = partial[0];
#pragma unroll
  for (int warp = 1; warp < kTileWarps; ++warp)
    word = maxAbs<T>(word, partial[warp * kPitch]);
  return amaxOf<T>(word, col % kPerWord != 0);
}

/// Loads four floats from a 16-byte aligned address.
__device__ __forceinline__ void loadFour(const float *from, float (&to)[4]) {
  const float4 quad = *reinterpret_cast<const float4 *>(from);
  to[0] = quad.x, to[1] = quad.y, to[2] = quad.z, to[3] = quad.w;
}

template <typename T> struct InputType;
template <> struct InputType<float> {
  static constexpr int32_t value = TE_RT_F32;
};
template <> struct InputType<bf16> {
  static constexpr int32_t value = TE_RT_BF16;
};
template <> struct InputType<f16> {
  static constexpr int32_t value = TE_RT_F16;
};

template <typename T, typename F8>
__device__ __forceinline__ float blockScale(float amax, bool pow2,
                                            float epsilon) {
  return math::computeScale(amax, F8::max, pow2, epsilon,
                            math::maxFinite(InputType<T>::value));
}

/// Quantises with block_1x128 scales: the row usage has blocks along the
/// columns, the column usage blocks along the rows.
template <typename T, typename F8, bool kAligned, typename Position>
__device__ __forceinline__ void
quantizeTile1x128(const Tile<T> &tile, const Position &at,
                  const QuantizeOutputs &out, bool pow2, float epsilon,
                  TileShared &shared) {
  const bool wantRow = out.row || out.rowScale;
  const bool wantCol = out.col || out.colScale;
  // In an earlier call without columns, other lanes may still be reading the
  // row scales of the warp.
  __syncwarp();
  if (wantRow)
    storeRowAmax(tile, at, shared.rowScale);
  if (wantCol)
    storeColPartial(tile, at, shared.partial);
  // 1: every amax is complete. (The stage and the column scales of an earlier
  // call have been read, because its threads read them before they arrive
  // here.)
  __syncthreads();
  // Half of the threads compute the scale of a row each, the others of a
  // column.
  const int index = threadIdx.x % kTile;
  const bool isRow = threadIdx.x < kTile;
  if (isRow ? wantRow : wantCol) {
    const float amax =
        isRow ? shared.rowScale[index] : colAmax<T>(index, shared.partial);
    const float scale = blockScale<T, F8>(amax, pow2, epsilon);
    (isRow ? shared.rowScale : shared.colScale)[index] = scale;
    if (float *scales = isRow ? out.rowScale : out.colScale)
      storeLineScale(scales, isRow ? at.colTile() : at.rowTile(),
                     (isRow ? at.row0 : at.col0) + index,
                     isRow ? at.rows : at.cols, scale);
  }
  // 2: every scale is complete, and every thread has read `partial`.
  __syncthreads();
  // Blocks of 4 x 4 are unpacked once for both usages.
  uint2 rowBytes[kTileRows];
  uint32_t colWords[kChunk][2];
#pragma unroll
  for (int i = 0; i < kTileRows; i += 4) {
    float rowScales[4], colScales[4];
    loadFour(shared.rowScale + at.ty * kTileRows + i, rowScales);
#pragma unroll
    for (int j = 0; j < kChunk; j += 4) {
      loadFour(shared.colScale + at.tx * kChunk + j, colScales);
      float x[4][4];
#pragma unroll
      for (int k = 0; k < 4; ++k)
        tile[i + k].unpackFour(j, x[k]);
      if (out.row) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const float s = rowScales[k];
          (j == 0 ? rowBytes[i + k].x : rowBytes[i + k].y) =
              F8::pack(x[k][0] * s, x[k][1] * s, x[k][2] * s, x[k][3] * s);
        }
      }
      if (out.col) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const float s = colScales[k];
          colWords[j + k][i / 4] =
              F8::pack(x[0][k] * s, x[1][k] * s, x[2][k] * s, x[3][k] * s);
        }
      }
    }
    if (kAligned && out.row)
#pragma unroll
      for (int k = i; k < i + 4; ++k)
        storeRow(out.row, k, rowBytes[k], at);
  }
  if (!kAligned && out.row)
    storeRows<false>(out.row, rowBytes, at, shared);
  if (!out.col)
    return;
  uint8_t *stage =
      shared.stage + stageOffset(at.tx * kChunk, at.ty * kTileRows);
#pragma unroll
  for (int j = 0; j < kChunk; ++j)
    *reinterpret_cast<uint2 *>(stage + j * kTile) =
        make_uint2(colWords[j][0], colWords[j][1]);
  // 3: the stage is complete.
  __syncthreads();
  storeStage<kAligned>(out.col, out.colPitch, at, shared.stage);
}

//===----------------------------------------------------------------------===//
// One scale for the tile, or for each row
//===----------------------------------------------------------------------===//

/// The magnitudes of a thread's part of a tile, as maxAbs gives them.
template <typename T>
__device__ __forceinline__ uint32_t maxAbs(const Tile<T> &tile) {
  uint32_t word = maxAbs(tile[0]);
#pragma unroll
  for (int i = 1; i < kTileRows; ++i)
    word = maxAbs<T>(word, maxAbs(tile[i]));
  return word;
}

/// Returns the largest magnitude of the words of all threads, in every thread.
/// Contains a barrier.
template <typename T>
__device__ __forceinline__ float blockAmax(uint32_t word, TileShared &shared) {
  const float amax = warpMax(amaxOf<T>(word));
  float *partial = reinterpret_cast<float *>(shared.partial);
  if (threadIdx.x % 32 == 0)
    partial[threadIdx.x / 32] = amax;
  __syncthreads();
  float result = 0.0f;
#pragma unroll
  for (int i = 0; i < kTileWarps; ++i)
    result = fmaxf(result, partial[i]);
  return result;
}

/// Returns the amax of the whole tile in every thread. Contains a barrier.
template <typename T>
__device__ __forceinline__ float tileAmax(const Tile<T> &tile,
                                          TileShared &shared) {
  return blockAmax<T>(maxAbs(tile), shared);
}

/// How a row is quantised: its scale, and a mask for its bytes.
struct RowCast {
  float scale;
  uint32_t kept;
};

/// Quantises the thread's row i with rowCast(i).
template <typename F8, typename T, typename GetRowCast>
__device__ __forceinline__ void
packRows(const Tile<T> &tile, GetRowCast rowCast, uint2 (&bytes)[kTileRows]) {
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const auto [scale, kept] = rowCast(i);
    float x[kChunk];
    tile[i].unpack(x);
    bytes[i].x =
        F8::pack(x[0] * scale, x[1] * scale, x[2] * scale, x[3] * scale) & kept;
    bytes[i].y =
        F8::pack(x[4] * scale, x[5] * scale, x[6] * scale, x[7] * scale) & kept;
  }
}

/// Quantises a tile as packRows does. The bytes of the column usage are those
/// of the row usage, transposed.
template <typename T, typename F8, bool kAligned, typename Position,
          typename GetRowCast>
__device__ __forceinline__ void
quantizeTileByRows(const Tile<T> &tile, const Position &at,
                   const QuantizeOutputs &out, GetRowCast rowCast,
                   TileShared &shared) {
  uint2 bytes[kTileRows];
  packRows<F8>(tile, rowCast, bytes);
  if (out.row)
    storeRows<kAligned>(out.row, bytes, at, shared);
  if (!out.col)
    return;
  stageTransposed(bytes, at, shared.stage);
  __syncthreads();
  storeStage<kAligned>(out.col, out.colPitch, at, shared.stage);
}

/// Quantises the tile with one scale.
template <typename T, typename F8, bool kAligned, typename Position>
__device__ __forceinline__ void
quantizeTileUniform(const Tile<T> &tile, const Position &at,
                    const QuantizeOutputs &out, float scale,
                    TileShared &shared) {
  quantizeTileByRows<T, F8, kAligned>(
      tile, at, out, [=](int) { return RowCast{scale, ~0u}; }, shared);
}

/// The resident blocks for __launch_bounds__: four with 64 registers a thread.
/// An f32 tile needs twice the registers.
template <typename T>
inline constexpr int kTileBlocksPerSm = sizeof(T) == 4 ? 2 : 4;

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_CAST_TILE_CUH
