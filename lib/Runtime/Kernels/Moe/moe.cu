//===- moe.cu - routing of tokens to experts ------------------------------===//
//
// te_router_topk_<type>, te_router_topk_backward_<type>, te_moe_route,
// te_moe_{permute,prob_grad,unpermute}_<type>. Each result has one owner and a
// fixed order of summation, and nothing is added with atomics, so the bits are
// the same every time.
//
//===----------------------------------------------------------------------===//

#include "Core/Router.h"
#include "Kernels/Device/elements.cuh"
#include "Kernels/Moe/moe_args.h"
#include "Kernels/Moe/route.cuh"
#include "Kernels/Norm/lane_sum.cuh"

namespace te::rt::cuda {

extern __shared__ __align__(16) uint8_t dynamicShared[];

namespace {

template <typename T>
__device__ __forceinline__ float at(const void *x, int64_t i) {
  return toFloat(static_cast<const T *>(x)[i]);
}

/// The tokens of a block of the router. Shared memory has a table with a row
/// for each of them.
class RouterTokens {
public:
  __device__ __forceinline__ RouterTokens(int64_t tokens, int64_t experts)
      : first(blockIdx.x * int64_t{kRouterTokens}), experts(experts),
        stride(routerStride(experts)),
        count(min(tokens - first, int64_t{kRouterTokens})) {}

  /// Whether this thread has a token, and which.
  __device__ __forceinline__ bool has() const { return threadIdx.x < count; }
  __device__ __forceinline__ int64_t token() const {
    return first + threadIdx.x;
  }
  __device__ __forceinline__ float *row(float *table) const {
    return table + threadIdx.x * stride;
  }
  __device__ __forceinline__ float *tableAfter(float *table) const {
    return table + kRouterTokens * stride;
  }
  /// Calls visit(place in a table, index in [tokens, experts]) for all
  /// elements.
  template <typename Visit>
  __device__ __forceinline__ void forElements(Visit visit) const {
    for (int64_t row = threadIdx.x / 32; row < count; row += kRouterBlock / 32)
#pragma unroll 4
      for (int64_t e = threadIdx.x % 32; e < experts; e += 32)
        visit(row * stride + e, (first + row) * experts + e);
  }

private:
  int64_t first, experts, stride, count;
};

/// A thread routes a token, whose logits become scores.
__device__ __forceinline__ void routeToken(const RouterArgs &args, int64_t t,
                                           float *scores) {
  math::routerScores(scores, args.experts, args.score, scores);
  const math::RouterChoice choice(scores, args.bias, args.experts, args.groups,
                                  args.chosenGroups);
  math::routerChoose(choice, scores, args.k, args.normalize,
                     args.ids + t * args.k, args.probs + t * args.k);
}

/// Logits, as f32, become scores in shared memory or, if rows are too long, in
/// the memory of the scores.
template <typename T>
__device__ __forceinline__ void router(const RouterArgs &args) {
  auto *table = reinterpret_cast<float *>(dynamicShared);
  const RouterTokens tokens(args.tokens, args.experts);
  tokens.forElements([&](int64_t place, int64_t i) {
    (args.staged ? table[place] : args.scores[i]) = at<T>(args.logits, i);
  });
  __syncthreads();
  if (tokens.has())
    routeToken(args, tokens.token(),
               args.staged ? tokens.row(table)
                           : args.scores + tokens.token() * args.experts);
  __syncthreads();
  if (args.staged)
    tokens.forElements(
        [&](int64_t place, int64_t i) { args.scores[i] = table[place]; });
}

template <typename T>
__device__ __forceinline__ void routerBackward(const RouterBackwardArgs &args) {
  auto *table = reinterpret_cast<float *>(dynamicShared);
  const RouterTokens tokens(args.tokens, args.experts);
  float *gradients = tokens.tableAfter(table);
  if (args.staged)
    tokens.forElements(
        [&](int64_t place, int64_t i) { table[place] = args.scores[i]; });
  __syncthreads();
  if (tokens.has()) {
    const int64_t t = tokens.token(), slot = t * args.k;
    const int64_t row = t * args.experts;
    const math::RouterGrad grad(
        args.dprobs + slot, args.ids + slot, args.probs + slot,
        args.staged ? tokens.row(table) : args.scores + row, args.experts,
        args.k, args.score, args.normalize);
    grad.dlogits([&](int64_t e, float gradient) {
      if (args.staged)
        tokens.row(gradients)[e] = gradient;
      else
        static_cast<T *>(args.dlogits)[row + e] = fromFloat<T>(gradient);
    });
  }
  __syncthreads();
  if (args.staged)
    tokens.forElements([&](int64_t place, int64_t i) {
      static_cast<T *>(args.dlogits)[i] = fromFloat<T>(gradients[place]);
    });
}

/// Whether runs of 8 elements are aligned in every row of `cols`.
__device__ __forceinline__ bool areRuns(const void *x, const void *y,
                                        int64_t cols) {
  return cols % 8 == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0 &&
         reinterpret_cast<uintptr_t>(y) % 16 == 0;
}

/// A block copies some rows, whose loads are in flight together.
template <typename T, int N>
__device__ __forceinline__ void permuteRuns(const MoePermuteArgs &args) {
  const int64_t first = blockIdx.x * int64_t{kPermutedRows};
  int64_t entry[kPermutedRows];
#pragma unroll
  for (int r = 0; r < kPermutedRows; ++r)
    entry[r] = first + r < args.rows ? args.entryOf[first + r] : -1;
  float prob[kPermutedRows];
#pragma unroll
  for (int r = 0; r < kPermutedRows; ++r)
    prob[r] = math::isIn(entry[r], args.entries) && args.probs
                  ? args.probs[entry[r]]
                  : 1.0f;
  for (int64_t c = threadIdx.x * N; c < args.cols; c += kMoeBlock * N) {
    Run<T, N> runs[kPermutedRows];
#pragma unroll
    for (int r = 0; r < kPermutedRows; ++r)
      if (math::isIn(entry[r], args.entries))
        runs[r] = Run<T, N>::load(static_cast<const T *>(args.x) +
                                  entry[r] / args.k * args.cols + c);
#pragma unroll
    for (int r = 0; r < kPermutedRows; ++r) {
      float values[N] = {};
      if (math::isIn(entry[r], args.entries)) {
        runs[r].unpack(values);
        if (args.probs)
#pragma unroll
          for (float &value : values)
            value = value * prob[r];
      }
      if (first + r < args.rows)
        Run<T, N>::pack(values).store(static_cast<T *>(args.y) +
                                      (first + r) * args.cols + c);
    }
  }
}
template <typename T>
__device__ __forceinline__ void permute(const MoePermuteArgs &args) {
  if (areRuns(args.x, args.y, args.cols))
    permuteRuns<T, 8>(args);
  else
    permuteRuns<T, 1>(args);
}

/// A warp computes an entry.
template <typename T, int V>
__device__ __forceinline__ float probGradOf(const MoeProbGradArgs &args,
                                            int64_t entry, int64_t row) {
  constexpr int kRuns = V == 1 ? 8 : 4;
  const T *dout =
      static_cast<const T *>(args.dout) + entry / args.k * args.cols;
  const T *y = static_cast<const T *>(args.y) + row * args.cols;
  const auto cols = static_cast<int>(args.cols);
  LaneSum<V> sum;
  for (int begin = 0; begin < cols; begin += kRuns * 32 * V) {
    Run<T, V> a[kRuns], b[kRuns];
    forRuns<V, kRuns>(begin, cols, [&](int r, int c) {
      a[r] = Run<T, V>::load(dout + c);
      b[r] = Run<T, V>::load(y + c);
    });
    forRuns<V, kRuns>(begin, cols, [&](int r, int) {
      float u[V], v[V];
      a[r].unpack(u);
      b[r].unpack(v);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        float &acc = sum.acc[(r * V + k) % 8];
        acc = acc + u[k] * v[k];
      }
    });
  }
  return sum.total();
}
template <typename T>
__device__ __forceinline__ void probGrad(const MoeProbGradArgs &args) {
  const int64_t entry = (blockIdx.x * int64_t{kMoeBlock} + threadIdx.x) / 32;
  if (entry >= args.entries)
    return;
  const int64_t row = args.rowOf[entry];
  float total = 0.0f;
  if (math::isIn(row, args.rows))
    total = areRuns(args.dout, args.y, args.cols)
                ? probGradOf<T, 16 / sizeof(T)>(args, entry, row)
                : probGradOf<T, 1>(args, entry, row);
  if (threadIdx.x % 32 == 0)
    args.dprobs[entry] = total;
}

/// A block computes a token.
template <typename T, int N>
__device__ __forceinline__ void unpermuteRuns(const MoeUnpermuteArgs &args) {
  const int64_t t = blockIdx.x;
  for (int64_t c = threadIdx.x * N; c < args.cols; c += kMoeBlock * N) {
    float sum[N] = {};
    for (int64_t i = t * args.k; i < (t + 1) * args.k; ++i) {
      const int64_t row = args.rowOf[i];
      if (!math::isIn(row, args.rows))
        continue;
      float y[N];
      Run<T, N>::load(static_cast<const T *>(args.y) + row * args.cols + c)
          .unpack(y);
#pragma unroll
      for (int e = 0; e < N; ++e)
        sum[e] = sum[e] + (args.probs ? y[e] * args.probs[i] : y[e]);
    }
    Run<T, N>::pack(sum).store(static_cast<T *>(args.out) + t * args.cols + c);
  }
}
template <typename T>
__device__ __forceinline__ void unpermute(const MoeUnpermuteArgs &args) {
  if (areRuns(args.y, args.out, args.cols))
    unpermuteRuns<T, 8>(args);
  else
    unpermuteRuns<T, 1>(args);
}

} // namespace

#define TE_MOE(name, Args, body, type, T)                                      \
  extern "C" __global__ void __launch_bounds__(kMoeBlock)                      \
      te_##name##_##type(const __grid_constant__ Args args) {                  \
    body<T>(args);                                                             \
  }
#define TE_MOE_ALL(type, T)                                                    \
  TE_MOE(router_topk, RouterArgs, router, type, T)                             \
  TE_MOE(router_topk_backward, RouterBackwardArgs, routerBackward, type, T)    \
  TE_MOE(moe_permute, MoePermuteArgs, permute, type, T)                        \
  TE_MOE(moe_prob_grad, MoeProbGradArgs, probGrad, type, T)                    \
  TE_MOE(moe_unpermute, MoeUnpermuteArgs, unpermute, type, T)

TE_MOE_ALL(f32, float)
TE_MOE_ALL(bf16, bf16)
TE_MOE_ALL(f16, f16)

extern "C" __global__ void __launch_bounds__(kMoeRouteBlock)
    te_moe_route(const __grid_constant__ MoeRouteArgs args) {
  route(args, reinterpret_cast<uint32_t *>(dynamicShared));
}

} // namespace te::rt::cuda
