//===- cross_entropy_args.h - arguments of the cross entropy kernels ------===//
//
// The kernels and the host code that launches them share this header.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_CROSSENTROPY_CROSS_ENTROPY_ARGS_H
#define TE_RUNTIME_KERNELS_CROSSENTROPY_CROSS_ENTROPY_ARGS_H

#include <cstdint>

namespace te::rt::cuda {

struct CrossEntropyArgs {
  const void *logits;     // [tokens, cols]
  const int32_t *targets; // [tokens]
  const float *dloss;     // [1], or null
  float *lse;             // [tokens]
  float *tokenLoss;       // [tokens]
  float *loss;            // [1]
  float *weight;          // [1]
  void *dlogits;          // [tokens, cols]
  int64_t tokens;
  int64_t vocab; // the first columns, which are classes
  int64_t cols;
  int32_t ignoreIndex;
  uint32_t blocksPerRow; // of the backward; its grid is tokens * blocksPerRow
  bool vectors;          // whether 16 bytes are aligned
};

/// Blocks of 256 lanes that a multiprocessor runs beside each other.
inline constexpr int kLseBlocksPerSm = 4;
inline constexpr int kMeanBlock = 256;
inline constexpr int kLogitGradBlock = 256;
/// Elements that one thread of the backward computes.
inline constexpr int kLogitGradElements = 16;

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_CROSSENTROPY_CROSS_ENTROPY_ARGS_H
