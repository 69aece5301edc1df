//===- Collective.cpp - plans of the collectives --------------------------===//
//
// A group of more than one rank is an NCCL communicator, which was connected
// when the group was bound: a launch only enqueues, and may be captured. Before
// that, it records which collective the stream has reached, for the message if
// the collective times out. Over a group of one rank, or in a process without a
// group, a collective is a copy.
//
//===----------------------------------------------------------------------===//

#include "Core/Capabilities.h"
#include "Cuda/CudaBackend.h"
#include "Cuda/Nccl.h"
#include "Kernels/LaunchPlan.h"

namespace te::rt::cuda {

static NcclDataType ncclType(int32_t type) {
  switch (type) {
  case TE_RT_F32:
    return NcclDataType::float32;
  case TE_RT_F16:
    return NcclDataType::float16;
  default: // Capabilities.cpp allows no other
    return NcclDataType::bfloat16;
  }
}

namespace {

/// A launch calls `enqueue(group, buffers, stream)`. The first buffers of every
/// collective are x and y.
template <typename Enqueue> class CollectivePlan final : public Plan {
public:
  CollectivePlan(const CudaDevice &device, NcclGroup &group, Enqueue enqueue)
      : progress(device.nccl->progress), group(group),
        enqueue(std::move(enqueue)), number(progress.add(*this, group)) {}
  ~CollectivePlan() override { progress.remove(number); }

  Status launch(void *stream, void *const *buffers) override {
    auto *const on = static_cast<CUstream>(stream);
    TE_RT_RETURN_IF_FAILED(progress.reach(number, on));
    return enqueue(group, buffers, on);
  }

private:
  Progress &progress; // belongs to the backend, as the group does
  NcclGroup &group;
  Enqueue enqueue;
  const uint32_t number;
};

} // namespace

/// Plans `enqueue(group, x, y, stream)`. If the group has one rank, it plans a
/// copy of `bytes` instead; if there are no elements, it plans nothing.
template <typename Enqueue>
static Status planCollective(const CudaDevice &device, int32_t number,
                             int64_t bytes, Enqueue enqueue,
                             std::unique_ptr<Plan> *plan) {
  NcclGroup *const group = device.nccl->find(number);
  if (!group || bytes == 0)
    return plan_copy(device, {bytes}, plan);
  auto onPair = [enqueue = std::move(enqueue)](
                    NcclGroup &group, void *const *buffers, CUstream stream) {
    return enqueue(group, buffers[copy_buffers::x], buffers[copy_buffers::y],
                   stream);
  };
  *plan = std::make_unique<CollectivePlan<decltype(onPair)>>(device, *group,
                                                             std::move(onPair));
  return Status::ok();
}

Status plan_all_gather(const CudaDevice &device,
                       const all_gather_params &params,
                       std::unique_ptr<Plan> *plan) {
  return planCollective(
      device, params.group_id, params.bytes,
      [bytes = params.bytes](NcclGroup &group, const void *x, void *y,
                             CUstream stream) {
        return group.allGather(x, y, bytes, stream);
      },
      plan);
}

Status plan_all_reduce_max(const CudaDevice &device,
                           const all_reduce_max_params &params,
                           std::unique_ptr<Plan> *plan) {
  return planCollective(
      device, params.group_id,
      params.count * static_cast<int64_t>(sizeof(float)),
      [count = params.count](NcclGroup &group, const void *x, void *y,
                             CUstream stream) {
        return group.allReduce(x, y, count, NcclDataType::float32,
                               NcclReduction::max, stream);
      },
      plan);
}

Status plan_all_reduce_sum(const CudaDevice &device,
                           const all_reduce_sum_params &params,
                           std::unique_ptr<Plan> *plan) {
  return planCollective(
      device, params.group_id, params.count * byteSize(params.type),
      [count = params.count, type = ncclType(params.type)](
          NcclGroup &group, const void *x, void *y, CUstream stream) {
        return group.allReduce(x, y, count, type, NcclReduction::sum, stream);
      },
      plan);
}

Status plan_all_to_all(const CudaDevice &device,
                       const all_to_all_params &params,
                       std::unique_ptr<Plan> *plan) {
  namespace b = all_to_all_buffers;
  const int64_t bytes = params.bytes, scaleBytes = params.scale_bytes;
  NcclGroup *const group = device.nccl->find(params.group_id);
  if (!group || bytes + scaleBytes == 0) {
    *plan = makePlan(
        device, [=](const Launcher &launch, void *const *buffers) -> Status {
          TE_RT_RETURN_IF_FAILED(checkBuffers(params, buffers));
          TE_RT_RETURN_IF_FAILED(
              launch.copy(buffers[b::y], buffers[b::x], bytes));
          return launch.copy(buffers[b::y_scale], buffers[b::x_scale],
                             scaleBytes);
        });
    return Status::ok();
  }
  auto exchange = [=](NcclGroup &group, void *const *buffers, CUstream stream) {
    TE_RT_RETURN_IF_FAILED(checkBuffers(params, buffers));
    return group.allToAll(
        {{{buffers[b::x], buffers[b::y], bytes},
          {buffers[b::x_scale], buffers[b::y_scale], scaleBytes}}},
        stream);
  };
  *plan = std::make_unique<CollectivePlan<decltype(exchange)>>(device, *group,
                                                               exchange);
  return Status::ok();
}

Status plan_reduce_scatter_sum(const CudaDevice &device,
                               const reduce_scatter_sum_params &params,
                               std::unique_ptr<Plan> *plan) {
  return planCollective(
      device, params.group_id, params.count * byteSize(params.type),
      [count = params.count, type = ncclType(params.type)](
          NcclGroup &group, const void *x, void *y, CUstream stream) {
        return group.reduceScatterSum(x, y, count, type, stream);
      },
      plan);
}

} // namespace te::rt::cuda
