//===- activation.cu - activations, gated or not, and their gradients -----===//
//
// te_activation_<kind>_<type> and te_activation_backward_<kind>_<type>, where
// <kind> may be "plain" or "gated" for the activations without a kernel of
// their own. A thread computes runs of 16 bytes. A run uses the short formulas
// of fast_math.cuh if every x of it is in their domain, which is nearly always
// so, and otherwise those of Core/Formulas.h. The bits are the same either way.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Activation/kinds.cuh"
#include "Kernels/Device/elements.cuh"
#include "Kernels/Device/launch_sm90.cuh"

namespace te::rt::cuda {
namespace {

/// The offset of the two halves of run `i` of y in x and in `second`.
template <int N>
__device__ __forceinline__ int64_t placeOfHalf(const ActivationArgs &args,
                                               int64_t i) {
  // The host code uses vectors only if a 32-bit division is enough.
  const int64_t row =
      N == 1 ? i / args.cols : static_cast<uint32_t>(i) / args.runsPerRow;
  return i * N + row * args.gap;
}

template <typename T, int kKind, int N> struct ForwardBody {
  struct Loaded {
    Run<T, N> a, b;
  };
  const ActivationArgs &args;
  AbsMax<T> &amax, &amaxSecond;

  __device__ __forceinline__ Loaded load(int64_t i) const {
    const T *x = static_cast<const T *>(args.x);
    Loaded loaded;
    if constexpr (isGatedKind(kKind)) {
      const int64_t at = placeOfHalf<N>(args, i);
      loaded.a = Run<T, N>::load(x + at);
      loaded.b = Run<T, N>::load(static_cast<const T *>(args.second) + at);
    } else {
      loaded.a = Run<T, N>::load(x + i * N);
    }
    return loaded;
  }
  __device__ __forceinline__ void finish(int64_t i, const Loaded &loaded) {
    float x[N], y[N];
    loaded.a.unpack(x);
    const Activation<kKind> act(args.act);
    act.template apply<false>(x, y);
    if constexpr (isGatedKind(kKind)) {
      float b[N];
      loaded.b.unpack(b);
#pragma unroll
      for (int k = 0; k < N; ++k)
        y[k] = y[k] * math::gate(act.kind, act.clamp, b[k]);
    }
    const Run<T, N> packed = Run<T, N>::pack(y);
    amax.add(packed);
    packed.store(static_cast<T *>(args.out) + i * N);
  }
};

template <typename T, int kKind, int N> struct BackwardBody {
  struct Loaded {
    Run<T, N> g, a, b;
  };
  const ActivationArgs &args;
  AbsMax<T> &amax, &amaxSecond;

  __device__ __forceinline__ Loaded load(int64_t i) const {
    const T *x = static_cast<const T *>(args.x);
    Loaded loaded;
    loaded.g = Run<T, N>::load(static_cast<const T *>(args.dy) + i * N);
    if constexpr (isGatedKind(kKind)) {
      const int64_t at = placeOfHalf<N>(args, i);
      loaded.a = Run<T, N>::load(x + at);
      loaded.b = Run<T, N>::load(static_cast<const T *>(args.second) + at);
    } else {
      loaded.a = Run<T, N>::load(x + i * N);
    }
    return loaded;
  }
  __device__ __forceinline__ void finish(int64_t i, const Loaded &loaded) {
    T *dx = static_cast<T *>(args.out);
    float g[N], x[N], y[N], grad[N];
    loaded.g.unpack(g);
    loaded.a.unpack(x);
    const Activation<kKind> act(args.act);
    act.template differentiate<false>(x, y, grad);
    if constexpr (isGatedKind(kKind)) {
      float b[N];
      loaded.b.unpack(b);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        grad[k] = (grad[k] * g[k]) * math::gate(act.kind, act.clamp, b[k]);
        y[k] = math::gateGrad(act.kind, act.clamp, b[k], y[k] * g[k]);
      }
      const int64_t at = placeOfHalf<N>(args, i);
      dx += at;
      const Run<T, N> second = Run<T, N>::pack(y);
      amaxSecond.add(second);
      second.store(static_cast<T *>(args.outSecond) + at);
    } else {
#pragma unroll
      for (int k = 0; k < N; ++k)
        grad[k] = g[k] * grad[k];
      dx += i * N;
    }
    const Run<T, N> first = Run<T, N>::pack(grad);
    amax.add(first);
    first.store(dx);
  }
};

template <typename T, template <typename, int, int> typename Body, int kKind,
          int kElements>
__device__ __forceinline__ void run(const ActivationArgs &args) {
  constexpr int N = runLength<T>;
  AbsMax<T> amax, amaxSecond;
  Body<T, kKind, N> runs{args, amax, amaxSecond};
  streamRuns<kElements / N>(args.runs, runs);
  Body<T, kKind, 1> elements{args, amax, amaxSecond};
  streamElements(args.runs * N, args.count, elements);
  if (args.amax)
    raiseToBlockMax(args.amax, args.isAmaxOfBoth
                                   ? fmaxf(amax.get(), amaxSecond.get())
                                   : amax.get());
  if (args.amaxSecond)
    raiseToBlockMax(args.amaxSecond, amaxSecond.get());
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

#define TE_ACTIVATION(name, kind, type, T)                                     \
  extern "C" __global__ void __launch_bounds__(kActivationBlock)               \
      te_activation_##name##_##type(                                           \
          const __grid_constant__ ActivationArgs args) {                       \
    te::rt::cuda::ptx::beginKernel();                                          \
    run<T, ForwardBody, kind, kActivationElements>(args);                      \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kActivationBlock)               \
      te_activation_backward_##name##_##type(                                  \
          const __grid_constant__ ActivationArgs args) {                       \
    te::rt::cuda::ptx::beginKernel();                                          \
    run<T, BackwardBody, kind, kActivationBackwardElements>(args);             \
  }
#define TE_ACTIVATION_TYPES(name, kind)                                        \
  TE_ACTIVATION(name, kind, f32, float)                                        \
  TE_ACTIVATION(name, kind, bf16, bf16)                                        \
  TE_ACTIVATION(name, kind, f16, f16)
TE_ACTIVATION_TYPES(gelu, TE_RT_GELU)
TE_ACTIVATION_TYPES(silu, TE_RT_SILU)
TE_ACTIVATION_TYPES(relu, TE_RT_RELU)
TE_ACTIVATION_TYPES(swiglu, TE_RT_SWIGLU)
TE_ACTIVATION_TYPES(plain, kPlainKinds)
TE_ACTIVATION_TYPES(gated, kGatedKinds)
