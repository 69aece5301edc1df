//===- grouped_tiles_sm90.cuh - the tiles of a grouped GEMM in a kernel ---===//
//
// group_tiles.h computes which tiles there are. Here a CTA fills the table of
// groups in shared memory and walks over its own half of each tile of its
// cluster.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_GROUPED_TILES_SM90_CUH
#define TE_RUNTIME_KERNELS_GEMM_GROUPED_TILES_SM90_CUH

#include "Kernels/Gemm/grouped_gemm_args.h"
#include "Kernels/Gemm/scaled_gemm_sm90.cuh"
#include "Kernels/Grouped/group_scan.cuh"

namespace te::rt::cuda {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Fills the table of groups. One whole warp calls it.
__device__ __forceinline__ void makeSlots(const GroupedGemmArgs &args,
                                          GroupSlot *slots) {
  const GroupShape &shape = args.shape;
  const uint32_t lane = threadIdx.x % 32, run = (shape.groups + 31) / 32;
  const uint32_t begin = min(lane * run, shape.groups);
  const uint32_t end = min(begin + run, shape.groups);
  const uint32_t extent = groupsExtent(shape, args.sizes, begin, end);
  const uint32_t start = scanLanes(
      extent, [&](uint32_t a, uint32_t b) { return addExtents(a, b, shape); });
  const uint32_t tiles =
      placeGroups(shape, args.sizes, begin, end, start, slots);
  const uint32_t before =
      scanLanes(tiles, [](uint32_t a, uint32_t b) { return a + b; });
  numberTiles(begin, end, before, slots);
  if (lane == 31)
    endGroups(shape, addExtents(start, extent, shape), before + tiles, slots);
}

/// Tiles if groups are runs of rows.
template <Scales kScales> class GroupedRowTiles {
public:
  static constexpr bool kHasTail = false, kHasC = false;
  static constexpr int kUnroll = 1;

  __device__ __forceinline__ GroupedRowTiles(const GroupedGemmArgs &args,
                                             const GroupSlot *slots,
                                             uint32_t rank)
      : args(args), rank(rank),
        walk(slots, args.shape.groups, args.gemm.n,
             blockIdx.x / kBlockGemmCluster, gridDim.x / kBlockGemmCluster) {}

  __device__ __forceinline__ bool advance() {
    if (!walk.advance())
      return false;
    row = walk.row;
    col = walk.col + rank * kTileN;
    return true;
  }

  __device__ __forceinline__ uint32_t group() const { return walk.group; }
  /// Elements of K; for rows that belong to no group the sum is empty.
  __device__ __forceinline__ uint32_t extent() const {
    return walk.group < args.shape.groups ? args.gemm.k : 0;
  }
  __device__ __forceinline__ uint32_t firstK() const { return 0; }
  /// The start of the group's B: its row in all of b, or the number of its
  /// matrix.
  __device__ __forceinline__ uint32_t bRow() const {
    return walk.group * args.gemm.n;
  }
  __device__ __forceinline__ uint32_t bMatrix() const { return walk.group; }
  __device__ __forceinline__ uint32_t aScaleRow() const { return 0; }
  __device__ __forceinline__ uint32_t bScaleRow() const {
    return walk.group * slicesOf(kScales == Scales::Block1x128By128x128
                                     ? args.gemm.n
                                     : args.gemm.k);
  }
  __device__ __forceinline__ float factor() const {
    return args.gemm.a_scale[walk.group] * args.gemm.b_scale[walk.group];
  }
  __device__ __forceinline__ uint32_t rowEnd() const { return walk.rowEnd; }
  __device__ __forceinline__ bool isPadding(uint32_t r) const {
    return r >= walk.dataEnd;
  }
  /// Whether there is no row of data from `r` on.
  __device__ __forceinline__ bool isEmptyFrom(uint32_t r) const {
    return isPadding(r);
  }
  __device__ __forceinline__ uint32_t outRow() const { return 0; }
  __device__ __forceinline__ uint64_t outOffset() const { return 0; }
  __device__ __forceinline__ uint64_t biasOffset() const {
    return uint64_t(walk.group) * args.gemm.n;
  }

  uint32_t row = 0, col = 0;

private:
  const GroupedGemmArgs &args;
  uint32_t rank;
  GroupRowWalk walk;
};

/// Tiles if groups are runs of the contracted axis K.
template <Scales kScales> class GroupedKTiles {
public:
  /// With block scales no tail has to be zeroed: groups start at whole blocks,
  /// and the rest of their last block is zero in memory.
  static constexpr bool kHasTail = kScales == Scales::None;
  static constexpr bool kHasC = true;
  static constexpr int kUnroll = 1;

  __device__ __forceinline__ GroupedKTiles(const GroupedGemmArgs &args,
                                           const GroupSlot *slots,
                                           uint32_t rank)
      : args(args), rank(rank),
        walk(slots, args.shape.groups, args.gemm.m, args.gemm.n,
             args.gemm.whole_tiles, blockIdx.x / kBlockGemmCluster,
             gridDim.x / kBlockGemmCluster) {}

  /// Empty groups come last. If C is updated in place, there is nothing to do
  /// for them.
  __device__ __forceinline__ bool advance() {
    if (!walk.advance() ||
        (walk.size == 0 && args.gemm.c == args.gemm.out &&
         cOperandOf<GroupedKTiles>(args.gemm) == COperand::Tensor))
      return false;
    row = walk.row;
    col = walk.col + rank * kTileN;
    return true;
  }

  __device__ __forceinline__ uint32_t group() const { return walk.group; }
  __device__ __forceinline__ uint32_t extent() const { return walk.size; }
  __device__ __forceinline__ uint32_t firstK() const { return walk.start; }
  __device__ __forceinline__ uint32_t bRow() const { return 0; }
  __device__ __forceinline__ uint32_t bMatrix() const { return 0; }
  __device__ __forceinline__ uint32_t aScaleRow() const {
    return walk.start / kTileK;
  }
  __device__ __forceinline__ uint32_t bScaleRow() const {
    return walk.start / kTileK;
  }
  __device__ __forceinline__ float factor() const {
    return args.gemm.a_scale[walk.group] * args.gemm.b_scale[walk.group];
  }
  __device__ __forceinline__ uint32_t rowEnd() const { return walk.rowEnd; }
  __device__ __forceinline__ bool isPadding(uint32_t) const { return false; }
  __device__ __forceinline__ bool isEmptyFrom(uint32_t r) const {
    return r >= walk.rowEnd;
  }
  __device__ __forceinline__ uint32_t outRow() const {
    return walk.group * args.gemm.m;
  }
  __device__ __forceinline__ uint64_t outOffset() const {
    return uint64_t(outRow()) * args.gemm.n;
  }
  __device__ __forceinline__ uint64_t biasOffset() const { return 0; }

  uint32_t row = 0, col = 0;

private:
  const GroupedGemmArgs &args;
  uint32_t rank;
  GroupKWalk walk;
};

//===----------------------------------------------------------------------===//
// Kernels over these tiles
//===----------------------------------------------------------------------===//

/// Calls run(raw, prepare, makeTiles) for groups of rows; a GEMM passes these
/// to runWarpSpecialized.
template <Scales kScales, typename Run>
__device__ __forceinline__ void withRowGroups(const GroupedGemmArgs &args,
                                              Run run) {
  // The swizzle repeats every 1024 bytes, so tiles are aligned to that.
  extern __shared__ __align__(1024) uint8_t raw[];
  auto *slots = reinterpret_cast<GroupSlot *>(raw + kBlockGemmSharedBytes);
  run(
      raw,
      [&] {
        if (threadIdx.x < 32)
          makeSlots(args, slots);
      },
      [&](uint32_t rank) {
        return GroupedRowTiles<kScales>(args, slots, rank);
      });
}

/// The same for groups of the contracted axis.
template <Scales kScales, typename Run>
__device__ __forceinline__ void withKGroups(const GroupedGemmArgs &args,
                                            Run run) {
  extern __shared__ __align__(1024) uint8_t raw[];
  const uint32_t groups = args.shape.groups;
  auto *slots = reinterpret_cast<GroupSlot *>(raw + kBlockGemmSharedBytes);
  GroupSlot *ordered = slots + groups + 2;
  run(
      raw,
      [&] {
        if (threadIdx.x < 32)
          makeSlots(args, slots);
        __syncthreads();
        for (uint32_t g = threadIdx.x; g < groups; g += blockDim.x)
          ordered[sizeRank(slots, groups, g)] = slots[g];
      },
      [&](uint32_t rank) {
        return GroupedKTiles<kScales>(args, ordered, rank);
      });
}

#endif // __CUDA_ARCH_FEAT_SM90_ALL

} // namespace
} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_GROUPED_TILES_SM90_CUH
