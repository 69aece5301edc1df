//===- Instance.cpp - loading and running compiled steps ------------------===//
//
// Loading runs the module's `load`, which fills every slot, then makes one
// scratch region as large as the largest plan needs, and the arena unless the
// caller gives it. Running
// calls `step`, which only enqueues; nothing is allocated then.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Runtime/te_runtime.h"

#include "ABI/Objects.h"
#include "Core/KernelUses.h"

#include <algorithm>
#include <cstring>

using namespace te::rt;

namespace {

Status prefixed(const char *function, Status status) {
  if (status.failed())
    status.message = std::string(function) + ": " + status.message;
  return status;
}

/// An entry point on an instance: checks the pointer, keeps other threads out
/// of the context, names itself in errors.
template <typename Body>
te_rt_status onInstance(const char *function, const te_rt_instance *instance,
                        Body body) {
  return guarded([&]() -> Status {
    if (!instance)
      return prefixed(function, invalid("'instance' is null"));
    const std::lock_guard lock(instance->context->calls);
    return prefixed(function, body(*instance->context->backend));
  });
}

std::string expected(const char *what, const std::string &value,
                     const std::string &got) {
  return std::string("expected the module's ") + what + " to be " + value +
         ", but got " + got;
}

Status checkModule(const te_rt_module &module) {
  auto hex = [](uint32_t value) {
    char text[16];
    std::snprintf(text, sizeof(text), "0x%08x", value);
    return std::string(text);
  };
  if (module.magic != TE_RT_MODULE_MAGIC)
    return invalid(
        expected("'magic'", hex(TE_RT_MODULE_MAGIC), hex(module.magic)));
  if (module.version != TE_RT_VERSION)
    return invalid(expected("'version'", std::to_string(TE_RT_VERSION),
                            std::to_string(module.version)) +
                   "; compile it again with this runtime's release");
  if (module.arena_bytes < 0)
    return invalid(expected("'arena_bytes'", "zero or more",
                            std::to_string(module.arena_bytes)));
  if (module.num_plans < 0)
    return invalid(expected("'num_plans'", "zero or more",
                            std::to_string(module.num_plans)));
  if (module.num_arguments < 0)
    return invalid(expected("'num_arguments'", "zero or more",
                            std::to_string(module.num_arguments)));
  if (module.flags & ~uint32_t{TE_RT_IS_DETERMINISTIC})
    return invalid(expected("'flags'", "0 or 1", std::to_string(module.flags)));
  if (!module.load || !module.step)
    return invalid(std::string("the module's '") +
                   (module.load ? "step" : "load") + "' is null");
  return checkKernels(module, te_table::kKernelRows);
}

/// As te_rt_instance_create says, without the arena.
Status load(te_rt_instance &instance) {
  Backend &backend = *instance.context->backend;
  TE_RT_RETURN_IF_FAILED(
      backend.setDeterministic(instance.module.flags & TE_RT_IS_DETERMINISTIC));
  instance.slots.resize(instance.module.num_plans);
  if (const char *origin = instance.module.origins)
    for (size_t i = 0; i < instance.slots.size(); ++i) {
      instance.origins.push_back(origin);
      origin += std::strlen(origin) + 1;
    }
  instance.phase = Phase::loading;
  const te_rt_status code = instance.module.load(&instance);
  instance.phase = Phase::idle;
  TE_RT_RETURN_IF_FAILED(instance.failure);
  if (code != TE_RT_OK)
    return {code, "the module's 'load' returned status " +
                      std::to_string(static_cast<int>(code))};

  int64_t workspaceBytes = 0;
  for (size_t i = 0; i < instance.slots.size(); ++i) {
    if (!instance.slots[i].plan)
      return invalid("the module's 'load' made no plan for slot " +
                     std::to_string(i) + " of " +
                     std::to_string(instance.slots.size()));
    workspaceBytes =
        std::max(workspaceBytes, instance.slots[i].plan->workspaceBytes());
  }
  if (workspaceBytes == 0)
    return Status::ok();
  TE_RT_RETURN_IF_FAILED(backend.alloc(workspaceBytes, &instance.workspace));
  instance.workspaceBytes = workspaceBytes;
  for (Slot &slot : instance.slots)
    if (slot.plan->workspaceBytes() != 0)
      slot.plan->setWorkspace(instance.workspace);
  return Status::ok();
}

Status checkArguments(const te_rt_instance &instance, void *const *arguments) {
  if (!instance.arena && instance.module.arena_bytes != 0)
    return invalid("expected an arena of " +
                   std::to_string(instance.module.arena_bytes) +
                   " bytes, but the instance was created without one; call "
                   "te_rt_instance_set_arena before");
  const int32_t count = instance.module.num_arguments;
  if (count != 0 && !arguments)
    return invalid("'arguments' is null");
  for (int32_t i = 0; i < count; ++i)
    if (!arguments[i])
      return invalid("argument " + std::to_string(i) + " of " +
                     std::to_string(count) + " is null");
  return Status::ok();
}

/// Makes the stream `to` wait for what `from` has been given.
Status follow(Backend::Event &event, void *from, void *to) {
  TE_RT_RETURN_IF_FAILED(event.record(from));
  return event.hold(to);
}

/// Called before the launches of a run. A host program with streams of its own
/// may never call te_rt_synchronize, so errors of earlier runs are reported
/// here too.
Status enter(Backend &backend) {
  TE_RT_RETURN_IF_FAILED(backend.enterThread());
  return backend.takeErrors();
}

/// The stream that a call names, or the context's own where it names none.
Status findStream(Backend &backend, void *&stream) {
  if (stream)
    return backend.checkStream(stream);
  stream = backend.defaultStream();
  return Status::ok();
}

Status step(te_rt_instance &instance, void *const *arguments, void *stream) {
  instance.failure = Status::ok();
  instance.stream = stream;
  // A traced step is on one stream.
  const bool forks = instance.fork && !instance.trace;
  if (forks)
    TE_RT_RETURN_IF_FAILED(follow(*instance.fork, stream, instance.sideStream));
  instance.phase = Phase::stepping;
  instance.module.step(&instance, static_cast<char *>(instance.arena),
                       arguments);
  instance.phase = Phase::idle;
  if (!forks)
    return instance.failure;
  // Also after a failure: what was launched is still running, and a capture
  // ends with one stream.
  Status joined = follow(*instance.join, instance.sideStream, stream);
  return instance.failure.failed() ? instance.failure : joined;
}

/// As `step`, of the launches of slots `begin` to `end` - 1.
Status stepPart(te_rt_instance &instance, void *const *arguments, void *stream,
                int32_t begin, int32_t end) {
  instance.begin = begin;
  instance.end = end;
  const AtExit whole([&] {
    instance.begin = 0;
    instance.end = UINT32_MAX;
  });
  return step(instance, arguments, stream);
}

/// Makes `part.graph` its launches with these arguments.
Status capture(te_rt_instance &instance, te_rt_recorded_part &part,
               void *const *arguments) {
  Backend &backend = *instance.context->backend;
  void *stream = backend.defaultStream();
  std::unique_ptr<Backend::Graph> graph = std::move(part.graph);
  part.arguments.reserve(instance.module.num_arguments);
  TE_RT_RETURN_IF_FAILED(backend.beginCapture(stream));
  // A capture that was begun must be ended, also after an exception inside it.
  const te_rt_status code = guarded([&] {
    return stepPart(instance, arguments, stream, part.begin, part.end);
  });
  // Half a step is nothing that another could be changed to.
  if (code != TE_RT_OK)
    graph.reset();
  Status ended = backend.endCapture(stream, &graph);
  if (code != TE_RT_OK)
    return {code, te_rt_last_error()};
  TE_RT_RETURN_IF_FAILED(ended);
  part.arguments.assign(arguments, arguments + instance.module.num_arguments);
  part.arena = instance.arena;
  part.graph = std::move(graph);
  return Status::ok();
}

/// Replays the part on `stream`, recorded where it was not with these pointers.
Status replay(te_rt_instance &instance, void *const *arguments, void *stream,
              int32_t begin, int32_t end) {
  auto part =
      std::find_if(instance.graphs.begin(), instance.graphs.end(),
                   [&](const te_rt_recorded_part &recorded) {
                     return recorded.begin == begin && recorded.end == end;
                   });
  if (part == instance.graphs.end())
    part = instance.graphs.insert(part, {begin, end, nullptr, {}, nullptr});
  if (!part->graph || part->arena != instance.arena ||
      !std::equal(part->arguments.begin(), part->arguments.end(), arguments))
    TE_RT_RETURN_IF_FAILED(capture(instance, *part, arguments));
  return part->graph->launch(stream);
}

Status checkPart(const te_rt_instance &instance, int32_t begin, int32_t end) {
  const int32_t count = instance.module.num_plans;
  if (begin < 0 || begin > end || end > count)
    return invalid(
        "expected 0 <= 'begin' <= 'end' <= " + std::to_string(count) +
        ", but got " + std::to_string(begin) + " and " + std::to_string(end));
  return Status::ok();
}

} // namespace

te_rt_instance::~te_rt_instance() {
  Backend &backend = *context->backend;
  // A destructor cannot report: the call that lost a device has reported that,
  // and there may be no memory for the message.
  const auto ignoring = [](auto call) {
    try {
      (void)call();
    } catch (const std::exception &) {
    }
  };
  // Enqueued work may still use what is freed here.
  ignoring([&] { return backend.synchronize(); });
  graphs.clear();
  slots.clear();
  fork.reset();
  join.reset();
  for (void *memory : {ownArena, workspace})
    if (memory)
      ignoring([&] { return backend.free(memory); });
}

static Status create(te_rt_context *context, const te_rt_module *module,
                     te_rt_instance **instance, bool withArena) {
  if (!context || !module || !instance)
    return invalid(std::string("'") +
                   (!context  ? "context"
                    : !module ? "module"
                              : "instance") +
                   "' is null");
  *instance = nullptr;
  TE_RT_RETURN_IF_FAILED(checkModule(*module));
  const std::lock_guard lock(context->calls);
  auto result = std::make_unique<te_rt_instance>();
  result->context = context;
  result->module = *module;
  TE_RT_RETURN_IF_FAILED(load(*result));
  if (withArena)
    TE_RT_RETURN_IF_FAILED(
        context->backend->alloc(module->arena_bytes, &result->ownArena));
  result->arena = result->ownArena;
  context->instances.insert(result.get());
  *instance = result.release();
  return Status::ok();
}

te_rt_status te_rt_instance_create(te_rt_context *context,
                                   const te_rt_module *module,
                                   te_rt_instance **instance) {
  return guarded([&] {
    return prefixed("te_rt_instance_create",
                    create(context, module, instance, /*withArena=*/true));
  });
}

te_rt_status te_rt_instance_create_without_arena(te_rt_context *context,
                                                 const te_rt_module *module,
                                                 te_rt_instance **instance) {
  return guarded([&] {
    return prefixed("te_rt_instance_create_without_arena",
                    create(context, module, instance, /*withArena=*/false));
  });
}

te_rt_status te_rt_instance_set_arena(te_rt_instance *instance, void *arena,
                                      int64_t bytes) {
  return onInstance(
      "te_rt_instance_set_arena", instance, [&](Backend &backend) -> Status {
        if (!arena)
          return invalid("'arena' is null");
        const int64_t needed = instance->module.arena_bytes;
        if (bytes < needed)
          return invalid(
              "expected 'bytes' to be at least the " + std::to_string(needed) +
              " of the module's arena, but got " + std::to_string(bytes));
        if (reinterpret_cast<uintptr_t>(arena) % 16 != 0)
          return invalid("expected 'arena' to be aligned to 16 bytes, but it "
                         "is not");
        if (instance->ownArena) {
          // A run may still use it.
          TE_RT_RETURN_IF_FAILED(backend.enterThread());
          TE_RT_RETURN_IF_FAILED(backend.synchronize());
          TE_RT_RETURN_IF_FAILED(backend.free(instance->ownArena));
          instance->ownArena = nullptr;
        }
        instance->arena = arena;
        return Status::ok();
      });
}

void te_rt_instance_destroy(te_rt_instance *instance) {
  // What is on another process's device stays there.
  if (!instance || !instance->context->backend->isUsable())
    return;
  const std::lock_guard lock(instance->context->calls);
  instance->context->instances.erase(instance);
  delete instance;
}

te_rt_status te_rt_instance_run(te_rt_instance *instance,
                                void *const *arguments, void *stream) {
  return onInstance(
      "te_rt_instance_run", instance, [&](Backend &backend) -> Status {
        TE_RT_RETURN_IF_FAILED(checkArguments(*instance, arguments));
        TE_RT_RETURN_IF_FAILED(enter(backend));
        TE_RT_RETURN_IF_FAILED(findStream(backend, stream));
        return step(*instance, arguments, stream);
      });
}

te_rt_status te_rt_instance_run_part(te_rt_instance *instance,
                                     void *const *arguments, void *stream,
                                     int32_t begin, int32_t end) {
  return onInstance(
      "te_rt_instance_run_part", instance, [&](Backend &backend) -> Status {
        TE_RT_RETURN_IF_FAILED(checkArguments(*instance, arguments));
        TE_RT_RETURN_IF_FAILED(checkPart(*instance, begin, end));
        TE_RT_RETURN_IF_FAILED(enter(backend));
        TE_RT_RETURN_IF_FAILED(findStream(backend, stream));
        return stepPart(*instance, arguments, stream, begin, end);
      });
}

te_rt_status te_rt_instance_trace(te_rt_instance *instance,
                                  void *const *arguments, te_rt_trace_fn trace,
                                  void *user) {
  return onInstance(
      "te_rt_instance_trace", instance, [&](Backend &backend) -> Status {
        TE_RT_RETURN_IF_FAILED(checkArguments(*instance, arguments));
        if (!trace)
          return invalid("'trace' is null");
        TE_RT_RETURN_IF_FAILED(enter(backend));
        instance->trace = trace;
        instance->traceUser = user;
        const AtExit untraced([&] { instance->trace = nullptr; });
        return step(*instance, arguments, backend.defaultStream());
      });
}

te_rt_status te_rt_instance_run_graph(te_rt_instance *instance,
                                      void *const *arguments) {
  return onInstance(
      "te_rt_instance_run_graph", instance, [&](Backend &backend) -> Status {
        TE_RT_RETURN_IF_FAILED(checkArguments(*instance, arguments));
        TE_RT_RETURN_IF_FAILED(enter(backend));
        return replay(*instance, arguments, backend.defaultStream(), 0,
                      instance->module.num_plans);
      });
}

te_rt_status te_rt_instance_run_part_graph(te_rt_instance *instance,
                                           void *const *arguments, void *stream,
                                           int32_t begin, int32_t end) {
  return onInstance("te_rt_instance_run_part_graph", instance,
                    [&](Backend &backend) -> Status {
                      TE_RT_RETURN_IF_FAILED(
                          checkArguments(*instance, arguments));
                      TE_RT_RETURN_IF_FAILED(checkPart(*instance, begin, end));
                      TE_RT_RETURN_IF_FAILED(enter(backend));
                      TE_RT_RETURN_IF_FAILED(findStream(backend, stream));
                      return replay(*instance, arguments, stream, begin, end);
                    });
}

te_rt_status te_rt_instance_release_graph(te_rt_instance *instance) {
  return onInstance("te_rt_instance_release_graph", instance,
                    [&](Backend &backend) -> Status {
                      // A replay may be under way.
                      TE_RT_RETURN_IF_FAILED(backend.synchronize());
                      instance->graphs.clear();
                      return Status::ok();
                    });
}

te_rt_status te_rt_instance_memory(const te_rt_instance *instance,
                                   int64_t *arena_bytes,
                                   int64_t *workspace_bytes) {
  return onInstance(
      "te_rt_instance_memory", instance, [&](Backend &) -> Status {
        if (!arena_bytes || !workspace_bytes)
          return invalid(std::string("'") +
                         (arena_bytes ? "workspace_bytes" : "arena_bytes") +
                         "' is null");
        *arena_bytes = instance->ownArena ? instance->module.arena_bytes : 0;
        *workspace_bytes = instance->workspaceBytes;
        return Status::ok();
      });
}

static Status checkSlot(const te_rt_instance &instance, int32_t slot) {
  const auto count = static_cast<int32_t>(instance.slots.size());
  if (slot < 0 || slot >= count)
    return invalid("expected 0 <= 'slot' < " + std::to_string(count) +
                   ", but got " + std::to_string(slot));
  return Status::ok();
}

te_rt_status te_rt_instance_workspace(const te_rt_instance *instance,
                                      int32_t slot, int64_t *bytes) {
  return onInstance("te_rt_instance_workspace", instance,
                    [&](Backend &) -> Status {
                      if (!bytes)
                        return invalid("'bytes' is null");
                      TE_RT_RETURN_IF_FAILED(checkSlot(*instance, slot));
                      *bytes = instance->slots[slot].plan->workspaceBytes();
                      return Status::ok();
                    });
}

te_rt_status te_rt_instance_gemm(const te_rt_instance *instance, int32_t slot,
                                 te_rt_gemm_info *info) {
  return onInstance("te_rt_instance_gemm", instance, [&](Backend &) -> Status {
    if (!info)
      return invalid("'info' is null");
    TE_RT_RETURN_IF_FAILED(checkSlot(*instance, slot));
    const GemmRecord *record = instance->slots[slot].plan->gemmRecord();
    *info = record ? te_rt_gemm_info{record->origin, 0, record->gemm.c_str(),
                                     record->algorithm.c_str()}
                   : te_rt_gemm_info{TE_RT_GEMM_ORIGIN_NONE, 0, "", ""};
    return Status::ok();
  });
}
