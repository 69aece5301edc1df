//===- delayed_scaling_args.h - arguments of the scale update -------------===//
//
// The kernel and the host code that launches it share this header.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_DELAYEDSCALING_DELAYED_SCALING_ARGS_H
#define TE_RUNTIME_KERNELS_DELAYEDSCALING_DELAYED_SCALING_ARGS_H

#include "Core/KernelGroups.h"

#include <cstdint>

namespace te::rt::cuda {

/// A history of 1024 rows, the default of recipes, is read at once.
inline constexpr int kMostDelayedScalingThreads = 1024;

/// Outputs may be the matching inputs.
struct DelayedScalingMember {
  const float *amax;    // [slots]
  const float *history; // [length, slots]
  const float *scale;   // [slots]
  float *newHistory;
  float *newScale;
  int64_t slots;
};

struct DelayedScalingArgs {
  int64_t length;
  float scaledMax; // the largest finite value times 2^-margin
  int32_t algorithm;
  DelayedScalingMember members[kDelayedScalingGroup]; // by blockIdx.y
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_DELAYEDSCALING_DELAYED_SCALING_ARGS_H
