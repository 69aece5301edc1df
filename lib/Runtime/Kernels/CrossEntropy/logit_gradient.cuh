//===- logit_gradient.cuh - the gradient of cross entropy -----------------===//

#ifndef TE_RUNTIME_KERNELS_CROSSENTROPY_LOGIT_GRADIENT_CUH
#define TE_RUNTIME_KERNELS_CROSSENTROPY_LOGIT_GRADIENT_CUH

#include "Kernels/Activation/fast_math.cuh"
#include "Kernels/CrossEntropy/cross_entropy_args.h"
#include "Kernels/Device/elements.cuh"
#include "Kernels/Device/packed_math_sm86.cuh"

namespace te::rt::cuda {

/// Whether a token with this target counts.
__device__ __forceinline__ bool counts(const CrossEntropyArgs &args,
                                       int32_t target) {
  return target != args.ignoreIndex && target >= 0 && target < args.vocab;
}

/// Half of the domain of fastExp: the difference of two numbers below it is in
/// the domain.
inline constexpr float kSmallLogit = 43.5f;

/// Whether all of `x` are below kSmallLogit in magnitude, if that takes less
/// than to test each difference.
template <typename T, int N>
__device__ __forceinline__ bool areSmall(const Run<T, N> &x) {
  if constexpr (std::is_same_v<T, bf16> && N > 1) {
    uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < N / 2; ++i)
      largest = ptx::maxAbsNanBf16x2(largest, x.words[i]);
    float low, high;
    unpackWord<bf16>(largest, low, high);
    return fabsf(low) < kSmallLogit && fabsf(high) < kSmallLogit;
  } else {
    return false;
  }
}

/// The gradient of the logits of one token.
template <typename T> struct TokenGradient {
  int32_t target;
  bool counted;
  float lse, weight;
  int64_t vocab;

  /// The gradient of N logits from column v on, which is 0 after the classes.
  template <int N>
  __device__ __forceinline__ Run<T, N> compute(const Run<T, N> &logits,
                                               int64_t v) const {
    if (!counted)
      return {};
    float x[N];
    logits.unpack(x);
#pragma unroll
    for (int k = 0; k < N; ++k)
      x[k] = x[k] - lse;
    if (fabsf(lse) < kSmallLogit && areSmall(logits)) {
#pragma unroll
      for (int k = 0; k < N; ++k)
        x[k] = fastExp(x[k]);
    } else {
      expOf(x, x);
    }
    // A target has 32 bits, so the columns that it can name have 32 bits too.
    const int32_t hit = static_cast<int32_t>(target - v);
    const int32_t classes = static_cast<int32_t>(min(vocab - v, int64_t{N}));
    if (static_cast<uint32_t>(hit) < N || classes < N) {
#pragma unroll
      for (int k = 0; k < N; ++k)
        x[k] = k < classes ? (k == hit ? x[k] - 1.0f : x[k]) * weight : 0.0f;
    } else {
#pragma unroll
      for (int k = 0; k < N; ++k)
        x[k] = x[k] * weight;
    }
    return Run<T, N>::pack(x);
  }
};

/// The gradient of all logits.
template <typename T> struct LogitGradient {
  const CrossEntropyArgs &args;
  float weight;

  __device__ explicit LogitGradient(const CrossEntropyArgs &args)
      : args(args), weight(*args.weight) {}

  __device__ __forceinline__ TokenGradient<T> row(int64_t token) const {
    const int32_t target = args.targets[token];
    return {target, counts(args, target), args.lse[token], weight, args.vocab};
  }
  __device__ __forceinline__ const T *at(int64_t token, int64_t v) const {
    return static_cast<const T *>(args.logits) + token * args.cols + v;
  }
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_CROSSENTROPY_LOGIT_GRADIENT_CUH
