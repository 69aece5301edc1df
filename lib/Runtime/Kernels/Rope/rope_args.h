//===- rope_args.h - arguments of the rotary embedding --------------------===//
//
// The kernel and the host code that launches it share this header.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_ROPE_ROPE_ARGS_H
#define TE_RUNTIME_KERNELS_ROPE_ROPE_ARGS_H

#include "Core/KernelGroups.h"

#include <cstdint>

namespace te::rt::cuda {

/// What is rotated.
struct RopeTensor {
  const void *x; // [tokens, heads * headDim]
  void *y;       // as x
  float *amax;   // [1] or null; zero before the launch
  int32_t heads;
  int32_t tokensPerBlock; // of the kernel that is launched; see rope.cu
};

struct RopeArgs {
  RopeTensor tensors[kRopeGroup]; // by blockIdx.y
  const float *cos;               // [sequence, pairs]
  const float *sin;               // [sequence, pairs]
  const int32_t *positions;       // [tokens], or null
  int64_t tokens;
  int64_t sequence;
  int32_t headDim;
  int32_t pairs;        // rotary_dim / 2
  int32_t itemsPerHead; // of the kernel that is launched
  bool inverse;
};

inline constexpr int kRopeBlock = 256;

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_ROPE_ROPE_ARGS_H
