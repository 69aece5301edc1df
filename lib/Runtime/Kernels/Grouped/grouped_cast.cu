//===- grouped_cast.cu - amaxes and per-tensor casts of groups of rows ----===//
//
// te_grouped_amax_<type>, te_grouped_quantize_<type>_<fp8>. Both read the whole
// matrix as if there were no groups, and find out meanwhile which rows are
// whose (group_scan.cuh): a cast in the tiles of one matrix (Cast/tile.cuh),
// with a scale for each row. The form ending in _general takes any shape and
// any alignment.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Cast/tile.cuh"
#include "Kernels/Grouped/group_scan.cuh"
#include "Kernels/Grouped/grouped_args.h"

namespace te::rt::cuda {
namespace {

/// Raises *amax, which only grows, so that a stale value read here costs an
/// atomic and no more.
__device__ __forceinline__ void raise(float *amax, float value) {
  auto *bits = reinterpret_cast<unsigned *>(amax);
  if (__float_as_uint(value) > *static_cast<volatile unsigned *>(bits))
    atomicMax(bits, __float_as_uint(value));
}

/// A warp has kGroupedAmaxSpan elements in a row, mostly of one group.
template <typename T>
__device__ __forceinline__ void amax(const GroupedAmaxArgs &args) {
  constexpr int kChunks = kGroupedAmaxSpan / (32 * kChunk);
  const GroupedRows &layout = args.layout;
  const int64_t total = layout.shape.rows * layout.cols;
  const int lane = threadIdx.x % 32;
  const int64_t first =
      (blockIdx.x * int64_t{kGroupedBlock / 32} + threadIdx.x / 32) *
      kGroupedAmaxSpan;
  if (first >= total)
    return;
  const int count =
      static_cast<int>(min(total - first, int64_t{kGroupedAmaxSpan}));
  const T *x = static_cast<const T *>(args.x) + first;

  // In flight while the warp finds the groups.
  const bool whole = reinterpret_cast<uintptr_t>(args.x) % 16 == 0 &&
                     count == kGroupedAmaxSpan;
  Chunk<T> chunk[kChunks];
#pragma unroll
  for (int c = 0; c < kChunks; ++c)
    chunk[c] = Chunk<T>::loadIf(whole, x + (c * 32 + lane) * kChunk);

  const auto fromRow = static_cast<uint32_t>(first / layout.cols);
  const auto lastRow = static_cast<uint32_t>((first + count - 1) / layout.cols);
  forGroupsOf(layout.shape, layout.sizes, fromRow, lastRow + 1,
              [&](uint32_t group, uint32_t begin, uint32_t end) {
                const int64_t from = begin * layout.cols - first;
                const int64_t to = end * layout.cols - first;
                float result = 0.0f;
                if (whole && from <= 0 && to >= count) {
                  uint32_t word = 0;
#pragma unroll
                  for (int c = 0; c < kChunks; ++c)
                    word = maxAbs<T>(word, maxAbs(chunk[c]));
                  result = amaxOf<T>(word);
                } else {
                  const auto last = static_cast<int>(min(to, int64_t{count}));
                  for (int i = static_cast<int>(max(from, int64_t{0})) + lane;
                       i < last; i += 32)
                    result = fmaxf(result, fabsf(toFloat(x[i])));
                }
                result = warpMax(result);
                if (lane == 0)
                  raise(args.amax + group, result);
              });
}

/// By one warp: how each of the kTile rows from `row0` on is quantised. Nothing
/// stays of rows of no group.
__device__ __forceinline__ void findRowCasts(const GroupedQuantizeArgs &args,
                                             uint32_t row0, RowCast *rows) {
  const uint32_t lane = threadIdx.x % 32;
  for (uint32_t r = lane; r < kTile; r += 32)
    rows[r] = {0.0f, 0};
  __syncwarp();
  forGroupsOf(args.layout.shape, args.layout.sizes, row0, row0 + kTile,
              [&](uint32_t group, uint32_t begin, uint32_t end) {
                const float scale = args.scale[group];
                const uint32_t last = min(end, row0 + kTile) - row0;
                for (uint32_t r = max(begin, row0) - row0 + lane; r < last;
                     r += 32)
                  rows[r] = {scale, ~0u};
              });
}

template <typename T, typename F8, bool kAligned> struct GroupedCast {
  const GroupedQuantizeArgs &args;

  template <typename Position>
  __device__ __forceinline__ void operator()(const Position &at) const {
    const T *x = static_cast<const T *>(args.x);
    Tile<T> tile;
    if constexpr (kAligned)
      loadTile(x, at, tile);
    else
      loadTileGeneral<T>(
          [x, &at](int64_t row, int64_t col) { return x[row * at.cols + col]; },
          at, tile);
    // In the place of column maxima, which this cast has not.
    TileShared &shared = tileShared();
    auto *rows = reinterpret_cast<RowCast *>(shared.partial);
    static_assert(sizeof(shared.partial) >= kTile * sizeof(RowCast));
    if (at.warp == 0)
      findRowCasts(args, static_cast<uint32_t>(at.row0), rows);
    __syncthreads();
    quantizeTileByRows<T, F8, kAligned>(
        tile, at,
        {.row = args.row,
         .rowScale = nullptr,
         .col = args.col,
         .colScale = nullptr},
        [&](int i) { return rows[at.ty * kTileRows + i]; }, shared);
  }
};

template <typename T, typename F8, bool kAligned>
__device__ __forceinline__ void quantize(const GroupedQuantizeArgs &args) {
  const GroupedRows &layout = args.layout;
  if (blockIdx.x == 0)
    for (uint32_t g = threadIdx.x; g < layout.shape.groups; g += kTileThreads) {
      const float inverse = __frcp_rn(args.scale[g]);
      if (args.rowScale)
        args.rowScale[g] = inverse;
      if (args.colScale)
        args.colScale[g] = inverse;
    }
  const GroupedCast<T, F8, kAligned> body{args};
  if constexpr (kAligned)
    withTile(args.colTiles, layout.shape.rows, layout.cols, body);
  else
    body(TilePosition<false>(blockIdx.x / args.colTiles,
                             blockIdx.x % args.colTiles, layout.shape.rows,
                             layout.cols));
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

#define TE_GROUPED_QUANTIZE(type, T, fp8, F8)                                  \
  extern "C" __global__ void __launch_bounds__(kTileThreads,                   \
                                               kTileBlocksPerSm<T>)            \
      te_grouped_quantize_##type##_##fp8(                                      \
          const __grid_constant__ GroupedQuantizeArgs args) {                  \
    quantize<T, F8, true>(args);                                               \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kTileThreads, 2)                \
      te_grouped_quantize_##type##_##fp8##_general(                            \
          const __grid_constant__ GroupedQuantizeArgs args) {                  \
    quantize<T, F8, false>(args);                                              \
  }
#define TE_GROUPED_CASTS(type, T)                                              \
  extern "C" __global__ void __launch_bounds__(kGroupedBlock,                  \
                                               kTileBlocksPerSm<T>)            \
      te_grouped_amax_##type(const __grid_constant__ GroupedAmaxArgs args) {   \
    amax<T>(args);                                                             \
  }                                                                            \
  TE_GROUPED_QUANTIZE(type, T, e4m3, E4M3)                                     \
  TE_GROUPED_QUANTIZE(type, T, e5m2, E5M2)

TE_GROUPED_CASTS(f32, float)
TE_GROUPED_CASTS(bf16, bf16)
TE_GROUPED_CASTS(f16, f16)
