//===- optimizer.cu - AdamW, SGD and the norm of gradients ----------------===//
//
// te_adamw_<param>_<grad>_<moment> and te_sgd_<param>_<grad>: one pass over all
// state. The formulas are in Core/Formulas.h; these kernels only load and
// store. te_adamw_group_<param>_<grad>_<moment> does the same with a tensor in
// each row of blocks. te_sum_of_squares sums a run of 4096 elements in the
// lanes of a warp, te_sum_of_squares_runs adds the runs of a tensor in one
// block, and te_sum_of_squares_total adds the tensors.
//
//===----------------------------------------------------------------------===//

#include "Core/Formulas.h"
#include "Kernels/Device/elements.cuh"
#include "Kernels/Device/launch_sm90.cuh"
#include "Kernels/Norm/lane_sum.cuh"
#include "Kernels/Optimizer/adamw_run.cuh"
#include "Kernels/Optimizer/keep.cuh"
#include "Kernels/Optimizer/optimizer_args.h"

namespace te::rt::cuda {
namespace {

/// Multiplies the gradients of a run by `scale`, if there is one.
template <int N>
__device__ __forceinline__ void scaleGrads(float (&grad)[N], bool hasScale,
                                           float scale) {
  if (hasScale) {
#pragma unroll
    for (int k = 0; k < N; ++k)
      grad[k] = grad[k] * scale;
  }
}

/// math::roundStochasticBF16 of what adamwRun gives, with `bits` below 2^16.
template <int N>
__device__ __forceinline__ Run<bf16, N>
roundStochastic(const float (&x)[N], const uint32_t (&bits)[N]) {
  Run<bf16, N> run;
  if constexpr (N == 1)
    run.value = fromFloat<bf16>(math::roundStochasticBF16(x[0], bits[0]));
  else
#pragma unroll
    for (int i = 0; i < N / 2; ++i) // the upper halves of the sums
      run.words[i] =
          __byte_perm(__float_as_uint(x[2 * i]) + bits[2 * i],
                      __float_as_uint(x[2 * i + 1]) + bits[2 * i + 1], 0x7632);
  return run;
}

template <typename Param, typename Grad, typename Moment, int N>
struct AdamwBody {
  struct Loaded {
    Run<Param, N> param;
    Run<Grad, N> grad;
    Run<Moment, N> m, v;
  };
  const AdamwArgs &args;
  float number; // of the step
  AdamwStep step = {};
  float gradScale = 1;

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
    scaleGrads(grad, args.gradScale != nullptr, gradScale);
    adamwRun(args.params, step, param, grad, m, v);
    Run<Param, N>::pack(param).store(static_cast<Param *>(args.newParam) +
                                     i * N);
    auto *newM = static_cast<Moment *>(args.newM) + i * N;
    auto *newV = static_cast<Moment *>(args.newV) + i * N;
    if constexpr (std::is_same_v<Moment, bf16>) {
      const math::PhiloxWords random =
          math::adamwRandom(args.params.seed, i * N / 4, number);
      uint32_t ofM[N], ofV[N];
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const uint32_t word = random.word[(i * N + k) % 4];
        ofM[k] = word & 0xffffu;
        ofV[k] = word >> 16;
      }
      roundStochastic(m, ofM).store(newM);
      roundStochastic(v, ofV).store(newV);
    } else {
      Run<Moment, N>::pack(m).store(newM);
      Run<Moment, N>::pack(v).store(newV);
    }
  }
};

template <typename Param, typename Grad, typename Moment>
__device__ __forceinline__ void adamw(const AdamwArgs &args) {
  // Before the first load, which would take as long as the update.
  if (isSkipped(args.skip)) {
    keep(static_cast<const Param *>(args.param),
         static_cast<Param *>(args.newParam), args.params.count);
    keep(static_cast<const Moment *>(args.m), static_cast<Moment *>(args.newM),
         args.params.count);
    keep(static_cast<const Moment *>(args.v), static_cast<Moment *>(args.newV),
         args.params.count);
    return;
  }
  const float number = *args.step;
  AdamwBody<Param, Grad, Moment, kOptimizerRun> runs{args, number};
  RunStream<kOptimizerUnroll, decltype(runs)> stream(args.runs);
  stream.load(runs);
  // While the loads are in flight.
  runs.step = adamwStep(args.params, args.lr, number);
  runs.gradScale = args.gradScale ? *args.gradScale : 1.0f;
  stream.finish(runs);
  AdamwBody<Param, Grad, Moment, 1> elements{args, number, runs.step,
                                             runs.gradScale};
  streamElements(args.runs * kOptimizerRun, args.params.count, elements);
}

template <typename Param, typename Grad, typename Moment>
__device__ __forceinline__ void adamwGroup(const AdamwGroupArgs &args) {
  const AdamwGroupArgs::Member &member = args.members[blockIdx.y];
  // The grid has as many blocks in each row as the largest tensor needs.
  if (static_cast<int64_t>(blockIdx.x) * blockDim.x >= member.count)
    return;
  AdamwArgs each{args.params,     member.param, member.grad, member.m,
                 member.v,        args.lr,      args.step,   args.gradScale,
                 member.newParam, member.newM,  member.newV, args.skip,
                 member.runs};
  each.params.count = member.count;
  each.params.seed = member.seed;
  adamw<Param, Grad, Moment>(each);
}

template <typename Param, typename Grad, int N> struct SgdBody {
  struct Loaded {
    Run<Param, N> param;
    Run<Grad, N> grad;
    Run<float, N> buf;
  };
  const SgdArgs &args;
  float lr, gradScale;

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
    scaleGrads(grad, args.gradScale != nullptr, gradScale);
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
  if (isSkipped(args.skip)) {
    keep(static_cast<const Param *>(args.param),
         static_cast<Param *>(args.newParam), args.params.count);
    if (args.newBuf)
      keep(args.buf, args.newBuf, args.params.count);
    return;
  }
  const float lr = *args.lr;
  const float gradScale = args.gradScale ? *args.gradScale : 1.0f;
  SgdBody<Param, Grad, kOptimizerRun> runs{args, lr, gradScale};
  streamRuns<kOptimizerUnroll>(args.runs, runs);
  SgdBody<Param, Grad, 1> elements{args, lr, gradScale};
  streamElements(args.runs * kOptimizerRun, args.params.count, elements);
}

/// Loads that a thread issues before it squares the first.
constexpr int kSquaresLoads = 8;

template <typename T, int V>
__device__ __forceinline__ float squaresOfRun(const T *x, int count) {
  LaneSum<V> sum;
  for (int begin = 0; begin < count; begin += kSquaresLoads * 32 * V) {
    Run<T, V> runs[kSquaresLoads];
    forRuns<V, kSquaresLoads>(
        begin, count, [&](int r, int i) { runs[r] = Run<T, V>::load(x + i); });
    forRuns<V, kSquaresLoads>(begin, count, [&](int r, int) {
      float values[V];
      runs[r].unpack(values);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        float &acc = sum.acc[(r * V + k) % 8];
        acc = fmaf(values[k], values[k], acc);
      }
    });
  }
  return sum.total();
}

/// The sum of run `run`, which is shorter if it is the last one.
template <typename T>
__device__ __forceinline__ float sumOfRun(const SquaresTensor &tensor,
                                          int64_t run) {
  const int64_t first = run * kSquaresRunLength;
  const int64_t left = tensor.count - first;
  const int count =
      left < kSquaresRunLength ? static_cast<int>(left) : kSquaresRunLength;
  const T *x = static_cast<const T *>(tensor.x) + first;
  const bool vectors = tensor.aligned && count % runLength<T> == 0;
  return vectors ? squaresOfRun<T, runLength<T>>(x, count)
                 : squaresOfRun<T, 1>(x, count);
}

/// The tensor of this block.
__device__ __forceinline__ SquaresTensor tensorOf(const SquaresArgs &args) {
  int i = 0;
#pragma unroll
  for (int step = kSquaresGroup / 2; step != 0; step /= 2)
    if (i + step < args.numTensors &&
        args.tensors[i + step].firstBlock <= blockIdx.x)
      i += step;
  return args.tensors[i];
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt;
using namespace te::rt::cuda;

extern "C" __global__ void __launch_bounds__(kOptimizerBlock)
    te_sum_of_squares(const __grid_constant__ SquaresArgs args) {
  te::rt::cuda::ptx::beginKernel();
  const SquaresTensor tensor = tensorOf(args);
  const int64_t run = static_cast<int64_t>(blockIdx.x - tensor.firstBlock) *
                          kSquaresRunsPerBlock +
                      threadIdx.x / 32;
  if (run >= tensor.numRuns || isSkipped(args.skip))
    return;
  const float sum = tensor.type == TE_RT_F32    ? sumOfRun<float>(tensor, run)
                    : tensor.type == TE_RT_BF16 ? sumOfRun<bf16>(tensor, run)
                                                : sumOfRun<f16>(tensor, run);
  if (threadIdx.x % 32 == 0)
    tensor.runs[run] = sum;
}

extern "C" __global__ void __launch_bounds__(kOptimizerBlock)
    te_sum_of_squares_runs(const __grid_constant__ SquaresArgs args) {
  te::rt::cuda::ptx::beginKernel();
  static_assert(kOptimizerBlock == kLanes);
  // The total of a single tensor needs no other kernel.
  const bool isAll = args.numTensors == 1;
  if (isSkipped(args.skip)) {
    if (isAll && threadIdx.x == 0)
      *args.newSum = 0.0f;
    return;
  }
  const SquaresTensor tensor = args.tensors[blockIdx.x];
  __shared__ float lanes[kLanes];
  float acc = 0.0f;
#pragma unroll 16
  for (int64_t run = threadIdx.x; run < tensor.numRuns; run += kLanes)
    acc += tensor.runs[run];
  lanes[threadIdx.x] = acc;
  for (int s = kLanes / 2; s != 0; s /= 2) {
    __syncthreads();
    if (threadIdx.x < s)
      lanes[threadIdx.x] += lanes[threadIdx.x + s];
  }
  if (threadIdx.x != 0)
    return;
  if (isAll)
    *args.newSum = (args.sum ? *args.sum : 0.0f) + lanes[0];
  else
    args.squares[blockIdx.x] = lanes[0];
}

extern "C" __global__ void __launch_bounds__(1)
    te_sum_of_squares_total(const __grid_constant__ SquaresArgs args) {
  te::rt::cuda::ptx::beginKernel();
  if (isSkipped(args.skip)) {
    *args.newSum = 0.0f;
    return;
  }
  float total = args.sum ? *args.sum : 0.0f;
#pragma unroll 8
  for (int i = 0; i < args.numTensors; ++i)
    total += args.squares[i];
  *args.newSum = total;
}

extern "C" __global__ void __launch_bounds__(1)
    te_clip_factor(const __grid_constant__ ClipFactorArgs args) {
  te::rt::cuda::ptx::beginKernel();
  const float norm = sqrtf(*args.sum);
  *args.norm = norm;
  *args.factor = math::clipFactor(norm, args.maxNorm);
}

#define TE_ADAMW(param, grad, moment, Param, Grad, Moment)                     \
  extern "C" __global__ void __launch_bounds__(kOptimizerBlock)                \
      te_adamw_##param##_##grad##_##moment(                                    \
          const __grid_constant__ AdamwArgs args) {                            \
    te::rt::cuda::ptx::beginKernel();                                          \
    adamw<Param, Grad, Moment>(args);                                          \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kOptimizerBlock)                \
      te_adamw_group_##param##_##grad##_##moment(                              \
          const __grid_constant__ AdamwGroupArgs args) {                       \
    te::rt::cuda::ptx::beginKernel();                                          \
    adamwGroup<Param, Grad, Moment>(args);                                     \
  }
#define TE_OPTIMIZER(param, grad, Param, Grad)                                 \
  TE_ADAMW(param, grad, f32, Param, Grad, float)                               \
  TE_ADAMW(param, grad, bf16, Param, Grad, bf16)                               \
  extern "C" __global__ void __launch_bounds__(kOptimizerBlock)                \
      te_sgd_##param##_##grad(const __grid_constant__ SgdArgs args) {          \
    te::rt::cuda::ptx::beginKernel();                                          \
    sgd<Param, Grad>(args);                                                    \
  }
#define TE_OPTIMIZER_GRADS(param, Param)                                       \
  TE_OPTIMIZER(param, f32, Param, float)                                       \
  TE_OPTIMIZER(param, bf16, Param, bf16)                                       \
  TE_OPTIMIZER(param, f16, Param, f16)
TE_OPTIMIZER_GRADS(f32, float)
TE_OPTIMIZER_GRADS(bf16, bf16)
TE_OPTIMIZER_GRADS(f16, f16)
