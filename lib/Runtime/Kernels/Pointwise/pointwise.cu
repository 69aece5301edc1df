//===- pointwise.cu - one elementwise operator, and fill ------------------===//
//
// te_pointwise_<type>_<out_type> and te_fill_<bytes of one element>. The
// operator is an argument: the branch on it is uniform and taken once a run.
//
//===----------------------------------------------------------------------===//

#include "Core/Formulas.h"
#include "Kernels/Activation/fast_math.cuh"
#include "Kernels/Device/chunk.cuh"
#include "Kernels/Pointwise/pointwise_args.h"

#include <type_traits>

namespace te::rt::cuda {
namespace {

template <int N, typename Function>
__device__ __forceinline__ void map(const float (&a)[N], const float (&b)[N],
                                    float (&out)[N], Function function) {
#pragma unroll
  for (int i = 0; i < N; ++i)
    out[i] = function(a[i], b[i]);
}

template <int N>
__device__ __forceinline__ void evaluate(int32_t op, const float (&a)[N],
                                         const float (&b)[N], float (&out)[N]) {
  switch (op) {
#define TE_ELEMENT(kOp)                                                        \
  case kOp:                                                                    \
    return map(a, b, out,                                                      \
               [](float x, float y) { return math::pointwise(kOp, x, y); });
    TE_ELEMENT(TE_RT_ADD)
    TE_ELEMENT(TE_RT_SUB)
    TE_ELEMENT(TE_RT_MUL)
    TE_ELEMENT(TE_RT_DIV)
    TE_ELEMENT(TE_RT_MAX)
    TE_ELEMENT(TE_RT_MIN)
    TE_ELEMENT(TE_RT_NEG)
    TE_ELEMENT(TE_RT_SQRT)
    TE_ELEMENT(TE_RT_CAST)
#undef TE_ELEMENT
  case TE_RT_TANH:
    return map(a, b, out,
               [](float x, float) { return x != x ? x : fastTanhOfNumber(x); });
  case TE_RT_EXP:
    return expOf(a, out);
  }
}

template <typename In, typename Out, int N> struct PointwiseBody {
  struct Loaded {
    Run<In, N> a, b;
  };
  const PointwiseArgs &args;

  __device__ __forceinline__ Loaded load(int64_t i) const {
    Loaded loaded;
    loaded.a = Run<In, N>::load(static_cast<const In *>(args.a) + i * N);
    // Unary operators have no b; reading a again costs nothing.
    loaded.b = args.op < TE_RT_CAST
                   ? Run<In, N>::load(static_cast<const In *>(args.b) + i * N)
                   : loaded.a;
    return loaded;
  }
  __device__ __forceinline__ void finish(int64_t i, const Loaded &loaded) {
    float a[N], b[N], out[N];
    loaded.a.unpack(a);
    loaded.b.unpack(b);
    evaluate(args.op, a, b, out);
    Run<Out, N>::pack(out).store(static_cast<Out *>(args.out) + i * N);
  }
};

template <typename In, typename Out>
__device__ __forceinline__ void pointwise(const PointwiseArgs &args) {
  using Widest = std::conditional_t<(sizeof(In) > sizeof(Out)), In, Out>;
  constexpr int N = runLength<Widest>;
  PointwiseBody<In, Out, N> runs{args};
  streamRuns<kPointwiseElements / N>(args.runs, runs);
  PointwiseBody<In, Out, 1> elements{args};
  streamElements(args.runs * N, args.count, elements);
}

template <typename T>
__device__ __forceinline__ void biasAdd(const BiasAddArgs &args) {
  const auto *x = static_cast<const T *>(args.x);
  const auto *bias = static_cast<const T *>(args.bias);
  auto *y = static_cast<T *>(args.y);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < args.count; i += step)
    y[i] = fromFloat<T>(math::pointwise(TE_RT_ADD, toFloat(x[i]),
                                        toFloat(bias[i % args.cols])));
}

/// T has the size of one access.
template <typename T>
__device__ __forceinline__ void copyStrided(const CopyStridedArgs &args) {
  const auto *x = static_cast<const T *>(args.x);
  auto *y = static_cast<T *>(args.y);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < args.count; i += step) {
    const int64_t line = i / args.length, at = i % args.length;
    const int64_t part = line / args.rows, row = line % args.rows;
    y[part * args.yPart + row * args.yRow + at] =
        x[part * args.xPart + row * args.xRow + at];
  }
}

/// T is the unsigned integer of an element's size.
template <typename T>
__device__ __forceinline__ void fill(const FillArgs &args) {
  if (isSkipped(args.skip))
    return;
  constexpr int N = runLength<T>;
  const int64_t first =
      static_cast<int64_t>(blockIdx.x) * (kFillRuns * blockDim.x) + threadIdx.x;
#pragma unroll
  for (int u = 0; u < kFillRuns; ++u)
    if (first + u * blockDim.x < args.runs)
      static_cast<uint4 *>(args.y)[first + u * blockDim.x] =
          make_uint4(args.word, args.word, args.word, args.word);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = args.runs * N +
                   static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < args.count; i += step)
    static_cast<T *>(args.y)[i] = static_cast<T>(args.word);
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

#define TE_POINTWISE(in, out, In, Out)                                         \
  extern "C" __global__ void __launch_bounds__(kPointwiseBlock)                \
      te_pointwise_##in##_##out(const __grid_constant__ PointwiseArgs args) {  \
    pointwise<In, Out>(args);                                                  \
  }
TE_POINTWISE(f32, f32, float, float)
TE_POINTWISE(f32, bf16, float, bf16)
TE_POINTWISE(f32, f16, float, f16)
TE_POINTWISE(bf16, f32, bf16, float)
TE_POINTWISE(bf16, bf16, bf16, bf16)
TE_POINTWISE(bf16, f16, bf16, f16)
TE_POINTWISE(f16, f32, f16, float)
TE_POINTWISE(f16, bf16, f16, bf16)
TE_POINTWISE(f16, f16, f16, f16)

#define TE_FILL(bytes, T)                                                      \
  extern "C" __global__ void __launch_bounds__(kPointwiseBlock)                \
      te_fill_##bytes(const __grid_constant__ FillArgs args) {                 \
    fill<T>(args);                                                             \
  }
TE_FILL(1, uint8_t)
TE_FILL(2, uint16_t)
TE_FILL(4, uint32_t)

#define TE_BIAS_ADD(name, T)                                                   \
  extern "C" __global__ void __launch_bounds__(kPointwiseBlock)                \
      te_bias_add_##name(const __grid_constant__ BiasAddArgs args) {           \
    biasAdd<T>(args);                                                          \
  }
TE_BIAS_ADD(f32, float)
TE_BIAS_ADD(bf16, bf16)
TE_BIAS_ADD(f16, f16)

#define TE_COPY_STRIDED(bytes, T)                                              \
  extern "C" __global__ void __launch_bounds__(kPointwiseBlock)                \
      te_copy_strided_##bytes(const __grid_constant__ CopyStridedArgs args) {  \
    copyStrided<T>(args);                                                      \
  }
TE_COPY_STRIDED(1, uint8_t)
TE_COPY_STRIDED(4, uint32_t)
TE_COPY_STRIDED(16, uint4)
