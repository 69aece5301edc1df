//===- cross_entropy.cu - softmax cross entropy and its gradient ----------===//
//
// te_cross_entropy_<type>: a block computes a row, and each thread two of the
// 256 lanes of a row sum (Kernels.td), in one pass for the maximum and one for
// the sum. te_cross_entropy_mean: one block, with one lane per thread. Only the
// logarithm may differ from the reference backend.
//
// te_cross_entropy_weight computes dloss / count in one block;
// te_cross_entropy_backward_<type> is elementwise.
//
//===----------------------------------------------------------------------===//

#include "Core/Formulas.h"
#include "Kernels/Activation/fast_math.cuh"
#include "Kernels/CrossEntropy/cross_entropy_args.h"
#include "Kernels/Device/elements.cuh"
#include "Kernels/Norm/lane_sum.cuh"

namespace te::rt::cuda {
namespace {

__device__ __forceinline__ bool counts(const CrossEntropyArgs &args,
                                       int32_t target) {
  return target != args.ignoreIndex && target >= 0 && target < args.vocab;
}

/// Warp 0 reduces the 256 lanes in shared memory as a tree, and returns the
/// sum.
__device__ __forceinline__ float treeSum(const float *lanes) {
  LaneSum<1> sum;
#pragma unroll
  for (int k = 0; k < 8; ++k)
    sum.acc[k] = lanes[k * 32 + threadIdx.x % 32];
  return sum.total();
}

/// Elements of a row that a thread loads before it uses any.
constexpr int kBatch = 16;

/// Calls visit(values) for the elements of this thread's two lanes, in order
/// and alternately; after the end of the row they are -inf. V elements are
/// consecutive: the lanes are V * thread + j % 2 for V = 2, and
/// thread + 128 * (j % 2) for V = 1.
template <typename T, int V, typename Visit>
__device__ __forceinline__ void forBatches(const T *row, int64_t vocab,
                                           Visit visit) {
  constexpr int kStep = kLseBlock * V;
  for (int64_t base = threadIdx.x * V; base < vocab;
       base += kBatch / V * kStep) {
    Run<T, V> runs[kBatch / V];
#pragma unroll
    for (int u = 0; u < kBatch / V; ++u)
      if (base + u * kStep < vocab)
        runs[u] = Run<T, V>::load(row + base + u * kStep);
    float values[kBatch];
#pragma unroll
    for (int u = 0; u < kBatch / V; ++u) {
      float run[V];
      runs[u].unpack(run);
#pragma unroll
      for (int k = 0; k < V; ++k)
        values[u * V + k] =
            base + u * kStep < vocab ? run[k] : -math::kInfinity;
    }
    visit(values);
  }
}

template <typename T, int V>
__device__ __forceinline__ void logSumExp(const CrossEntropyArgs &args) {
  __shared__ float lanes[2 * kLseBlock];
  __shared__ float rowMax;
  const int64_t token = blockIdx.x;
  const T *row = static_cast<const T *>(args.logits) + token * args.vocab;

  float max = -math::kInfinity;
  forBatches<T, V>(row, args.vocab, [&](const float (&x)[kBatch]) {
#pragma unroll
    for (int j = 0; j < kBatch; ++j)
      max = x[j] > max ? x[j] : max;
  });
  lanes[threadIdx.x] = max;
  __syncthreads();
  if (threadIdx.x < 32) {
#pragma unroll
    for (int k = 1; k < kLseBlock / 32; ++k)
      max = fmaxf(max, lanes[k * 32 + threadIdx.x]);
#pragma unroll
    for (int distance = 16; distance != 0; distance /= 2)
      max = fmaxf(max, __shfl_xor_sync(~0u, max, distance));
    if (threadIdx.x == 0)
      rowMax = max;
  }
  __syncthreads();
  max = rowMax;

  float sum[2] = {};
  forBatches<T, V>(row, args.vocab, [&](float (&x)[kBatch]) {
#pragma unroll
    for (int j = 0; j < kBatch; ++j)
      x[j] = x[j] - max;
    expOf(x, x);
    // After the end of the row, exp(-inf) adds nothing.
#pragma unroll
    for (int j = 0; j < kBatch; ++j)
      sum[j % 2] = sum[j % 2] + x[j];
  });
#pragma unroll
  for (int k = 0; k < 2; ++k)
    lanes[V == 2 ? 2 * threadIdx.x + k : threadIdx.x + k * kLseBlock] = sum[k];
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
    logSumExp<T, 2>(args);
  else
    logSumExp<T, 1>(args);
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

/// N logits, from `v` on, of a token that counts.
template <typename T, int N>
__device__ __forceinline__ void logitGrad(const Run<T, N> &logits, int64_t v,
                                          int32_t target, float lse,
                                          float weight, T *to) {
  // A target has 32 bits, so the columns that it can name have 32 bits too.
  const int32_t hit = static_cast<int32_t>(target - v);
  float x[N];
  logits.unpack(x);
#pragma unroll
  for (int k = 0; k < N; ++k)
    x[k] = x[k] - lse;
  expOf(x, x);
#pragma unroll
  for (int k = 0; k < N; ++k)
    x[k] = (k == hit ? x[k] - 1.0f : x[k]) * weight;
  Run<T, N>::pack(x).store(to);
}

template <typename T, int N>
__device__ __forceinline__ void logitGrads(const CrossEntropyArgs &args) {
  constexpr int kUnroll = kLogitGradElements / N;
  const int64_t token = blockIdx.x / args.blocksPerRow;
  const int64_t first = (static_cast<int64_t>(blockIdx.x % args.blocksPerRow) *
                             (kUnroll * kLogitGradBlock) +
                         threadIdx.x) *
                        N;
  const T *logits = static_cast<const T *>(args.logits) + token * args.vocab;
  T *to = static_cast<T *>(args.dlogits) + token * args.vocab;
  const int32_t target = args.targets[token];
  const bool counted = counts(args, target);
  const float lse = args.lse[token], weight = *args.weight;
  Run<T, N> runs[kUnroll] = {};
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t v = first + u * (kLogitGradBlock * N);
    if (counted && v < args.vocab)
      runs[u] = Run<T, N>::load(logits + v);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t v = first + u * (kLogitGradBlock * N);
    if (v >= args.vocab)
      continue;
    if (counted)
      logitGrad<T, N>(runs[u], v, target, lse, weight, to + v);
    else
      runs[u].store(to + v); // still zero
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

extern "C" __global__ void __launch_bounds__(kMeanBlock)
    te_cross_entropy_mean(const __grid_constant__ CrossEntropyArgs args) {
  meanLoss(args);
}
extern "C" __global__ void __launch_bounds__(kMeanBlock)
    te_cross_entropy_weight(const __grid_constant__ CrossEntropyArgs args) {
  const int64_t count = countTokens(args);
  if (threadIdx.x == 0)
    *args.weight =
        (args.dloss ? *args.dloss : 1.0f) / static_cast<float>(count);
}

#define TE_CROSS_ENTROPY(type, T)                                              \
  extern "C" __global__ void __launch_bounds__(kLseBlock)                      \
      te_cross_entropy_##type(const __grid_constant__ CrossEntropyArgs args) { \
    logSumExp<T>(args);                                                        \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kLogitGradBlock)                \
      te_cross_entropy_backward_##type(                                        \
          const __grid_constant__ CrossEntropyArgs args) {                     \
    crossEntropyBackward<T>(args);                                             \
  }
TE_CROSS_ENTROPY(f32, float)
TE_CROSS_ENTROPY(bf16, bf16)
TE_CROSS_ENTROPY(f16, f16)
