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
  int32_t *rowOf;     // [entries]
  int32_t *entryOf;   // [rows]
  int32_t *dropped;   // [1]
  uint32_t *counts;   // [blocks, groups + 1]: entries of each group, and those
                      // of tokens that are not used
  int64_t entries, k, groups, rows, alignment, capacity;
  int64_t segment; // entries of a warp, a multiple of kRouteBatch
  uint32_t blocks, warps;
  int32_t padded; // every group has `capacity` rows
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
/// Threads of a block of the router.
inline constexpr int kRouterBlock = 128;
/// Tokens of a block: few, so that some thousand tokens occupy all
/// multiprocessors. Forward, a warp has a token at a time; backward, a thread.
inline constexpr int kRouterTokens = 8, kRouterGradients = 32;
/// Floats between the rows of two tokens in shared memory: odd, so that the
/// threads of a warp read different banks.
TE_HOST_DEVICE int64_t routerStride(int64_t experts) { return experts | 1; }
/// Rows of a block of moe_permute.
inline constexpr int kPermutedRows = 4;
/// Entries that a warp loads at a time. The segment of a warp is a multiple.
inline constexpr int kRouteBatch = 256;
/// Dynamic shared memory of such a block: the start and the size of each group,
/// the number of its entries in each warp's segment, and one more number.
constexpr int64_t routeSharedBytes(int64_t groups, int64_t warps) {
  return ((warps + 2) * groups + 1) * 4;
}
inline constexpr int64_t kMostMoeSharedBytes = 227 * 1024;
/// The groups for which there is one warp.
inline constexpr int64_t kMostRouteGroups = (kMostMoeSharedBytes / 4 - 1) / 3;

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_MOE_MOE_ARGS_H
