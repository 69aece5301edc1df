//===- block_gemm_args.h - argument of the block-scaled GEMM kernels ------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_BLOCK_GEMM_ARGS_H
#define TE_RUNTIME_KERNELS_GEMM_BLOCK_GEMM_ARGS_H

#include <cstdint>
#include <cuda.h>

namespace te::rt::cuda {

/// Rows of the result one CTA makes, and its columns.
inline constexpr int kBlockGemmRows = 256;
inline constexpr int kBlockGemmCols = 128;
/// Elements of k a stage holds: one scale block.
inline constexpr int kBlockGemmDepth = 128;
/// Elements of k a stage holds of 16-bit operands.
inline constexpr int kPlainGemmDepth = kBlockGemmDepth / 2;
/// CTAs of a cluster; they share the rows of `a` and sit side by side in n.
inline constexpr int kBlockGemmCluster = 2;
inline constexpr int kBlockGemmStages = 4;
/// Two consumer warpgroups and one producer warpgroup.
inline constexpr int kBlockGemmThreads = 384;

/// Boxes of c, columns of 128 bytes.
inline constexpr int kCBoxRows = 64, kCBoxCols = 32;

struct BlockGemmArgs {
  CUtensorMap a;        // [m, k] bytes, boxes of 128 x 128
  CUtensorMap b;        // [n, k] bytes, boxes of 128 x 128
  CUtensorMap cMap;     // [m, n] f32, only where c is given and f32
  const float *a_scale; // [ceil(k/128), a_scale_stride]
  const float *b_scale; // 1x128: [ceil(k/128), b_scale_stride]
                        // 128x128: [ceil(n/128), b_scale_stride]
  const void *bias;     // bf16 [n] or null
  const void *c;        // [m, n] of the result's type or null
  const float *keep;    // unless null or 1, what c has counts as zeros
  void *out;            // [m, n]
  uint32_t m, n, k;
  uint32_t whole_tiles;     // see wholeTiles; all, of groups of rows
  uint32_t clusters, turns; // see firstPiece; not of groups of rows
  uint32_t a_scale_stride, b_scale_stride;
};

/// Dynamic shared memory: stages of a, b and both scales, then barriers.
inline constexpr int kBlockGemmSharedBytes =
    kBlockGemmStages *
    (kBlockGemmRows * kBlockGemmDepth + kBlockGemmCols * kBlockGemmDepth +
     (kBlockGemmRows + kBlockGemmCols) * 4 + 16);

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_BLOCK_GEMM_ARGS_H
