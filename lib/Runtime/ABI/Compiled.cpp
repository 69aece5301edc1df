//===- Compiled.cpp - entry points that compiled code calls ---------------===//
//
// te_rt_plan_<name> of every kernel, expanded from te_runtime_kernels.inc,
// te_rt_order and te_rt_launch. A launch that succeeds allocates nothing and
// touches no string.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Runtime/te_runtime_compiled.h"

#include "ABI/Objects.h"
#include "Core/Capabilities.h"

#include <functional>

using namespace te::rt;

namespace {

/// Runs the body of an entry point of a load or step, unless one before it
/// failed: the first failure is the one that is reported.
template <typename Body>
te_rt_status sticky(const char *function, te_rt_instance *instance,
                    Body body) noexcept {
  if (!instance)
    return guarded([&]() -> Status {
      return invalid(std::string(function) + ": 'instance' is null");
    });
  if (instance->failure.failed())
    return report(instance->failure);
  const te_rt_status code = guarded(body);
  if (code != TE_RT_OK) {
    instance->failure.code = code;
    assignMessage(instance->failure.message, te_rt_last_error());
  }
  return code;
}

/// "amax (slot 3, 'y' at step.mlir:4:10)".
std::string nameOf(const te_rt_instance &instance, const KernelInfo &kernel,
                   int32_t slot) {
  std::string name =
      std::string(kernel.name) + " (slot " + std::to_string(slot);
  const auto index = static_cast<size_t>(slot);
  if (index < instance.origins.size() && *instance.origins[index])
    name += std::string(", ") + instance.origins[index];
  return name + ")";
}

std::string slotPrefix(const te_rt_instance &instance, const KernelInfo &kernel,
                       int32_t slot) {
  return nameOf(instance, kernel, slot) + ": ";
}

using MakePlan = std::function<Status(std::unique_ptr<Plan> *)>;

Status plan(te_rt_instance &instance, int32_t slot, const KernelInfo &kernel,
            const MakePlan &makePlan) {
  if (instance.phase != Phase::loading)
    return invalid(slotPrefix(instance, kernel, slot) +
                   "plans can be made only inside the module's 'load'");
  if (slot < 0 || slot >= static_cast<int32_t>(instance.slots.size()))
    return invalid(slotPrefix(instance, kernel, slot) +
                   "expected a slot below the module's 'num_plans' " +
                   std::to_string(instance.slots.size()) + ", but got " +
                   std::to_string(slot));
  Slot &target = instance.slots[slot];
  if (target.plan)
    return invalid(slotPrefix(instance, kernel, slot) +
                   "the slot already has a plan, '" + target.kernel->name +
                   "'");
  instance.context->backend->planning = slot;
  Status status = makePlan(&target.plan);
  if (status.failed()) {
    target.plan.reset();
    status.message = slotPrefix(instance, kernel, slot) + status.message;
    return status;
  }
  target.kernel = &kernel;
  target.plan->setName(nameOf(instance, kernel, slot));
  return Status::ok();
}

/// The body of `te_rt_plan_<name>`, once for all kernels.
te_rt_status planKernel(const char *function, te_rt_instance *instance,
                        int32_t slot, const KernelInfo &kernel,
                        const MakePlan &makePlan) noexcept {
  return sticky(function, instance, [&]() -> Status {
    return plan(*instance, slot, kernel, makePlan);
  });
}

/// The failure of a launch, described; off the path of one that works.
[[gnu::noinline]] Status launchFailure(const te_rt_instance &instance,
                                       int32_t slot, void *const *buffers) {
  if (instance.phase != Phase::stepping)
    return invalid("te_rt_launch: expected to be called inside the module's "
                   "'step'");
  if (slot < 0 || slot >= static_cast<int32_t>(instance.slots.size()))
    return invalid("te_rt_launch: expected a slot below the module's "
                   "'num_plans' " +
                   std::to_string(instance.slots.size()) + ", but got " +
                   std::to_string(slot));
  const KernelInfo &kernel = *instance.slots[slot].kernel;
  if (!buffers)
    return invalid(slotPrefix(instance, kernel, slot) + "'buffers' is null");
  for (int i = 0; i < kernel.numBuffers; ++i)
    if (kernel.buffers[i].required && !buffers[i])
      return invalid(slotPrefix(instance, kernel, slot) + "required buffer '" +
                     kernel.buffers[i].name + "' is null");
  return {TE_RT_INTERNAL,
          slotPrefix(instance, kernel, slot) + "the launch was refused"};
}

Status order(te_rt_instance &instance, int32_t slot, int32_t side,
             int32_t wait) {
  const std::string prefix =
      "te_rt_order (slot " + std::to_string(slot) + "): ";
  if (instance.phase != Phase::loading)
    return invalid(prefix + "expected to be called inside the module's 'load'");
  const auto count = static_cast<int32_t>(instance.slots.size());
  if (slot < 0 || slot >= count || !instance.slots[slot].plan)
    return invalid(prefix + "expected a slot that has a plan");
  Slot &target = instance.slots[slot];
  if (target.isOrdered)
    return invalid(prefix + "the slot is ordered already");
  if (side != 0 && side != 1)
    return invalid(prefix + "expected 'side' to be 0 or 1, but got " +
                   std::to_string(side));
  if (wait < -1 || wait >= slot)
    return invalid(prefix +
                   "expected 'wait' to be -1 or a lower slot, but got " +
                   std::to_string(wait));
  if (side && target.plan->workspaceBytes() != 0)
    return invalid(prefix + "the side stream has no scratch memory, but '" +
                   target.kernel->name + "' takes " +
                   std::to_string(target.plan->workspaceBytes()) + " bytes");
  Backend &backend = *instance.context->backend;
  if (wait >= 0) {
    Slot &other = instance.slots[wait];
    if (!other.plan || other.side == (side == 1))
      return invalid(prefix + "expected slot " + std::to_string(wait) +
                     ", which it waits for, to be on the other stream");
    if (!other.done)
      TE_RT_RETURN_IF_FAILED(backend.createEvent(&other.done));
  }
  if (side && !instance.fork) {
    TE_RT_RETURN_IF_FAILED(backend.sideStream(&instance.sideStream));
    TE_RT_RETURN_IF_FAILED(backend.createEvent(&instance.join));
    TE_RT_RETURN_IF_FAILED(backend.createEvent(&instance.fork));
  }
  target.side = side == 1;
  target.wait = wait;
  target.isOrdered = true;
  return Status::ok();
}

/// Launches on the slot's stream, behind what it waits for. What a part of a
/// step waits for in an earlier part has ended with that.
Status orderedLaunch(te_rt_instance &instance, Slot &slot,
                     void *const *buffers) {
  void *const stream = slot.side ? instance.sideStream : instance.stream;
  if (slot.wait >= 0 && static_cast<uint32_t>(slot.wait) >= instance.begin)
    TE_RT_RETURN_IF_FAILED(instance.slots[slot.wait].done->hold(stream));
  TE_RT_RETURN_IF_FAILED(slot.plan->launch(stream, buffers));
  return slot.done ? slot.done->record(stream) : Status::ok();
}

/// Launches, waits, and tells the instance's observer. All on one stream: so a
/// time is that of one launch.
[[gnu::noinline]] Status tracedLaunch(te_rt_instance &instance, int32_t slot,
                                      void *const *buffers) {
  Backend &backend = *instance.context->backend;
  Slot &target = instance.slots[slot];
  float milliseconds = 0;
  TE_RT_RETURN_IF_FAILED(backend.timerMark(0));
  TE_RT_RETURN_IF_FAILED(target.plan->launch(instance.stream, buffers));
  TE_RT_RETURN_IF_FAILED(backend.timerMark(1));
  TE_RT_RETURN_IF_FAILED(backend.timerElapsed(&milliseconds));
  instance.trace(instance.traceUser, slot, target.kernel->name, milliseconds);
  return Status::ok();
}

bool hasRequiredBuffers(const KernelInfo &kernel, void *const *buffers) {
  for (int i = 0; i < kernel.numBuffers; ++i)
    if (!buffers[i] && kernel.buffers[i].required)
      return false;
  return true;
}

// const KernelInfo kInfo_amax = {"amax", {{"x", true}, {"amax", true}}, 2};
#define TE_RT_IN(name) {#name, true},
#define TE_RT_OUT(name) {#name, true},
#define TE_RT_IN_OPT(name) {#name, false},
#define TE_RT_OUT_OPT(name) {#name, false},
#define TE_RT_KERNEL(kernel, parameters, buffers)                              \
  const KernelInfo::Buffer kBuffers_##kernel[] = {buffers};                    \
  const KernelInfo kInfo_##kernel = {#kernel, kBuffers_##kernel,               \
                                     kernel##_buffers::count_};
#include "TEDialect/Runtime/te_runtime_kernels.inc"

} // namespace

te_rt_status te_rt_launch(te_rt_instance *instance, int32_t slot,
                          void *const *buffers) {
  return sticky("te_rt_launch", instance, [&]() -> Status {
    const auto index = static_cast<uint32_t>(slot);
    if (instance->phase != Phase::stepping || index >= instance->slots.size() ||
        !buffers ||
        !hasRequiredBuffers(*instance->slots[index].kernel, buffers))
      return launchFailure(*instance, slot, buffers);
    if (index < instance->begin || index >= instance->end)
      return Status::ok();
    Slot &target = instance->slots[index];
    Status status = instance->trace ? tracedLaunch(*instance, slot, buffers)
                                    : orderedLaunch(*instance, target, buffers);
    if (status.failed())
      status.message =
          slotPrefix(*instance, *target.kernel, slot) + status.message;
    return status;
  });
}

te_rt_status te_rt_order(te_rt_instance *instance, int32_t slot, int32_t side,
                         int32_t wait) {
  return sticky("te_rt_order", instance,
                [&]() -> Status { return order(*instance, slot, side, wait); });
}

// The parameters of a row are wanted twice, with and without their types, so
// they expand to a sequence (int64_t, count)(int32_t, type) that each use walks
// in its own way: A and B name each other until the sequence ends.
#define TE_CLOSE_(...) __VA_ARGS__##_END
#define TE_CLOSE(...) TE_CLOSE_(__VA_ARGS__)
#define TE_DECLARE_A(type, name) , type name TE_DECLARE_B
#define TE_DECLARE_B(type, name) , type name TE_DECLARE_A
#define TE_DECLARE_A_END
#define TE_DECLARE_B_END
#define TE_DECLARE(sequence) TE_CLOSE(TE_DECLARE_A sequence)
#define TE_NAME_A(type, name) name, TE_NAME_B
#define TE_NAME_B(type, name) name, TE_NAME_A
#define TE_NAME_A_END
#define TE_NAME_B_END
#define TE_NAMES(sequence) TE_CLOSE(TE_NAME_A sequence)

#define TE_RT_I64(name) (int64_t, name)
#define TE_RT_I32(name) (int32_t, name)
#define TE_RT_F32(name) (float, name)
#define TE_RT_KERNEL(kernel, parameters, buffers)                              \
  te_rt_status te_rt_plan_##kernel(te_rt_instance *instance,                   \
                                   int32_t slot TE_DECLARE(parameters)) {      \
    const kernel##_params params = {TE_NAMES(parameters)};                     \
    return planKernel("te_rt_plan_" #kernel, instance, slot, kInfo_##kernel,   \
                      [&](std::unique_ptr<Plan> *result) -> Status {           \
                        TE_RT_RETURN_IF_FAILED(checkSupported(params));        \
                        TE_RT_RETURN_IF_FAILED(                                \
                            checkGroups(params, instance->context->groups));   \
                        return instance->context->backend->plan_##kernel(      \
                            params, result);                                   \
                      });                                                      \
  }
#include "TEDialect/Runtime/te_runtime_kernels.inc"
