//===- kinds.cuh - the activation of a kernel -----------------------------===//
//
// A kernel is instantiated for one te_rt_activation, which is then a constant,
// or for all kinds that have no kernel of their own, with or without a gate.
// Those read the kind from their arguments, and all threads take the same
// branches.
//
// The short formulas of fast_math.cuh are used whenever they are valid, which
// is always so except that the arguments of a sigmoid have to be checked first.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_ACTIVATION_KINDS_CUH
#define TE_RUNTIME_KERNELS_ACTIVATION_KINDS_CUH

#include "Core/Formulas.h"
#include "Kernels/Activation/activation_args.h"
#include "Kernels/Activation/fast_math.cuh"

namespace te::rt::cuda {

/// These stand for the kinds without a kernel of their own.
inline constexpr int kPlainKinds = TE_RT_SWIGLU - 1;
inline constexpr int kGatedKinds = 0x7fffffff;

__device__ __forceinline__ constexpr bool isGatedKind(int kind) {
  return kind >= TE_RT_SWIGLU;
}

/// One te_rt_activation. `kKind` is its value, or kPlainKinds or kGatedKinds.
template <int kKind> struct Activation {
  static constexpr bool kGated = isGatedKind(kKind);
  static constexpr bool kFixed = kKind != kPlainKinds && kKind != kGatedKinds;

  __device__ __forceinline__ explicit Activation(const ActivationKind &of)
      : kind(kFixed ? kKind : of.kind), clamp{of.limit, of.alpha, of.offset},
        form(math::sigmoidForm(kind, clamp)) {}

  __device__ __forceinline__ bool hasSigmoid() const {
    return !isGelu() && !isGeluErf() && !isRelu() && !isSrelu();
  }
  /// Whether the short formulas are valid for all |x| <= `largest`.
  __device__ __forceinline__ bool isEasy(float largest) const {
    return !hasSigmoid() || isFastExpArgument(form.slope * largest);
  }

  /// y = act(x). With `kEasy` the caller has checked every x with isEasy.
  template <bool kEasy, int N>
  __device__ __forceinline__ void apply(const float (&x)[N],
                                        float (&y)[N]) const {
    if (hasSigmoid()) {
      float z[N], s[N];
      sigmoids<kEasy>(x, z, s);
#pragma unroll
      for (int i = 0; i < N; ++i)
        y[i] = math::sigmoidValue(form, x[i], s[i]);
    } else {
      applyOther(x, y);
    }
  }

  /// y = act(x), grad = act'(x).
  template <bool kEasy, int N>
  __device__ __forceinline__ void
  differentiate(const float (&x)[N], float (&y)[N], float (&grad)[N]) const {
    if (hasSigmoid()) {
      float z[N], s[N];
      sigmoids<kEasy>(x, z, s);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        y[i] = math::sigmoidValue(form, x[i], s[i]);
        grad[i] = math::sigmoidSlope(form, x[i], z[i], s[i]);
      }
    } else if (isGeluErf()) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const math::NormalAt at = fastNormal(x[i]);
        y[i] = math::geluErf(x[i], at);
        grad[i] = math::geluErfGrad(x[i], at);
      }
    } else {
      applyOther(x, y);
      if (isGelu()) {
#pragma unroll
        for (int i = 0; i < N; ++i)
          grad[i] = fastGeluGrad(x[i]);
      } else {
#pragma unroll
        for (int i = 0; i < N; ++i)
          grad[i] = isRelu() ? math::reluGrad(x[i]) : math::sreluGrad(x[i]);
      }
    }
  }

  int32_t kind;
  math::Clamp clamp;
  math::SigmoidForm form;

private:
  __device__ __forceinline__ bool isGelu() const {
    return kind == TE_RT_GELU || kind == TE_RT_GEGLU;
  }
  __device__ __forceinline__ bool isGeluErf() const {
    return kind == TE_RT_GELU_ERF || kind == TE_RT_GEGLU_ERF;
  }
  __device__ __forceinline__ bool isRelu() const {
    return kind == TE_RT_RELU || kind == TE_RT_REGLU;
  }
  __device__ __forceinline__ bool isSrelu() const {
    return kind == TE_RT_SRELU || kind == TE_RT_SREGLU;
  }

  /// s = sigmoid(z).
  template <bool kEasy, int N>
  __device__ __forceinline__ void sigmoids(const float (&x)[N], float (&z)[N],
                                           float (&s)[N]) const {
    bool easy = true;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      z[i] = math::sigmoidArgument(form, x[i]);
      easy &= kEasy || isFastExpArgument(z[i]);
    }
    if (easy) {
#pragma unroll
      for (int i = 0; i < N; ++i)
        s[i] = fastSigmoid(z[i]);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i)
        s[i] = math::sigmoid(z[i]);
    }
  }

  template <int N>
  __device__ __forceinline__ void applyOther(const float (&x)[N],
                                             float (&y)[N]) const {
    if (isGelu()) {
#pragma unroll
      for (int i = 0; i < N; ++i)
        y[i] = fastGelu(x[i]);
    } else if (isGeluErf()) {
#pragma unroll
      for (int i = 0; i < N; ++i)
        y[i] = math::geluErf(x[i], fastNormal(x[i]));
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i)
        y[i] = isRelu() ? math::relu(x[i]) : math::srelu(x[i]);
    }
  }
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_ACTIVATION_KINDS_CUH
