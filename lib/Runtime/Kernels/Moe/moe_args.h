//===- moe_args.h - arguments of the kernels that route tokens ------------===//

#ifndef TE_RUNTIME_KERNELS_MOE_MOE_ARGS_H
#define TE_RUNTIME_KERNELS_MOE_MOE_ARGS_H

#include "Core/Formulas.h"

#include <cstdint>

namespace te::rt::cuda {

struct RouterArgs {
  const void *logits; // [tokens, experts]
  const float *bias;  // [experts] or null
  int32_t *ids;       // [tokens, k]
  float *probs;       // [tokens, k]
  float *scores;      // [tokens, experts]
  int64_t tokens, experts, k, groups, chosenGroups;
  int32_t score, normalize;
  bool staged; // rows of tokens fit in shared memory
};

struct RouterBackwardArgs {
  const float *dprobs; // [tokens, k]
  const int32_t *ids;  // [tokens, k]
  const float *probs;  // [tokens, k]
  const float *scores; // [tokens, experts]
  void *dlogits;       // [tokens, experts]
  int64_t tokens, experts, k;
  int32_t score, normalize;
  bool staged;
};

struct MoeRouteArgs {
  const int32_t *ids; // [entries]
  const float *used;  // [entries / k] or null
  int32_t *sizes;     // [groups]
  int32_t *rowOf;     // [entries], all bits set before
  int32_t *entryOf;   // [rows], all bits set before
  int32_t *dropped;   // [1]
  int64_t entries, k, groups, rows, alignment, capacity;
  uint32_t segments; // of the entries, one to a warp
  int32_t padded;    // every group has `capacity` rows
};

struct MoePermuteArgs {
  const void *x;          // [tokens, cols]
  const int32_t *entryOf; // [rows]
  const float *probs;     // [tokens * k] or null
  void *y;                // [rows, cols]
  int64_t entries, rows, k, cols;
};

struct MoeProbGradArgs {
  const void *dout;     // [tokens, cols]
  const void *y;        // [rows, cols]
  const int32_t *rowOf; // [entries]
  float *dprobs;        // [entries]
  int64_t entries, rows, k, cols;
};

struct MoeUnpermuteArgs {
  const void *y;        // [rows, cols]
  const int32_t *rowOf; // [tokens * k]
  const float *probs;   // [tokens * k] or null
  void *out;            // [tokens, cols]
  int64_t rows, k, cols;
};

inline constexpr int kMoeBlock = 256;
/// Threads of a block of the router, and its tokens: few, so that some thousand
/// tokens occupy all multiprocessors.
inline constexpr int kRouterBlock = 128, kRouterTokens = 32;
/// Floats between the rows of two tokens in shared memory: odd, so that the
/// threads of a warp read different banks.
TE_HOST_DEVICE int64_t routerStride(int64_t experts) { return experts | 1; }
/// Dynamic shared memory of such a block for rows of so many tables.
inline int64_t routerSharedBytes(int64_t experts, int64_t tables) {
  return tables * kRouterTokens * routerStride(experts) * 4;
}
/// Rows of a block of moe_permute.
inline constexpr int kPermutedRows = 4;
/// Threads of the one block that routes.
inline constexpr int kMoeRouteBlock = 1024;
/// Dynamic shared memory of that block: how many entries are of tokens that are
/// not used, the start of each group, and the number of its entries in each
/// segment.
constexpr int64_t routeSharedBytes(int64_t groups, int64_t segments) {
  return (1 + (segments + 1) * groups) * 4;
}
inline constexpr int64_t kMostRouteSharedBytes = 227 * 1024;
/// The groups for which there is one segment.
inline constexpr int64_t kMostRouteGroups = (kMostRouteSharedBytes / 4 - 1) / 2;

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_MOE_MOE_ARGS_H
