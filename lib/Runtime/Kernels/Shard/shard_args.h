//===- shard_args.h - arguments of the kernels of flat shards -------------===//
//
// Shared by the kernels and the glue that launches them.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_SHARD_SHARD_ARGS_H
#define TE_RUNTIME_KERNELS_SHARD_SHARD_ARGS_H

#include <cstdint>

namespace te::rt::cuda {

inline constexpr int kShardThreads = 256;
/// Rows and columns of a block.
inline constexpr int kShardBlock = 128;

/// x[i] is element begin + i of a matrix [rows, cols], or padding.
struct Shard {
  const void *x; // [count]
  int64_t count, begin, rows, cols;
};

struct PartialAmaxArgs {
  Shard shard;
  float *amax;       // [ceil(rows / 128), colBlocks]
  const float *skip; // [1], or null
  uint32_t colBlocks;
};

struct QuantizeShardArgs {
  Shard shard;
  const float *amax; // [rowBlocks, colBlocks]
  uint8_t *data;     // [count]
  float *scale;      // [rowBlocks, up(colBlocks, 4)]
  const float *skip; // [1], or null
  int64_t rowBlocks, colBlocks;
  int32_t pow2;
  float epsilon;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_SHARD_SHARD_ARGS_H
