//===- norm_args.h - arguments of the normalisation kernels ---------------===//
//
// The kernels and the host code that launches them share this header.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_NORM_NORM_ARGS_H
#define TE_RUNTIME_KERNELS_NORM_NORM_ARGS_H

#include <cstdint>

namespace te::rt::cuda {

/// For rms_norm, which has neither beta nor mu, and layer_norm.
struct NormArgs {
  const void *x;     // [rows, cols]
  const void *gamma; // [cols]
  const void *beta;  // [cols]
  void *y;           // [rows, cols]
  float *mu;         // [rows]
  float *rsigma;     // [rows]
  float *amax;       // [1] or null; zero before the launch
  // Null, or [rows, cols] with x + addend, which is normalised instead of x.
  // `sum` may be the memory of x or of `addend`.
  const void *addend;
  void *sum;
  const void *base; // [rows, cols] or null; may be the memory of y
  int64_t rows;
  int32_t cols;
  float epsilon;
  bool zeroCentered;
  bool vectors; // 16-byte accesses are aligned
};

struct NormBackwardArgs {
  const void *dy;      // [rows, cols]
  const void *x;       // [rows, cols]
  const void *gamma;   // [cols]
  const float *mu;     // [rows], layer_norm only
  const float *rsigma; // [rows]
  void *dx;            // [rows, cols]
  float *amax;         // [1] or null; zero before the launch
  const void *addend;  // [rows, cols] or null; may be the memory of dx
  // The strips of dgamma, [strips, cols]; for layer_norm those of dgamma and
  // dbeta, [strips, 2, cols].
  float *partial;
  int64_t rows;
  int32_t cols;
  uint32_t columnBlocks; // blocks per strip that work on `partial`
  bool zeroCentered;
  bool vectors; // 16-byte accesses are aligned
};

struct ColumnSumArgs {
  const void *dy; // [rows, cols]
  float *partial; // [ceil(rows / 128), cols]
  int64_t rows;
  int32_t cols;
  uint32_t columnBlocks; // blocks per chunk
  bool vectors;          // runs of kColumnsPerThread elements are aligned
};

struct ChunkSumArgs {
  const float *partial; // [chunks, cols]
  void *out;            // [cols]
  int64_t chunks;
  int32_t cols;
};

struct StripSumArgs {
  const float *partial; // [strips, cols], or [strips, 2, cols]
  void *out;            // [cols]
  void *second;         // [cols], or null if there is one sum
  int64_t strips;
  int32_t cols;
  int32_t blockColumns; // columns of a block, which divide kStripSumBlock
};

/// A warp computes a row.
inline constexpr int kNormBlock = 128;
inline constexpr int kNormRowsPerBlock = kNormBlock / 32;
/// 16-byte runs of a row that one thread can keep in registers; longer rows are
/// read twice. One run for each lane of a warp is 512 bytes of a row.
inline constexpr int kNormShortRuns = 16;
inline constexpr int kNormLongRuns = 32;
inline constexpr int kNormRunBytes = 512;
/// Where a block computes a row, or the gradients of a strip of rows: its
/// threads, the longest row, the runs of 256 columns that it visits together,
/// and the rows that are in shared memory or on their way.
inline constexpr int kPairBlock = 128;
inline constexpr int kBlockRowBytes = 8192;
inline constexpr int kPairGroup = 4;
inline constexpr int kStripStages = 3;
/// The second stage of a strip sum: threads of a block, and the columns that
/// they have. Of few columns with many strips, a block has few.
inline constexpr int kStripSumBlock = 512;
inline constexpr int kStripSumColumns = 32, kStripSumFewColumns = 8;
/// Columns that a thread of a column sum has if accesses are aligned.
inline constexpr int kColumnsPerThread = 4;

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_NORM_NORM_ARGS_H
