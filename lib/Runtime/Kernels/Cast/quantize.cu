//===- quantize.cu - amax, scales, and quantisation of plain tensors ------===//
//
// te_amax_<type>, te_compute_scale, and
// te_quantize_{tensor,tensor_amax,block_1x128,block_128x128}_<type>_<fp8>;
// <type> is f32_bf16 if f32 is rounded to bf16 first. A quantisation kernel
// reads a tile once, at the speed of a copy, and writes both usages from
// registers (tile.cuh). The kernels whose name ends in _general support any
// shape and any alignment.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Cast/tensor_tile.cuh"
#include "Kernels/Device/launch_sm90.cuh"

namespace te::rt::cuda {
namespace {

template <typename T>
__device__ __forceinline__ void amax(const AmaxArgs &args) {
  if (isSkipped(args.skip)) {
    if (blockIdx.x == 0 && threadIdx.x == 0)
      args.amax[blockIdx.y] = 0.0f;
    return;
  }
  constexpr int kUnroll = 4;
  const T *x = static_cast<const T *>(ofMatrix(args.x, args.stride));
  const int64_t thread =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;

  uint32_t words[kUnroll] = {};
  int64_t done = 0; // elements that go in chunks
  if (reinterpret_cast<uintptr_t>(x) % 16 == 0) {
    const int64_t chunks = args.count / kChunk;
    done = chunks * kChunk;
    int64_t i = thread;
    for (; i + (kUnroll - 1) * threads < chunks; i += kUnroll * threads) {
      Chunk<T> chunk[kUnroll];
#pragma unroll
      for (int k = 0; k < kUnroll; ++k)
        chunk[k] = Chunk<T>::load(x + (i + k * threads) * kChunk);
#pragma unroll
      for (int k = 0; k < kUnroll; ++k)
        words[k] = maxAbs<T>(words[k], maxAbs(chunk[k]));
    }
    for (; i < chunks; i += threads)
      words[0] = maxAbs<T>(words[0], maxAbs(Chunk<T>::load(x + i * kChunk)));
  }
  float result = 0.0f;
#pragma unroll
  for (int k = 0; k < kUnroll; ++k)
    result = fmaxf(result, amaxOf<T>(words[k]));
  for (int64_t i = done + thread; i < args.count; i += threads)
    result = fmaxf(result, fabsf(toFloat(x[i])));

  __shared__ float partial[kTileThreads / 32];
  result = warpMax(result);
  if (threadIdx.x % 32 == 0)
    partial[threadIdx.x / 32] = result;
  __syncthreads();
  if (threadIdx.x != 0)
    return;
#pragma unroll
  for (int i = 1; i < kTileThreads / 32; ++i)
    result = fmaxf(result, partial[i]);
  if (args.rounds) // to nearest, which keeps the order
    result = toFloat(fromFloat<bf16>(result));
  finishAmax(result, args.slot, args.amax + blockIdx.y);
}

/// An element of a plain tensor of X, as a T.
template <typename X, typename T> struct PlainElement {
  const X *x;
  int64_t cols;
  __device__ T operator()(int64_t row, int64_t col) const {
    const X element = x[row * cols + col];
    if constexpr (std::is_same_v<X, T>)
      return element;
    else
      return fromFloat<T>(element);
  }
};

/// The type of the elements in memory, and of those of a tile.
template <typename X, typename T> struct Rounded {};
template <typename Input> struct InputOf {
  using Memory = Input;
  using Element = Input;
};
template <typename X, typename T> struct InputOf<Rounded<X, T>> {
  using Memory = X;
  using Element = T;
};
template <typename Input> using ElementOf = typename InputOf<Input>::Element;
/// The resident blocks for __launch_bounds__: rows in flight before they are
/// rounded need registers of their own.
template <typename Input>
inline constexpr int kBlocksPerSm = kTileBlocksPerSm<Input>;
template <typename X, typename T>
inline constexpr int kBlocksPerSm<Rounded<X, T>> = 3;

template <typename Input, bool kAligned, typename Position>
__device__ __forceinline__ void load(const QuantizeArgs &args,
                                     const Position &at,
                                     Tile<ElementOf<Input>> &tile) {
  using X = typename InputOf<Input>::Memory;
  using T = ElementOf<Input>;
  const X *x = static_cast<const X *>(ofMatrix(args.x, args.strides.x));
  const TilePosition<false> ofX(at.rowTile(), at.colTile(), args.xRows,
                                args.xCols);
  if constexpr (!kAligned)
    loadTileGeneral<T>(PlainElement<X, T>{x, args.xCols}, ofX, tile);
  else if (ofX.isWhole())
    loadTile(
        x,
        TilePosition<true>(at.rowTile(), at.colTile(), args.xRows, args.xCols),
        tile);
  else
    loadTile(x, ofX, tile);
}

template <typename Input, typename F8, bool kAligned, bool kMeasures>
struct QuantizeTensorBody {
  const QuantizeArgs &args;

  template <typename Position>
  __device__ __forceinline__ void operator()(const Position &at) const {
    Tile<ElementOf<Input>> tile;
    load<Input, kAligned>(args, at, tile);
    quantizeTensorTile<F8, kAligned, kMeasures>(args, at, tile);
  }
};
template <typename Input, typename F8, bool kAligned>
using QuantizeTensor = QuantizeTensorBody<Input, F8, kAligned, false>;
template <typename Input, typename F8, bool kAligned>
using QuantizeTensorAmax = QuantizeTensorBody<Input, F8, kAligned, true>;

template <typename T, typename F8, bool kAligned> struct QuantizeBlock1x128 {
  const QuantizeArgs &args;

  template <typename Position>
  __device__ __forceinline__ void operator()(const Position &at) const {
    Tile<T> tile;
    load<T, kAligned>(args, at, tile);
    quantizeTile1x128<T, F8, kAligned>(tile, at, outputsOf(args), args.pow2,
                                       args.epsilon, tileShared());
  }
};

/// Stores entry (i, j) of a [., up(count, 4)] scale tensor. The last j also
/// writes the padding.
__device__ __forceinline__ void storeSquareScale(float *scales, int64_t i,
                                                 int64_t j, int64_t count,
                                                 float inverse) {
  scales += i * up4(count);
  scales[j] = inverse;
  if (j == count - 1)
#pragma unroll 1
    for (++j; j < up4(count); ++j)
      scales[j] = 0.0f;
}

template <typename Input, typename F8, bool kAligned>
struct QuantizeBlock128x128 {
  const QuantizeArgs &args;

  template <typename Position>
  __device__ __forceinline__ void operator()(const Position &at) const {
    using T = ElementOf<Input>;
    Tile<T> tile;
    load<Input, kAligned>(args, at, tile);
    const float scale = blockScale<T, F8>(tileAmax(tile, tileShared()),
                                          args.pow2, args.epsilon);
    const QuantizeOutputs out = outputsOf(args);
    if (threadIdx.x == 0) {
      const float inverse = __frcp_rn(scale);
      const int64_t rowTiles = (args.rows + kTile - 1) / kTile;
      if (out.rowScale)
        storeSquareScale(out.rowScale, at.rowTile(), at.colTile(),
                         args.colTiles, inverse);
      if (out.colScale)
        storeSquareScale(out.colScale, at.colTile(), at.rowTile(), rowTiles,
                         inverse);
    }
    quantizeTileUniform<T, F8, kAligned>(tile, at, out, scale, tileShared());
  }
};

/// Runs one of the above. The general kernels have no separate path for whole
/// tiles.
template <typename Input, typename F8, bool kAligned,
          template <typename, typename, bool> typename Body>
__device__ __forceinline__ void quantize(const QuantizeArgs &args) {
  if (isSkipped(args.skip)) {
    if (args.amax && blockIdx.x == 0 && threadIdx.x == 0)
      *ofMatrix(args.amax, args.strides.amax) = 0.0f;
    return;
  }
  const Body<Input, F8, kAligned> body{args};
  if constexpr (kAligned)
    withTile(args.colTiles, args.rows, args.cols, body);
  else
    body(TilePosition<false>(blockIdx.x / args.colTiles,
                             blockIdx.x % args.colTiles, args.rows, args.cols));
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

extern "C" __global__ void
te_compute_scale(const __grid_constant__ ComputeScaleArgs args) {
  te::rt::cuda::ptx::beginKernel();
  const int64_t i = blockIdx.x;
  args.scale[i] =
      te::rt::math::computeScale(args.amax[i], args.fp8Max, args.pow2,
                                 args.epsilon, te::rt::math::kFloatMax);
}

#define TE_QUANTIZE(name, Body, type, T, fp8, F8)                              \
  extern "C" __global__ void __launch_bounds__(kTileThreads, kBlocksPerSm<T>)  \
      te_quantize_##name##_##type##_##fp8(                                     \
          const __grid_constant__ QuantizeArgs args) {                         \
    te::rt::cuda::ptx::beginKernel();                                          \
    quantize<T, F8, true, Body>(args);                                         \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kTileThreads, 2)                \
      te_quantize_##name##_##type##_##fp8##_general(                           \
          const __grid_constant__ QuantizeArgs args) {                         \
    te::rt::cuda::ptx::beginKernel();                                          \
    quantize<T, F8, false, Body>(args);                                        \
  }
#define TE_QUANTIZE_SCHEMES(type, T, fp8, F8)                                  \
  TE_QUANTIZE(tensor, QuantizeTensor, type, T, fp8, F8)                        \
  TE_QUANTIZE(tensor_amax, QuantizeTensorAmax, type, T, fp8, F8)               \
  TE_QUANTIZE(block_1x128, QuantizeBlock1x128, type, T, fp8, F8)               \
  TE_QUANTIZE(block_128x128, QuantizeBlock128x128, type, T, fp8, F8)
#define TE_CAST_TYPE(type, T)                                                  \
  extern "C" __global__ void __launch_bounds__(kTileThreads)                   \
      te_amax_##type(const __grid_constant__ AmaxArgs args) {                  \
    te::rt::cuda::ptx::beginKernel();                                          \
    amax<T>(args);                                                             \
  }                                                                            \
  TE_QUANTIZE_SCHEMES(type, T, e4m3, E4M3)                                     \
  TE_QUANTIZE_SCHEMES(type, T, e5m2, E5M2)
TE_CAST_TYPE(bf16, bf16)
TE_CAST_TYPE(f16, f16)
TE_CAST_TYPE(f32, float)

using RoundedToBf16 = Rounded<float, bf16>;
TE_QUANTIZE(tensor, QuantizeTensor, f32_bf16, RoundedToBf16, e4m3, E4M3)
TE_QUANTIZE(tensor_amax, QuantizeTensorAmax, f32_bf16, RoundedToBf16, e4m3,
            E4M3)
TE_QUANTIZE(block_128x128, QuantizeBlock128x128, f32_bf16, RoundedToBf16, e4m3,
            E4M3)
