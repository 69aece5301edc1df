//===- block_gemm.cu - block-scaled FP8 GEMM on Hopper --------------------===//
//
// One product with scales of blocks: scaled_product.cuh over its tiles.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Gemm/scaled_product.cuh"

namespace te::rt::cuda {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// The tiles of one cluster in order: pairs of column tiles, in bands of row
/// tiles.
class ProductTiles {
public:
  static constexpr bool kHasTail = false, kHasC = true;

  __device__ __forceinline__ ProductTiles(const BlockGemmArgs &args,
                                          uint32_t rank)
      : args(args), rank(rank), rowTiles((args.m + kRows - 1) / kRows),
        colPairs((args.n + 2 * kCols - 1) / (2 * kCols)),
        next(firstPiece(blockIdx.x / kBlockGemmCluster, args.clusters,
                        args.turns)),
        left(args.turns) {}

  __device__ __forceinline__ bool advance() {
    const uint32_t tiles = rowTiles * colPairs;
    const Piece piece = pieceOf(next, args.whole_tiles);
    if (piece.tile >= tiles || left == 0)
      return false;
    const TilePosition tile = tilePosition(piece.tile, rowTiles, colPairs);
    row = tile.row * kTileRows + piece.firstRow;
    col = tile.col * kTileCols + rank * kCols;
    end = rowEndOf(row, piece, args.m);
    next += args.clusters;
    --left;
    return true;
  }

  __device__ __forceinline__ uint32_t extent() const { return args.k; }
  __device__ __forceinline__ uint32_t depth() const { return 0; }
  __device__ __forceinline__ uint32_t bRow() const { return 0; }
  __device__ __forceinline__ uint32_t aScaleLine() const { return 0; }
  __device__ __forceinline__ uint32_t bScaleLine() const { return 0; }
  __device__ __forceinline__ uint32_t rowEnd() const { return end; }
  __device__ __forceinline__ bool isPadding(uint32_t) const { return false; }
  __device__ __forceinline__ bool hasNone(uint32_t r) const { return r >= end; }
  __device__ __forceinline__ uint32_t outRow() const { return 0; }
  __device__ __forceinline__ uint64_t outOffset() const { return 0; }
  __device__ __forceinline__ uint64_t biasOffset() const { return 0; }

  uint32_t row = 0, col = 0;

private:
  const BlockGemmArgs &args;
  uint32_t rank, rowTiles, colPairs, next, left, end = 0;
};

template <Scales kScales, typename Out, Product product>
__device__ __forceinline__ void blockGemm(const BlockGemmArgs &args) {
  // Swizzled tiles repeat every 1024 bytes, so they start on such a boundary.
  extern __shared__ __align__(1024) uint8_t raw[];
  runProduct<kScales, Out, product>(
      args, raw, [] {},
      [&](uint32_t rank) { return ProductTiles(args, rank); });
}

#endif // __CUDA_ARCH_FEAT_SM90_ALL

} // namespace
} // namespace te::rt::cuda

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TE_BODY(scales, Out, product)                                          \
  te::rt::cuda::blockGemm<te::rt::cuda::Scales::scales, Out,                   \
                          te::rt::cuda::ptx::product>(args)
#else
#define TE_BODY(scales, Out, product) __trap()
#endif

#define TE_BLOCK_GEMM(name, scales, Out, product)                              \
  extern "C" __global__ void __cluster_dims__(te::rt::cuda::kBlockGemmCluster) \
      __launch_bounds__(te::rt::cuda::kBlockGemmThreads, 1)                    \
          name(const __grid_constant__ te::rt::cuda::BlockGemmArgs args) {     \
    TE_BODY(scales, Out, product);                                             \
  }

// te_block_gemm_<scales of b>_<a><b>_<result>
#define TE_BLOCK_GEMMS(types, product)                                         \
  TE_BLOCK_GEMM(te_block_gemm_1x128_##types##_bf16, LinesByLines,              \
                __nv_bfloat16, product)                                        \
  TE_BLOCK_GEMM(te_block_gemm_1x128_##types##_f32, LinesByLines, float,        \
                product)                                                       \
  TE_BLOCK_GEMM(te_block_gemm_128x128_##types##_bf16, LinesBySquares,          \
                __nv_bfloat16, product)                                        \
  TE_BLOCK_GEMM(te_block_gemm_128x128_##types##_f32, LinesBySquares, float,    \
                product)

TE_BLOCK_GEMMS(e4m3_e4m3, wgmmaE4M3E4M3)
TE_BLOCK_GEMMS(e5m2_e4m3, wgmmaE5M2E4M3)
TE_BLOCK_GEMMS(e4m3_e5m2, wgmmaE4M3E5M2)
