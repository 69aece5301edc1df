//===- grouped_cast.cu - amaxes and per-tensor casts of row groups --------===//
//
// te_grouped_{amax,zero_padding}_<type>, te_grouped_quantize_<type>_<fp8>, and
// te_grouped_dequantize_rows for per-tensor scales and aligned rows. All of
// them read the whole matrix as if there were no groups, and meanwhile find the
// rows of each group (group_scan.cuh). The cast works on the tiles of one
// matrix (Cast/tile.cuh), with a scale for each row. The kernel whose name ends
// in _general supports any shape and any alignment.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Cast/tile.cuh"
#include "Kernels/Device/launch_sm90.cuh"
#include "Kernels/Grouped/group_scan.cuh"
#include "Kernels/Grouped/grouped_args.h"

#include <initializer_list>

namespace te::rt::cuda {
namespace {

/// Raises *amax. It only grows, so a stale value read here costs at most an
/// atomic.
__device__ __forceinline__ void raise(float *amax, float value) {
  auto *bits = reinterpret_cast<unsigned *>(amax);
  if (__float_as_uint(value) > *static_cast<volatile unsigned *>(bits))
    atomicMax(bits, __float_as_uint(value));
}

/// The elements of a warp: kElements consecutive ones, mostly of one group.
template <int kElements = kGroupedSpan> struct WarpSpan {
  int64_t first, cols;
  int count; // fewer at the end of the matrix, none after it
  int lane = threadIdx.x % 32;

  __device__ __forceinline__ explicit WarpSpan(const GroupedRows &layout)
      : first((blockIdx.x * int64_t{kGroupedBlock / 32} + threadIdx.x / 32) *
              kElements),
        cols(layout.cols),
        count(static_cast<int>(min(layout.shape.rows * layout.cols - first,
                                   int64_t{kElements}))) {}

  /// Whether the elements are whole chunks of aligned matrices.
  __device__ __forceinline__ bool
  isWhole(std::initializer_list<const void *> matrices) const {
    bool whole = count == kElements;
    for (const void *matrix : matrices)
      whole &= reinterpret_cast<uintptr_t>(matrix) % 16 == 0;
    return whole;
  }
  /// The first element of the lane's chunk `c`.
  __device__ __forceinline__ int chunk(int c) const {
    return (c * 32 + lane) * kChunk;
  }
  /// Calls visit(group, from, to) in order, for each group that has elements
  /// here, which are [from, to).
  template <typename Visit>
  __device__ __forceinline__ void forGroups(const GroupedRows &layout,
                                            Visit visit) const {
    const auto row = static_cast<uint32_t>(first / cols);
    const auto last = static_cast<uint32_t>((first + count - 1) / cols);
    forGroupsOf(
        layout.shape, layout.sizes, row, last + 1,
        [&](uint32_t group, uint32_t begin, uint32_t end) {
          visit(group, static_cast<int>(max(begin * cols - first, int64_t{0})),
                static_cast<int>(min(end * cols - first, int64_t{count})));
        });
  }
};
constexpr int kSpanChunks = kGroupedSpan / (32 * kChunk);

template <typename T>
__device__ __forceinline__ void amax(const GroupedAmaxArgs &args) {
  constexpr int kUnroll = 8, kLine = 32 * kChunk;
  const WarpSpan<kGroupedAmaxSpan> span(args.layout);
  if (span.count <= 0)
    return;
  const T *x = static_cast<const T *>(args.x) + span.first;
  const bool aligned = reinterpret_cast<uintptr_t>(args.x) % 16 == 0;
  span.forGroups(args.layout, [&](uint32_t group, int from, int to) {
    // [begin, end) is whole chunks.
    const int begin =
        aligned ? min((from + kChunk - 1) / kChunk * kChunk, to) : to;
    const int end = max(to / kChunk * kChunk, begin);
    uint32_t word = 0;
    int i = begin + span.lane * kChunk;
    for (; i + (kUnroll - 1) * kLine < end; i += kUnroll * kLine) {
      Chunk<T> chunk[kUnroll];
#pragma unroll
      for (int k = 0; k < kUnroll; ++k)
        chunk[k] = Chunk<T>::load(x + i + k * kLine);
#pragma unroll
      for (int k = 0; k < kUnroll; ++k)
        word = maxAbs<T>(word, maxAbs(chunk[k]));
    }
    for (; i < end; i += kLine)
      word = maxAbs<T>(word, maxAbs(Chunk<T>::load(x + i)));
    float result = amaxOf<T>(word);
    for (int j = from + span.lane; j < begin; j += 32)
      result = fmaxf(result, fabsf(toFloat(x[j])));
    for (int j = end + span.lane; j < to; j += 32)
      result = fmaxf(result, fabsf(toFloat(x[j])));
    result = warpMax(result);
    if (span.lane == 0)
      raise(args.amax + group, result);
  });
}

template <typename T>
__device__ __forceinline__ void
zeroPadding(const GroupedZeroPaddingArgs &args) {
  const WarpSpan<> span(args.layout);
  if (span.count <= 0)
    return;
  const T *x = static_cast<const T *>(args.x) + span.first;
  T *y = static_cast<T *>(args.y) + span.first;
  const bool inPlace = args.x == args.y;
  // In this case, no chunk has both data and padding.
  if (span.isWhole({args.x, args.y}) && args.layout.cols % kChunk == 0) {
    Chunk<T> chunk[kSpanChunks];
#pragma unroll
    for (int c = 0; c < kSpanChunks; ++c)
      chunk[c] = Chunk<T>::loadIf(!inPlace, x + span.chunk(c));
    uint32_t kept = 0; // bit c: chunk c is data
    span.forGroups(args.layout, [&](uint32_t, int from, int to) {
#pragma unroll
      for (int c = 0; c < kSpanChunks; ++c)
        kept |= uint32_t{span.chunk(c) >= from && span.chunk(c) < to} << c;
    });
#pragma unroll
    for (int c = 0; c < kSpanChunks; ++c) {
      const bool keeps = kept >> c & 1;
      if (!keeps)
        chunk[c] = Chunk<T>::zero();
      if (!keeps || !inPlace)
        storeWords(y + span.chunk(c), chunk[c].words);
    }
    return;
  }
  int done = 0;
  auto zero = [&](int to) {
    for (int i = done + span.lane; i < to; i += 32)
      y[i] = T(0.0f);
  };
  span.forGroups(args.layout, [&](uint32_t, int from, int to) {
    zero(from);
    for (int i = from + span.lane; i < to && !inPlace; i += 32)
      y[i] = x[i];
    done = to;
  });
  zero(span.count);
}

template <typename F8, typename T>
__device__ __forceinline__ void
dequantizeRows(const GroupedDequantizeArgs &args) {
  const WarpSpan<> span(args.layout);
  if (span.count <= 0)
    return;
  const uint8_t *data = args.data + span.first;
  T *out = static_cast<T *>(args.out) + span.first;
  // A whole chunk is in the matrix or not, and in a group or not.
  uint2 codes[kSpanChunks];
  float scale[kSpanChunks] = {};
#pragma unroll
  for (int c = 0; c < kSpanChunks; ++c)
    codes[c] =
        span.chunk(c) < span.count
            ? __ldcs(reinterpret_cast<const uint2 *>(data + span.chunk(c)))
            : make_uint2(0, 0);
  uint32_t kept = 0; // bit c: chunk c is data
  span.forGroups(args.layout, [&](uint32_t group, int from, int to) {
    const float own = static_cast<const float *>(args.scale)[group];
#pragma unroll
    for (int c = 0; c < kSpanChunks; ++c)
      if (span.chunk(c) >= from && span.chunk(c) < to) {
        scale[c] = own;
        kept |= 1u << c;
      }
  });
#pragma unroll
  for (int c = 0; c < kSpanChunks; ++c) {
    float values[kChunk];
    unpackBytes<F8>(codes[c].x, values);
    unpackBytes<F8>(codes[c].y, values + 4);
#pragma unroll
    for (float &value : values)
      value = kept >> c & 1 ? value * scale[c] : 0.0f;
    if (span.chunk(c) < span.count)
      storeWords(out + span.chunk(c), Chunk<T>::pack(values).words);
  }
}
template <typename F8>
__device__ __forceinline__ void
dequantizeRowsOf(const GroupedDequantizeArgs &args) {
  if (args.outType == TE_RT_BF16)
    dequantizeRows<F8, bf16>(args);
  else if (args.outType == TE_RT_F16)
    dequantizeRows<F8, f16>(args);
  else
    dequantizeRows<F8, float>(args);
}

/// One warp computes how each of the kTile rows from `row0` on is quantised.
/// Rows that belong to no group become zeros.
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
    // This uses the memory of the column maxima, which the cast does not need.
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
         .colScale = nullptr,
         .colPitch = at.rows},
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
    te::rt::cuda::ptx::beginKernel();                                          \
    quantize<T, F8, true>(args);                                               \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kTileThreads, 2)                \
      te_grouped_quantize_##type##_##fp8##_general(                            \
          const __grid_constant__ GroupedQuantizeArgs args) {                  \
    te::rt::cuda::ptx::beginKernel();                                          \
    quantize<T, F8, false>(args);                                              \
  }
#define TE_GROUPED_CASTS(type, T)                                              \
  extern "C" __global__ void __launch_bounds__(kGroupedBlock,                  \
                                               kTileBlocksPerSm<T>)            \
      te_grouped_amax_##type(const __grid_constant__ GroupedAmaxArgs args) {   \
    te::rt::cuda::ptx::beginKernel();                                          \
    amax<T>(args);                                                             \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kGroupedBlock,                  \
                                               kTileBlocksPerSm<T>)            \
      te_grouped_zero_padding_##type(                                          \
          const __grid_constant__ GroupedZeroPaddingArgs args) {               \
    te::rt::cuda::ptx::beginKernel();                                          \
    zeroPadding<T>(args);                                                      \
  }                                                                            \
  TE_GROUPED_QUANTIZE(type, T, e4m3, E4M3)                                     \
  TE_GROUPED_QUANTIZE(type, T, e5m2, E5M2)

extern "C" __global__ void __launch_bounds__(kGroupedBlock, 3)
    te_grouped_dequantize_rows(
        const __grid_constant__ GroupedDequantizeArgs args) {
  te::rt::cuda::ptx::beginKernel();
  if (args.fp8Type == TE_RT_F8E4M3FN)
    dequantizeRowsOf<E4M3>(args);
  else
    dequantizeRowsOf<E5M2>(args);
}

TE_GROUPED_CASTS(f32, float)
TE_GROUPED_CASTS(bf16, bf16)
TE_GROUPED_CASTS(f16, f16)
