//===- block_gemm_sm90.cu - dense FP8 GEMM on Hopper ----------------------===//
//
// One GEMM with block scales or per-tensor scales: scaled_gemm_sm90.cuh over
// the tiles of the result.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Device/launch_sm90.cuh"
#include "Kernels/Gemm/scaled_gemm_sm90.cuh"

namespace te::rt::cuda {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// The tiles of one GEMM in the order in which a cluster computes them: pairs
/// of column tiles, in bands of row tiles.
class DenseTiles {
public:
  static constexpr bool kHasTail = false, kHasC = true;
  static constexpr int kUnroll = 4;

  __device__ __forceinline__ DenseTiles(const BlockGemmArgs &args,
                                        uint32_t rank)
      : args(args), rank(rank), rowTiles((args.m + kTileM - 1) / kTileM),
        colPairs((args.n + 2 * kTileN - 1) / (2 * kTileN)),
        next(firstPiece(blockIdx.x / kBlockGemmCluster, args.clusters,
                        args.iterations)),
        left(args.iterations) {}

  __device__ __forceinline__ bool advance() {
    const uint32_t tiles = rowTiles * colPairs;
    const Piece piece = pieceOf(next, args.whole_tiles);
    if (piece.tile >= tiles || left == 0)
      return false;
    const TilePosition tile = tilePosition(piece.tile, rowTiles, colPairs);
    row = tile.row * kClusterTileM + piece.firstRow;
    col = tile.col * kClusterTileN + rank * kTileN;
    end = rowEndOf(row, piece, args.m);
    next += args.clusters;
    --left;
    return true;
  }

  __device__ __forceinline__ uint32_t extent() const { return args.k; }
  __device__ __forceinline__ uint32_t firstK() const { return 0; }
  __device__ __forceinline__ uint32_t bRow() const { return 0; }
  __device__ __forceinline__ uint32_t aScaleRow() const { return 0; }
  __device__ __forceinline__ uint32_t bScaleRow() const { return 0; }
  __device__ __forceinline__ float factor() const {
    return *args.a_scale * *args.b_scale;
  }
  __device__ __forceinline__ uint32_t rowEnd() const { return end; }
  __device__ __forceinline__ bool isPadding(uint32_t) const { return false; }
  __device__ __forceinline__ bool isEmptyFrom(uint32_t r) const {
    return r >= end;
  }
  __device__ __forceinline__ uint32_t outRow() const { return 0; }
  __device__ __forceinline__ uint64_t outOffset() const { return 0; }
  __device__ __forceinline__ uint64_t biasOffset() const { return 0; }

  uint32_t row = 0, col = 0;

private:
  const BlockGemmArgs &args;
  uint32_t rank, rowTiles, colPairs, next, left, end = 0;
};

template <Scales kScales, typename Out, Wgmma wgmma>
__device__ __forceinline__ void blockGemm(const BlockGemmArgs &args) {
  // The swizzle repeats every 1024 bytes, so tiles are aligned to that.
  extern __shared__ __align__(1024) uint8_t raw[];
  runScaledGemm<kScales, Out, wgmma>(
      args, raw, [] {}, [&](uint32_t rank) { return DenseTiles(args, rank); });
}

#endif // __CUDA_ARCH_FEAT_SM90_ALL

} // namespace
} // namespace te::rt::cuda

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TE_BODY(scales, Out, wgmma)                                            \
  te::rt::cuda::blockGemm<te::rt::cuda::Scales::scales, Out,                   \
                          te::rt::cuda::ptx::wgmma>(args)
#else
#define TE_BODY(scales, Out, wgmma) __trap()
#endif

#define TE_BLOCK_GEMM(name, scales, Out, wgmma)                                \
  extern "C" __global__ void __cluster_dims__(te::rt::cuda::kBlockGemmCluster) \
      __launch_bounds__(te::rt::cuda::kBlockGemmThreads, 1)                    \
          name(const __grid_constant__ te::rt::cuda::BlockGemmArgs args) {     \
    te::rt::cuda::ptx::beginPersistentKernel();                                \
    TE_BODY(scales, Out, wgmma);                                               \
  }

// te_block_gemm_<scales of b>_<a>_<b>_<result> and te_tensor_gemm_...
#define TE_BLOCK_GEMMS(types, wgmma)                                           \
  TE_BLOCK_GEMM(te_block_gemm_1x128_##types##_bf16, Block1x128, __nv_bfloat16, \
                wgmma)                                                         \
  TE_BLOCK_GEMM(te_block_gemm_1x128_##types##_f32, Block1x128, float, wgmma)   \
  TE_BLOCK_GEMM(te_block_gemm_128x128_##types##_bf16, Block1x128By128x128,     \
                __nv_bfloat16, wgmma)                                          \
  TE_BLOCK_GEMM(te_block_gemm_128x128_##types##_f32, Block1x128By128x128,      \
                float, wgmma)                                                  \
  TE_BLOCK_GEMM(te_tensor_gemm_##types##_bf16, None, __nv_bfloat16, wgmma)     \
  TE_BLOCK_GEMM(te_tensor_gemm_##types##_f32, None, float, wgmma)

TE_BLOCK_GEMMS(e4m3_e4m3, wgmmaE4M3E4M3)
TE_BLOCK_GEMMS(e5m2_e4m3, wgmmaE5M2E4M3)
TE_BLOCK_GEMMS(e4m3_e5m2, wgmmaE4M3E5M2)
