//===- moe.cu - routing of tokens to experts ------------------------------===//
//
// te_router_topk_<type>, te_router_topk_backward_<type>,
// te_moe_route_{count,place}, te_moe_{permute,prob_grad,unpermute}_<type>. Each
// result has one owner and a fixed order of summation, and nothing is added
// with atomics, so the bits are the same every time.
//
//===----------------------------------------------------------------------===//

#include "Core/Router.h"
#include "Kernels/Device/elements.cuh"
#include "Kernels/Device/launch_sm90.cuh"
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
template <int kTokens> class RouterTokens {
public:
  __device__ __forceinline__ RouterTokens(int64_t tokens, int64_t experts)
      : first(blockIdx.x * int64_t{kTokens}), experts(experts),
        stride(routerStride(experts)),
        count(static_cast<int>(min(tokens - first, int64_t{kTokens}))) {}

  __device__ __forceinline__ float *row(float *table, int i) const {
    return table + i * stride;
  }
  __device__ __forceinline__ float *tableAfter(float *table) const {
    return table + kTokens * stride;
  }
  /// Calls visit(place in a table, index in [tokens, experts]) for all
  /// elements.
  template <typename Visit>
  __device__ __forceinline__ void forElements(Visit visit) const {
    for (int row = static_cast<int>(threadIdx.x) / 32; row < count;
         row += kRouterBlock / 32)
#pragma unroll 4
      for (int64_t e = threadIdx.x % 32; e < experts; e += 32)
        visit(row * stride + e, (first + row) * experts + e);
  }

  int64_t first, experts, stride;
  int count;
};

/// The lanes of a warp.
struct WarpLanes {
  static constexpr int64_t count = 32;
  int64_t lane = threadIdx.x % 32;

  __device__ __forceinline__ void sync() const { __syncwarp(); }
  __device__ __forceinline__ float max(float own) const {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      const float other = __shfl_xor_sync(~0u, own, distance);
      own = other > own ? other : own;
    }
    return own;
  }
  __device__ __forceinline__ int64_t best(float key, int64_t expert) const {
    const uint32_t rank = expert < 0 ? 0 : rankOf(key);
    const uint32_t most = __reduce_max_sync(~0u, rank);
    if (most == 0)
      return -1;
    const uint32_t own = rank == most ? static_cast<uint32_t>(expert) : ~0u;
    return ~__reduce_max_sync(~0u, ~own);
  }

private:
  /// Larger for keys that are chosen before; never 0, and the same for all
  /// NaNs. Scores are not negative, so no key is -0.
  __device__ __forceinline__ static uint32_t rankOf(float key) {
    const uint32_t bits = __float_as_uint(key);
    return key != key ? 1 : bits >> 31 ? ~bits : bits | 1u << 31;
  }
};

/// The warps of a block route the tokens whose logits are in `rows`, which
/// become scores.
__device__ __forceinline__ void
routeTokens(const RouterArgs &args, const RouterTokens<kRouterTokens> &tokens,
            float *rows, int64_t stride, float *groupKeys) {
  const WarpLanes lanes;
  for (int i = static_cast<int>(threadIdx.x) / 32; i < tokens.count;
       i += kRouterBlock / 32) {
    const int64_t t = tokens.first + i;
    float *scores = rows + i * stride;
    math::routerScores(lanes, scores, args.experts, args.score, scores);
    const math::RouterChoice choice(
        lanes, scores, args.bias, args.experts, args.groups, args.chosenGroups,
        groupKeys ? groupKeys + i * args.groups : nullptr);
    math::routerChoose(lanes, choice, scores, args.k, args.normalize,
                       args.ids + t * args.k, args.probs + t * args.k);
  }
}

/// Logits, as f32, become scores in shared memory or, if rows are too long, in
/// the memory of the scores.
template <typename T>
__device__ __forceinline__ void router(const RouterArgs &args) {
  auto *table = reinterpret_cast<float *>(dynamicShared);
  const RouterTokens<kRouterTokens> tokens(args.tokens, args.experts);
  tokens.forElements([&](int64_t place, int64_t i) {
    (args.staged ? table[place] : args.scores[i]) = at<T>(args.logits, i);
  });
  __syncthreads();
  if (!args.staged)
    return routeTokens(args, tokens, args.scores + tokens.first * args.experts,
                       args.experts, nullptr);
  routeTokens(args, tokens, table, tokens.stride, tokens.tableAfter(table));
  __syncthreads();
  tokens.forElements(
      [&](int64_t place, int64_t i) { args.scores[i] = table[place]; });
}

/// A thread computes the gradient of a token.
template <typename T>
__device__ __forceinline__ void routerBackward(const RouterBackwardArgs &args) {
  auto *table = reinterpret_cast<float *>(dynamicShared);
  const RouterTokens<kRouterGradients> tokens(args.tokens, args.experts);
  float *gradients = tokens.tableAfter(table);
  if (args.staged)
    tokens.forElements(
        [&](int64_t place, int64_t i) { table[place] = args.scores[i]; });
  __syncthreads();
  if (const auto i = static_cast<int>(threadIdx.x); i < tokens.count) {
    const int64_t t = tokens.first + i, slot = t * args.k;
    const int64_t row = t * args.experts;
    const math::RouterGrad grad(
        args.dprobs + slot, args.ids + slot, args.probs + slot,
        args.staged ? tokens.row(table, i) : args.scores + row, args.experts,
        args.k, args.score, args.normalize);
    grad.dlogits([&](int64_t e, float gradient) {
      if (args.staged)
        tokens.row(gradients, i)[e] = gradient;
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

/// Stores a run that is not read soon: x, whose rows are read k times, stays in
/// L2 then.
template <typename T, int N>
__device__ __forceinline__ void storeStreaming(const Run<T, N> &run, T *to) {
  if constexpr (N == 1)
    run.store(to);
  else
#pragma unroll
    for (int w = 0; w < N * static_cast<int>(sizeof(T)) / 4; w += 4)
      __stcs(reinterpret_cast<uint4 *>(to) + w / 4,
             make_uint4(run.words[w], run.words[w + 1], run.words[w + 2],
                        run.words[w + 3]));
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
        storeStreaming(Run<T, N>::pack(values),
                       static_cast<T *>(args.y) + (first + r) * args.cols + c);
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
    te::rt::cuda::ptx::beginKernel();                                          \
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

#define TE_MOE_ROUTE(name, body)                                               \
  extern "C" __global__ void __launch_bounds__(kMoeBlock)                      \
      te_moe_route_##name(const __grid_constant__ MoeRouteArgs args) {         \
    te::rt::cuda::ptx::beginKernel();                                          \
    body(args, blockIdx.x, reinterpret_cast<uint32_t *>(dynamicShared));       \
  }

TE_MOE_ROUTE(count, countEntries)
TE_MOE_ROUTE(place, placeEntries)

} // namespace te::rt::cuda
