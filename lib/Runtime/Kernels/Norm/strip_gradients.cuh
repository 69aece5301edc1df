//===- strip_gradients.cuh - gradients of a norm, rows read once ----------===//
//
// A block has a strip of rows. Its thread t has columns 2 t and 2 t + 1 of each
// 256 (see block_sum.cuh): the same ones in every row, so it also has their
// column sums, in registers.
//
// The next rows are copied to shared memory while one is computed, a ring of
// kStripStages rows. A thread reads its part of a row before the one barrier of
// the row, after which the row's memory is that of a later row. Before the
// barrier it waits for its copies of the next row, which is then there for all.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_NORM_STRIP_GRADIENTS_CUH
#define TE_RUNTIME_KERNELS_NORM_STRIP_GRADIENTS_CUH

#include "Core/Formulas.h"
#include "Kernels/Device/cp_async_sm80.cuh"
#include "Kernels/Norm/block_sum.cuh"
#include "Kernels/Norm/norm_args.h"
#include "Kernels/Norm/norm_runs.cuh"

namespace te::rt::cuda {

extern __shared__ __align__(16) uint8_t dynamicShared[];

/// The ring of rows of dy, x and the addend, if there is one.
template <typename T> class RowRing {
public:
  __device__ __forceinline__ RowRing(const NormBackwardArgs &args,
                                     int64_t first, int rows)
      : rows(rows), cols(args.cols),
        sources{static_cast<const T *>(args.dy) + first * args.cols,
                static_cast<const T *>(args.x) + first * args.cols,
                static_cast<const T *>(args.addend)},
        tensors(args.addend ? 3 : 2) {
    if (args.addend)
      sources[2] += first * args.cols;
    for (int row = 0; row < kStripStages; ++row)
      start(row);
  }

  /// Starts to copy a row, if there is one, in a group of its own.
  __device__ __forceinline__ void start(int row) {
    if (row < rows)
#pragma unroll
      for (int tensor = 0; tensor < 3; ++tensor)
        if (tensor < tensors)
          copy(sources[tensor] + static_cast<int64_t>(row) * cols,
               at(row, tensor));
    ptx::cpAsyncCommitGroup();
  }
  /// Waits for the thread's copies of the row before `kLater` others.
  template <int kLater> __device__ __forceinline__ void wait() const {
    ptx::cpAsyncWaitGroup<kLater>();
  }
  __device__ __forceinline__ T *at(int row, int tensor) const {
    return reinterpret_cast<T *>(dynamicShared) +
           (row % kStripStages * tensors + tensor) * cols;
  }

private:
  __device__ __forceinline__ void copy(const T *from, T *to) const {
    constexpr int kRun = runLength<T>;
    for (int i = threadIdx.x * kRun; i < cols; i += kPairBlock * kRun)
      ptx::cpAsync16(to + i, from + i, true);
  }

  int rows, cols;
  const T *sources[3];
  int tensors;
};

/// The gradients of a strip, in the columns of one thread.
template <typename T, bool kCentred> class StripGradients {
  static constexpr int kRuns =
      kBlockRowBytes / kLanes / static_cast<int>(sizeof(T));
  static constexpr int kSums = kCentred ? 2 : 1;

public:
  __device__
      __forceinline__ explicit StripGradients(const NormBackwardArgs &args)
      : args(args), first(static_cast<int64_t>(blockIdx.x) * kStripRows),
        rows(static_cast<int>(min(int64_t{kStripRows}, args.rows - first))),
        col(2 * static_cast<int>(threadIdx.x)) {}

  __device__ __forceinline__ void run() {
    __shared__ __align__(16) float lanes[2][kSums][kLanes];
    RowRing<T> ring(args, first, rows);
    loadGamma();
    const int lane = static_cast<int>(threadIdx.x % 32);
    const float rsigmas = lane < rows ? args.rsigma[first + lane] : 0.0f;
    const float mus = kCentred && lane < rows ? args.mu[first + lane] : 0.0f;
    ring.template wait<kStripStages - 1>();
    __syncthreads();
#pragma unroll 1
    for (int row = 0; row < rows; ++row) {
      const float rsigma = __shfl_sync(~0u, rsigmas, row);
      const float mu = kCentred ? __shfl_sync(~0u, mus, row) : 0.0f;
      float acc[kSums][2] = {}, total[kSums];
      addRow(ring, row, mu, rsigma, acc);
      ring.template wait<kStripStages - 2>();
      blockTotals(acc, lanes[row % 2], total);
      ring.start(row + kStripStages);
      storeRow(row, rsigma, total);
    }
    storeColumns();
    if (args.amax)
      raiseToBlockMax(args.amax, amax.get());
  }

private:
  using Pair = Run<T, 2>;

  __device__ __forceinline__ void loadGamma() {
    forGroups<kRuns>(args.cols, [&](int group) {
#pragma unroll
      for (int k = group; k < group + kPairGroup; ++k)
        gammas[k] =
            Pair::load(static_cast<const T *>(args.gamma) + col + k * kLanes);
    });
  }

  /// Adds a row to the row sums `acc` and the column sums.
  __device__ __forceinline__ void addRow(const RowRing<T> &ring, int row,
                                         float mu, float rsigma,
                                         float (&acc)[kSums][2]) {
    const T *dy = ring.at(row, 0) + col, *x = ring.at(row, 1) + col;
    const T *addend = ring.at(row, 2) + col;
    forGroups<kRuns>(args.cols, [&](int group) {
      Pair dys[kPairGroup], xs[kPairGroup];
#pragma unroll
      for (int i = 0; i < kPairGroup; ++i) {
        dys[i] = Pair::load(dy + (group + i) * kLanes);
        xs[i] = Pair::load(x + (group + i) * kLanes);
      }
      if (args.addend)
#pragma unroll
        for (int i = 0; i < kPairGroup; ++i)
          addends[group + i] = Pair::load(addend + (group + i) * kLanes);
#pragma unroll
      for (int i = 0; i < kPairGroup; ++i)
        addPair(group + i, dys[i], xs[i], mu, rsigma, acc);
    });
  }
  __device__ __forceinline__ void addPair(int k, const Pair &dyPair,
                                          const Pair &xPair, float mu,
                                          float rsigma,
                                          float (&acc)[kSums][2]) {
    float dy[2], x[2], g[2];
    dyPair.unpack(dy);
    xPair.unpack(x);
    gammaOf(gammas[k], args.zeroCentered, g);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float grad = g[i] * dy[i];
      const float h = rsigma * (kCentred ? x[i] - mu : x[i]);
      acc[0][i] = fmaf(grad, h, acc[0][i]);
      columns[0][k][i] = fmaf(dy[i], h, columns[0][k][i]);
      if constexpr (kCentred) {
        acc[1][i] = acc[1][i] + grad;
        columns[1][k][i] = columns[1][k][i] + dy[i];
      }
      grads[k][i] = grad;
      hs[k][i] = h;
    }
  }

  /// Stores the row of dx that addRow has read.
  __device__ __forceinline__ void storeRow(int row, float rsigma,
                                           const float (&total)[kSums]) {
    const auto count = static_cast<float>(args.cols);
    const float mean = total[0] / count;
    const float meanOfGrad = kCentred ? total[kSums - 1] / count : 0.0f;
    T *dx = static_cast<T *>(args.dx) + (first + row) * args.cols + col;
    forGroups<kRuns>(args.cols, [&](int group) {
#pragma unroll
      for (int k = group; k < group + kPairGroup; ++k) {
        float out[2];
#pragma unroll
        for (int i = 0; i < 2; ++i)
          out[i] = kCentred
                       ? rsigma * ((grads[k][i] - meanOfGrad) - hs[k][i] * mean)
                       : rsigma * (grads[k][i] - hs[k][i] * mean);
        Pair packed = Pair::pack(out);
        if (args.addend)
          packed = added(packed, addends[k]);
        amax.add(packed);
        packed.store(dx + k * kLanes);
      }
    });
  }

  __device__ __forceinline__ void storeColumns() {
    float *to = args.partial +
                static_cast<int64_t>(blockIdx.x) * kSums * args.cols + col;
    forGroups<kRuns>(args.cols, [&](int group) {
#pragma unroll
      for (int k = group; k < group + kPairGroup; ++k) {
        Run<float, 2>::pack(columns[0][k]).store(to + k * kLanes);
        if constexpr (kCentred)
          Run<float, 2>::pack(columns[1][k]).store(to + args.cols + k * kLanes);
      }
    });
  }

  const NormBackwardArgs &args;
  int64_t first;
  int rows, col;
  Pair gammas[kRuns], addends[kRuns];
  float columns[kSums][kRuns][2] = {};
  float grads[kRuns][2], hs[kRuns][2]; // g dy and h, of the row
  AbsMax<T> amax;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_NORM_STRIP_GRADIENTS_CUH
