//===- attention.cu - kernels beside cuDNN's attention --------------------===//
//
// te_attention_seed: one thread derives cuDNN's seed for dropout.
//
// te_attention_sink_grad_<type>: a block computes one chunk of 128 tokens of
// one head. A warp computes the dot product of every eighth token, four at a
// time. Then each thread computes the term of one token, because a division and
// an exponential are only cheap when all threads do one, and the first thread
// adds the terms in order. te_chunk_sum adds the chunks.
//
//===----------------------------------------------------------------------===//

#include "Core/Formulas.h"
#include "Kernels/Attention/attention_args.h"
#include "Kernels/Device/elements.cuh"
#include "Kernels/Device/launch_sm90.cuh"
#include "Kernels/Norm/lane_sum.cuh"

namespace te::rt::cuda {
namespace {

/// A lane sum of products. `at` is the first element of the head.
template <typename T>
__device__ __forceinline__ float product(const AttentionSinkGradArgs &args,
                                         int64_t at) {
  const T *const dout = static_cast<const T *>(args.dout) + at;
  const T *const o = static_cast<const T *>(args.o) + at;
  LaneSum<1> sum;
  for (int64_t base = 0; base < args.headDim; base += kLanes)
#pragma unroll
    for (int k = 0; k < kLanes / 32; ++k) {
      const int64_t d = base + k * 32 + threadIdx.x % 32;
      if (d < args.headDim)
        sum.acc[k] = fmaf(toFloat(dout[d]), toFloat(o[d]), sum.acc[k]);
    }
  return sum.total();
}

/// Whether `token` is in a document.
__device__ __forceinline__ bool isUsed(const AttentionSinkGradArgs &args,
                                       int64_t token) {
  return !args.documents || (token >= args.documents[0] &&
                             token < args.documents[args.boundaries - 1]);
}

template <typename T>
__device__ __forceinline__ void sinkGrad(const AttentionSinkGradArgs &args) {
  __shared__ float terms[kChunkRows];
  const int64_t chunk = blockIdx.x / args.heads;
  const int64_t head = blockIdx.x % args.heads;
  const int64_t begin = chunk * kChunkRows;
  const int count = static_cast<int>(
      args.tokens - begin < kChunkRows ? args.tokens - begin : kChunkRows);
#pragma unroll 4
  for (int i = threadIdx.x / 32; i < count; i += kSinkGradBlock / 32) {
    const float delta =
        product<T>(args, ((begin + i) * args.heads + head) * args.headDim);
    if (threadIdx.x % 32 == 0)
      terms[i] = delta;
  }
  __syncthreads();
  if (threadIdx.x < count) {
    const int64_t token = begin + threadIdx.x;
    const int64_t row =
        args.documents
            ? token * args.heads + head
            : (token / args.sequence * args.heads + head) * args.sequence +
                  token % args.sequence;
    // The cotangent of a row outside the documents may be NaN.
    terms[threadIdx.x] =
        isUsed(args, token)
            ? terms[threadIdx.x] * math::exp(args.sinks[head] - args.lse[row])
            : 0.0f;
  }
  __syncthreads();
  if (threadIdx.x != 0)
    return;
  float sum = 0.0f;
#pragma unroll 16
  for (int i = 0; i < count; ++i)
    sum = sum - terms[i];
  args.partial[blockIdx.x] = sum;
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

extern "C" __global__ void
te_attention_seed(const __grid_constant__ AttentionSeedArgs args) {
  te::rt::cuda::ptx::beginKernel();
  namespace math = te::rt::math;
  const math::PhiloxWords random = math::philox(
      0, 0, args.state[1], math::kAttentionDropout, args.state[0], args.stream);
  args.seed[0] = static_cast<int64_t>(
      static_cast<uint64_t>(random.word[1]) << 32 | random.word[0]);
  args.seed[1] = 0;
}

#define TE_SINK_GRAD(type, T)                                                  \
  extern "C" __global__ void __launch_bounds__(kSinkGradBlock)                 \
      te_attention_sink_grad_##type(                                           \
          const __grid_constant__ AttentionSinkGradArgs args) {                \
    te::rt::cuda::ptx::beginKernel();                                          \
    sinkGrad<T>(args);                                                         \
  }
TE_SINK_GRAD(f32, float)
TE_SINK_GRAD(bf16, bf16)
TE_SINK_GRAD(f16, f16)
