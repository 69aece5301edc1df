//===- gemm_pipeline_sm90.cuh - pipeline of persistent Hopper GEMMs -------===//
//
// A CTA computes tiles of 256 x 128. It has two consumer warpgroups of 128 rows
// each, which issue wgmma, and one producer warp, which issues TMA loads and
// keeps four stages of operands in flight. A stage holds 128 bytes of K for
// every row and column of the tile: 128 elements of 8 bits, or 64 of 16 bits.
// Two CTAs form a cluster and share the 256 rows of A: each multicasts one half
// of A to both, so that L2 serves A once for two tiles.
//
// The template parameter `Tiles` defines which tiles there are: those of one
// GEMM (block_gemm_sm90.cu) or of the GEMMs of many groups
// (grouped_tiles_sm90.cuh). The main loops are in scaled_gemm_sm90.cuh and
// grouped_plain_gemm_sm90.cu.
//
// Who waits for whom: the consumers wait for `full[s]`, which completes when
// the producer has arrived and all bytes of stage s are there; half of the
// bytes of A come from the producer of the peer CTA. The producer waits for
// `empty[s]`, which completes when the eight consumer warps of *both* CTAs have
// released stage s, because a producer also writes to the stage of its peer.
//
// If the tile adds an f32 C, C passes through the same pipeline, in four stages
// after the last operands, so its loads are in flight during the last wgmmas.
// The first two stages belong to the first warpgroup, which is then done while
// the other one still stores, and starts to multiply the next tile. (An atomic
// addition in the store, red or cp.reduce.async.bulk, would save the loads, but
// it flushes subnormal numbers in global memory.)
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_GEMM_PIPELINE_SM90_CUH
#define TE_RUNTIME_KERNELS_GEMM_GEMM_PIPELINE_SM90_CUH

#include "Kernels/Device/barrier.cuh"
#include "Kernels/Device/cluster_sm90.cuh"
#include "Kernels/Device/launch_sm90.cuh"
#include "Kernels/Device/mbarrier_sm90.cuh"
#include "Kernels/Device/setmaxnreg_sm90.cuh"
#include "Kernels/Device/tma_sm90.cuh"
#include "Kernels/Device/wgmma_sm90.cuh"
#include "Kernels/Gemm/block_gemm_args.h"
#include "Kernels/Gemm/group_tiles.h"

namespace te::rt::cuda {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Bytes of K in a stage, for each row and column of the tile.
constexpr int kStageRowBytes = kBlockGemmTileK;
constexpr int kTileM = kBlockGemmTileM, kTileN = kBlockGemmTileN,
              kStages = kBlockGemmStages;
constexpr int kConsumerWarps = 8;

struct SharedStorage {
  uint8_t *a;      // [stage][256 * 128]
  uint8_t *b;      // [stage][128 * 128]
  float *aScale;   // [stage][256]
  float *bScale;   // [stage][128]
  uint64_t *full;  // [stage]
  uint64_t *empty; // [stage]

  __device__ __forceinline__ uint8_t *stageA(uint32_t stage) const {
    return a + stage * kTileM * kStageRowBytes;
  }
  __device__ __forceinline__ uint8_t *stageB(uint32_t stage) const {
    return b + stage * kTileN * kStageRowBytes;
  }
};

__device__ __forceinline__ SharedStorage carveSharedMemory(uint8_t *raw) {
  SharedStorage shared;
  shared.a = raw;
  shared.b = shared.a + kStages * kTileM * kStageRowBytes;
  shared.aScale =
      reinterpret_cast<float *>(shared.b + kStages * kTileN * kStageRowBytes);
  shared.bScale = shared.aScale + kStages * kTileM;
  shared.full = reinterpret_cast<uint64_t *>(shared.bScale + kStages * kTileN);
  shared.empty = shared.full + kStages;
  return shared;
}

/// The stage that a warp works on next, and the parity of its mbarriers' phase.
struct PipelineState {
  uint32_t stage = 0, parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// Arrives on the empty mbarrier of a stage in both CTAs: this warp no longer
/// reads the stage.
__device__ __forceinline__ void releaseStage(uint64_t *empty, int lane) {
  __syncwarp();
  if (lane < kBlockGemmCluster)
    ptx::mbarrierArriveCluster(empty, lane);
}

/// The warpgroup of this thread. Because of the shuffle the compiler knows
/// that it is the same in the whole warp, and keeps what it computes from it in
/// uniform registers.
__device__ __forceinline__ int warpgroupIndex() {
  return __shfl_sync(~0u, threadIdx.x / 128, 0);
}

/// The row, out of 64, of an element of the thread's accumulator; `half` is bit
/// 1 of the index of the element.
__device__ __forceinline__ uint32_t accumulatorRow(int half) {
  return (threadIdx.x % 128) / 32 * 16 + threadIdx.x % 32 / 4 + 8 * half;
}

//===----------------------------------------------------------------------===//
// The operand C
//===----------------------------------------------------------------------===//

/// The tensor that is added to the GEMM. Zeros stand for a C that is given but
/// not kept, which makes a sum of -0 become +0.
enum class COperand { None, Zeros, Tensor };

template <typename Tiles>
__device__ __forceinline__ COperand cOperandOf(const BlockGemmArgs &args) {
  if (!Tiles::kHasC || !args.c)
    return COperand::None;
  return !args.keep || *args.keep == 1.0f ? COperand::Tensor : COperand::Zeros;
}
/// The same, by a whole warp: the compiler then knows that it is uniform.
template <typename Tiles>
__device__ __forceinline__ COperand cOperandOfWarp(const BlockGemmArgs &args) {
  return static_cast<COperand>(
      __shfl_sync(~0u, static_cast<int>(cOperandOf<Tiles>(args)), 0));
}

//===----------------------------------------------------------------------===//
// C in f32, through the pipeline
//===----------------------------------------------------------------------===//

/// Stages that hold C, 64 rows each: stage i has the rows of half i % 2 of
/// warpgroup i / 2.
constexpr int kCStages = 4;

template <typename Out, typename Tiles>
__device__ __forceinline__ bool loadsC(COperand cOperand) {
  return Tiles::kHasC && sizeof(Out) == 4 && cOperand == COperand::Tensor;
}

/// Calls visit(box, x, y) for the TMA boxes of stage `step` of C.
template <typename Tiles, typename Visit>
__device__ __forceinline__ void forEachCBox(const Tiles &tiles, int step,
                                            Visit visit) {
  const uint32_t row = tiles.outRow() + tiles.row + step * kCBoxRows;
#pragma unroll
  for (int box = 0; box < kTileN / kCBoxCols; ++box)
    visit(box, tiles.col + box * kCBoxCols, row);
}

/// Prefetches the tile's C into L2 when `slice` of `slices` is a few before the
/// last, so that the pipeline waits for L2 only.
template <typename Out, typename Tiles>
__device__ __forceinline__ void prefetchC(const BlockGemmArgs &args,
                                          const Tiles &tiles, COperand cOperand,
                                          uint32_t slice, uint32_t slices) {
  constexpr uint32_t kAhead = 8;
  if (!loadsC<Out, Tiles>(cOperand) ||
      slice != (slices > kAhead ? slices - kAhead : 0))
    return;
  for (int step = 0; step < kCStages; ++step)
    forEachCBox(tiles, step, [&](int, uint32_t x, uint32_t y) {
      ptx::tmaPrefetch2d(&args.cMap, x, y);
    });
}

/// The producer loads C. It may load rows and columns that do not belong to the
/// tile, which are not used.
template <typename Tiles>
__device__ __forceinline__ void loadC(const BlockGemmArgs &args,
                                      const SharedStorage &shared,
                                      const Tiles &tiles, PipelineState &pipe) {
  for (int step = 0; step < kCStages; ++step, pipe.advance()) {
    uint64_t *full = &shared.full[pipe.stage];
    ptx::mbarrierWait(&shared.empty[pipe.stage], pipe.parity ^ 1);
    ptx::mbarrierArriveExpectTx(full, kCBoxRows * kTileN * 4);
    uint8_t *to = shared.stageA(pipe.stage);
    forEachCBox(tiles, step, [&](int box, uint32_t x, uint32_t y) {
      ptx::tmaLoad2d(to + box * kCBoxRows * kStageRowBytes, &args.cMap, full, x,
                     y);
    });
  }
}

//===----------------------------------------------------------------------===//
// Producer and consumers
//===----------------------------------------------------------------------===//

/// The whole kernel. All threads call `prepare` first. Its writes to shared
/// memory are visible in makeTiles(rank), which every thread that walks tiles
/// calls: the one thread of runProducer(shared, tiles, rank), and those of
/// runConsumer(shared, tiles).
template <typename Prepare, typename MakeTiles, typename Produce,
          typename Consume>
__device__ __forceinline__ void
runWarpSpecialized(uint8_t *raw, Prepare prepare, MakeTiles makeTiles,
                   Produce runProducer, Consume runConsumer) {
  const SharedStorage shared = carveSharedMemory(raw);
  const uint32_t rank = ptx::clusterCtaRank();
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      ptx::mbarrierInit(&shared.full[s], 1);
      ptx::mbarrierInit(&shared.empty[s], kConsumerWarps * kBlockGemmCluster);
    }
    ptx::mbarrierInitFence();
  }
  prepare();
  // The peer's mbarriers must be initialised before a thread arrives on them.
  ptx::clusterSync();
  if (threadIdx.x >= 256) {
    ptx::setmaxnregDec<40>();
    if (threadIdx.x == 256) {
      runProducer(shared, makeTiles(rank), rank);
      ptx::allowNextKernel();
    }
  } else {
    ptx::setmaxnregInc<232>();
    // The shuffle keeps the compiler from computing the address from the rank
    // of the CTA again in every slice of K.
    const uint32_t base = __shfl_sync(~0u, ptx::sharedAddress(raw), 0);
    runConsumer(carveSharedMemory(
                    static_cast<uint8_t *>(__cvta_shared_to_generic(base))),
                makeTiles(rank));
  }
  // A CTA must not exit while its peer still arrives on its mbarriers.
  __syncwarp();
  ptx::clusterSync();
}

#endif // __CUDA_ARCH_FEAT_SM90_ALL

} // namespace
} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_GEMM_PIPELINE_SM90_CUH
