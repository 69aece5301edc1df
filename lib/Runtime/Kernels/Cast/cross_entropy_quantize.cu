//===- cross_entropy_quantize.cu - casts of the gradient of logits --------===//
//
// te_cross_entropy_quantize_{tensor,tensor_amax,block_1x128}_bf16_<fp8>: a
// block computes a tile of what te_cross_entropy_backward_bf16 stores, in
// registers, and casts it as the kernels of quantize.cu do. Kernels whose name
// ends in
// _<type>_<fp8>_general take any type, shape and alignment.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Cast/tensor_tile.cuh"
#include "Kernels/CrossEntropy/logit_gradient.cuh"
#include "Kernels/Device/launch_sm90.cuh"

namespace te::rt::cuda {
namespace {

/// An element of the gradient.
template <typename T> struct GradientElement {
  const LogitGradient<T> &gradient;
  __device__ T operator()(int64_t row, int64_t col) const {
    T result;
    gradient.row(row)
        .template compute<1>(Run<T, 1>::load(gradient.at(row, col)), col)
        .store(&result);
    return result;
  }
};

/// Replaces a tile of logits by their gradient. Elements outside of the matrix
/// stay zero.
template <typename T, typename Position>
__device__ __forceinline__ void differentiate(const LogitGradient<T> &gradient,
                                              const Position &at,
                                              Tile<T> &tile) {
#pragma unroll
  for (int i = 0; i < kTileRows; ++i)
    if (at.holds(i)) {
      Run<T, kChunk> run;
#pragma unroll
      for (int w = 0; w < Chunk<T>::kWords; ++w)
        run.words[w] = tile[i].words[w];
      run = gradient.row(at.row() + i).compute(run, at.col());
#pragma unroll
      for (int w = 0; w < Chunk<T>::kWords; ++w)
        tile[i].words[w] = run.words[w];
    }
}

enum class Scaling { Tensor, TensorAmax, Block1x128 };

template <typename T, typename F8, bool kAligned, Scaling kScaling>
struct QuantizeGradient {
  const CrossEntropyQuantizeArgs &args;

  template <typename Position>
  __device__ __forceinline__ void operator()(const Position &at) const {
    const LogitGradient<T> gradient(args.loss);
    Tile<T> tile;
    if constexpr (kAligned) {
      loadTile(static_cast<const T *>(args.loss.logits), at, tile);
      differentiate(gradient, at, tile);
    } else {
      loadTileGeneral<T>(GradientElement<T>{gradient}, at, tile);
    }
    if constexpr (kScaling == Scaling::Block1x128)
      quantizeTile1x128<T, F8, kAligned>(tile, at, args.out, args.pow2,
                                         args.epsilon, tileShared());
    else
      quantizeTensorTile<F8, kAligned, kScaling == Scaling::TensorAmax>(
          args, at, tile);
  }
};

template <typename T, typename F8, bool kAligned, Scaling kScaling>
__device__ __forceinline__ void
quantizeGradient(const CrossEntropyQuantizeArgs &args) {
  const QuantizeGradient<T, F8, kAligned, kScaling> body{args};
  if constexpr (kAligned)
    withTile(args.colTiles, args.rows, args.cols, body);
  else
    body(TilePosition<false>(blockIdx.x / args.colTiles,
                             blockIdx.x % args.colTiles, args.rows, args.cols));
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

#define TE_FAST(name, scaling, fp8, F8)                                        \
  extern "C" __global__ void __launch_bounds__(kTileThreads,                   \
                                               kTileBlocksPerSm<bf16>)         \
      te_cross_entropy_quantize_##name##_bf16_##fp8(                           \
          const __grid_constant__ CrossEntropyQuantizeArgs args) {             \
    te::rt::cuda::ptx::beginKernel();                                          \
    quantizeGradient<bf16, F8, true, Scaling::scaling>(args);                  \
  }
#define TE_GENERAL(name, scaling, type, T, fp8, F8)                            \
  extern "C" __global__ void __launch_bounds__(kTileThreads, 2)                \
      te_cross_entropy_quantize_##name##_##type##_##fp8##_general(             \
          const __grid_constant__ CrossEntropyQuantizeArgs args) {             \
    te::rt::cuda::ptx::beginKernel();                                          \
    quantizeGradient<T, F8, false, Scaling::scaling>(args);                    \
  }
#define TE_SCALING(name, scaling, fp8, F8)                                     \
  TE_FAST(name, scaling, fp8, F8)                                              \
  TE_GENERAL(name, scaling, bf16, bf16, fp8, F8)                               \
  TE_GENERAL(name, scaling, f16, f16, fp8, F8)                                 \
  TE_GENERAL(name, scaling, f32, float, fp8, F8)
#define TE_FP8(fp8, F8)                                                        \
  TE_SCALING(tensor, Tensor, fp8, F8)                                          \
  TE_SCALING(tensor_amax, TensorAmax, fp8, F8)                                 \
  TE_SCALING(block_1x128, Block1x128, fp8, F8)
TE_FP8(e4m3, E4M3)
TE_FP8(e5m2, E5M2)
