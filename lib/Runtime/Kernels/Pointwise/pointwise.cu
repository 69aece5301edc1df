//===- pointwise.cu - fills, copies with strides, and bias_add ------------===//
//
// te_fill_<bytes of one element>, te_copy_strided_<bytes of one access> and
// te_bias_add_<type>.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Device/chunk.cuh"
#include "Kernels/Device/launch_sm90.cuh"
#include "Kernels/Pointwise/pointwise_args.h"

namespace te::rt::cuda {
namespace {

template <typename T, int N> struct BiasAddBody {
  struct Loaded {
    Run<T, N> x, bias;
  };
  const BiasAddArgs &args;

  __device__ __forceinline__ Loaded load(int64_t i) const {
    return {Run<T, N>::load(static_cast<const T *>(args.x) + i * N),
            Run<T, N>::load(static_cast<const T *>(args.bias) +
                            i % (args.cols / N) * N)};
  }
  __device__ __forceinline__ void finish(int64_t i,
                                         const Loaded &loaded) const {
    float x[N], bias[N];
    loaded.x.unpack(x);
    loaded.bias.unpack(bias);
#pragma unroll
    for (int k = 0; k < N; ++k)
      x[k] = x[k] + bias[k];
    Run<T, N>::pack(x).store(static_cast<T *>(args.y) + i * N);
  }
};

template <typename T>
__device__ __forceinline__ void biasAdd(const BiasAddArgs &args) {
  constexpr int N = runLength<T>;
  BiasAddBody<T, N> runs{args};
  streamRuns<kPointwiseElements / N>(args.runs, runs);
  BiasAddBody<T, 1> elements{args};
  streamElements(args.runs * N, args.count, elements);
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

#define TE_FILL(bytes, T)                                                      \
  extern "C" __global__ void __launch_bounds__(kPointwiseBlock)                \
      te_fill_##bytes(const __grid_constant__ FillArgs args) {                 \
    te::rt::cuda::ptx::beginKernel();                                          \
    fill<T>(args);                                                             \
  }
TE_FILL(1, uint8_t)
TE_FILL(2, uint16_t)
TE_FILL(4, uint32_t)

#define TE_BIAS_ADD(name, T)                                                   \
  extern "C" __global__ void __launch_bounds__(kPointwiseBlock)                \
      te_bias_add_##name(const __grid_constant__ BiasAddArgs args) {           \
    te::rt::cuda::ptx::beginKernel();                                          \
    biasAdd<T>(args);                                                          \
  }
TE_BIAS_ADD(f32, float)
TE_BIAS_ADD(bf16, bf16)
TE_BIAS_ADD(f16, f16)

#define TE_COPY_STRIDED(bytes, T)                                              \
  extern "C" __global__ void __launch_bounds__(kPointwiseBlock)                \
      te_copy_strided_##bytes(const __grid_constant__ CopyStridedArgs args) {  \
    te::rt::cuda::ptx::beginKernel();                                          \
    copyStrided<T>(args);                                                      \
  }
TE_COPY_STRIDED(1, uint8_t)
TE_COPY_STRIDED(4, uint32_t)
TE_COPY_STRIDED(16, uint4)
