//===- attention_args.h - arguments of kernels beside cuDNN's attention ---===//
//
// The kernels and the host code that launches them share this header.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_ATTENTION_ATTENTION_ARGS_H
#define TE_RUNTIME_KERNELS_ATTENTION_ATTENTION_ARGS_H

#include <cstdint>

namespace te::rt::cuda {

struct AttentionSinkGradArgs {
  const void *dout;         // [tokens, heads * headDim]
  const void *o;            // [tokens, heads * headDim]
  const float *lse;         // [tokens / sequence, heads, sequence]
  const float *sinks;       // [heads]
  const int32_t *documents; // [boundaries], or null
  float *partial;           // [ceil(tokens / 128), heads]
  int64_t tokens, sequence, headDim, boundaries;
  uint32_t heads;
};

struct AttentionSeedArgs {
  const uint32_t *state; // [2], seed and offset
  int64_t *seed;         // [2], those of cuDNN
  uint32_t stream;
};

inline constexpr int kSinkGradBlock = 256;

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_ATTENTION_ATTENTION_ARGS_H
