//===- grouped_plain_gemm_sm90.cu - grouped bf16 GEMM on Hopper -----------===//
//
// One launch computes the GEMMs of all groups, as in grouped_gemm_sm90.cu, of
// bf16 operands without scales. The tensor core accumulates all of K in f32.
//
// An operand is K-major in memory (`Major::K`: K is contiguous), or MN-major
// (`Major::MN`): the weights of a data gradient, both operands of a weight
// gradient. wgmma accepts both. A stage holds 64 elements of K:
//
//   K-major    [row][64 of K], 8 rows to 1024 bytes, as for 8 bits
//   MN-major   [chunk of 64 rows][64 of K][64 rows], 8 of K to 1024 bytes
//
// where a row is one of M or N. Both are in the 128-byte swizzle, so 64 rows of
// A are 8192 bytes either way.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Device/launch_sm90.cuh"
#include "Kernels/Gemm/grouped_tiles_sm90.cuh"

namespace te::rt::cuda {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Elements of K in a stage, and elements of M or N in a chunk of it.
constexpr int kPlainTileK = kPlainGemmTileK;
constexpr int kChunkElements = 64;
constexpr int kChunkBytes = kChunkElements * kStageRowBytes;

/// The axis that is contiguous in memory.
enum class Major { K, MN };

__device__ __forceinline__ uint32_t plainSlicesOf(uint32_t extent) {
  return (extent + kPlainTileK - 1) / kPlainTileK;
}

template <Major kA, Major kB, typename Out, typename Tiles>
__device__ __forceinline__ void runPlainProducer(const BlockGemmArgs &args,
                                                 const SharedStorage &shared,
                                                 Tiles tiles, uint32_t rank) {
  const COperand cOperand = cOperandOf<Tiles>(args);
  PipelineState pipe;
  while (tiles.advance()) {
    const uint32_t slices = plainSlicesOf(tiles.extent());
    for (uint32_t slice = 0; slice < slices; ++slice, pipe.advance()) {
      prefetchC<Out>(args, tiles, cOperand, slice, slices);
      const uint32_t s = pipe.stage;
      uint64_t *full = &shared.full[s];
      uint8_t *b = shared.stageB(s);
      const uint32_t depth = tiles.firstK() + slice * kPlainTileK;
      ptx::mbarrierWait(&shared.empty[s], pipe.parity ^ 1);
      ptx::mbarrierArriveExpectTx(full, (kTileM + kTileN) * kStageRowBytes);
      // This CTA loads its half of A for both CTAs.
      uint8_t *a = shared.stageA(s) + rank * (kTileM / 2) * kStageRowBytes;
      const uint32_t row = tiles.row + rank * (kTileM / 2);
      if constexpr (kA == Major::K) {
        ptx::tmaLoad2dMulticast(a, &args.a, full, depth, row, 0b11);
      } else {
#pragma unroll
        for (int chunk = 0; chunk < kTileM / 2 / kChunkElements; ++chunk)
          ptx::tmaLoad2dMulticast(a + chunk * kChunkBytes, &args.a, full,
                                  row + chunk * kChunkElements, depth, 0b11);
      }
      if constexpr (kB == Major::K) {
        ptx::tmaLoad2d(b, &args.b, full, depth, tiles.bRow() + tiles.col);
      } else {
#pragma unroll
        for (int chunk = 0; chunk < kTileN / kChunkElements; ++chunk)
          ptx::tmaLoad3d(b + chunk * kChunkBytes, &args.b, full,
                         tiles.col + chunk * kChunkElements, depth,
                         tiles.bMatrix());
      }
    }
    if (loadsC<Out, Tiles>(cOperand))
      loadC(args, shared, tiles, pipe);
  }
}

/// Zeroes the elements of K of a stage of MN-major operands after the first
/// `depth`: they belong to another group. All consumers call it together.
__device__ __forceinline__ void zeroPlainTail(const SharedStorage &shared,
                                              uint32_t s, uint32_t depth) {
  const uint32_t quads = (kPlainTileK - depth) * (kStageRowBytes / 16);
  auto clear = [&](uint8_t *chunk) {
    auto *tail = reinterpret_cast<uint4 *>(chunk + depth * kStageRowBytes);
    for (uint32_t i = threadIdx.x; i < quads; i += kConsumerWarps * 32)
      tail[i] = make_uint4(0, 0, 0, 0);
  };
  for (int chunk = 0; chunk < kTileM / kChunkElements; ++chunk)
    clear(shared.stageA(s) + chunk * kChunkBytes);
  for (int chunk = 0; chunk < kTileN / kChunkElements; ++chunk)
    clear(shared.stageB(s) + chunk * kChunkBytes);
  // Ordinary stores wrote it, and wgmma reads it through the async proxy.
  ptx::fenceProxyAsync();
  ptx::namedBarrierSync<1, kConsumerWarps * 32>();
}

template <Major kMajor>
__device__ __forceinline__ uint64_t descriptorOf(const uint8_t *tile) {
  return kMajor == Major::K ? ptx::wgmmaDescriptor(tile)
                            : ptx::wgmmaDescriptorMnMajor(tile, kChunkBytes);
}
/// What a step of 16 along K adds to the descriptor.
template <Major kMajor>
constexpr uint64_t kDescriptorStep =
    kMajor == Major::K ? 2 : 16 * kStageRowBytes / 16;

template <Major kA, Major kB>
__device__ __forceinline__ void multiply(float (&d)[64], uint64_t a,
                                         uint64_t b) {
  if constexpr (kA == Major::MN)
    ptx::wgmmaBf16MnMajor(d, a, b, true);
  else if constexpr (kB == Major::MN)
    ptx::wgmmaBf16MnMajorB(d, a, b, true);
  else
    ptx::wgmmaBf16(d, a, b, true);
}

/// The wgmmas of a slice of K run while the warpgroup waits for the next slice;
/// a stage is released once the wgmmas of the next one have been issued.
template <Major kA, Major kB, typename Out, typename Tiles>
__device__ __forceinline__ void runPlainConsumer(const BlockGemmArgs &args,
                                                 const SharedStorage &shared,
                                                 Tiles tiles) {
  const int group = warpgroupIndex(), lane = threadIdx.x % 32;
  const COperand cOperand = cOperandOfWarp<Tiles>(args);
  PipelineState pipe;
  while (tiles.advance()) {
    const uint32_t extent = tiles.extent(), slices = plainSlicesOf(extent);
    float total[2][64];
#pragma unroll
    for (int i = 0; i < 64; ++i)
      total[0][i] = total[1][i] = 0.0f;
    // See runConsumer in scaled_gemm_sm90.cuh.
    const bool idle =
        __shfl_sync(~0u, tiles.isEmptyFrom(tiles.row + group * 128), 0);
    const auto arrive = [&](uint32_t slice) {
      ptx::mbarrierWait(&shared.full[pipe.stage], pipe.parity);
      if constexpr (Tiles::kHasTail && kA == Major::MN)
        if (const uint32_t left = extent - slice * kPlainTileK;
            left < kPlainTileK)
          zeroPlainTail(shared, pipe.stage, left);
    };
    for (uint32_t slice = 0; idle && slice < slices; ++slice, pipe.advance()) {
      arrive(slice);
      releaseStage(&shared.empty[pipe.stage], lane);
    }
    if (!idle && slices != 0) {
      uint32_t previous = 0;
      ptx::pinAccumulator(total[0]);
      ptx::pinAccumulator(total[1]);
      for (uint32_t slice = 0; slice < slices; ++slice, pipe.advance()) {
        const uint32_t s = pipe.stage;
        arrive(slice);
        const uint64_t b = descriptorOf<kB>(shared.stageB(s));
        ptx::wgmmaFence();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint64_t a = descriptorOf<kA>(shared.stageA(s) +
                                              (group * 2 + half) * kChunkBytes);
#pragma unroll
          for (int step = 0; step < 4; ++step)
            multiply<kA, kB>(total[half], a + step * kDescriptorStep<kA>,
                             b + step * kDescriptorStep<kB>);
        }
        ptx::wgmmaCommitGroup();
        ptx::wgmmaWaitGroup<1>();
        if (slice != 0)
          releaseStage(&shared.empty[previous], lane);
        previous = s;
      }
      ptx::wgmmaWaitGroup<0>();
      ptx::pinAccumulator(total[0]);
      ptx::pinAccumulator(total[1]);
      releaseStage(&shared.empty[previous], lane);
      // An empty sum is 0 for every factor, so the factor is not read.
      if (args.a_scale) {
        const float factor = args.a_scale[tiles.group()];
#pragma unroll
        for (int i = 0; i < 64; ++i)
          total[0][i] *= factor, total[1][i] *= factor;
      }
    }
    epilogue<Out, false>(args, shared, tiles, cOperand, pipe, slices == 0,
                         total);
  }
}

template <Major kA, Major kB, typename Out>
__device__ __forceinline__ auto plainGemm(const GroupedGemmArgs &args) {
  return [&](uint8_t *raw, auto prepare, auto makeTiles) {
    runWarpSpecialized(
        raw, prepare, makeTiles,
        [&](const SharedStorage &shared, auto tiles, uint32_t rank) {
          runPlainProducer<kA, kB, Out>(args.gemm, shared, tiles, rank);
        },
        [&](const SharedStorage &shared, auto tiles) {
          runPlainConsumer<kA, kB, Out>(args.gemm, shared, tiles);
        });
  };
}

template <Major kB, typename Out>
__device__ __forceinline__ void plainRowGemm(const GroupedGemmArgs &args) {
  withRowGroups<Scales::None>(args, plainGemm<Major::K, kB, Out>(args));
}
template <typename Out>
__device__ __forceinline__ void plainKGemm(const GroupedGemmArgs &args) {
  withKGroups<Scales::None>(args, plainGemm<Major::MN, Major::MN, Out>(args));
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
    te::rt::cuda::ptx::beginPersistentKernel();                                \
    using namespace te::rt::cuda;                                              \
    TE_BODY(__VA_ARGS__);                                                      \
  }
#define TE_PLAIN_GEMMS(out, Out)                                               \
  TE_PLAIN_GEMM(te_grouped_plain_gemm_##out, plainRowGemm<Major::K, Out>)      \
  TE_PLAIN_GEMM(te_grouped_plain_gemm_transposed_##out,                        \
                plainRowGemm<Major::MN, Out>)                                  \
  TE_PLAIN_GEMM(te_grouped_plain_wgrad_##out, plainKGemm<Out>)

TE_PLAIN_GEMMS(bf16, __nv_bfloat16)
TE_PLAIN_GEMMS(f32, float)
