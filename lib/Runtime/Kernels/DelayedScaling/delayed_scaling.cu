//===- delayed_scaling.cu - from amax histories to scales -----------------===//
//
// te_delayed_scaling_update: one block moves the history of one slot. A row of
// blocks has the slots of one member.
//
//===----------------------------------------------------------------------===//

#include "Core/Formulas.h"
#include "Kernels/DelayedScaling/delayed_scaling_args.h"
#include "Kernels/Device/launch_sm90.cuh"

using namespace te::rt::cuda;

/// NaN is ignored.
__device__ __forceinline__ float maxOverWarp(float value) {
  for (int lanes = 16; lanes != 0; lanes /= 2)
    value = fmaxf(value, __shfl_xor_sync(~0u, value, lanes));
  return value;
}

/// Row `row` of the history, or `last` beyond its end.
__device__ __forceinline__ float rowOr(float last,
                                       const DelayedScalingMember &member,
                                       int64_t length, int64_t row,
                                       int64_t slot) {
  return row < length ? member.history[row * member.slots + slot] : last;
}

extern "C" __global__ void __launch_bounds__(kMostDelayedScalingThreads)
    te_delayed_scaling_update(const __grid_constant__ DelayedScalingArgs args) {
  te::rt::cuda::ptx::beginKernel();
  const DelayedScalingMember &member = args.members[blockIdx.y];
  const int64_t slot = blockIdx.x;
  if (slot >= member.slots)
    return;
  // Every thread reads row 0 before the first barrier; after it row 0 changes.
  const float measured = member.amax[slot], scale = member.scale[slot];
  const float last = measured != 0.0f ? measured : member.history[slot];
  const bool moves = last != 0.0f;
  float amax = last;
  for (int64_t base = 0; base < args.length; base += blockDim.x) {
    const int64_t i = base + threadIdx.x;
    // No load waits for `moves`.
    const float own = rowOr(last, member, args.length, i, slot);
    const float next = rowOr(last, member, args.length, i + 1, slot);
    const float entry = moves ? next : own;
    // The history may be moved in place: this iteration writes rows below
    // base + the block, which it or an earlier one has read.
    __syncthreads();
    if (i < args.length) {
      member.newHistory[i * member.slots + slot] =
          moves && i == 0 ? 0.0f : entry;
      amax = fmaxf(amax, entry);
    }
  }

  __shared__ float partial[kMostDelayedScalingThreads / 32];
  amax = maxOverWarp(amax);
  if (threadIdx.x % 32 == 0)
    partial[threadIdx.x / 32] = amax;
  __syncthreads();
  if (threadIdx.x >= 32)
    return;
  amax = maxOverWarp(partial[threadIdx.x % (blockDim.x / 32)]);
  // A slot that is not updated keeps its scale, regardless of its history.
  amax = moves && args.algorithm == TE_RT_AMAX_MAX ? amax : last;
  if (threadIdx.x == 0)
    member.newScale[slot] =
        te::rt::math::delayedScale(amax, args.scaledMax, scale);
}
