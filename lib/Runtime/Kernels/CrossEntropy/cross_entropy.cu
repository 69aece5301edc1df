//===- cross_entropy.cu - softmax cross entropy and its gradient ----------===//
//
// te_cross_entropy_<type>: a block reads a row once, and each thread has one of
// the 256 lanes of its sum of exponentials (Kernels.td). te_cross_entropy_mean:
// one block, with one lane per thread. Only the logarithm may differ from the
// reference backend.
//
// te_cross_entropy_weight computes dloss / count in one block;
// te_cross_entropy_backward_<type> is elementwise.
//
//===----------------------------------------------------------------------===//

#include "Core/Formulas.h"
#include "Kernels/CrossEntropy/logit_gradient.cuh"
#include "Kernels/Device/launch_sm90.cuh"
#include "Kernels/Norm/lane_sum.cuh"

namespace te::rt::cuda {
namespace {

/// Warp 0 reduces the 256 lanes in shared memory as a tree, and returns the
/// sum.
__device__ __forceinline__ float treeSum(const float *lanes) {
  LaneSum<1> sum;
#pragma unroll
  for (int k = 0; k < 8; ++k)
    sum.acc[k] = lanes[k * 32 + threadIdx.x % 32];
  return sum.total();
}

/// What the exponentials of a lane, whose maximum is `max`, are taken from.
__device__ __forceinline__ float baseOf(float max) {
  return max == -math::kInfinity ? 0.0f : max;
}

/// The maximum of a run. NaN is dropped, unless there is nothing else.
template <typename T, int N>
__device__ __forceinline__ float maxOf(const Run<T, N> &run) {
  if constexpr (sizeof(T) == 4) {
    float max = __uint_as_float(run.words[0]);
#pragma unroll
    for (int i = 1; i < N; ++i)
      max = fmaxf(max, __uint_as_float(run.words[i]));
    return max;
  } else {
    uint32_t pair = run.words[0];
#pragma unroll
    for (int i = 1; i < N / 2; ++i)
      pair = maxWord<T>(pair, run.words[i]);
    float low, high;
    unpackWord<T>(pair, low, high);
    return fmaxf(low, high);
  }
}

/// One lane of a sum of exponentials (Kernels.td).
struct ExpLane {
  float max = -math::kInfinity, sum = 0.0f;

  /// Takes a run. Elements after the end of the row are -inf, which add
  /// nothing.
  template <typename T>
  __device__ __forceinline__ void add(const Run<T, kExpRun> &run) {
    const float before = max;
    max = fmaxf(before, maxOf(run));
    const float base = baseOf(max);
    float x[kExpRun], factor = before - base;
    run.unpack(x);
#pragma unroll
    for (int k = 0; k < kExpRun; ++k)
      x[k] = x[k] - base;
    if (fabsf(before) < kSmallLogit && areSmall(run)) {
      // Most warps have a lane with a new maximum, so no lane looks for one.
      factor = fastExp(factor);
#pragma unroll
      for (int k = 0; k < kExpRun; ++k)
        x[k] = fastExp(x[k]);
    } else {
      // Without a new maximum the factor is exp(0), or the sum is 0.
      factor = max != before ? math::exp(factor) : 1.0f;
      expOf(x, x);
    }
    sum = sum * factor;
#pragma unroll
    for (int k = 0; k < kExpRun; ++k)
      sum = sum + x[k];
  }
};

/// The maximum over the block, in all of its threads.
__device__ __forceinline__ float blockMax(float value) {
  __shared__ float warps[kLanes / 32];
#pragma unroll
  for (int distance = 16; distance != 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(~0u, value, distance));
  if (threadIdx.x % 32 == 0)
    warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = warps[0];
#pragma unroll
  for (int k = 1; k < kLanes / 32; ++k)
    value = fmaxf(value, warps[k]);
  return value;
}

/// A run of a row from element v on. With `kVectors` a row has whole runs, of
/// which the last may be more than its classes.
template <typename T, bool kVectors>
__device__ __forceinline__ Run<T, kExpRun> loadRun(const T *row, int64_t v,
                                                   int64_t vocab) {
  if (kVectors && v + kExpRun <= vocab) {
    return Run<T, kExpRun>::load(row + v);
  } else {
    float x[kExpRun];
#pragma unroll
    for (int k = 0; k < kExpRun; ++k)
      x[k] = v + k < vocab ? toFloat(row[v + k]) : -math::kInfinity;
    return Run<T, kExpRun>::pack(x);
  }
}

template <typename T, bool kVectors>
__device__ __forceinline__ void logSumExp(const CrossEntropyArgs &args) {
  // Runs that a thread loads before it uses any.
  constexpr int kUnroll = 8 / sizeof(T);
  constexpr int64_t kStep = kLanes * kExpRun;
  __shared__ float lanes[kLanes];
  const int64_t token = blockIdx.x;
  const T *row = static_cast<const T *>(args.logits) + token * args.cols;

  ExpLane lane;
  for (int64_t v = threadIdx.x * kExpRun; v < args.vocab;
       v += kUnroll * kStep) {
    Run<T, kExpRun> runs[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (v + u * kStep < args.vocab)
        runs[u] = loadRun<T, kVectors>(row, v + u * kStep, args.vocab);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (v + u * kStep < args.vocab)
        lane.add(runs[u]);
  }
  const float max = blockMax(lane.max);
  lanes[threadIdx.x] = lane.sum * math::exp(lane.max - baseOf(max));
  __syncthreads();
  if (threadIdx.x < 32) {
    const float total = treeSum(lanes);
    if (threadIdx.x == 0) {
      const float lse = max + logf(total);
      const int32_t target = args.targets[token];
      args.lse[token] = lse;
      args.tokenLoss[token] =
          counts(args, target) ? lse - toFloat(row[target]) : 0.0f;
    }
  }
}

template <typename T>
__device__ __forceinline__ void logSumExp(const CrossEntropyArgs &args) {
  if (args.vectors)
    logSumExp<T, true>(args);
  else
    logSumExp<T, false>(args);
}

/// The number of tokens that count, over all threads of the block.
__device__ __forceinline__ int64_t countTokens(const CrossEntropyArgs &args) {
  __shared__ unsigned long long total;
  if (threadIdx.x == 0)
    total = 0;
  __syncthreads();
  unsigned long long own = 0;
#pragma unroll 4
  for (int64_t t = threadIdx.x; t < args.tokens; t += kMeanBlock)
    own += counts(args, args.targets[t]);
  atomicAdd(&total, own);
  __syncthreads();
  return static_cast<int64_t>(total);
}

__device__ __forceinline__ void meanLoss(const CrossEntropyArgs &args) {
  __shared__ float lanes[kMeanBlock];
  const int64_t count = countTokens(args);
  float sum = 0.0f;
#pragma unroll 4
  for (int64_t t = threadIdx.x; t < args.tokens; t += kMeanBlock)
    sum = sum + args.tokenLoss[t];
  lanes[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    const float total = treeSum(lanes);
    if (threadIdx.x == 0)
      *args.loss = count == 0 ? 0.0f : total / static_cast<float>(count);
  }
}

template <typename T, int N>
__device__ __forceinline__ void logitGrads(const CrossEntropyArgs &args) {
  constexpr int kUnroll = kLogitGradElements / N;
  const int64_t token = blockIdx.x / args.blocksPerRow;
  const int64_t first = (static_cast<int64_t>(blockIdx.x % args.blocksPerRow) *
                             (kUnroll * kLogitGradBlock) +
                         threadIdx.x) *
                        N;
  const LogitGradient<T> gradient(args);
  const TokenGradient<T> row = gradient.row(token);
  const T *logits = gradient.at(token, 0);
  T *to = static_cast<T *>(args.dlogits) + token * args.cols;
  Run<T, N> runs[kUnroll] = {};
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t v = first + u * (kLogitGradBlock * N);
    if (row.counted && v < args.vocab)
      runs[u] = Run<T, N>::load(logits + v);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t v = first + u * (kLogitGradBlock * N);
    if (v < args.cols)
      row.compute(runs[u], v).store(to + v);
  }
}

template <typename T>
__device__ __forceinline__ void
crossEntropyBackward(const CrossEntropyArgs &args) {
  if (args.vectors)
    logitGrads<T, runLength<T>>(args);
  else
    logitGrads<T, 1>(args);
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;
using te::rt::kLanes;

extern "C" __global__ void __launch_bounds__(kMeanBlock)
    te_cross_entropy_mean(const __grid_constant__ CrossEntropyArgs args) {
  te::rt::cuda::ptx::beginKernel();
  meanLoss(args);
}
extern "C" __global__ void __launch_bounds__(kMeanBlock)
    te_cross_entropy_weight(const __grid_constant__ CrossEntropyArgs args) {
  te::rt::cuda::ptx::beginKernel();
  const int64_t count = countTokens(args);
  if (threadIdx.x == 0)
    *args.weight =
        (args.dloss ? *args.dloss : 1.0f) / static_cast<float>(count);
}

#define TE_CROSS_ENTROPY(type, T)                                              \
  extern "C" __global__ void __launch_bounds__(kLanes, kLseBlocksPerSm)        \
      te_cross_entropy_##type(const __grid_constant__ CrossEntropyArgs args) { \
    te::rt::cuda::ptx::beginKernel();                                          \
    logSumExp<T>(args);                                                        \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kLogitGradBlock)                \
      te_cross_entropy_backward_##type(                                        \
          const __grid_constant__ CrossEntropyArgs args) {                     \
    te::rt::cuda::ptx::beginKernel();                                          \
    crossEntropyBackward<T>(args);                                             \
  }
TE_CROSS_ENTROPY(f32, float)
TE_CROSS_ENTROPY(bf16, bf16)
TE_CROSS_ENTROPY(f16, f16)
