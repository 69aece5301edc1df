//===- gemm_scales_args.h - arguments of the kernels around a GEMM --------===//
//
// The kernels and the host code that launches them share this header.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_GEMM_SCALES_ARGS_H
#define TE_RUNTIME_KERNELS_GEMM_GEMM_SCALES_ARGS_H

#include <cstdint>

namespace te::rt::cuda {

inline constexpr int kGemmScalesThreads = 256;
/// Columns of a row that one block of te_scale_rows_* computes.
inline constexpr int kScaleRowsCols = 4 * kGemmScalesThreads;

struct BlockToMxArgs {
  const float *scale; // 1x128: [slices, stride]; 128x128: [., stride]
  uint32_t *mxScale;  // [up(outer, 128), up(blocks, 4)] bytes, swizzled
  int64_t outer, stride;
  int64_t words; // of mxScale
  // Blocks of 32 elements in a row, and tiles of 128 words in a row of tiles.
  uint32_t blocks, tileCols;
  int32_t isSquare;
};

struct ScaleRowsArgs {
  const float *unscaled; // [m, n]
  const float *alpha;    // [m]
  const void *bias;      // bf16 [n], or null
  const void *c;         // [m, n] of the result's type, or null; may be out
  void *out;             // [m, n]
  uint32_t n, rowBlocks;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_GEMM_SCALES_ARGS_H
