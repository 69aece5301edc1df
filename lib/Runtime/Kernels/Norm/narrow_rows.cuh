//===- narrow_rows.cuh - norms of rows of up to 512 bytes -----------------===//
//
// Such as those of the heads of queries and keys. A row is one 16-byte run for
// each of kThreads threads, which are a warp or half of one; a block has a
// strip of kStripRows rows, so that each thread has several loads in flight.
// Lanes of the row sum that no thread of half a warp has are zeros.
//
// The backward keeps the strip in shared memory for the sums of its columns.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_NORM_NARROW_ROWS_CUH
#define TE_RUNTIME_KERNELS_NORM_NARROW_ROWS_CUH

#include "Core/Formulas.h"
#include "Kernels/Norm/norm_args.h"
#include "Kernels/Norm/row_math.cuh"

namespace te::rt::cuda {

/// The rows and columns of one thread.
template <typename T, int kThreads> struct NarrowStrip {
  static constexpr int V = runLength<T>;
  static constexpr int kGroups = kNormBlock / kThreads;
  /// The rows of a thread, which are kGroups apart.
  static constexpr int kRows = kStripRows / kGroups;

  int64_t first; // row
  int count;     // of the strip
  int cols, group, col;

  template <typename Args>
  __device__ __forceinline__ explicit NarrowStrip(const Args &args)
      : first(static_cast<int64_t>(blockIdx.x) * kStripRows),
        count(args.rows - first < kStripRows
                  ? static_cast<int>(args.rows - first)
                  : kStripRows),
        cols(args.cols), group(static_cast<int>(threadIdx.x) / kThreads),
        col(static_cast<int>(threadIdx.x) % kThreads * V) {}

  __device__ __forceinline__ int row(int r) const {
    return group + r * kGroups;
  }
  __device__ __forceinline__ int64_t at(int r) const {
    return (first + row(r)) * cols + col;
  }
  /// Calls visit(r) for the rows of which this thread has elements.
  template <typename Visit>
  __device__ __forceinline__ void forRows(Visit visit) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      if (col < cols && row(r) < count)
        visit(r);
  }
  __device__ __forceinline__ void load(const void *from,
                                       Run<T, V> (&runs)[kRows]) const {
    forRows([&](int r) {
      runs[r] = Run<T, V>::load(static_cast<const T *>(from) + at(r));
    });
  }
};

template <typename T, int kThreads, bool kCentred>
__device__ __forceinline__ void narrowNorm(const NormArgs &args) {
  using Strip = NarrowStrip<T, kThreads>;
  constexpr int V = Strip::V, kRows = Strip::kRows;
  const Strip strip(args);
  Run<T, V> x[kRows] = {}, base[kRows], gamma = {}, beta = {};
  strip.load(args.x, x);
  if (strip.col < strip.cols) {
    gamma = Run<T, V>::load(static_cast<const T *>(args.gamma) + strip.col);
    if constexpr (kCentred)
      beta = Run<T, V>::load(static_cast<const T *>(args.beta) + strip.col);
  }
  if (args.addend) {
    Run<T, V> addend[kRows];
    strip.load(args.addend, addend);
    strip.forRows([&](int r) {
      x[r] = added(x[r], addend[r]);
      x[r].store(static_cast<T *>(args.sum) + strip.at(r));
    });
  }
  if (args.base)
    strip.load(args.base, base);
  AbsMax<T> amax;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const bool inside = strip.col < strip.cols;
    float mu = 0.0f;
    if constexpr (kCentred) {
      LaneSum<V> sum;
      if (inside)
        addValues(x[r], 0, sum);
      mu = sum.template total<kThreads>() / static_cast<float>(strip.cols);
    }
    LaneSum<V> squares;
    if (inside)
      addSquares<kCentred>(x[r], mu, 0, squares);
    const float rsigma = math::rsigma(squares.template total<kThreads>(),
                                      strip.cols, args.epsilon);
    const bool isRow = strip.row(r) < strip.count;
    // Rows without columns have statistics, too.
    if (isRow && strip.col == 0) {
      args.rsigma[strip.first + strip.row(r)] = rsigma;
      if constexpr (kCentred)
        args.mu[strip.first + strip.row(r)] = mu;
    }
    if (!inside || !isRow)
      continue;
    Run<T, V> y =
        normalised<kCentred>(x[r], gamma, beta, args.zeroCentered, mu, rsigma);
    if (args.base)
      y = added(y, base[r]);
    amax.add(y);
    y.store(static_cast<T *>(args.y) + strip.at(r));
  }
  if (args.amax)
    raiseToBlockMax(args.amax, amax.get());
}

/// Stores a run to shared memory; `store` writes global memory.
template <typename T, int V>
__device__ __forceinline__ void stage(const Run<T, V> &run, T *to) {
  *reinterpret_cast<uint4 *>(to) =
      make_uint4(run.words[0], run.words[1], run.words[2], run.words[3]);
}

template <typename T, int kThreads, bool kCentred>
__device__ __forceinline__ void narrowGradients(const NormBackwardArgs &args) {
  using Strip = NarrowStrip<T, kThreads>;
  constexpr int V = Strip::V, kRows = Strip::kRows, kCols = kThreads * V;
  __shared__ __align__(16) T dyRows[kStripRows][kCols],
      xRows[kStripRows][kCols];
  __shared__ float rsigmas[kStripRows], mus[kStripRows];
  const Strip strip(args);
  Run<T, V> dy[kRows] = {}, x[kRows] = {}, addend[kRows] = {}, gamma = {};
  strip.load(args.dy, dy);
  strip.load(args.x, x);
  if (args.addend)
    strip.load(args.addend, addend);
  if (static_cast<int>(threadIdx.x) < strip.count) {
    rsigmas[threadIdx.x] = args.rsigma[strip.first + threadIdx.x];
    if constexpr (kCentred)
      mus[threadIdx.x] = args.mu[strip.first + threadIdx.x];
  }
  const bool inside = strip.col < strip.cols;
  if (inside)
    gamma = Run<T, V>::load(static_cast<const T *>(args.gamma) + strip.col);
  strip.forRows([&](int r) {
    stage(dy[r], &dyRows[strip.row(r)][strip.col]);
    stage(x[r], &xRows[strip.row(r)][strip.col]);
  });
  __syncthreads();

  AbsMax<T> amax;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const bool isRow = strip.row(r) < strip.count;
    RowStatistics of{kCentred && isRow ? mus[strip.row(r)] : 0.0f,
                     isRow ? rsigmas[strip.row(r)] : 0.0f, 0.0f, 0.0f};
    LaneSum<V> grads, products;
    if (inside)
      addProducts<kCentred>(gamma, args.zeroCentered, dy[r], x[r], 0, of, grads,
                            products);
    if constexpr (kCentred)
      of.meanOfGrad =
          grads.template total<kThreads>() / static_cast<float>(strip.cols);
    of.mean =
        products.template total<kThreads>() / static_cast<float>(strip.cols);
    if (inside && isRow)
      inputGrad<kCentred>(gamma, args.zeroCentered, dy[r], x[r],
                          args.addend != nullptr, addend[r],
                          static_cast<T *>(args.dx) + strip.at(r), of, amax);
  }
  if (args.amax)
    raiseToBlockMax(args.amax, amax.get());

  // Columns are multiples of a run, so there are pairs of them.
  constexpr int kSums = kCentred ? 2 : 1;
  for (int col = 2 * static_cast<int>(threadIdx.x); col < strip.cols;
       col += 2 * kNormBlock) {
    float acc[kSums][2] = {};
#pragma unroll 8
    for (int row = 0; row < strip.count; ++row)
      addToParameters<kCentred>(Run<T, 2>::load(&dyRows[row][col]),
                                Run<T, 2>::load(&xRows[row][col]),
                                kCentred ? mus[row] : 0.0f, rsigmas[row], acc);
#pragma unroll
    for (int s = 0; s < kSums; ++s)
      Run<float, 2>::pack(acc[s]).store(
          args.partial +
          (static_cast<int64_t>(blockIdx.x) * kSums + s) * strip.cols + col);
  }
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_NORM_NARROW_ROWS_CUH
