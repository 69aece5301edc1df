//===- probe.cu - statistics and NaN of tensors ---------------------------===//
//
// te_count_nonfinite_<type> reads x once, and writes its counters only if it
// found something. te_tensor_stats_<type> computes one run in one block, with
// one lane per thread; te_tensor_stats_finish combines the runs.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Device/chunk.cuh"
#include "Kernels/Device/launch_sm90.cuh"
#include "Kernels/Probe/probe_args.h"

namespace te::rt::cuda {
namespace {

template <typename T>
__device__ __forceinline__ void countNonfinite(const CountNonfiniteArgs &args) {
  const T *x = static_cast<const T *>(args.x);
  const bool casts = args.scale != nullptr;
  const float scale = casts ? *args.scale : 0.0f;
  const int64_t thread =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  uint32_t found[3] = {};
  auto look = [&](float value) {
    found[0] += math::isNaN(value);
    found[1] += math::isInfinite(value);
    found[2] += casts && math::isLost(value, scale, args.limit);
  };
  int64_t done = 0; // elements that go in chunks
  if (reinterpret_cast<uintptr_t>(x) % 16 == 0) {
    const int64_t chunks = args.count / kChunk;
    done = chunks * kChunk;
    for (int64_t i = thread; i < chunks; i += threads) {
      float values[kChunk];
      Chunk<T>::load(x + i * kChunk).unpack(values);
#pragma unroll
      for (int k = 0; k < kChunk; ++k)
        look(values[k]);
    }
  }
  for (int64_t i = done + thread; i < args.count; i += threads)
    look(toFloat(x[i]));
#pragma unroll
  for (int kind = 0; kind < 3; ++kind) {
    const uint32_t sum = __reduce_add_sync(~0u, found[kind]);
    if (threadIdx.x % 32 == 0 && sum != 0)
      atomicAdd(args.row + kind, sum);
  }
}

template <typename T>
__device__ __forceinline__ void tensorStats(const TensorStatsArgs &args) {
  const T *x = static_cast<const T *>(args.x);
  const int64_t count = args.cast.rows * args.cast.cols;
  const int64_t first = blockIdx.x * kProbeRun;
  const int64_t end = first + kProbeRun < count ? first + kProbeRun : count;
  auto at = [x](int64_t i) { return toFloat(x[i]); };
  double row[kProbeFields];
#pragma unroll
  for (int field = 0; field < kProbeFields; ++field)
    row[field] = math::probeStart(field);
  for (int64_t i = first + threadIdx.x; i < end; i += kProbeBlock)
    math::probeAdd(args.cast, i, at, row);

  __shared__ double lanes[kProbeBlock];
#pragma unroll
  for (int field = 0; field < kProbeFields; ++field) {
    __syncthreads();
    lanes[threadIdx.x] = row[field];
    for (int s = kProbeBlock / 2; s != 0; s /= 2) {
      __syncthreads();
      if (threadIdx.x < s)
        lanes[threadIdx.x] = math::probeCombine(field, lanes[threadIdx.x],
                                                lanes[threadIdx.x + s]);
    }
    if (threadIdx.x == 0)
      args.runs[blockIdx.x].field[field] = lanes[0];
  }
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt;
using namespace te::rt::cuda;

extern "C" __global__ void __launch_bounds__(kProbeBlock)
    te_tensor_stats_finish(const __grid_constant__ TensorStatsFinishArgs args) {
  te::rt::cuda::ptx::beginKernel();
  // Loads are issued together; each thread adds its own sum, in order.
  constexpr int kRuns = 64;
  __shared__ double loaded[kRuns * kProbeFields];
  __shared__ double total[kProbeFields];
  const auto *fields = reinterpret_cast<const double *>(args.runs);
  const int field = threadIdx.x;
  double sum = math::probeStart(field);
  for (int64_t base = 0; base < args.numRuns; base += kRuns) {
    const int64_t left = args.numRuns - base;
    const int runs = static_cast<int>(left < kRuns ? left : kRuns);
    __syncthreads();
    for (int i = threadIdx.x; i < runs * kProbeFields; i += kProbeBlock)
      loaded[i] = fields[base * kProbeFields + i];
    __syncthreads();
    if (field < kProbeFields)
      for (int run = 0; run < runs; ++run)
        sum =
            math::probeCombine(field, sum, loaded[run * kProbeFields + field]);
  }
  if (field < kProbeFields)
    total[field] = sum;
  __syncthreads();
  if (threadIdx.x == 0)
    math::probeResults(total, args.cast, args.stats);
}

#define TE_PROBE(type, T)                                                      \
  extern "C" __global__ void __launch_bounds__(kProbeBlock)                    \
      te_count_nonfinite_##type(                                               \
          const __grid_constant__ CountNonfiniteArgs args) {                   \
    te::rt::cuda::ptx::beginKernel();                                          \
    countNonfinite<T>(args);                                                   \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kProbeBlock)                    \
      te_tensor_stats_##type(const __grid_constant__ TensorStatsArgs args) {   \
    te::rt::cuda::ptx::beginKernel();                                          \
    tensorStats<T>(args);                                                      \
  }
TE_PROBE(f32, float)
TE_PROBE(bf16, bf16)
TE_PROBE(f16, f16)
