//===- shard_args.h - arguments of the kernels of flat shards -------------===//
//
// The kernels and the host code that launches them share this header.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_SHARD_SHARD_ARGS_H
#define TE_RUNTIME_KERNELS_SHARD_SHARD_ARGS_H

#include <cstdint>

namespace te::rt::cuda {

inline constexpr int kShardThreads = 256;
/// Rows and columns of the part whose amaxes a block of threads, or a warp,
/// computes.
inline constexpr int kShardBlock = 128, kShardTile = 32;

/// x[i] is element begin + i of a matrix [rows, cols], or padding.
struct Shard {
  const void *x; // [count]
  int64_t count, begin, rows, cols;
};

struct PartialAmaxArgs {
  Shard shard;
  float *amax;       // one of each block, row by row
  const float *skip; // [1], or null
  /// Blocks or tiles in a row, and in all.
  uint32_t colTiles, tiles;
};

struct QuantizeShardArgs {
  Shard shard;
  const float *amax; // [., colBlocks]
  uint8_t *data;     // [count]
  void *scale;       // [scaleRows, scaleCols], f32 or E8M0
  const float *skip; // [1], or null
  int64_t colBlocks, scaleRows, scaleCols;
  /// Rows and columns of a block, and of one entry of `scale`, as powers of
  /// two.
  int32_t blockRows, blockCols, rowsOfScale, colsOfScale;
  int32_t pow2;
  float epsilon;
};

/// rows, cols, count and begin as Kernels.td requires.
struct QuantizeNvfp4ShardArgs {
  Shard shard;
  const float *blockAmax; // [., cols / 16]
  const float *amax;      // [1], the largest of them
  uint8_t *data;          // [count / 2]
  uint8_t *scale;         // [up(rows, 128), pitch]
  float *outAmax;         // [1]
  const float *skip;      // [1], or null
  int64_t colBlocks, pitch;
  /// Rows of a block, as a power of two.
  int32_t blockRows;
  int32_t scaleMax;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_SHARD_SHARD_ARGS_H
