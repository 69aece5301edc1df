//===- slot_tiles.cuh - whole tiles from shared memory to 1x128 blocks ----===//
//
// One or two 128 x 128 tiles of bf16 are in shared memory. Each thread has its
// eight chunks in slots of its own, so no barrier is needed between computing
// and quantising them. Both usages are computed and the whole tiles are inside
// the matrix, so no bounds are tested. Two tiles share the three barriers.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_CAST_SLOT_TILES_CUH
#define TE_RUNTIME_KERNELS_CAST_SLOT_TILES_CUH

#include "Kernels/Cast/tile.cuh"

namespace te::rt::cuda {

/// The shared memory before the slots. The transposed stages reuse the slots of
/// the first tile.
struct SlotScratch {
  alignas(16) float rowScale[2][kTile];
  alignas(16) float colScale[2][kTile];
  alignas(16) uint32_t partial[2][kTileWarps * kTile / 2];
};
static_assert(sizeof(SlotScratch) == kSlotScratchBytes);

/// The distance from a thread's slot to the same slot of the second tile.
inline constexpr int kTwin = kTileRows * kTileThreads;

__device__ __forceinline__ void loadSlots(const Chunk<bf16> *slots,
                                          Tile<bf16> &tile) {
#pragma unroll
  for (int i = 0; i < kTileRows; ++i)
    tile[i] = slots[i * kTileThreads];
}

/// Quantises the thread's part of a tile with the given scales of its rows and
/// columns. Rows are stored to `row`, `pitch` bytes apart, and columns to the
/// transposed stage.
template <typename F8>
__device__ __forceinline__ void convertTile(const Tile<bf16> &tile,
                                            const float *rowScale,
                                            const float *colScale, uint8_t *row,
                                            int64_t pitch, uint8_t *stage) {
  // Blocks of 4 x 4 are unpacked once for both usages. The left half of the
  // bytes of the rows is kept until the right half is complete.
  uint32_t left[kTileRows];
#pragma unroll
  for (int j = 0; j < kChunk; j += 4) {
    float colScales[4];
    loadFour(colScale + j, colScales);
    uint32_t colWords[4][2];
#pragma unroll
    for (int i = 0; i < kTileRows; i += 4) {
      float rowScales[4], x[4][4];
      loadFour(rowScale + i, rowScales);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float s = rowScales[k];
        tile[i + k].unpackFour(j, x[k]);
        const uint32_t bytes =
            F8::pack(x[k][0] * s, x[k][1] * s, x[k][2] * s, x[k][3] * s);
        if (j == 0) {
          left[i + k] = bytes;
        } else {
          *reinterpret_cast<uint2 *>(row) = make_uint2(left[i + k], bytes);
          row += pitch;
        }
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float s = colScales[k];
        colWords[k][i / 4] =
            F8::pack(x[0][k] * s, x[1][k] * s, x[2][k] * s, x[3][k] * s);
      }
    }
#pragma unroll
    for (int k = 0; k < 4; ++k)
      *reinterpret_cast<uint2 *>(stage + (j + k) * kTile) =
          make_uint2(colWords[k][0], colWords[k][1]);
  }
}

/// Quantises tile (rowTile, colTile) of `kTiles` matrices of whole tiles from
/// the thread's `slots`. out(t) has the outputs of matrix t, whose rows are
/// `cols` bytes apart.
template <typename F8, int kTiles, typename Outputs>
__device__ __forceinline__ void
quantizeSlots(Chunk<bf16> *slots, SlotScratch &scratch, uint8_t *stages,
              uint32_t rowTile, uint32_t colTile, int64_t rows, int64_t cols,
              const Outputs &out, bool pow2, float epsilon) {
  const TilePosition<true> at(rowTile, colTile, rows, cols);
  Tile<bf16> tile;
#pragma unroll 1
  for (int t = 0; t < kTiles; ++t) {
    loadSlots(slots + t * kTwin, tile);
    storeRowAmax(tile, at, scratch.rowScale[t]);
    storeColPartial(tile, at, scratch.partial[t]);
  }
  // 1: every amax is complete.
  __syncthreads();
  const int index = threadIdx.x % kTile;
#pragma unroll 1
  for (int t = 0; t < kTiles; ++t) {
    // Half of the threads compute the scale of a row each, the others of a
    // column.
    const bool isRow = threadIdx.x < kTile;
    const float amax = isRow ? scratch.rowScale[t][index]
                             : colAmax<bf16>(index, scratch.partial[t]);
    const float scale = blockScale<bf16, F8>(amax, pow2, epsilon);
    (isRow ? scratch.rowScale : scratch.colScale)[t][index] = scale;
    const int64_t entry = isRow ? at.colTile() * rows + at.row0 + index
                                : at.rowTile() * cols + at.col0 + index;
    (isRow ? out(t).rowScale : out(t).colScale)[entry] = __frcp_rn(scale);
  }
  loadSlots(slots, tile);
  // 2: every scale is complete, and every thread has read its slots of the
  // first tile.
  __syncthreads();
  const int64_t first = at.row() * cols + at.col();
  uint8_t *stage = stages + stageOffset(at.tx * kChunk, at.ty * kTileRows);
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    convertTile<F8>(tile, scratch.rowScale[t] + at.ty * kTileRows,
                    scratch.colScale[t] + at.tx * kChunk, out(t).row + first,
                    cols, stage + t * (kTile * kTile));
    if (t + 1 < kTiles)
      loadSlots(slots + kTwin, tile);
  }
  // 3: the stages are complete.
  __syncthreads();
#pragma unroll 1
  for (int t = 0; t < kTiles; ++t)
    storeStage<true>(out(t).col, rows, at, stages + t * (kTile * kTile));
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_CAST_SLOT_TILES_CUH
