//===- grouped_tiles.cuh - the tiles of a grouped product, for kernels ----===//
//
// group_tiles.h finds the tiles; here a CTA makes the table of groups and walks
// its own half of each tile of its cluster.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_GROUPED_TILES_CUH
#define TE_RUNTIME_KERNELS_GEMM_GROUPED_TILES_CUH

#include "Kernels/Gemm/grouped_gemm_args.h"
#include "Kernels/Gemm/scaled_product.cuh"
#include "Kernels/Grouped/group_scan.cuh"

namespace te::rt::cuda {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Fills the table; by one whole warp.
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

/// Groups are runs of rows.
template <Scales kScales> class RowTiles {
public:
  static constexpr bool kHasTail = false, kHasC = false;

  __device__ __forceinline__ RowTiles(const GroupedGemmArgs &args,
                                      const GroupSlot *slots, uint32_t rank)
      : args(args), rank(rank),
        walk(slots, args.shape.groups, args.product.n,
             blockIdx.x / kBlockGemmCluster, gridDim.x / kBlockGemmCluster) {}

  __device__ __forceinline__ bool advance() {
    if (!walk.advance())
      return false;
    row = walk.row;
    col = walk.col + rank * kCols;
    return true;
  }

  __device__ __forceinline__ uint32_t group() const { return walk.group; }
  /// Elements of the contracted axis; rows of no group are an empty sum.
  __device__ __forceinline__ uint32_t extent() const {
    return walk.group < args.shape.groups ? args.product.k : 0;
  }
  __device__ __forceinline__ uint32_t depth() const { return 0; }
  /// Where the operand of the group starts: its row in all of b, or which
  /// matrix of b it is.
  __device__ __forceinline__ uint32_t bRow() const {
    return walk.group * args.product.n;
  }
  __device__ __forceinline__ uint32_t bMatrix() const { return walk.group; }
  __device__ __forceinline__ uint32_t aScaleLine() const { return 0; }
  __device__ __forceinline__ uint32_t bScaleLine() const {
    return walk.group * slicesOf(kScales == Scales::LinesBySquares
                                     ? args.product.n
                                     : args.product.k);
  }
  __device__ __forceinline__ float factor() const {
    return args.product.a_scale[walk.group] * args.product.b_scale[walk.group];
  }
  __device__ __forceinline__ uint32_t rowEnd() const { return walk.rowEnd; }
  __device__ __forceinline__ bool isPadding(uint32_t r) const {
    return r >= walk.dataEnd;
  }
  /// Whether no row from `r` on is data.
  __device__ __forceinline__ bool hasNone(uint32_t r) const {
    return isPadding(r);
  }
  __device__ __forceinline__ uint32_t outRow() const { return 0; }
  __device__ __forceinline__ uint64_t outOffset() const { return 0; }
  __device__ __forceinline__ uint64_t biasOffset() const {
    return uint64_t(walk.group) * args.product.n;
  }

  uint32_t row = 0, col = 0;

private:
  const GroupedGemmArgs &args;
  uint32_t rank;
  GroupRowWalk walk;
};

/// Groups are runs of the contracted axis.
template <Scales kScales> class DepthTiles {
public:
  /// Groups with block scales start at whole blocks, and the rest of their last
  /// block is zero.
  static constexpr bool kHasTail = kScales == Scales::None;
  static constexpr bool kHasC = true;

  __device__ __forceinline__ DepthTiles(const GroupedGemmArgs &args,
                                        const GroupSlot *slots, uint32_t rank)
      : args(args), rank(rank),
        walk(slots, args.shape.groups, args.product.m, args.product.n,
             args.product.whole_tiles, blockIdx.x / kBlockGemmCluster,
             gridDim.x / kBlockGemmCluster) {}

  /// Empty groups are the last ones, and what they are added to in place stays
  /// as it is.
  __device__ __forceinline__ bool advance() {
    if (!walk.advance() ||
        (walk.size == 0 && args.product.c == args.product.out &&
         summandOf<DepthTiles>(args.product) == Summand::C))
      return false;
    row = walk.row;
    col = walk.col + rank * kCols;
    return true;
  }

  __device__ __forceinline__ uint32_t group() const { return walk.group; }
  __device__ __forceinline__ uint32_t extent() const { return walk.size; }
  __device__ __forceinline__ uint32_t depth() const { return walk.start; }
  __device__ __forceinline__ uint32_t bRow() const { return 0; }
  __device__ __forceinline__ uint32_t bMatrix() const { return 0; }
  __device__ __forceinline__ uint32_t aScaleLine() const {
    return walk.start / kDepth;
  }
  __device__ __forceinline__ uint32_t bScaleLine() const {
    return walk.start / kDepth;
  }
  __device__ __forceinline__ float factor() const {
    return args.product.a_scale[walk.group] * args.product.b_scale[walk.group];
  }
  __device__ __forceinline__ uint32_t rowEnd() const { return walk.rowEnd; }
  __device__ __forceinline__ bool isPadding(uint32_t) const { return false; }
  __device__ __forceinline__ bool hasNone(uint32_t r) const {
    return r >= walk.rowEnd;
  }
  __device__ __forceinline__ uint32_t outRow() const {
    return walk.group * args.product.m;
  }
  __device__ __forceinline__ uint64_t outOffset() const {
    return uint64_t(outRow()) * args.product.n;
  }
  __device__ __forceinline__ uint64_t biasOffset() const { return 0; }

  uint32_t row = 0, col = 0;

private:
  const GroupedGemmArgs &args;
  uint32_t rank;
  GroupDepthWalk walk;
};

//===----------------------------------------------------------------------===//
// Kernels over them
//===----------------------------------------------------------------------===//

/// Calls run(raw, prepare, makeTiles), of which a product is made by runRoles:
/// over groups of rows, and over groups of the contracted axis.
template <Scales kScales, typename Run>
__device__ __forceinline__ void overRows(const GroupedGemmArgs &args, Run run) {
  // Swizzled tiles repeat every 1024 bytes, so they start on such a boundary.
  extern __shared__ __align__(1024) uint8_t raw[];
  auto *slots = reinterpret_cast<GroupSlot *>(raw + kBlockGemmSharedBytes);
  run(
      raw,
      [&] {
        if (threadIdx.x < 32)
          makeSlots(args, slots);
      },
      [&](uint32_t rank) { return RowTiles<kScales>(args, slots, rank); });
}

template <Scales kScales, typename Run>
__device__ __forceinline__ void overDepth(const GroupedGemmArgs &args,
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
      [&](uint32_t rank) { return DepthTiles<kScales>(args, ordered, rank); });
}

#endif // __CUDA_ARCH_FEAT_SM90_ALL

} // namespace
} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_GROUPED_TILES_CUH
