//===- DelayedScaling.cpp - plan of the scale update ----------------------===//
//
// One block updates one slot.
//
//===----------------------------------------------------------------------===//

#include "Kernels/DelayedScaling/delayed_scaling_args.h"

#include "Core/Capabilities.h"
#include "Cuda/CudaBackend.h"
#include "Kernels/LaunchPlan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace te::rt::cuda {

namespace {

/// A row of blocks for each member, with these numbers of slots.
/// `buffersOf(buffers, i)` are those of delayed_scaling_update for row i.
template <typename Params, typename BuffersOf>
Status planRows(const CudaDevice &device, const Params &params,
                const std::vector<int64_t> &slots, BuffersOf buffersOf,
                std::unique_ptr<Plan> *plan) {
  const int64_t most =
      slots.empty() ? 0 : *std::max_element(slots.begin(), slots.end());
  if (most > std::numeric_limits<int32_t>::max())
    return {TE_RT_UNSUPPORTED, "expected at most 2147483647 slots, but got " +
                                   std::to_string(most)};
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(config.find(device, "te_delayed_scaling_update"));
  config.block = static_cast<unsigned>(std::clamp<int64_t>(
      roundUp(params.history_length, 32), 32, kMostDelayedScalingThreads));
  config.gridX = static_cast<unsigned>(most);
  config.gridY = static_cast<unsigned>(slots.size());
  const float scaledMax = std::ldexp(params.fp8_max, -params.margin);
  *plan = makePlan(device,
                   [=](const Launcher &launch, void *const *buffers) -> Status {
                     namespace b = delayed_scaling_update_buffers;
                     if constexpr (requires { checkBuffers(params, buffers); })
                       TE_RT_RETURN_IF_FAILED(checkBuffers(params, buffers));
                     DelayedScalingArgs args{.length = params.history_length,
                                             .scaledMax = scaledMax,
                                             .algorithm = params.algorithm,
                                             .members = {}};
                     for (size_t i = 0; i < slots.size(); ++i) {
                       const auto own = buffersOf(buffers, i);
                       auto array = [&](int buffer) {
                         return static_cast<float *>(own[buffer]);
                       };
                       args.members[i] = {.amax = array(b::amax),
                                          .history = array(b::history),
                                          .scale = array(b::scale),
                                          .newHistory = array(b::new_history),
                                          .newScale = array(b::new_scale),
                                          .slots = slots[i]};
                     }
                     return launch(config, args);
                   });
  return Status::ok();
}

} // namespace

Status plan_delayed_scaling_update(const CudaDevice &device,
                                   const delayed_scaling_update_params &params,
                                   std::unique_ptr<Plan> *plan) {
  return planRows(
      device, params, {params.slots},
      [](void *const *buffers, size_t) { return buffers; }, plan);
}

Status plan_delayed_scaling_group(const CudaDevice &device,
                                  const delayed_scaling_group_params &params,
                                  std::unique_ptr<Plan> *plan) {
  std::vector<int64_t> slots;
  std::vector<int> members;
  for (int i = 0; i < kDelayedScalingGroup; ++i)
    if (const int64_t own = memberOf(params, i).slots; own != 0) {
      slots.push_back(own);
      members.push_back(i);
    }
  return planRows(
      device, params, slots,
      [=](void *const *buffers, size_t row) {
        return delayedScalingBuffersOf(buffers, members[row]);
      },
      plan);
}

} // namespace te::rt::cuda
