//===- block_gemm_args.h - argument of the dense FP8 GEMM kernels ---------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_BLOCK_GEMM_ARGS_H
#define TE_RUNTIME_KERNELS_GEMM_BLOCK_GEMM_ARGS_H

#include <cstdint>
#include <cuda.h>

namespace te::rt::cuda {

/// Rows and columns of the result that a CTA computes at a time.
inline constexpr int kBlockGemmTileM = 256;
inline constexpr int kBlockGemmTileN = 128;
/// Elements of k in a stage: one scale block.
inline constexpr int kBlockGemmTileK = 128;
/// Elements of k in a stage of 16-bit operands.
inline constexpr int kPlainGemmTileK = kBlockGemmTileK / 2;
/// CTAs of a cluster. They share the rows of `a` and have neighbouring columns.
inline constexpr int kBlockGemmCluster = 2;
inline constexpr int kBlockGemmStages = 4;
/// Two consumer warpgroups and one producer warpgroup.
inline constexpr int kBlockGemmThreads = 384;

/// The TMA boxes of c, whose rows are 128 bytes.
inline constexpr int kCBoxRows = 64, kCBoxCols = 32;

struct BlockGemmArgs {
  CUtensorMap a;        // [m, k] bytes, boxes of 128 x 128
  CUtensorMap b;        // [n, k] bytes, boxes of 128 x 128
  CUtensorMap cMap;     // [m, n] f32, only if c is given and f32
  CUtensorMap aScale;   // 1x128: [slices of k, m] f32, boxes of 1 x 256
  CUtensorMap bScale;   // 1x128: [slices of k, n] f32, boxes of 1 x 128
  const float *a_scale; // per tensor: one, or one for each group
  const float *b_scale; // the same, or 128x128: [ceil(n/128), b_scale_stride]
  const void *bias;     // bf16 [n] or null
  const void *c;        // [m, n] of the result's type or null
  const float *keep;    // unless null or 1, c counts as zeros
  void *out;            // [m, n]
  uint32_t m, n, k;
  uint32_t whole_tiles; // see wholeTiles; unused if groups are rows
  // Clusters that run at a time, and pieces that each computes; see firstPiece.
  // Only block_gemm_sm90.cu uses them.
  uint32_t clusters, iterations;
  uint32_t b_scale_stride;
};

/// Dynamic shared memory: stages of a, b and both scales, then the mbarriers.
inline constexpr int kBlockGemmSharedBytes =
    kBlockGemmStages *
    (kBlockGemmTileM * kBlockGemmTileK + kBlockGemmTileN * kBlockGemmTileK +
     (kBlockGemmTileM + kBlockGemmTileN) * 4 + 16);

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_BLOCK_GEMM_ARGS_H
