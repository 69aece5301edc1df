//===- delayed_scaling.cu - from amax histories to scales -----------------===//
//
// te_delayed_scaling_update: one block moves the history of one slot.
//
//===----------------------------------------------------------------------===//

#include "Core/Formulas.h"
#include "Kernels/DelayedScaling/delayed_scaling_args.h"

using namespace te::rt::cuda;

extern "C" __global__ void __launch_bounds__(kDelayedScalingBlock)
    te_delayed_scaling_update(const __grid_constant__ DelayedScalingArgs args) {
  const int64_t slot = blockIdx.x;
  // Every thread reads row 0 before the first barrier; after it row 0 changes.
  const float measured = args.amax[slot];
  const float last = measured != 0.0f ? measured : args.history[slot];
  const bool moves = last != 0.0f;
  float amax = last;
  for (int64_t base = 0; base < args.length; base += kDelayedScalingBlock) {
    const int64_t i = base + threadIdx.x;
    const int64_t from = moves ? i + 1 : i;
    const float entry =
        from < args.length ? args.history[from * args.slots + slot] : last;
    // The history may be moved in place: this iteration writes rows below
    // base + 256, which it or an earlier one has read.
    __syncthreads();
    if (i < args.length) {
      args.newHistory[i * args.slots + slot] = moves && i == 0 ? 0.0f : entry;
      amax = fmaxf(amax, entry);
    }
  }

  __shared__ float partial[kDelayedScalingBlock];
  partial[threadIdx.x] = amax;
  for (int s = kDelayedScalingBlock / 2; s != 0; s /= 2) {
    __syncthreads();
    if (threadIdx.x < s)
      partial[threadIdx.x] =
          fmaxf(partial[threadIdx.x], partial[threadIdx.x + s]);
  }
  if (threadIdx.x == 0) {
    // A slot that is not updated keeps its scale, regardless of its history.
    amax = moves && args.algorithm == TE_RT_AMAX_MAX ? partial[0] : last;
    args.newScale[slot] =
        te::rt::math::delayedScale(amax, args.scaledMax, args.scale[slot]);
  }
}
