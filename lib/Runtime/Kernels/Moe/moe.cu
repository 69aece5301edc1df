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
namespace {

template <typename T>
__device__ __forceinline__ float at(const void *x, int64_t i) {
  return toFloat(static_cast<const T *>(x)[i]);
}

/// A thread routes a token. It stores its logits, as f32, in the memory of the
/// scores.
template <typename T>
__device__ __forceinline__ void router(const RouterArgs &args) {
  const int64_t t = blockIdx.x * int64_t{kRouterBlock} + threadIdx.x;
  if (t >= args.tokens)
    return;
  float *scores = args.scores + t * args.experts;
  for (int64_t e = 0; e < args.experts; ++e)
    scores[e] = at<T>(args.logits, t * args.experts + e);
  math::routerScores(scores, args.experts, args.score, scores);
  const math::RouterChoice choice(scores, args.bias, args.experts, args.groups,
                                  args.chosenGroups);
  math::routerChoose(choice, scores, args.k, args.normalize,
                     args.ids + t * args.k, args.probs + t * args.k);
}

template <typename T>
__device__ __forceinline__ void routerBackward(const RouterBackwardArgs &args) {
  const int64_t t = blockIdx.x * int64_t{kRouterBlock} + threadIdx.x;
  if (t >= args.tokens)
    return;
  const math::RouterGrad grad(args.dprobs + t * args.k, args.ids + t * args.k,
                              args.probs + t * args.k,
                              args.scores + t * args.experts, args.experts,
                              args.k, args.score, args.normalize);
  for (int64_t e = 0; e < args.experts; ++e)
    static_cast<T *>(args.dlogits)[t * args.experts + e] =
        fromFloat<T>(grad.dlogit(e));
}

/// Whether runs of 8 elements are aligned in every row of `cols`.
__device__ __forceinline__ bool areRuns(const void *x, const void *y,
                                        int64_t cols) {
  return cols % 8 == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0 &&
         reinterpret_cast<uintptr_t>(y) % 16 == 0;
}

/// A block copies a row.
template <typename T, int N>
__device__ __forceinline__ void permuteRuns(const MoePermuteArgs &args) {
  const int64_t row = blockIdx.x, entry = args.entryOf[row];
  const bool taken = math::isIn(entry, args.entries);
  const T *from =
      static_cast<const T *>(args.x) + (taken ? entry / args.k * args.cols : 0);
  T *to = static_cast<T *>(args.y) + row * args.cols;
  const float prob = taken && args.probs ? args.probs[entry] : 1.0f;
  for (int64_t c = threadIdx.x * N; c < args.cols; c += kMoeBlock * N) {
    float values[N] = {};
    if (taken) {
      Run<T, N>::load(from + c).unpack(values);
      if (args.probs)
#pragma unroll
        for (float &value : values)
          value = value * prob;
    }
    Run<T, N>::pack(values).store(to + c);
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
template <typename T>
__device__ __forceinline__ void probGrad(const MoeProbGradArgs &args) {
  const int64_t entry = (blockIdx.x * int64_t{kMoeBlock} + threadIdx.x) / 32;
  const int thread = static_cast<int>(threadIdx.x % 32);
  if (entry >= args.entries)
    return;
  const int64_t row = args.rowOf[entry];
  const bool taken = math::isIn(row, args.rows);
  LaneSum<1> sum;
  if (taken)
    for (int64_t begin = 0; begin < args.cols; begin += kLanes)
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const int64_t c = begin + k * 32 + thread;
        if (c < args.cols)
          sum.acc[k] =
              sum.acc[k] + at<T>(args.dout, entry / args.k * args.cols + c) *
                               at<T>(args.y, row * args.cols + c);
      }
  const float total = sum.total();
  if (thread == 0)
    args.dprobs[entry] = taken ? total : 0.0f;
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
  extern __shared__ uint32_t shared[];
  route(args, shared);
}

} // namespace te::rt::cuda
