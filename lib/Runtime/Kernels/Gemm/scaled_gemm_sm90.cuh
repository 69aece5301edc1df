//===- scaled_gemm_sm90.cuh - FP8 GEMM with scales on Hopper --------------===//
//
// out[m, n] = sum over 128-wide slices of K of (A B^T of the slice) * sa * sb.
// A has 1x128 scales and B has 1x128 or 128x128 scales. Or neither has block
// scales, and one factor multiplies the sum.
//
// A stage of the pipeline (gemm_pipeline_sm90.cuh) holds one slice of K with
// its scales.
//
// Accumulation has two levels. The tensor core accumulates one slice (four
// wgmmas of depth 32) in `partial`, which is then scaled and added to `total`
// in f32 arithmetic: the scales require that, and it also keeps the sum exact
// if the accumulator of the tensor core is short. A warpgroup does so for
// its two halves of 64 rows, one after the other; while it scales one half, the
// other warpgroup uses the tensor core. (Handing the tensor core over with
// named barriers, so that the two never run in step, measured 1-2 % slower.)
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_SCALED_GEMM_SM90_CUH
#define TE_RUNTIME_KERNELS_GEMM_SCALED_GEMM_SM90_CUH

#include "Kernels/Device/global_memory.cuh"
#include "Kernels/Gemm/gemm_epilogue_sm90.cuh"

namespace te::rt::cuda {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr int kTileK = kBlockGemmTileK;

/// The block shapes of the scales of A and B.
enum class Scales { Block1x128By128x128, Block1x128, None };

/// The number of slices of kTileK in k elements.
__device__ __forceinline__ uint32_t slicesOf(uint32_t k) {
  return (k + kTileK - 1) / kTileK;
}

/// What TMA writes to a stage.
template <Scales kScales>
constexpr uint32_t kStageBytes =
    (kTileM + kTileN) * kTileK +
    (kScales != Scales::None ? kTileM * sizeof(float) : 0) +
    (kScales == Scales::Block1x128 ? kTileN * sizeof(float) : 0);

template <Scales kScales, typename Out, typename Tiles>
__device__ __forceinline__ void runProducer(const BlockGemmArgs &args,
                                            const SharedStorage &shared,
                                            Tiles tiles, uint32_t rank) {
  const COperand cOperand = cOperandOf<Tiles>(args);
  PipelineState pipe;
  while (tiles.advance()) {
    const uint32_t slices = slicesOf(tiles.extent());
    // The scale of a 128x128 block of B is loaded one slice ahead.
    const float *blockScales =
        args.b_scale +
        uint64_t(tiles.bScaleRow() + tiles.col / kTileN) * args.b_scale_stride;
    const auto loadBlockScale = [&](uint32_t slice) {
      return kScales == Scales::Block1x128By128x128 && slice < slices &&
                     tiles.col < args.n
                 ? __uint_as_float(ptx::loadReadOnly4(blockScales + slice))
                 : 0.0f;
    };
    float nextBlockScale = loadBlockScale(0);
    for (uint32_t slice = 0; slice < slices; ++slice, pipe.advance()) {
      prefetchC<Out>(args, tiles, cOperand, slice, slices);
      const float blockScale = nextBlockScale;
      nextBlockScale = loadBlockScale(slice + 1);
      const uint32_t s = pipe.stage;
      uint64_t *full = &shared.full[s];
      ptx::mbarrierWait(&shared.empty[s], pipe.parity ^ 1);
      if constexpr (kScales == Scales::Block1x128By128x128)
        shared.bScale[s * kTileN] = blockScale;
      ptx::mbarrierArriveExpectTx(full, kStageBytes<kScales>);
      ptx::tmaLoad2dMulticast(shared.a + (s * kTileM + rank * kTileN) * kTileK,
                              &args.a, full, tiles.firstK() + slice * kTileK,
                              tiles.row + rank * (kTileM / 2), 0b11);
      ptx::tmaLoad2d(shared.b + s * kTileN * kTileK, &args.b, full,
                     tiles.firstK() + slice * kTileK, tiles.bRow() + tiles.col);
      if constexpr (kScales != Scales::None)
        ptx::tmaLoad2d(shared.aScale + s * kTileM, &args.aScale, full,
                       tiles.row, tiles.aScaleRow() + slice);
      if constexpr (kScales == Scales::Block1x128)
        ptx::tmaLoad2d(shared.bScale + s * kTileN, &args.bScale, full,
                       tiles.col, tiles.bScaleRow() + slice);
    }
    if (loadsC<Out, Tiles>(cOperand))
      loadC(args, shared, tiles, pipe);
  }
}

using Wgmma = void (*)(float (&)[64], uint64_t, uint64_t, bool);

/// Zeroes the bytes of each row of a stage after the first `depth`: they belong
/// to another group. A warpgroup does so for all that it reads, so that it need
/// not wait for the other one, which writes the same zeros to B.
__device__ __forceinline__ void
zeroTail(const SharedStorage &shared, uint32_t s, uint32_t depth, int group) {
  auto clear = [&](uint8_t *tile, uint32_t row) {
    for (uint32_t chunk = depth / 16; chunk < kTileK / 16; ++chunk) {
      // The place of the chunk in the 128-byte swizzle.
      uint8_t *at = tile + row * kTileK + (chunk ^ row % 8) * 16;
      if (chunk * 16 >= depth)
        *reinterpret_cast<uint4 *>(at) = make_uint4(0, 0, 0, 0);
      else
        for (uint32_t byte = depth % 16; byte < 16; ++byte)
          at[byte] = 0;
    }
  };
  clear(shared.a + s * kTileM * kTileK, threadIdx.x);
  clear(shared.b + s * kTileN * kTileK, threadIdx.x % 128);
  // Ordinary stores wrote it, and wgmma reads it through the async proxy.
  ptx::fenceProxyAsync();
  if (group == 0)
    ptx::namedBarrierSync<1, 128>();
  else
    ptx::namedBarrierSync<2, 128>();
}

/// Adds `partial`, whose two rows in a thread have the factors f0 and f1.
__device__ __forceinline__ void addRowScaled(float (&total)[64],
                                             const float (&partial)[64],
                                             float f0, float f1) {
#pragma unroll
  for (int j = 0; j < 16; ++j) {
    float *t = &total[4 * j];
    const float *p = &partial[4 * j];
    t[0] = fmaf(p[0], f0, t[0]), t[1] = fmaf(p[1], f0, t[1]);
    t[2] = fmaf(p[2], f1, t[2]), t[3] = fmaf(p[3], f1, t[3]);
  }
}

/// Slices in one iteration of the main loop. Unrolled, the wait for the next
/// slice overlaps with the additions of this one: 2 % faster for one GEMM, but
/// 1 to 2 % slower for groups of rows. Two 1x128 scales leave no registers for
/// it.
template <Scales kScales, typename Tiles>
constexpr int kUnroll = kScales == Scales::Block1x128 ? 1 : Tiles::kUnroll;

template <Scales kScales, typename Out, Wgmma wgmma, typename Tiles>
__device__ __forceinline__ void runConsumer(const BlockGemmArgs &args,
                                            const SharedStorage &shared,
                                            Tiles tiles) {
  const int group = warpgroupIndex(), lane = threadIdx.x % 32;
  // The first of the thread's two rows, out of 64; the second is 8 rows below.
  const int threadRow = (threadIdx.x % 128) / 32 * 16 + lane / 4;
  const COperand cOperand = cOperandOfWarp<Tiles>(args);
  PipelineState pipe;
  while (tiles.advance()) {
    const uint32_t extent = tiles.extent(), slices = slicesOf(extent);
    // An empty sum is 0 for every factor, so the factor is not read.
    const float factor =
        kScales == Scales::None && slices != 0 ? tiles.factor() : 1.0f;
    const auto arrive = [&](uint32_t slice) {
      ptx::mbarrierWait(&shared.full[pipe.stage], pipe.parity);
      if constexpr (Tiles::kHasTail)
        if (const uint32_t left = extent - slice * kTileK; left < kTileK)
          zeroTail(shared, pipe.stage, left, group);
    };
    // A warpgroup without rows of data only releases the stages. Because of the
    // shuffle the compiler knows that this is uniform in a warp, and keeps the
    // descriptors in uniform registers.
    const bool idle =
        __shfl_sync(~0u, tiles.isEmptyFrom(tiles.row + group * 128), 0);
    for (uint32_t slice = 0; idle && slice < slices; ++slice, pipe.advance()) {
      arrive(slice);
      releaseStage(&shared.empty[pipe.stage], lane);
    }
    float total[2][64];
#pragma unroll
    for (int i = 0; i < 64; ++i)
      total[0][i] = total[1][i] = 0.0f;
#pragma unroll(kUnroll<kScales, Tiles>)
    for (uint32_t slice = 0; !idle && slice < slices; ++slice, pipe.advance()) {
      const uint32_t s = pipe.stage;
      arrive(slice);
      const float sb = shared.bScale[s * kTileN];
      const uint8_t *a = shared.a + (s * kTileM + group * 128) * kTileK;
      const uint64_t bDescriptor =
          ptx::wgmmaDescriptor(shared.b + s * kTileN * kTileK);
      // For Block1x128: the scales of columns 8j + 2q and 8j + 2q + 1.
      float2 bScale[16];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float *aScale =
            shared.aScale + s * kTileM + group * 128 + half * 64 + threadRow;
        const float sa0 = kScales == Scales::None ? 1.0f : aScale[0];
        const float sa1 = kScales == Scales::None ? 1.0f : aScale[8];
        const uint64_t aDescriptor =
            ptx::wgmmaDescriptor(a + half * 64 * kTileK);
        float partial[64];
        ptx::wgmmaFence();
#pragma unroll
        for (int step = 0; step < 4; ++step)
          wgmma(partial, aDescriptor + 2 * step, bDescriptor + 2 * step,
                step != 0);
        ptx::wgmmaCommitGroup();
        if constexpr (kScales == Scales::None) {
          ptx::wgmmaWaitGroup<0>();
          if (half == 1)
            releaseStage(&shared.empty[s], lane);
#pragma unroll
          for (int i = 0; i < 64; ++i)
            total[half][i] += partial[i];
        } else if constexpr (kScales == Scales::Block1x128By128x128) {
          ptx::wgmmaWaitGroup<0>();
          if (half == 1)
            releaseStage(&shared.empty[s], lane);
          addRowScaled(total[half], partial, sa0 * sb, sa1 * sb);
        } else {
          // The scales of B are read for the first half, four pairs ahead of
          // their use, and kept for the second. Reading all of them during the
          // wgmma would need more registers than there are, and reading them
          // again for the second half took 3 % longer. The compiler fence
          // prevents both.
          const float2 *from =
              reinterpret_cast<const float2 *>(shared.bScale + s * kTileN) +
              lane % 4;
          if (half == 0)
#pragma unroll
            for (int i = 0; i < 4; ++i)
              bScale[i] = from[4 * i];
          ptx::wgmmaWaitGroup<0>();
#pragma unroll
          for (int j = 0; j < 16; ++j) {
            if (half == 0 && j % 4 == 0 && j < 12) {
#pragma unroll
              for (int i = j + 4; i < j + 8; ++i)
                bScale[i] = from[4 * i];
              ptx::compilerMemoryFence();
            }
            const float2 pair = bScale[j];
            float *t = &total[half][4 * j], *p = &partial[4 * j];
            t[0] = fmaf(p[0], sa0 * pair.x, t[0]);
            t[1] = fmaf(p[1], sa0 * pair.y, t[1]);
            t[2] = fmaf(p[2], sa1 * pair.x, t[2]);
            t[3] = fmaf(p[3], sa1 * pair.y, t[3]);
          }
          if (half == 1)
            releaseStage(&shared.empty[s], lane);
        }
      }
    }
    if constexpr (kScales == Scales::None) {
#pragma unroll
      for (int i = 0; i < 64; ++i)
        total[0][i] *= factor, total[1][i] *= factor;
    }
    epilogue<Out, kScales != Scales::None>(args, shared, tiles, cOperand, pipe,
                                           slices == 0, total);
  }
}

/// The whole kernel; see runWarpSpecialized for the parameters.
template <Scales kScales, typename Out, Wgmma wgmma, typename Prepare,
          typename MakeTiles>
__device__ __forceinline__ void runScaledGemm(const BlockGemmArgs &args,
                                              uint8_t *raw, Prepare prepare,
                                              MakeTiles makeTiles) {
  runWarpSpecialized(
      raw, prepare, makeTiles,
      [&](const SharedStorage &shared, auto tiles, uint32_t rank) {
        runProducer<kScales, Out>(args, shared, tiles, rank);
      },
      [&](const SharedStorage &shared, auto tiles) {
        runConsumer<kScales, Out, wgmma>(args, shared, tiles);
      });
}

#endif // __CUDA_ARCH_FEAT_SM90_ALL

} // namespace
} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_SCALED_GEMM_SM90_CUH
