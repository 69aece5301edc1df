//===- grouped_plain_gemm.cu - bf16 products of many groups on Hopper -----===//
//
// One launch for the products of all groups, as in grouped_gemm.cu, of operands
// without scales. The tensor core sums all of the contracted axis, in f32.
//
// An operand lies in memory with the contracted axis contiguous (`Inner`), or
// across (`Outer`): the weights of a data gradient, both operands of a weight
// gradient. The tensor core takes both. A stage holds 64 elements of that axis:
//
//   Inner   [line][64], 8 lines to 1024 bytes, as for 8 bits
//   Outer   [64-line chunk][64][64 lines], 8 of the axis to 1024 bytes
//
// both in the 128-byte swizzle, so 64 rows of A are 8192 bytes either way.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Gemm/grouped_tiles.cuh"

namespace te::rt::cuda {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Elements of the contracted axis in a stage, and lines in a chunk of it.
constexpr int kPlainDepth = kPlainGemmDepth;
constexpr int kChunkLines = 64;
constexpr int kChunkBytes = kChunkLines * kLine;

enum class Axis { Inner, Outer };

__device__ __forceinline__ uint32_t plainSlicesOf(uint32_t extent) {
  return (extent + kPlainDepth - 1) / kPlainDepth;
}

template <Axis kA, Axis kB, typename Out, typename Tiles>
__device__ __forceinline__ void producePlain(const BlockGemmArgs &args,
                                             const Shared &shared, Tiles tiles,
                                             uint32_t rank) {
  const Summand summand = summandOf<Tiles>(args);
  Ring ring;
  while (tiles.advance()) {
    const uint32_t slices = plainSlicesOf(tiles.extent());
    for (uint32_t slice = 0; slice < slices; ++slice, ring.advance()) {
      prefetchC<Out>(args, tiles, summand, slice, slices);
      const uint32_t s = ring.stage;
      uint64_t *full = &shared.full[s];
      uint8_t *b = shared.bOf(s);
      const uint32_t depth = tiles.depth() + slice * kPlainDepth;
      ptx::mbarrierWait(&shared.empty[s], ring.parity ^ 1);
      ptx::mbarrierArriveExpectTx(full, (kRows + kCols) * kLine);
      // This CTA's half of A, for both.
      uint8_t *a = shared.aOf(s) + rank * (kRows / 2) * kLine;
      const uint32_t row = tiles.row + rank * (kRows / 2);
      if constexpr (kA == Axis::Inner) {
        ptx::tmaLoad2dMulticast(a, &args.a, full, depth, row, 0b11);
      } else {
#pragma unroll
        for (int chunk = 0; chunk < kRows / 2 / kChunkLines; ++chunk)
          ptx::tmaLoad2dMulticast(a + chunk * kChunkBytes, &args.a, full,
                                  row + chunk * kChunkLines, depth, 0b11);
      }
      if constexpr (kB == Axis::Inner) {
        ptx::tmaLoad2d(b, &args.b, full, depth, tiles.bRow() + tiles.col);
      } else {
#pragma unroll
        for (int chunk = 0; chunk < kCols / kChunkLines; ++chunk)
          ptx::tmaLoad3d(b + chunk * kChunkBytes, &args.b, full,
                         tiles.col + chunk * kChunkLines, depth,
                         tiles.bMatrix());
      }
    }
    if (bringsC<Out, Tiles>(summand))
      produceC(args, shared, tiles, ring);
  }
}

/// Zeros what lies behind the first `depth` elements of the contracted axis of
/// a stage of Outer operands: they belong to another group. All consumers call
/// it together.
__device__ __forceinline__ void clearPlainTail(const Shared &shared, uint32_t s,
                                               uint32_t depth) {
  const uint32_t quads = (kPlainDepth - depth) * (kLine / 16);
  auto clear = [&](uint8_t *chunk) {
    auto *tail = reinterpret_cast<uint4 *>(chunk + depth * kLine);
    for (uint32_t i = threadIdx.x; i < quads; i += kConsumerWarps * 32)
      tail[i] = make_uint4(0, 0, 0, 0);
  };
  for (int chunk = 0; chunk < kRows / kChunkLines; ++chunk)
    clear(shared.aOf(s) + chunk * kChunkBytes);
  for (int chunk = 0; chunk < kCols / kChunkLines; ++chunk)
    clear(shared.bOf(s) + chunk * kChunkBytes);
  // Written like any memory, read by the tensor core.
  ptx::fenceProxyAsync();
  ptx::namedBarrierSync<1, kConsumerWarps * 32>();
}

template <Axis kAxis>
__device__ __forceinline__ uint64_t descriptorOf(const uint8_t *tile) {
  return kAxis == Axis::Inner ? ptx::wgmmaDescriptor(tile)
                              : ptx::wgmmaDescriptorMnMajor(tile, kChunkBytes);
}
/// What a step of 16 along the contracted axis adds to it.
template <Axis kAxis>
constexpr uint64_t kDescriptorStep = kAxis == Axis::Inner ? 2 : 16 * kLine / 16;

template <Axis kA, Axis kB>
__device__ __forceinline__ void multiply(float (&d)[64], uint64_t a,
                                         uint64_t b) {
  if constexpr (kA == Axis::Outer)
    ptx::wgmmaBf16MnMajor(d, a, b, true);
  else if constexpr (kB == Axis::Outer)
    ptx::wgmmaBf16MnMajorB(d, a, b, true);
  else
    ptx::wgmmaBf16(d, a, b, true);
}

/// A slice is multiplied while the next one is waited for; its stage is left
/// when that one has been started.
template <Axis kA, Axis kB, typename Out, typename Tiles>
__device__ __forceinline__ void
consumePlain(const BlockGemmArgs &args, const Shared &shared, Tiles tiles) {
  const int group = warpgroup(), lane = threadIdx.x % 32;
  const Summand summand = summandOfWarp<Tiles>(args);
  Ring ring;
  while (tiles.advance()) {
    const uint32_t extent = tiles.extent(), slices = plainSlicesOf(extent);
    float total[2][64];
#pragma unroll
    for (int i = 0; i < 64; ++i)
      total[0][i] = total[1][i] = 0.0f;
    // As in scaled_product.cuh.
    const bool idle =
        __shfl_sync(~0u, tiles.hasNone(tiles.row + group * 128), 0);
    const auto arrive = [&](uint32_t slice) {
      ptx::mbarrierWait(&shared.full[ring.stage], ring.parity);
      if constexpr (Tiles::kHasTail && kA == Axis::Outer)
        if (const uint32_t left = extent - slice * kPlainDepth;
            left < kPlainDepth)
          clearPlainTail(shared, ring.stage, left);
    };
    for (uint32_t slice = 0; idle && slice < slices; ++slice, ring.advance()) {
      arrive(slice);
      leave(&shared.empty[ring.stage], lane);
    }
    if (!idle && slices != 0) {
      uint32_t previous = 0;
      ptx::pinAccumulator(total[0]);
      ptx::pinAccumulator(total[1]);
      for (uint32_t slice = 0; slice < slices; ++slice, ring.advance()) {
        const uint32_t s = ring.stage;
        arrive(slice);
        const uint64_t b = descriptorOf<kB>(shared.bOf(s));
        ptx::wgmmaFence();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint64_t a = descriptorOf<kA>(shared.aOf(s) +
                                              (group * 2 + half) * kChunkBytes);
#pragma unroll
          for (int step = 0; step < 4; ++step)
            multiply<kA, kB>(total[half], a + step * kDescriptorStep<kA>,
                             b + step * kDescriptorStep<kB>);
        }
        ptx::wgmmaCommitGroup();
        ptx::wgmmaWaitGroup<1>();
        if (slice != 0)
          leave(&shared.empty[previous], lane);
        previous = s;
      }
      ptx::wgmmaWaitGroup<0>();
      ptx::pinAccumulator(total[0]);
      ptx::pinAccumulator(total[1]);
      leave(&shared.empty[previous], lane);
      // The factor of an empty sum says nothing.
      if (args.a_scale) {
        const float factor = args.a_scale[tiles.group()];
#pragma unroll
        for (int i = 0; i < 64; ++i)
          total[0][i] *= factor, total[1][i] *= factor;
      }
    }
    finish<Out, false>(args, shared, tiles, summand, ring, slices == 0, total);
  }
}

template <Axis kA, Axis kB, typename Out>
__device__ __forceinline__ auto plainProduct(const GroupedGemmArgs &args) {
  return [&](uint8_t *raw, auto prepare, auto makeTiles) {
    runRoles(
        raw, prepare, makeTiles,
        [&](const Shared &shared, auto tiles, uint32_t rank) {
          producePlain<kA, kB, Out>(args.product, shared, tiles, rank);
        },
        [&](const Shared &shared, auto tiles) {
          consumePlain<kA, kB, Out>(args.product, shared, tiles);
        });
  };
}

template <Axis kB, typename Out>
__device__ __forceinline__ void plainRows(const GroupedGemmArgs &args) {
  overRows<Scales::None>(args, plainProduct<Axis::Inner, kB, Out>(args));
}
template <typename Out>
__device__ __forceinline__ void plainDepth(const GroupedGemmArgs &args) {
  overDepth<Scales::None>(args,
                          plainProduct<Axis::Outer, Axis::Outer, Out>(args));
}

#endif // __CUDA_ARCH_FEAT_SM90_ALL

} // namespace
} // namespace te::rt::cuda

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TE_BODY(...) __VA_ARGS__(args)
#else
#define TE_BODY(...) __trap()
#endif

#define TE_PLAIN_GEMM(name, ...)                                               \
  extern "C" __global__ void __cluster_dims__(te::rt::cuda::kBlockGemmCluster) \
      __launch_bounds__(te::rt::cuda::kBlockGemmThreads, 1)                    \
          name(const __grid_constant__ te::rt::cuda::GroupedGemmArgs args) {   \
    using namespace te::rt::cuda;                                              \
    TE_BODY(__VA_ARGS__);                                                      \
  }
#define TE_PLAIN_GEMMS(out, Out)                                               \
  TE_PLAIN_GEMM(te_grouped_plain_gemm_##out, plainRows<Axis::Inner, Out>)      \
  TE_PLAIN_GEMM(te_grouped_plain_gemm_transposed_##out,                        \
                plainRows<Axis::Outer, Out>)                                   \
  TE_PLAIN_GEMM(te_grouped_plain_wgrad_##out, plainDepth<Out>)

TE_PLAIN_GEMMS(bf16, __nv_bfloat16)
TE_PLAIN_GEMMS(f32, float)
