//===- activation_quantize.cu - activations that are cast -----------------===//
//
// te_activation[_backward]_quantize_{tensor,block_1x128}_<kind>_<fp8> compute a
// tile of the result as bf16, with the same bits that the activation kernels
// store, and quantise it in registers (tile.cuh). <kind> is the same as in
// activation.cu. Kernels whose name ends in _<type>_<fp8>_general take any
// kind, shape and alignment.
//
// The fast kernels use the short formulas of fast_math.cuh. A thread that meets
// an argument outside their domain (a sigmoid of 87 or more, or NaN, which is
// rare) computes its part again with the formulas of Core/Formulas.h.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Activation/kinds.cuh"
#include "Kernels/Cast/slot_tiles.cuh"
#include "Kernels/Cast/tensor_tile.cuh"
#include "Kernels/Device/cp_async_sm80.cuh"
#include "Kernels/Device/launch_sm90.cuh"

namespace te::rt::cuda {
namespace {

//===----------------------------------------------------------------------===//
// One element, by Core/Formulas.h
//===----------------------------------------------------------------------===//

/// An element of y. `cols` is the number of columns of y.
template <typename T> struct ForwardElement {
  const T *x, *second;
  int64_t pitch;
  int32_t kind;
  math::Clamp clamp;

  template <int kKind>
  __device__ ForwardElement(const ActivationQuantizeArgs &args,
                            const Activation<kKind> &act)
      : x(static_cast<const T *>(args.x)),
        second(static_cast<const T *>(args.second)), pitch(args.pitch),
        kind(act.kind), clamp(act.clamp) {}

  __device__ T operator()(int64_t row, int64_t col) const {
    const int64_t at = row * pitch + col;
    float y = math::activation(kind, clamp, toFloat(x[at]));
    if (isGatedKind(kind))
      y = y * math::gate(kind, clamp, toFloat(second[at]));
    return fromFloat<T>(y);
  }
};

/// An element of dx. Of gated kinds, columns from `cols` on are those of the
/// gradient of the second half.
template <typename T> struct BackwardElement {
  const T *dy, *x, *second;
  int64_t cols, pitch;
  int32_t kind;
  math::Clamp clamp;

  template <int kKind>
  __device__ BackwardElement(const ActivationQuantizeArgs &args,
                             const Activation<kKind> &act)
      : dy(static_cast<const T *>(args.dy)), x(static_cast<const T *>(args.x)),
        second(static_cast<const T *>(args.second)), cols(args.cols),
        pitch(args.pitch), kind(act.kind), clamp(act.clamp) {}

  __device__ T operator()(int64_t row, int64_t col) const {
    const bool ofSecond = col >= cols;
    if (ofSecond)
      col -= cols;
    const float g = toFloat(dy[row * cols + col]);
    const int64_t at = row * pitch + col;
    const float value = toFloat(x[at]);
    if (ofSecond)
      return fromFloat<T>(
          math::gateGrad(kind, clamp, toFloat(second[at]),
                         math::activation(kind, clamp, value) * g));
    const float grad = math::activationGrad(kind, clamp, value);
    return fromFloat<T>(isGatedKind(kind)
                            ? (grad * g) *
                                  math::gate(kind, clamp, toFloat(second[at]))
                            : g * grad);
  }
};

/// The thread's own eight chunks of a tile in shared memory, which start where
/// the stage starts: chunk i is [i * kTileThreads], and a second tile follows.
/// cp.async writes the inputs here, all of them in flight without using
/// registers, and the results overwrite them. The stage is used only after a
/// barrier before which every thread has read its part of the first tile.
__device__ __forceinline__ Chunk<bf16> *slots() {
  return reinterpret_cast<Chunk<bf16> *>(tileShared().stage) + threadIdx.x;
}

/// Starts to copy the thread's rows of x into its slots, four rows to a
/// cp.async group. The second half of a gated input goes to the second tile.
template <bool kGated, typename Position>
__device__ __forceinline__ void copyTiles(const bf16 *x, const bf16 *second,
                                          int64_t pitch, const Position &at,
                                          Chunk<bf16> *slots) {
#pragma unroll
  for (int row = 0; row < kTileRows; ++row) {
    Chunk<bf16> *slot = slots + row * kTileThreads;
    ptx::cpAsync16(slot, x, at.holds(row));
    if constexpr (kGated)
      ptx::cpAsync16(slot + kTwin, second + row * pitch, at.holds(row));
    x += pitch;
    if (row % 4 == 3)
      ptx::cpAsyncCommitGroup();
  }
}

/// Computes the thread's slots element by element, for columns from `col` on.
template <typename Element, typename Position>
__device__ __forceinline__ void recompute(const Element &element,
                                          const Position &at, int64_t col,
                                          Chunk<bf16> *slots) {
#pragma unroll 1
  for (int i = 0; i < kTileRows * kChunk; ++i)
    if (at.holds(i / kChunk))
      reinterpret_cast<bf16 *>(slots + i / kChunk * kTileThreads)[i % kChunk] =
          element(at.row() + i / kChunk, col + i % kChunk);
}

//===----------------------------------------------------------------------===//
// Eight elements, by fast_math.cuh
//===----------------------------------------------------------------------===//

/// Collects the largest |x|, so that the caller can check at the end whether
/// the short formulas were valid for all of them.
template <int kKind> class Domain {
public:
  __device__ __forceinline__ explicit Domain(const Activation<kKind> &act)
      : act(act) {}
  __device__ __forceinline__ void add(const Chunk<bf16> &x) {
    if (!Activation<kKind>::kFixed || act.hasSigmoid()) {
#pragma unroll
      for (int i = 0; i < Chunk<bf16>::kWords; ++i)
        largest = ptx::maxAbsNanBf16x2(largest, x.words[i]);
    }
  }
  __device__ __forceinline__ bool isEasy() const {
    float low, high;
    unpackWord<bf16>(largest, low, high);
    return act.isEasy(low) && act.isEasy(high);
  }

private:
  const Activation<kKind> &act;
  uint32_t largest = 0;
};

template <int kKind>
__device__ __forceinline__ Chunk<bf16> forward(const Activation<kKind> &act,
                                               const Chunk<bf16> &a,
                                               const Chunk<bf16> &b) {
  float x[kChunk], gate[kChunk], y[kChunk];
  a.unpack(x);
  act.template apply<true>(x, y);
  if constexpr (isGatedKind(kKind)) {
    b.unpack(gate);
#pragma unroll
    for (int j = 0; j < kChunk; ++j)
      y[j] = y[j] * math::gate(act.kind, act.clamp, gate[j]);
  }
  return Chunk<bf16>::pack(y);
}

/// Returns dx. For gated kinds it returns the first half, and writes the other
/// to `second`.
template <int kKind>
__device__ __forceinline__ Chunk<bf16>
backward(const Activation<kKind> &act, const Chunk<bf16> &dy,
         const Chunk<bf16> &a, const Chunk<bf16> &b, Chunk<bf16> &second) {
  float g[kChunk], x[kChunk], gate[kChunk], y[kChunk], grad[kChunk];
  dy.unpack(g);
  a.unpack(x);
  act.template differentiate<true>(x, y, grad);
  if constexpr (isGatedKind(kKind)) {
    b.unpack(gate);
#pragma unroll
    for (int j = 0; j < kChunk; ++j) {
      grad[j] = (grad[j] * g[j]) * math::gate(act.kind, act.clamp, gate[j]);
      y[j] = math::gateGrad(act.kind, act.clamp, gate[j], y[j] * g[j]);
    }
    second = Chunk<bf16>::pack(y);
  } else {
#pragma unroll
    for (int j = 0; j < kChunk; ++j)
      grad[j] = g[j] * grad[j];
  }
  return Chunk<bf16>::pack(grad);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Whether there is one scale for the matrix, or one for each 1x128 block.
enum class Scaling { Tensor, Block1x128 };

/// The cast of tile t of a block: of y or dx, or of the second gradient.
__device__ __forceinline__ const QuantizeArgs &
castOf(const ActivationQuantizeArgs &args, int t) {
  return t == 0 ? args : args.other;
}

/// Measures the amaxes of tile `at` of `kTiles` matrices from the thread's
/// slots.
template <int kTiles>
__device__ __forceinline__ void
measureSlots(const ActivationQuantizeArgs &args) {
  uint32_t word = 0;
#pragma unroll 1
  for (int t = 0; t < kTiles; ++t) {
    Tile<bf16> tile;
    loadSlots(slots() + t * kTwin, tile);
    word = maxAbs<bf16>(word, maxAbs(tile));
    // Both halves of one matrix have one amax.
    if (t + 1 < kTiles && args.amax == args.other.amax)
      continue;
    const float amax = blockAmax<bf16>(word, tileShared());
    const QuantizeArgs &cast = castOf(args, t);
    if (threadIdx.x == 0 && cast.amax)
      finishAmax(amax, cast.amaxSlot, cast.amax);
    word = 0;
    // Every thread has read what blockAmax shares.
    __syncthreads();
  }
}

/// Quantises tile `at` of `kTiles` matrices with their scales. The transposed
/// stages are where the slots of the first tile were.
template <typename F8, int kTiles, typename Position>
__device__ __forceinline__ void castSlots(const ActivationQuantizeArgs &args,
                                          const Position &at) {
  uint8_t *stages = tileShared().stage;
  Tile<bf16> tile;
  loadSlots(slots(), tile);
  // Every thread has read its slots of the first tile.
  __syncthreads();
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    const QuantizeOutputs &out = castOf(args, t).out;
    const float scale = scaleOf<F8>(castOf(args, t), out);
    uint2 bytes[kTileRows];
    packRows<F8>(tile, [=](int) { return RowCast{scale, ~0u}; }, bytes);
    if (t + 1 < kTiles)
      loadSlots(slots() + kTwin, tile);
    if (out.row)
      storeRows<true>(out.row, bytes, at, tileShared());
    if (out.col)
      stageTransposed(bytes, at, stages + t * (kTile * kTile));
  }
  __syncthreads();
#pragma unroll 1
  for (int t = 0; t < kTiles; ++t) {
    const QuantizeOutputs &out = castOf(args, t).out;
    if (out.col)
      storeStage<true>(out.col, out.colPitch, at, stages + t * (kTile * kTile));
  }
}

/// Quantises tile `at` of `kTiles` matrices from the thread's slots. All
/// threads have computed their slots, but none waited for others.
template <typename F8, Scaling kScaling, int kTiles, typename Position>
__device__ __forceinline__ void
quantizeTiles(const ActivationQuantizeArgs &args, const Position &at) {
  if constexpr (kScaling == Scaling::Tensor) {
    if (args.amax || (kTiles > 1 && args.other.amax))
      measureSlots<kTiles>(args);
    castSlots<F8, kTiles>(args, at);
  } else {
#pragma unroll 1
    for (int t = 0; t < kTiles; ++t) {
      Tile<bf16> tile;
      loadSlots(slots() + t * kTwin, tile);
      quantizeTile1x128<bf16, F8, true>(tile, at, castOf(args, t).out,
                                        args.pow2, args.epsilon, tileShared());
    }
  }
}

template <typename F8, int kKind, Scaling kScaling, typename Position>
__device__ __forceinline__ void
activationQuantize(const ActivationQuantizeArgs &args, const Position &at) {
  const int64_t from = at.row() * args.pitch + at.col();
  const bf16 *x = static_cast<const bf16 *>(args.x) + from;
  const bf16 *second = static_cast<const bf16 *>(args.second) + from;
  const Activation<kKind> act(args.act);
  Domain<kKind> domain(act);
  // Elements outside the matrix are loaded as zero, and the result is zero.
  copyTiles<isGatedKind(kKind)>(x, second, args.pitch, at, slots());
  const auto compute = [&](int begin) {
#pragma unroll 1
    for (int row = begin; row < begin + 4; ++row) {
      Chunk<bf16> *slot = slots() + row * kTileThreads;
      const Chunk<bf16> a = slot[0];
      domain.add(a);
      slot[0] = forward(act, a, isGatedKind(kKind) ? slot[kTwin] : a);
    }
  };
  ptx::cpAsyncWaitGroup<1>();
  compute(0);
  ptx::cpAsyncWaitGroup<0>();
  compute(4);
  if (!domain.isEasy())
    recompute(ForwardElement<bf16>(args, act), at, at.col(), slots());
  quantizeTiles<F8, kScaling, 1>(args, at);
}

/// The gradients of both halves of a gated kind are computed from the same
/// inputs. If they are halves of the rows of one matrix, cols is a multiple of
/// kTile.
template <typename F8, int kKind, Scaling kScaling>
__device__ __forceinline__ void
activationBackwardQuantize(const ActivationQuantizeArgs &args) {
  // There is no separate path for whole tiles: it would cost more in registers
  // than it saves in instructions.
  const uint32_t rowTile = blockIdx.x / args.colTiles;
  const uint32_t colTile = blockIdx.x % args.colTiles;
  const TilePosition<false> from(rowTile, colTile, args.rows, args.cols);
  constexpr bool kGated = isGatedKind(kKind);
  const int64_t start = from.row() * args.pitch + from.col();
  const bf16 *x = static_cast<const bf16 *>(args.x) + start;
  const bf16 *second = static_cast<const bf16 *>(args.second) + start;
  const bf16 *dy =
      static_cast<const bf16 *>(args.dy) + from.row() * args.cols + from.col();
  const Activation<kKind> act(args.act);
  Domain<kKind> domain(act);
  copyTiles<kGated>(x, second, args.pitch, from, slots());
  // dy is loaded into registers one row ahead.
  Chunk<bf16> next = Chunk<bf16>::loadIf(from.holds(0), dy);
  const auto compute = [&](int begin) {
#pragma unroll 1
    for (int row = begin; row < begin + 4; ++row) {
      const Chunk<bf16> g = next;
      dy += args.cols;
      next =
          Chunk<bf16>::loadIf(row + 1 < kTileRows && from.holds(row + 1), dy);
      Chunk<bf16> *slot = slots() + row * kTileThreads;
      const Chunk<bf16> a = slot[0];
      domain.add(a);
      Chunk<bf16> second;
      slot[0] = backward(act, g, a, kGated ? slot[kTwin] : a, second);
      if constexpr (kGated)
        slot[kTwin] = second;
    }
  };
  ptx::cpAsyncWaitGroup<1>();
  compute(0);
  ptx::cpAsyncWaitGroup<0>();
  compute(4);
  if (!domain.isEasy()) {
    const BackwardElement<bf16> element(args, act);
    recompute(element, from, from.col(), slots());
    if constexpr (kGated)
      recompute(element, from, from.col() + args.cols, slots() + kTwin);
  }
  quantizeTiles<F8, kScaling, kGated ? 2 : 1>(
      args, TilePosition<false>(rowTile, colTile, args.rows, args.outPitch));
}

/// activationBackwardQuantize for whole tiles and both usages.
template <typename F8, int kKind>
__device__ __forceinline__ void
activationBackwardQuantizeWhole(const ActivationQuantizeArgs &args) {
  const uint32_t rowTile = blockIdx.x / args.colTiles;
  const uint32_t colTile = blockIdx.x % args.colTiles;
  const TilePosition<true> from(rowTile, colTile, args.rows, args.cols);
  constexpr bool kGated = isGatedKind(kKind);
  const int64_t start = from.row() * args.pitch + from.col();
  const bf16 *x = static_cast<const bf16 *>(args.x) + start;
  const bf16 *second = static_cast<const bf16 *>(args.second) + start;
  const bf16 *dy =
      static_cast<const bf16 *>(args.dy) + from.row() * args.cols + from.col();
  auto &scratch = *reinterpret_cast<SlotScratch *>(dynamicShared);
  auto *tiles =
      reinterpret_cast<Chunk<bf16> *>(dynamicShared + sizeof(SlotScratch));
  Chunk<bf16> *slots = tiles + threadIdx.x;
  copyTiles<kGated>(x, second, args.pitch, from, slots);
  // dy is loaded into registers two rows ahead.
  Chunk<bf16> ahead[2] = {Chunk<bf16>::load(dy),
                          Chunk<bf16>::load(dy + args.cols)};
  const Activation<kKind> act(args.act);
  Domain<kKind> domain(act);
  ptx::cpAsyncWaitGroup<1>();
#pragma unroll 1
  for (int row = 0; row < kTileRows; row += 2) {
    if (row == kTileRows / 2)
      ptx::cpAsyncWaitGroup<0>();
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const Chunk<bf16> g = ahead[k];
      ahead[k] = Chunk<bf16>::loadIf(row + 2 < kTileRows,
                                     dy + (row + 2 + k) * args.cols);
      Chunk<bf16> *slot = slots + (row + k) * kTileThreads;
      const Chunk<bf16> a = slot[0];
      domain.add(a);
      Chunk<bf16> second;
      slot[0] = backward(act, g, a, kGated ? slot[kTwin] : a, second);
      if constexpr (kGated)
        slot[kTwin] = second;
    }
  }
  if (!domain.isEasy()) {
    const BackwardElement<bf16> element(args, act);
    recompute(element, from, from.col(), slots);
    if constexpr (kGated)
      recompute(element, from, from.col() + args.cols, slots + kTwin);
  }
  quantizeSlots<F8, kGated ? 2 : 1>(
      slots, scratch, reinterpret_cast<uint8_t *>(tiles), rowTile, colTile,
      args.rows, args.outPitch,
      [&](int t) -> const QuantizeOutputs & { return castOf(args, t).out; },
      args.pow2, args.epsilon);
}

/// Quantises a tile of T as `cast` says. Per-tensor casts have a scale.
template <typename T, typename F8>
__device__ __forceinline__ void quantizeGeneral(const QuantizeArgs &cast,
                                                const TilePosition<false> &at,
                                                const Tile<T> &tile) {
  if (!cast.scale)
    quantizeTile1x128<T, F8, false>(tile, at, cast.out, cast.pow2, cast.epsilon,
                                    tileShared());
  else if (cast.amax)
    quantizeTensorTile<F8, false, true>(cast, at, tile);
  else
    quantizeTensorTile<F8, false, false>(cast, at, tile);
}

template <typename T, typename F8>
__device__ __forceinline__ void
forwardGeneral(const ActivationQuantizeArgs &args) {
  const Activation<kGatedKinds> act(args.act); // any kind
  const TilePosition<false> at(blockIdx.x / args.colTiles,
                               blockIdx.x % args.colTiles, args.rows,
                               args.cols);
  Tile<T> tile;
  loadTileGeneral<T>(ForwardElement<T>(args, act), at, tile);
  quantizeGeneral<T, F8>(args, at, tile);
}

/// Computes a tile of all of dx, or of both gradients if they are apart.
template <typename T, typename F8>
__device__ __forceinline__ void
backwardGeneral(const ActivationQuantizeArgs &args) {
  const Activation<kGatedKinds> act(args.act); // any kind
  const BackwardElement<T> element(args, act);
  const TilePosition<false> at(blockIdx.x / args.colTiles,
                               blockIdx.x % args.colTiles, args.rows,
                               args.outPitch);
  Tile<T> tile;
  loadTileGeneral<T>(element, at, tile);
  quantizeGeneral<T, F8>(args, at, tile);
  if (!isGatedKind(act.kind) || args.outPitch != args.cols)
    return;
  // Every thread has read what the first tile shares.
  __syncthreads();
  loadTileGeneral<T>(
      [&](int64_t row, int64_t col) { return element(row, col + args.cols); },
      at, tile);
  quantizeGeneral<T, F8>(args.other, at, tile);
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

#define TE_ACTIVATION_QUANTIZE(scaling, kScaling, name, kind, fp8, F8)         \
  extern "C" __global__ void __launch_bounds__(kTileThreads, 3)                \
      te_activation_quantize_##scaling##_##name##_##fp8(                       \
          const __grid_constant__ ActivationQuantizeArgs args) {               \
    te::rt::cuda::ptx::beginKernel();                                          \
    withTile(args.colTiles, args.rows, args.cols, [&](const auto &at) {        \
      activationQuantize<F8, kind, kScaling>(args, at);                        \
    });                                                                        \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kTileThreads, 3)                \
      te_activation_backward_quantize_##scaling##_##name##_##fp8(              \
          const __grid_constant__ ActivationQuantizeArgs args) {               \
    te::rt::cuda::ptx::beginKernel();                                          \
    activationBackwardQuantize<F8, kind, kScaling>(args);                      \
  }
#define TE_ACTIVATION_QUANTIZE_KIND(name, kind, fp8, F8)                       \
  TE_ACTIVATION_QUANTIZE(tensor, Scaling::Tensor, name, kind, fp8, F8)         \
  TE_ACTIVATION_QUANTIZE(block_1x128, Scaling::Block1x128, name, kind, fp8,    \
                         F8)                                                   \
  extern "C" __global__ void __launch_bounds__(kTileThreads, 3)                \
      te_activation_backward_quantize_block_1x128_##name##_##fp8##_whole(      \
          const __grid_constant__ ActivationQuantizeArgs args) {               \
    te::rt::cuda::ptx::beginKernel();                                          \
    activationBackwardQuantizeWhole<F8, kind>(args);                           \
  }
#define TE_ACTIVATION_QUANTIZE_GENERAL(type, T, fp8, F8)                       \
  extern "C" __global__ void __launch_bounds__(kTileThreads, 2)                \
      te_activation_quantize_##type##_##fp8##_general(                         \
          const __grid_constant__ ActivationQuantizeArgs args) {               \
    te::rt::cuda::ptx::beginKernel();                                          \
    forwardGeneral<T, F8>(args);                                               \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kTileThreads, 2)                \
      te_activation_backward_quantize_##type##_##fp8##_general(                \
          const __grid_constant__ ActivationQuantizeArgs args) {               \
    te::rt::cuda::ptx::beginKernel();                                          \
    backwardGeneral<T, F8>(args);                                              \
  }
#define TE_ACTIVATION_QUANTIZE_FP8(fp8, F8)                                    \
  TE_ACTIVATION_QUANTIZE_KIND(gelu, TE_RT_GELU, fp8, F8)                       \
  TE_ACTIVATION_QUANTIZE_KIND(silu, TE_RT_SILU, fp8, F8)                       \
  TE_ACTIVATION_QUANTIZE_KIND(relu, TE_RT_RELU, fp8, F8)                       \
  TE_ACTIVATION_QUANTIZE_KIND(swiglu, TE_RT_SWIGLU, fp8, F8)                   \
  TE_ACTIVATION_QUANTIZE_KIND(plain, kPlainKinds, fp8, F8)                     \
  TE_ACTIVATION_QUANTIZE_KIND(gated, kGatedKinds, fp8, F8)                     \
  TE_ACTIVATION_QUANTIZE_GENERAL(bf16, bf16, fp8, F8)                          \
  TE_ACTIVATION_QUANTIZE_GENERAL(f16, f16, fp8, F8)                            \
  TE_ACTIVATION_QUANTIZE_GENERAL(f32, float, fp8, F8)
TE_ACTIVATION_QUANTIZE_FP8(e4m3, E4M3)
TE_ACTIVATION_QUANTIZE_FP8(e5m2, E5M2)
