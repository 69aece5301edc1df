//===- Objects.h - what the ABI's opaque pointers point to ----------------===//
//
// And the two things every entry point does: turn an exception into a status,
// and turn a Status into a return code plus this thread's message.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_ABI_OBJECTS_H
#define TE_RUNTIME_ABI_OBJECTS_H

#include "TEDialect/Runtime/te_runtime.h"

#include "Core/Backend.h"
#include "Core/Groups.h"

#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace te::rt {

/// A kernel's row, for checks and messages at launch.
struct KernelInfo {
  struct Buffer {
    const char *name;
    bool required;
  };
  const char *name;
  const Buffer *buffers;
  int numBuffers;
};

/// One planned launch.
struct Slot {
  std::unique_ptr<Plan> plan;
  const KernelInfo *kernel = nullptr;
  /// As te_rt_order says.
  bool side = false, isOrdered = false;
  int32_t wait = -1;
  /// Recorded behind the launch, where one of the other stream waits for it.
  std::unique_ptr<Backend::Event> done;
};

/// What an instance is doing; planning and launching are allowed only in the
/// module's own callbacks.
enum class Phase { idle, loading, stepping };

/// What is said if there is no memory for more: short enough for a string to
/// take it without an allocation.
constexpr const char kOutOfMemory[] = "out of memory";

/// Assigns `text`, or kOutOfMemory if there is no memory for it.
void assignMessage(std::string &message, const char *text) noexcept;

/// Records `message` as that of this thread and returns `code`.
te_rt_status report(te_rt_status code, const char *message) noexcept;
inline te_rt_status report(const Status &status) noexcept {
  return report(status.code, status.message.c_str());
}

/// Runs an entry point's body, which may throw.
template <typename Body> te_rt_status guarded(Body body) noexcept {
  try {
    Status status = body();
    return status.failed() ? report(status) : TE_RT_OK;
  } catch (const std::bad_alloc &) {
    return report(TE_RT_OUT_OF_MEMORY, kOutOfMemory);
  } catch (const std::exception &exception) {
    return report(TE_RT_INTERNAL, exception.what());
  } catch (...) {
    return report(TE_RT_INTERNAL, "unknown exception");
  }
}

/// Calls `leave` at the end of a scope, also if an exception ends it.
template <typename Leave> class [[nodiscard]] AtExit {
public:
  explicit AtExit(Leave leave) : leave(std::move(leave)) {}
  AtExit(const AtExit &) = delete;
  AtExit &operator=(const AtExit &) = delete;
  ~AtExit() { leave(); }

private:
  Leave leave;
};

inline Status invalid(std::string message) {
  return {TE_RT_INVALID_ARGUMENT, std::move(message)};
}

} // namespace te::rt

struct te_rt_context {
  /// Held by every call on the context, its memory and its instances. It is
  /// recursive, because a call may call the host program (a communicator, a
  /// trace), which may call back.
  std::recursive_mutex calls;
  std::unique_ptr<te::rt::Backend> backend;
  std::string description;
  te::rt::GroupTable groups;
  /// Those that are alive: their plans know the groups, their graphs use
  /// memory.
  std::unordered_set<te_rt_instance *> instances;
  /// Bytes of what te_rt_alloc gave, by its address.
  std::unordered_map<void *, int64_t> allocations;
};

/// The launches of some slots, recorded with the pointers `arguments` and the
/// arena.
struct te_rt_recorded_part {
  int32_t begin, end;
  std::unique_ptr<te::rt::Backend::Graph> graph;
  std::vector<void *> arguments;
  void *arena = nullptr;
};

struct te_rt_instance {
  te_rt_context *context;
  te_rt_module module;
  std::vector<te::rt::Slot> slots;
  /// By slot; empty where the module does not say.
  std::vector<const char *> origins;
  /// Of the caller, or `ownArena`, which the instance allocated; may be null.
  void *arena = nullptr, *ownArena = nullptr;
  void *workspace = nullptr;
  int64_t workspaceBytes = 0;
  void *stream = nullptr;
  /// Of the backend, where a slot is on it: `fork` holds it back until the
  /// caller's stream is where a step begins, and `join` the caller's at its
  /// end.
  void *sideStream = nullptr;
  std::unique_ptr<te::rt::Backend::Event> fork, join;
  te::rt::Phase phase = te::rt::Phase::idle;
  /// The slots that a running step launches; it passes by the others.
  uint32_t begin = 0, end = UINT32_MAX;
  /// Called for each launch of the running step; may be null.
  te_rt_trace_fn trace = nullptr;
  void *traceUser = nullptr;
  /// First failure of the running load or step.
  te::rt::Status failure;
  std::vector<te_rt_recorded_part> graphs;

  ~te_rt_instance();
};

#endif // TE_RUNTIME_ABI_OBJECTS_H
