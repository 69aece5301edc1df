//===- rope_args.h - arguments of the rotary embedding --------------------===//
//
// The kernel and the host code that launches it share this header.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_ROPE_ROPE_ARGS_H
#define TE_RUNTIME_KERNELS_ROPE_ROPE_ARGS_H

#include <cstdint>

namespace te::rt::cuda {

struct RopeArgs {
  const void *x;            // [tokens, heads * headDim]
  const float *cos;         // [sequence, pairs]
  const float *sin;         // [sequence, pairs]
  const int32_t *positions; // [tokens], or null
  void *y;                  // as x
  float *amax;              // [1] or null; zero before the launch
  int64_t tokens;
  int64_t sequence;
  int32_t heads, headDim;
  int32_t pairs;        // rotary_dim / 2
  int32_t itemsPerHead; // of the kernel that is launched; see rope.cu
  int32_t tokensPerBlock;
  bool inverse;
};

inline constexpr int kRopeBlock = 256;

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_ROPE_ROPE_ARGS_H
