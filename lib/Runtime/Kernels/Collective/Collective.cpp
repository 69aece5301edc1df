//===- Collective.cpp - plan the collectives ------------------------------===//
//
// A group of more than one rank is an NCCL communicator, which was connected
// when the group was bound: a launch only enqueues, and may be captured. Over a
// group of one, or in a process by itself, the maximum is the value.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaBackend.h"
#include "Cuda/Nccl.h"
#include "Kernels/LaunchPlan.h"

namespace te::rt::cuda {

Status plan_all_reduce_max(const CudaDevice &device,
                           const all_reduce_max_params &params,
                           std::unique_ptr<Plan> *plan) {
  NcclGroup *const group = device.nccl->find(params.group_id);
  if (!group || params.count == 0) {
    static_assert(static_cast<int>(all_reduce_max_buffers::x) ==
                      static_cast<int>(copy_buffers::x) &&
                  static_cast<int>(all_reduce_max_buffers::y) ==
                      static_cast<int>(copy_buffers::y));
    return plan_copy(
        device, {params.count * static_cast<int64_t>(sizeof(float))}, plan);
  }
  *plan = makePlan(device, [group, count = params.count](const Launcher &launch,
                                                         void *const *buffers) {
    return group->allReduceMax(buffers[all_reduce_max_buffers::x],
                               buffers[all_reduce_max_buffers::y], count,
                               launch.rawStream());
  });
  return Status::ok();
}

} // namespace te::rt::cuda
