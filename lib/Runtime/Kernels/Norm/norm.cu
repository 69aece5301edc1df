//===- norm.cu - RMS and layer norm, their gradients, and column sums -----===//
//
// A warp computes a row. The order of a row sum is fixed (256 lanes, see
// Kernels.td), and loads are arranged to fit it: with V elements in
// 16 bytes, thread j loads elements V j ... V j + V - 1 of each 32 V. These are
// always the same 8 of the 256 lanes, so one thread sums each lane in order,
// and the upper strides of the tree are shuffles. Rows of up to 8 KiB (16 KiB
// forward) stay in registers between the sum and its use; longer rows are read
// again, and rows that are not aligned are read element by element (V = 1). A
// block computes the row where that is faster: in layer_norm, and in gradients
// of many rows (strip_gradients.cuh). It computes a strip of rows of up to 512
// bytes (narrow_rows.cuh).
//
// Column sums have two stages: the sums of chunks or strips of rows in a
// workspace, then the sum of those in order. The backward needs dy and x twice,
// along rows for dx and along columns for dgamma. One launch computes both;
// where a warp computes a row, with the blocks for dgamma of a strip next to
// those for its dx: whichever comes second finds the strip in L2, and it is
// read from HBM once. Therefore dx must not overlap dy or x: a block would
// overwrite what another one still reads.
//
//===----------------------------------------------------------------------===//

#include "Core/Formulas.h"
#include "Kernels/Device/launch_sm90.cuh"
#include "Kernels/Norm/block_sum.cuh"
#include "Kernels/Norm/lane_sum.cuh"
#include "Kernels/Norm/narrow_rows.cuh"
#include "Kernels/Norm/norm_args.h"
#include "Kernels/Norm/norm_runs.cuh"
#include "Kernels/Norm/row_math.cuh"
#include "Kernels/Norm/strip_gradients.cuh"

namespace te::rt::cuda {
namespace {

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

/// kRuns == 0: a row of any length, which is read again for each pass.
template <typename T, int V, int kRuns, bool kCentred>
__device__ __forceinline__ void normRow(const NormArgs &args, int64_t row,
                                        AbsMax<T> &amax) {
  const T *x = static_cast<const T *>(args.x) + row * args.cols;
  T *y = static_cast<T *>(args.y) + row * args.cols;
  const T *addend = static_cast<const T *>(args.addend);
  T *sum = static_cast<T *>(args.sum);
  if (addend) {
    addend += row * args.cols;
    sum += row * args.cols;
  }
  const T *base = static_cast<const T *>(args.base);
  if (base)
    base += row * args.cols;
  constexpr int kKept = kRuns == 0 ? 8 : kRuns;
  Run<T, V> runs[kKept];
  bool isFirst = true;
  const auto pass = [&](auto visitRuns) {
    int begin = 0;
    do {
      if (kRuns == 0 || isFirst)
        forRuns<V, kKept>(begin, args.cols, [&](int r, int i) {
          // Later passes read the sums of this thread, because `sum` may be x.
          runs[r] = Run<T, V>::load((addend && !isFirst ? sum : x) + i);
        });
      if (addend && isFirst) {
        Run<T, V> addends[kRunGroup];
        forRunGroups<V, kKept>(
            begin, args.cols,
            [&](int n, int i) { addends[n] = Run<T, V>::load(addend + i); },
            [&](int r, int n, int i) {
              runs[r] = added(runs[r], addends[n]);
              runs[r].store(sum + i);
            });
      }
      visitRuns(begin);
      begin += kKept * 32 * V;
    } while (kRuns == 0 && begin < args.cols);
    isFirst = false;
  };

  float mu = 0.0f;
  if constexpr (kCentred) {
    LaneSum<V> sum;
    pass([&](int begin) {
      forRuns<V, kKept>(begin, args.cols,
                        [&](int r, int) { addValues(runs[r], r, sum); });
    });
    mu = sum.total() / static_cast<float>(args.cols);
  }
  LaneSum<V> squares;
  pass([&](int begin) {
    forRuns<V, kKept>(begin, args.cols, [&](int r, int) {
      addSquares<kCentred>(runs[r], mu, r, squares);
    });
  });
  const float rsigma = math::rsigma(squares.total(), args.cols, args.epsilon);
  if (threadIdx.x % 32 == 0) {
    args.rsigma[row] = rsigma;
    if (kCentred)
      args.mu[row] = mu;
  }
  const auto store = [&](const Run<T, V> &run, int i) {
    amax.add(run);
    run.store(y + i);
  };
  pass([&](int begin) {
    Run<T, V> gammas[kRunGroup], betas[kRunGroup];
    forRunGroups<V, kKept>(
        begin, args.cols,
        [&](int n, int i) {
          gammas[n] = Run<T, V>::load(static_cast<const T *>(args.gamma) + i);
          if constexpr (kCentred)
            betas[n] = Run<T, V>::load(static_cast<const T *>(args.beta) + i);
        },
        [&](int r, int n, int i) {
          runs[r] = normalised<kCentred>(runs[r], gammas[n], betas[n],
                                         args.zeroCentered, mu, rsigma);
          if (!base)
            store(runs[r], i);
        });
    // The base is read for itself, because gamma takes as many registers.
    if (base) {
      Run<T, V> bases[kRunGroup];
      forRunGroups<V, kKept>(
          begin, args.cols,
          [&](int n, int i) { bases[n] = Run<T, V>::load(base + i); },
          [&](int r, int n, int i) { store(added(runs[r], bases[n]), i); });
    }
  });
}

template <typename T, int kRuns, bool kCentred>
__device__ __forceinline__ void norm(const NormArgs &args) {
  AbsMax<T> amax;
  const int64_t row =
      static_cast<int64_t>(blockIdx.x) * kNormRowsPerBlock + threadIdx.x / 32;
  if (row < args.rows) {
    if (args.vectors)
      normRow<T, runLength<T>, kRuns, kCentred>(args, row, amax);
    else if constexpr (kRuns == 0)
      normRow<T, 1, 0, kCentred>(args, row, amax);
  }
  if (args.amax)
    raiseToBlockMax(args.amax, amax.get());
}

/// A block computes a row of layer_norm, which has kBlockRowBytes at most. The
/// columns of a thread fit in fewer registers than half of a warp's row, and
/// more loads are in flight.
template <typename T> class BlockNorm {
  static constexpr int kRuns =
      kBlockRowBytes / kLanes / static_cast<int>(sizeof(T));
  using Pair = Run<T, 2>;

public:
  __device__ __forceinline__ explicit BlockNorm(const NormArgs &args)
      : args(args), col(2 * static_cast<int>(threadIdx.x)),
        at(static_cast<int64_t>(blockIdx.x) * args.cols + col) {}

  __device__ __forceinline__ void run() {
    __shared__ __align__(16) float lanes[2][1][kLanes];
    const auto count = static_cast<float>(args.cols);
    float acc[1][2] = {}, total[1];
    loadRow(acc);
    blockTotals(acc, lanes[0], total);
    const float mu = total[0] / count;
    acc[0][0] = acc[0][1] = 0.0f;
    forPairs([&](int k) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        x[k][i] = x[k][i] - mu;
        acc[0][i] = fmaf(x[k][i], x[k][i], acc[0][i]);
      }
    });
    blockTotals(acc, lanes[1], total);
    const float rsigma = math::rsigma(total[0], args.cols, args.epsilon);
    if (threadIdx.x == 0) {
      args.mu[blockIdx.x] = mu;
      args.rsigma[blockIdx.x] = rsigma;
    }
    storeRow(rsigma);
    if (args.amax)
      raiseToBlockMax(args.amax, amax.get());
  }

private:
  template <typename Visit>
  __device__ __forceinline__ void forPairs(Visit visit) {
    forGroups<kRuns>(args.cols, [&](int group) {
#pragma unroll
      for (int k = group; k < group + kPairGroup; ++k)
        visit(k);
    });
  }
  __device__ __forceinline__ static Pair load(const void *from, int64_t at) {
    return Pair::load(static_cast<const T *>(from) + at);
  }

  /// Loads the row, stores its sum with the addend, and adds its columns.
  __device__ __forceinline__ void loadRow(float (&acc)[1][2]) {
    Pair pairs[kRuns];
    forPairs([&](int k) { pairs[k] = load(args.x, at + k * kLanes); });
    forGroups<kRuns>(args.cols, [&](int group) {
      if (args.addend) {
        Pair addends[kPairGroup];
#pragma unroll
        for (int i = 0; i < kPairGroup; ++i)
          addends[i] = load(args.addend, at + (group + i) * kLanes);
#pragma unroll
        for (int i = 0; i < kPairGroup; ++i) {
          Pair &sum = pairs[group + i];
          sum = added(sum, addends[i]);
          sum.store(static_cast<T *>(args.sum) + at + (group + i) * kLanes);
        }
      }
#pragma unroll
      for (int k = group; k < group + kPairGroup; ++k) {
        pairs[k].unpack(x[k]);
#pragma unroll
        for (int i = 0; i < 2; ++i)
          acc[0][i] = acc[0][i] + x[k][i];
      }
    });
  }

  __device__ __forceinline__ void storeRow(float rsigma) {
    Pair gammas[kRuns], betas[kRuns];
    forPairs([&](int k) {
      gammas[k] = load(args.gamma, col + k * kLanes);
      betas[k] = load(args.beta, col + k * kLanes);
    });
    forGroups<kRuns>(args.cols, [&](int group) {
      Pair bases[kPairGroup];
      if (args.base)
#pragma unroll
        for (int i = 0; i < kPairGroup; ++i)
          bases[i] = load(args.base, at + (group + i) * kLanes);
#pragma unroll
      for (int i = 0; i < kPairGroup; ++i) {
        const int k = group + i;
        float g[2], b[2], out[2];
        gammaOf(gammas[k], args.zeroCentered, g);
        betas[k].unpack(b);
        // x is centred.
        out[0] = math::layerNorm(x[k][0], g[0], b[0], 0.0f, rsigma);
        out[1] = math::layerNorm(x[k][1], g[1], b[1], 0.0f, rsigma);
        Pair packed = Pair::pack(out);
        if (args.base)
          packed = added(packed, bases[i]);
        amax.add(packed);
        packed.store(static_cast<T *>(args.y) + at + k * kLanes);
      }
    });
  }

  const NormArgs &args;
  int col;
  int64_t at;
  float x[kRuns][2]; // centred once the mean is there
  AbsMax<T> amax;
};

//===----------------------------------------------------------------------===//
// Column sums
//===----------------------------------------------------------------------===//

/// Sums rows [begin, end) of `body` at C columns from `col`, in order, and
/// loads kUnroll rows at a time. A body may have several sums.
template <int C, int kUnroll, typename Body>
__device__ __forceinline__ void sumRows(const Body &body, int64_t begin,
                                        int64_t end,
                                        float (&acc)[Body::kSums][C]) {
  typename Body::Loaded loaded[kUnroll];
  int64_t row = begin;
  for (; row + kUnroll <= end; row += kUnroll) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      loaded[u] = body.load(row + u);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      body.add(loaded[u], acc);
  }
  for (; row < end; ++row)
    body.add(body.load(row), acc);
}

/// One block's share of the column sums of one chunk of kChunk rows.
template <typename T, template <typename, int> typename Body, int C,
          int kUnroll, int kChunk, typename Args>
__device__ __forceinline__ void sumChunk(const Args &args, int64_t chunk,
                                         unsigned block) {
  const int64_t col =
      (static_cast<int64_t>(block) * kNormBlock + threadIdx.x) * C;
  if (col >= args.cols)
    return;
  const int64_t begin = chunk * kChunk;
  const int64_t end = begin + kChunk < args.rows ? begin + kChunk : args.rows;
  constexpr int kSums = Body<T, C>::kSums;
  float acc[kSums][C] = {};
  sumRows<C, kUnroll>(Body<T, C>{args, col}, begin, end, acc);
#pragma unroll
  for (int s = 0; s < kSums; ++s)
    Run<float, C>::pack(acc[s]).store(args.partial +
                                      (chunk * kSums + s) * args.cols + col);
}

template <typename T, int C> struct BiasGradBody {
  using Loaded = Run<T, C>;
  static constexpr int kSums = 1;
  const ColumnSumArgs &args;
  int64_t col;

  __device__ __forceinline__ Loaded load(int64_t row) const {
    return Loaded::load(static_cast<const T *>(args.dy) + row * args.cols +
                        col);
  }
  __device__ __forceinline__ void add(const Loaded &loaded,
                                      float (&acc)[1][C]) const {
    float dy[C];
    loaded.unpack(dy);
#pragma unroll
    for (int k = 0; k < C; ++k)
      acc[0][k] = acc[0][k] + dy[k];
  }
};

/// dgamma, and dbeta after it.
template <typename T, int C, bool kCentred> struct ParameterGradBody {
  struct Loaded {
    Run<T, C> dy, x;
    float mu = 0.0f, rsigma;
  };
  static constexpr int kSums = kCentred ? 2 : 1;
  const NormBackwardArgs &args;
  int64_t col;

  __device__ __forceinline__ Loaded load(int64_t row) const {
    const int64_t at = row * args.cols + col;
    Loaded loaded;
    loaded.dy = Run<T, C>::load(static_cast<const T *>(args.dy) + at);
    loaded.x = Run<T, C>::load(static_cast<const T *>(args.x) + at);
    loaded.rsigma = args.rsigma[row];
    if constexpr (kCentred)
      loaded.mu = args.mu[row];
    return loaded;
  }
  __device__ __forceinline__ void add(const Loaded &loaded,
                                      float (&acc)[kSums][C]) const {
    addToParameters<kCentred>(loaded.dy, loaded.x, loaded.mu, loaded.rsigma,
                              acc);
  }
};
template <typename T, int C> using RmsGradBody = ParameterGradBody<T, C, false>;
template <typename T, int C>
using LayerGradBody = ParameterGradBody<T, C, true>;

template <typename T>
__device__ __forceinline__ void biasGrad(const ColumnSumArgs &args) {
  const int64_t chunk = blockIdx.x / args.columnBlocks;
  const unsigned block = blockIdx.x % args.columnBlocks;
  if (args.vectors)
    sumChunk<T, BiasGradBody, kColumnsPerThread, 16, kChunkRows>(args, chunk,
                                                                 block);
  else
    sumChunk<T, BiasGradBody, 1, 16, kChunkRows>(args, chunk, block);
}

template <typename T>
__device__ __forceinline__ void chunkSum(const ChunkSumArgs &args) {
  const int64_t col =
      static_cast<int64_t>(blockIdx.x) * kNormBlock + threadIdx.x;
  if (col >= args.cols)
    return;
  float total = 0.0f;
#pragma unroll 32
  for (int64_t chunk = 0; chunk < args.chunks; ++chunk)
    total = total + args.partial[chunk * args.cols + col];
  static_cast<T *>(args.out)[col] = fromFloat<T>(total);
}

/// The partial sums that a thread has of one run of strips, from `first` on.
/// Strips after the last one add nothing, not even to -0.
struct StripRun {
  float partial[kRunStrips];

  __device__ __forceinline__ void load(const StripSumArgs &args, int64_t first,
                                       int64_t width, int64_t col) {
#pragma unroll
    for (int i = 0; i < kRunStrips; ++i)
      partial[i] = col < width && first + i < args.strips
                       ? args.partial[(first + i) * width + col]
                       : -0.0f;
  }
  __device__ __forceinline__ float sum() const {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kRunStrips; ++i)
      sum = sum + partial[i];
    return sum;
  }
};

/// Thread (run, column) sums the strips of every `runs`-th run, and loads those
/// of the next one meanwhile; the first of a column adds the runs in order.
template <typename T>
__device__ __forceinline__ void stripSum(const StripSumArgs &args) {
  __shared__ float sums[kStripSumBlock];
  const int columns = args.blockColumns, runs = kStripSumBlock / columns;
  const int column = static_cast<int>(threadIdx.x) % columns;
  const int lane = static_cast<int>(threadIdx.x) / columns;
  const int64_t width = static_cast<int64_t>(args.second ? 2 : 1) * args.cols;
  const int64_t col = static_cast<int64_t>(blockIdx.x) * columns + column;
  const bool inside = col < width;
  const int64_t round = static_cast<int64_t>(runs) * kRunStrips;
  float total = 0.0f;
  StripRun strips;
  strips.load(args, lane * kRunStrips, width, col);
  for (int64_t begin = 0; begin < args.strips; begin += round) {
    const float sum = strips.sum();
    strips.load(args, begin + round + lane * kRunStrips, width, col);
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (lane == 0) {
      const int64_t left = (args.strips - begin + kRunStrips - 1) / kRunStrips;
      const int count = static_cast<int>(min(int64_t{runs}, left));
#pragma unroll 16
      for (int run = 0; run < count; ++run)
        total = total + sums[run * columns + column];
    }
    __syncthreads();
  }
  if (lane != 0 || !inside)
    return;
  if (col < args.cols)
    static_cast<T *>(args.out)[col] = fromFloat<T>(total);
  else
    static_cast<T *>(args.second)[col - args.cols] = fromFloat<T>(total);
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// kRuns == 0: a row of any length, which is read twice.
template <typename T, int V, int kRuns, bool kCentred>
__device__ __forceinline__ void inputGradRow(const NormBackwardArgs &args,
                                             int64_t row, AbsMax<T> &amax) {
  const T *dy = static_cast<const T *>(args.dy) + row * args.cols;
  const T *x = static_cast<const T *>(args.x) + row * args.cols;
  T *dx = static_cast<T *>(args.dx) + row * args.cols;
  const T *gamma = static_cast<const T *>(args.gamma);
  const T *addend = static_cast<const T *>(args.addend);
  if (addend)
    addend += row * args.cols;
  RowStatistics of{kCentred ? args.mu[row] : 0.0f, args.rsigma[row], 0.0f,
                   0.0f};
  constexpr int kKept = kRuns == 0 ? 8 : kRuns;
  Run<T, V> dyRuns[kKept], xRuns[kKept];
  auto loadFrom = [&](int begin) {
    forRuns<V, kKept>(begin, args.cols, [&](int r, int i) {
      dyRuns[r] = Run<T, V>::load(dy + i);
      xRuns[r] = Run<T, V>::load(x + i);
    });
  };
  LaneSum<V> grads, products;
  int begin = 0;
  do {
    loadFrom(begin);
    forRuns<V, kKept>(begin, args.cols, [&](int r, int i) {
      addProducts<kCentred>(Run<T, V>::load(gamma + i), args.zeroCentered,
                            dyRuns[r], xRuns[r], r, of, grads, products);
    });
    begin += kKept * 32 * V;
  } while (kRuns == 0 && begin < args.cols);

  if constexpr (kCentred)
    of.meanOfGrad = grads.total() / static_cast<float>(args.cols);
  of.mean = products.total() / static_cast<float>(args.cols);
  begin = 0;
  do {
    if (kRuns == 0)
      loadFrom(begin);
    Run<T, V> addends[kRunGroup];
    forRunGroups<V, kKept>(
        begin, args.cols,
        [&](int n, int i) {
          if (addend)
            addends[n] = Run<T, V>::load(addend + i);
        },
        [&](int r, int n, int i) {
          inputGrad<kCentred>(Run<T, V>::load(gamma + i), args.zeroCentered,
                              dyRuns[r], xRuns[r], addend != nullptr,
                              addends[n], dx + i, of, amax);
        });
    begin += kKept * 32 * V;
  } while (kRuns == 0 && begin < args.cols);
}

template <typename T, int kRuns, template <typename, int> typename GradBody>
__device__ __forceinline__ void normBackward(const NormBackwardArgs &args) {
  constexpr bool kCentred = GradBody<T, 1>::kSums == 2;
  // Strip by strip: first the blocks of dgamma, then those of dx.
  const unsigned perStrip = args.columnBlocks + kStripRows / kNormRowsPerBlock;
  const int64_t strip = blockIdx.x / perStrip;
  const unsigned block = blockIdx.x % perStrip;
  if (block < args.columnBlocks) {
    if (args.vectors)
      sumChunk<T, GradBody, kColumnsPerThread, 16, kStripRows>(args, strip,
                                                               block);
    else
      sumChunk<T, GradBody, 1, 16, kStripRows>(args, strip, block);
    return;
  }
  const int64_t row = strip * kStripRows +
                      (block - args.columnBlocks) * kNormRowsPerBlock +
                      threadIdx.x / 32;
  AbsMax<T> amax;
  if (row < args.rows) {
    if (args.vectors)
      inputGradRow<T, runLength<T>, kRuns, kCentred>(args, row, amax);
    else if constexpr (kRuns == 0)
      inputGradRow<T, 1, 0, kCentred>(args, row, amax);
  }
  if (args.amax)
    raiseToBlockMax(args.amax, amax.get());
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

// The blocks per multiprocessor are given if ptxas would otherwise use fewer
// registers, and have fewer loads in flight, to fit more blocks.
#define TE_NORM_NARROW(name, threads, type, T, centred)                        \
  extern "C" __global__ void __launch_bounds__(kNormBlock)                     \
      te_##name##_narrow##threads##_##type(                                    \
          const __grid_constant__ NormArgs args) {                             \
    te::rt::cuda::ptx::beginKernel();                                          \
    narrowNorm<T, threads, centred>(args);                                     \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kNormBlock)                     \
      te_##name##_backward_narrow##threads##_##type(                           \
          const __grid_constant__ NormBackwardArgs args) {                     \
    te::rt::cuda::ptx::beginKernel();                                          \
    narrowGradients<T, threads, centred>(args);                                \
  }
#define TE_NORM(name, type, T, centred, GradBody)                              \
  TE_NORM_NARROW(name, 16, type, T, centred)                                   \
  TE_NORM_NARROW(name, 32, type, T, centred)                                   \
  extern "C" __global__ void __launch_bounds__(kNormBlock)                     \
      te_##name##_short_##type(const __grid_constant__ NormArgs args) {        \
    te::rt::cuda::ptx::beginKernel();                                          \
    norm<T, kNormShortRuns, centred>(args);                                    \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kNormBlock)                     \
      te_##name##_long_##type(const __grid_constant__ NormArgs args) {         \
    te::rt::cuda::ptx::beginKernel();                                          \
    norm<T, kNormLongRuns, centred>(args);                                     \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kNormBlock)                     \
      te_##name##_any_##type(const __grid_constant__ NormArgs args) {          \
    te::rt::cuda::ptx::beginKernel();                                          \
    norm<T, 0, centred>(args);                                                 \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kNormBlock, 3)                  \
      te_##name##_backward_short_##type(                                       \
          const __grid_constant__ NormBackwardArgs args) {                     \
    te::rt::cuda::ptx::beginKernel();                                          \
    normBackward<T, kNormShortRuns, GradBody>(args);                           \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kPairBlock, 2)                  \
      te_##name##_backward_strips_##type(                                      \
          const __grid_constant__ NormBackwardArgs args) {                     \
    te::rt::cuda::ptx::beginKernel();                                          \
    StripGradients<T, centred>(args).run();                                    \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kNormBlock, 4)                  \
      te_##name##_backward_any_##type(                                         \
          const __grid_constant__ NormBackwardArgs args) {                     \
    te::rt::cuda::ptx::beginKernel();                                          \
    normBackward<T, 0, GradBody>(args);                                        \
  }
#define TE_NORM_TYPE(type, T)                                                  \
  TE_NORM(rms_norm, type, T, false, RmsGradBody)                               \
  TE_NORM(layer_norm, type, T, true, LayerGradBody)                            \
  extern "C" __global__ void __launch_bounds__(kPairBlock, 6)                  \
      te_layer_norm_block_##type(const __grid_constant__ NormArgs args) {      \
    te::rt::cuda::ptx::beginKernel();                                          \
    BlockNorm<T>(args).run();                                                  \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kNormBlock, 6)                  \
      te_bias_grad_##type(const __grid_constant__ ColumnSumArgs args) {        \
    te::rt::cuda::ptx::beginKernel();                                          \
    biasGrad<T>(args);                                                         \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kNormBlock, 6)                  \
      te_chunk_sum_##type(const __grid_constant__ ChunkSumArgs args) {         \
    te::rt::cuda::ptx::beginKernel();                                          \
    chunkSum<T>(args);                                                         \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kStripSumBlock)                 \
      te_strip_sum_##type(const __grid_constant__ StripSumArgs args) {         \
    te::rt::cuda::ptx::beginKernel();                                          \
    stripSum<T>(args);                                                         \
  }
TE_NORM_TYPE(f32, float)
TE_NORM_TYPE(bf16, bf16)
TE_NORM_TYPE(f16, f16)
