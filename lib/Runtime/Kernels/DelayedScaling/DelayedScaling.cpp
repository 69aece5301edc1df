//===- DelayedScaling.cpp - plan of the scale update ----------------------===//
//
// One block updates one slot.
//
//===----------------------------------------------------------------------===//

#include "Kernels/DelayedScaling/delayed_scaling_args.h"

#include "Cuda/CudaBackend.h"
#include "Kernels/LaunchPlan.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace te::rt::cuda {

Status plan_delayed_scaling_update(const CudaDevice &device,
                                   const delayed_scaling_update_params &params,
                                   std::unique_ptr<Plan> *plan) {
  if (params.slots > std::numeric_limits<int32_t>::max())
    return {TE_RT_UNSUPPORTED, "expected at most 2147483647 slots, but got " +
                                   std::to_string(params.slots)};
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(config.find(device, "te_delayed_scaling_update"));
  config.block = static_cast<unsigned>(std::clamp<int64_t>(
      roundUp(params.history_length, 32), 32, kMostDelayedScalingThreads));
  config.gridX = static_cast<unsigned>(params.slots);
  const float scaledMax = std::ldexp(params.fp8_max, -params.margin);
  *plan = makePlan(device, [config, params, scaledMax](const Launcher &launch,
                                                       void *const *buffers) {
    namespace b = delayed_scaling_update_buffers;
    return launch(
        config, DelayedScalingArgs{
                    .amax = static_cast<const float *>(buffers[b::amax]),
                    .history = static_cast<const float *>(buffers[b::history]),
                    .scale = static_cast<const float *>(buffers[b::scale]),
                    .newHistory = static_cast<float *>(buffers[b::new_history]),
                    .newScale = static_cast<float *>(buffers[b::new_scale]),
                    .slots = params.slots,
                    .length = params.history_length,
                    .scaledMax = scaledMax,
                    .algorithm = params.algorithm});
  });
  return Status::ok();
}

} // namespace te::rt::cuda
