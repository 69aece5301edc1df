//===- Context.cpp - entry points on contexts, memory and errors ----------===//
//
// Choosing a backend is the only decision here. `auto` falls back from cuda to
// reference only where cuda is not usable at all, and the description says so.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Runtime/te_runtime.h"

#include "ABI/Objects.h"
#include "Core/GemmOptions.h"
#include "Core/GroupSizes.h"

#include <algorithm>
#include <memory>
#include <new>
#include <string_view>

using namespace te::rt;

namespace {

std::string &lastError() {
  static thread_local std::string message;
  return message;
}

Status createBackend(std::string_view name, te_rt_context &context) {
  if (name == "reference") {
    context.backend = createReferenceBackend();
    return Status::ok();
  }
  if (name == "cuda")
    return createCudaBackend(&context.backend);
  if (name != "auto")
    return invalid("expected 'backend' to be 'reference', 'cuda' or 'auto', "
                   "but got '" +
                   std::string(name) + "'");
  Status status = createCudaBackend(&context.backend);
  if (status.code != TE_RT_UNSUPPORTED)
    return status;
  context.backend = createReferenceBackend();
  context.description = "; cuda is not used: " + status.message;
  return Status::ok();
}

/// An entry point on a context: checks the pointer, keeps other threads out,
/// names itself in errors.
template <typename Body>
te_rt_status onContext(const char *function, te_rt_context *context,
                       Body body) {
  return guarded([&]() -> Status {
    if (!context)
      return invalid(std::string(function) + ": 'context' is null");
    const std::lock_guard lock(context->calls);
    Status status = body(*context->backend);
    if (status.failed())
      status.message = std::string(function) + ": " + status.message;
    return status;
  });
}

/// A backend on the GPU that the caller names.
Status createBackendOn(std::string_view name, int32_t device,
                       te_rt_context &context) {
  if (name != "reference" && name != "cuda")
    return invalid("expected 'backend' to be 'reference' or 'cuda', but got '" +
                   std::string(name) + "'");
  if (device < 0)
    return invalid("expected 'device' to be zero or more, but got " +
                   std::to_string(device));
  if (name == "cuda")
    return createCudaBackend(&context.backend, device);
  if (device != 0)
    return invalid("expected 'device' to be 0 for the reference backend, but "
                   "got " +
                   std::to_string(device));
  context.backend = createReferenceBackend();
  return Status::ok();
}

/// The common part of the two functions that create a context.
template <typename Create>
te_rt_status createContext(const char *name, const char *backend,
                           te_rt_context **context, Create create) {
  return guarded([&]() -> Status {
    const std::string function = name;
    if (!backend || !context)
      return invalid(function + ": '" + (backend ? "context" : "backend") +
                     "' is null");
    *context = nullptr;
    auto result = std::make_unique<te_rt_context>();
    Status status = create(*result);
    if (status.failed()) {
      status.message = function + ": " + status.message;
      return status;
    }
    result->description = result->backend->description() + result->description;
    *context = result.release();
    return Status::ok();
  });
}

/// Adds a group that `connect` connects.
template <typename Connect>
Status bind(te_rt_context &context, int32_t number, Group group,
            Connect connect) {
  TE_RT_RETURN_IF_FAILED(context.groups.checkNew(number, group));
  if (!context.instances.empty())
    return invalid("expected groups to be bound before instances are created, "
                   "but the context has " +
                   std::to_string(context.instances.size()));
  // Before the other ranks believe that this one has it.
  context.groups.add(number, std::move(group));
  bool isBound = false;
  const AtExit undo([&] {
    if (!isBound)
      context.groups.remove(number);
  });
  TE_RT_RETURN_IF_FAILED(connect());
  isBound = true;
  return Status::ok();
}

/// No captured graph uses a byte from `pointer` on.
Status checkUnused(const te_rt_context &context, void *pointer) {
  auto found = context.allocations.find(pointer);
  if (found == context.allocations.end())
    return Status::ok(); // The backend knows what is wrong with it.
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  auto isInside = [&](const void *address) {
    const auto used = reinterpret_cast<uintptr_t>(address);
    return used >= begin &&
           used - begin <
               static_cast<uint64_t>(std::max<int64_t>(found->second, 1));
  };
  auto holds = [](const std::string &what) {
    return invalid(
        "expected memory that no captured graph uses, but it holds " + what +
        " of one; call te_rt_instance_release_graph, or destroy the "
        "instance, before");
  };
  for (const te_rt_instance *instance : context.instances)
    for (const te_rt_recorded_part &part : instance->graphs) {
      for (size_t i = 0; i < part.arguments.size(); ++i)
        if (isInside(part.arguments[i]))
          return holds("argument " + std::to_string(i));
      if (isInside(part.arena))
        return holds("the arena");
    }
  return Status::ok();
}

Status checkCopy(const void *to, const void *from, int64_t bytes) {
  if (bytes < 0)
    return invalid("expected 'bytes' to be zero or more, but got " +
                   std::to_string(bytes));
  if (bytes > 0 && (!to || !from))
    return invalid(std::string("'") + (to ? "from" : "to") + "' is null");
  return Status::ok();
}

} // namespace

void te::rt::assignMessage(std::string &message, const char *text) noexcept {
  try {
    message = text;
  } catch (const std::bad_alloc &) {
    message = kOutOfMemory;
  }
}

te_rt_status te::rt::report(te_rt_status code, const char *message) noexcept {
  // It may be this thread's message already.
  if (message != lastError().c_str())
    assignMessage(lastError(), message);
  return code;
}

int32_t te_rt_version(void) { return TE_RT_VERSION; }

const char *te_rt_last_error(void) { return lastError().c_str(); }

te_rt_status te_rt_context_create(const char *backend,
                                  te_rt_context **context) {
  return createContext(
      "te_rt_context_create", backend, context,
      [&](te_rt_context &result) { return createBackend(backend, result); });
}

te_rt_status te_rt_context_create_on_device(const char *backend, int32_t device,
                                            te_rt_context **context) {
  return createContext("te_rt_context_create_on_device", backend, context,
                       [&](te_rt_context &result) {
                         return createBackendOn(backend, device, result);
                       });
}

void te_rt_context_destroy(te_rt_context *context) {
  // What is on another process's device stays there.
  if (context && context->backend->isUsable())
    delete context;
}

const char *te_rt_context_backend(const te_rt_context *context) {
  return context ? context->backend->name() : "";
}

const char *te_rt_context_description(const te_rt_context *context) {
  return context ? context->description.c_str() : "";
}

te_rt_status te_rt_group_unique_id(char id[TE_RT_GROUP_ID_BYTES]) {
  return guarded([&]() -> Status {
    Status status = id ? createGroupId(id) : invalid("'id' is null");
    if (status.failed())
      status.message = "te_rt_group_unique_id: " + status.message;
    return status;
  });
}

te_rt_status te_rt_context_bind_group(te_rt_context *context, int32_t group_id,
                                      const char id[TE_RT_GROUP_ID_BYTES],
                                      int32_t size, int32_t rank) {
  return onContext(
      "te_rt_context_bind_group", context, [&](Backend &backend) -> Status {
        Group group = {size, rank, ""};
        if (id && size > 1)
          group.id.assign(id, TE_RT_GROUP_ID_BYTES);
        return bind(*context, group_id, std::move(group), [&]() -> Status {
          if (size > 1 && !id)
            return invalid("'id' is null; a group of more than one rank needs "
                           "one of te_rt_group_unique_id");
          return backend.bindGroup(group_id, id, size, rank);
        });
      });
}

te_rt_status
te_rt_context_bind_communicator(te_rt_context *context, int32_t group_id,
                                const te_rt_communicator *communicator) {
  return onContext(
      "te_rt_context_bind_communicator", context,
      [&](Backend &backend) -> Status {
        if (!communicator || !communicator->exchange)
          return invalid(communicator ? "the communicator's 'exchange' is "
                                        "null"
                                      : "'communicator' is null");
        return bind(
            *context, group_id, {communicator->size, communicator->rank, ""},
            [&] { return backend.bindCommunicator(group_id, *communicator); });
      });
}

te_rt_status te_rt_context_bind_nccl(te_rt_context *context, int32_t group_id,
                                     void *comm, int32_t size, int32_t rank) {
  return onContext("te_rt_context_bind_nccl", context,
                   [&](Backend &backend) -> Status {
                     if (!comm)
                       return invalid("'comm' is null");
                     return bind(*context, group_id, {size, rank, ""}, [&] {
                       return backend.bindNccl(group_id, comm, size, rank);
                     });
                   });
}

te_rt_status te_rt_context_set_group_timeout(te_rt_context *context,
                                             int64_t milliseconds) {
  return onContext(
      "te_rt_context_set_group_timeout", context,
      [&](Backend &backend) -> Status {
        if (milliseconds < 1)
          return invalid("expected 'milliseconds' to be one or more, but got " +
                         std::to_string(milliseconds));
        backend.groupTimeout = milliseconds;
        return Status::ok();
      });
}

te_rt_status te_rt_context_set_gemm_options(te_rt_context *context,
                                            const te_rt_gemm_options *options) {
  return onContext("te_rt_context_set_gemm_options", context,
                   [&](Backend &backend) -> Status {
                     if (!options)
                       return invalid("'options' is null");
                     TE_RT_RETURN_IF_FAILED(checkGemmOptions(*options));
                     return backend.setGemmOptions(*options);
                   });
}

te_rt_status te_rt_alloc(te_rt_context *context, int64_t bytes,
                         void **pointer) {
  return onContext("te_rt_alloc", context, [&](Backend &backend) -> Status {
    if (!pointer)
      return invalid("'pointer' is null");
    *pointer = nullptr;
    if (bytes < 0)
      return invalid("expected 'bytes' to be zero or more, but got " +
                     std::to_string(bytes));
    void *memory = nullptr;
    TE_RT_RETURN_IF_FAILED(backend.alloc(bytes, &memory));
    const auto release = [&](void *unused) { (void)backend.free(unused); };
    std::unique_ptr<void, decltype(release)> owner(memory, release);
    context->allocations.emplace(memory, bytes);
    *pointer = owner.release();
    return Status::ok();
  });
}

te_rt_status te_rt_free(te_rt_context *context, void *pointer) {
  return onContext("te_rt_free", context, [&](Backend &backend) -> Status {
    if (!pointer)
      return Status::ok();
    TE_RT_RETURN_IF_FAILED(checkUnused(*context, pointer));
    TE_RT_RETURN_IF_FAILED(backend.free(pointer));
    context->allocations.erase(pointer);
    return Status::ok();
  });
}

te_rt_status te_rt_copy_to_device(te_rt_context *context, void *to,
                                  const void *from, int64_t bytes) {
  return onContext(
      "te_rt_copy_to_device", context, [&](Backend &backend) -> Status {
        TE_RT_RETURN_IF_FAILED(checkCopy(to, from, bytes));
        TE_RT_RETURN_IF_FAILED(backend.copyToDevice(to, from, bytes));
        return backend.takeErrors();
      });
}

te_rt_status te_rt_copy_to_host(te_rt_context *context, void *to,
                                const void *from, int64_t bytes) {
  return onContext(
      "te_rt_copy_to_host", context, [&](Backend &backend) -> Status {
        TE_RT_RETURN_IF_FAILED(checkCopy(to, from, bytes));
        TE_RT_RETURN_IF_FAILED(backend.copyToHost(to, from, bytes));
        return backend.takeErrors();
      });
}

te_rt_status te_rt_check_group_sizes(const int32_t *sizes, int32_t groups,
                                     int64_t rows, int64_t alignment) {
  return guarded([&]() -> Status {
    Status status;
    if (groups < 0)
      status = invalid("expected 'groups' to be zero or more, but got " +
                       std::to_string(groups));
    else if (!sizes && groups != 0)
      status = invalid("'sizes' is null");
    else if (alignment < 1 || rows < 0 || rows % alignment != 0)
      status =
          invalid("expected 'rows' to be a multiple of 'alignment', but "
                  "got " +
                  std::to_string(rows) + " and " + std::to_string(alignment));
    else
      status = checkGroupSizes(sizes, groups, rows, alignment);
    if (status.failed())
      status.message = "te_rt_check_group_sizes: " + status.message;
    return status;
  });
}

te_rt_status te_rt_synchronize(te_rt_context *context) {
  return onContext("te_rt_synchronize", context,
                   [](Backend &backend) -> Status {
                     TE_RT_RETURN_IF_FAILED(backend.synchronize());
                     return backend.takeErrors();
                   });
}

te_rt_status te_rt_timer_mark(te_rt_context *context, int32_t index) {
  return onContext(
      "te_rt_timer_mark", context, [&](Backend &backend) -> Status {
        if (index != 0 && index != 1)
          return invalid("expected 'index' to be 0 or 1, but got " +
                         std::to_string(index));
        return backend.timerMark(index);
      });
}

te_rt_status te_rt_timer_elapsed_ms(te_rt_context *context,
                                    float *milliseconds) {
  return onContext("te_rt_timer_elapsed_ms", context,
                   [&](Backend &backend) -> Status {
                     if (!milliseconds)
                       return invalid("'milliseconds' is null");
                     return backend.timerElapsed(milliseconds);
                   });
}
