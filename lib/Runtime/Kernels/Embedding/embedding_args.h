//===- embedding_args.h - arguments of the embedding kernels --------------===//
//
// The kernels and the host code that launches them share this header.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_EMBEDDING_EMBEDDING_ARGS_H
#define TE_RUNTIME_KERNELS_EMBEDDING_EMBEDDING_ARGS_H

#include <cstdint>

namespace te::rt::cuda {

struct EmbeddingArgs {
  const int32_t *ids; // [tokens]
  const void *table;  // [vocab, units]
  void *y;            // [tokens, units]
  int64_t vocab;
  int64_t units;         // of one row, each as wide as the kernel's name says
  uint32_t blocksPerRow; // the grid is tokens * blocksPerRow
};

struct EmbeddingCountArgs {
  const int32_t *ids; // [tokens]
  int32_t *counts;    // [vocab], zero before the launch
  int64_t tokens;
  int64_t vocab;
};

struct EmbeddingBackwardArgs {
  const int32_t *ids;    // [tokens]
  const int32_t *counts; // [vocab], how often each id occurs
  const void *dy;        // [tokens, hidden]
  void *dtable;          // [vocab, hidden]
  int64_t tokens;
  int64_t vocab;
  int64_t hidden;
  uint32_t columnBlocks; // blocks over `hidden`, the fast part of the grid
  bool vectors;          // 16-byte accesses are aligned
};

inline constexpr int kEmbeddingBlock = 256;
/// Units of a row that one thread copies.
inline constexpr int kEmbeddingUnroll = 2;
/// Rows of dtable that one block writes, one after another.
inline constexpr int kEmbeddingRowsPerBlock = 8;

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_EMBEDDING_EMBEDDING_ARGS_H
