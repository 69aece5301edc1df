//===- optimizer.cu - AdamW and SGD ---------------------------------------===//
//
// te_adamw_<param>_<grad>_<moment> and te_sgd_<param>_<grad>: one pass over all
// state. The formulas are in Core/Formulas.h; these kernels only load and
// store.
//
//===----------------------------------------------------------------------===//

#include "Core/Formulas.h"
#include "Kernels/Device/elements.cuh"
#include "Kernels/Optimizer/optimizer_args.h"

namespace te::rt::cuda {
namespace {

template <typename Param, typename Grad, typename Moment, int N>
struct AdamwBody {
  struct Loaded {
    Run<Param, N> param;
    Run<Grad, N> grad;
    Run<Moment, N> m, v;
  };
  const AdamwArgs &args;
  float step, lr = 0, correction1 = 0, correction2 = 0;

  __device__ __forceinline__ Loaded load(int64_t i) const {
    Loaded loaded;
    loaded.param =
        Run<Param, N>::load(static_cast<const Param *>(args.param) + i * N);
    loaded.grad =
        Run<Grad, N>::load(static_cast<const Grad *>(args.grad) + i * N);
    loaded.m =
        Run<Moment, N>::load(static_cast<const Moment *>(args.m) + i * N);
    loaded.v =
        Run<Moment, N>::load(static_cast<const Moment *>(args.v) + i * N);
    return loaded;
  }
  __device__ __forceinline__ void finish(int64_t i,
                                         const Loaded &loaded) const {
    float param[N], grad[N], m[N], v[N];
    loaded.param.unpack(param);
    loaded.grad.unpack(grad);
    loaded.m.unpack(m);
    loaded.v.unpack(v);
#pragma unroll
    for (int k = 0; k < N; ++k)
      param[k] = math::adamw(args.params, param[k], grad[k], m[k], v[k], lr,
                             correction1, correction2);
    if constexpr (std::is_same_v<Moment, bf16>) {
      const math::PhiloxWords random =
          math::adamwRandom(args.params, i * N / 4, step);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const uint32_t word = random.word[(i * N + k) % 4];
        m[k] = math::roundStochasticBF16(m[k], word);
        v[k] = math::roundStochasticBF16(v[k], word >> 16);
      }
    }
    Run<Param, N>::pack(param).store(static_cast<Param *>(args.newParam) +
                                     i * N);
    Run<Moment, N>::pack(m).store(static_cast<Moment *>(args.newM) + i * N);
    Run<Moment, N>::pack(v).store(static_cast<Moment *>(args.newV) + i * N);
  }
};

template <typename Param, typename Grad, typename Moment>
__device__ __forceinline__ void adamw(const AdamwArgs &args) {
  const float step = *args.step;
  AdamwBody<Param, Grad, Moment, kOptimizerRun> runs{args, step};
  RunStream<kOptimizerUnroll, decltype(runs)> stream(args.runs);
  stream.load(runs);
  // While the loads are in flight, one warp runs each of the loops in f64.
  __shared__ float corrections[2];
  if (threadIdx.x == 0)
    corrections[0] = math::adamwBiasCorrection(args.params.beta1, step);
  if (threadIdx.x == 32)
    corrections[1] = math::adamwBiasCorrection(args.params.beta2, step);
  __syncthreads();
  runs.lr = *args.lr;
  runs.correction1 = corrections[0];
  runs.correction2 = corrections[1];
  stream.finish(runs);
  AdamwBody<Param, Grad, Moment, 1> elements{args, step, runs.lr,
                                             corrections[0], corrections[1]};
  streamElements(args.runs * kOptimizerRun, args.params.count, elements);
}

template <typename Param, typename Grad, int N> struct SgdBody {
  struct Loaded {
    Run<Param, N> param;
    Run<Grad, N> grad;
    Run<float, N> buf;
  };
  const SgdArgs &args;
  float lr;

  __device__ __forceinline__ Loaded load(int64_t i) const {
    Loaded loaded;
    loaded.param =
        Run<Param, N>::load(static_cast<const Param *>(args.param) + i * N);
    loaded.grad =
        Run<Grad, N>::load(static_cast<const Grad *>(args.grad) + i * N);
    if (args.buf)
      loaded.buf = Run<float, N>::load(args.buf + i * N);
    return loaded;
  }
  __device__ __forceinline__ void finish(int64_t i,
                                         const Loaded &loaded) const {
    float param[N], grad[N], buf[N];
    loaded.param.unpack(param);
    loaded.grad.unpack(grad);
    loaded.buf.unpack(buf);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      buf[k] = args.buf ? buf[k] : 0.0f;
      param[k] = math::sgd(args.params, param[k], grad[k], buf[k], lr);
    }
    Run<Param, N>::pack(param).store(static_cast<Param *>(args.newParam) +
                                     i * N);
    if (args.newBuf)
      Run<float, N>::pack(buf).store(args.newBuf + i * N);
  }
};

template <typename Param, typename Grad>
__device__ __forceinline__ void sgd(const SgdArgs &args) {
  const float lr = *args.lr;
  SgdBody<Param, Grad, kOptimizerRun> runs{args, lr};
  streamRuns<kOptimizerUnroll>(args.runs, runs);
  SgdBody<Param, Grad, 1> elements{args, lr};
  streamElements(args.runs * kOptimizerRun, args.params.count, elements);
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

#define TE_ADAMW(param, grad, moment, Param, Grad, Moment)                     \
  extern "C" __global__ void __launch_bounds__(kOptimizerBlock)                \
      te_adamw_##param##_##grad##_##moment(                                    \
          const __grid_constant__ AdamwArgs args) {                            \
    adamw<Param, Grad, Moment>(args);                                          \
  }
#define TE_OPTIMIZER(param, grad, Param, Grad)                                 \
  TE_ADAMW(param, grad, f32, Param, Grad, float)                               \
  TE_ADAMW(param, grad, bf16, Param, Grad, bf16)                               \
  extern "C" __global__ void __launch_bounds__(kOptimizerBlock)                \
      te_sgd_##param##_##grad(const __grid_constant__ SgdArgs args) {          \
    sgd<Param, Grad>(args);                                                    \
  }
#define TE_OPTIMIZER_GRADS(param, Param)                                       \
  TE_OPTIMIZER(param, f32, Param, float)                                       \
  TE_OPTIMIZER(param, bf16, Param, bf16)                                       \
  TE_OPTIMIZER(param, f16, Param, f16)
TE_OPTIMIZER_GRADS(f32, float)
TE_OPTIMIZER_GRADS(bf16, bf16)
TE_OPTIMIZER_GRADS(f16, f16)
