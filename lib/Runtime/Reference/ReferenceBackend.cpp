//===- ReferenceBackend.cpp - the CPU backend -----------------------------===//
//
// Device memory is host memory, a launch is a call, and everything is complete
// when the call returns, except on the side stream: a launch there runs when
// something waits for it, which is as late as a GPU may run it. A missing wait
// therefore gives wrong results here, every time. While a step is captured its
// launches are only recorded, as on a GPU, so that an error of a replay also
// shows here.
//
//===----------------------------------------------------------------------===//

#include "Core/Backend.h"
#include "Core/Capabilities.h"
#include "Core/GroupSizes.h"
#include "Core/Stack.h"
#include "Reference/HostGroup.h"
#include "Reference/Reference.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

namespace te::rt {

namespace {

// The place of `group_sizes` among the buffers of each kernel that reads them,
// or -1.
constexpr int findGroupSizes(std::initializer_list<std::string_view> names) {
  int index = 0;
  for (std::string_view name : names) {
    if (name == "group_sizes")
      return index;
    ++index;
  }
  return -1;
}
#define TE_RT_IN(name) #name,
#define TE_RT_OUT(name) "",
#define TE_RT_IN_OPT(name) #name,
#define TE_RT_OUT_OPT(name) "",
#define TE_RT_KERNEL(name, parameters, buffers)                                \
  constexpr int name##_group_sizes = findGroupSizes({buffers});
#include "TEDialect/Runtime/te_runtime_kernels.inc"

/// The launches of a captured step, in order.
class Recording final : public Backend::Graph {
public:
  using Replay = std::function<Status()>;

  void add(Replay replay) { replays.push_back(std::move(replay)); }

  Status launch(void *) override {
    for (const Replay &replay : replays)
      TE_RT_RETURN_IF_FAILED(replay());
    return Status::ok();
  }

private:
  std::vector<Replay> replays;
};

/// Launches that were not waited for yet, in order.
class SideStream {
public:
  void put(std::function<Status()> launch) {
    late.push_back(std::move(launch));
    ++numPut;
  }
  /// How many were put on it so far.
  size_t end() const { return numPut; }

  /// Runs what was put on it before `end`. After a failure nothing is left.
  Status runUntil(size_t end) {
    while (!late.empty() && numPut - late.size() < end) {
      const std::function<Status()> launch = std::move(late.front());
      late.pop_front();
      if (Status status = runOrClear(launch); status.failed())
        return status;
    }
    return Status::ok();
  }

private:
  /// Also after an exception nothing is left.
  Status runOrClear(const std::function<Status()> &launch) try {
    Status status = launch();
    if (status.failed())
      late.clear();
    return status;
  } catch (...) {
    late.clear();
    throw;
  }

  std::deque<std::function<Status()>> late;
  size_t numPut = 0;
};

class LateEvent final : public Backend::Event {
public:
  explicit LateEvent(SideStream &side) : side(side) {}

  Status record(void *stream) override {
    end = stream == &side ? side.end() : 0;
    return Status::ok();
  }
  /// All that is not on the side stream has ended.
  Status hold(void *stream) override {
    return stream == &side ? Status::ok() : side.runUntil(end);
  }

private:
  SideStream &side;
  size_t end = 0;
};

/// A plan that runs, or is noted down, when it is launched.
class RecordedPlan : public Plan {
public:
  /// `*recording` is where launches go instead of being run, if anywhere, and
  /// `side` where they wait if that is their stream.
  struct Kernel {
    const char *name;
    int numBuffers;
    const std::unique_ptr<Recording> *recording;
    SideStream *side;
  };
  explicit RecordedPlan(const Kernel &kernel) : kernel(kernel) {}

  Status launch(void *stream, void *const *buffers) final {
    if (stream != kernel.side)
      return runOrRecord(buffers);
    kernel.side->put(
        [this, held = std::vector(buffers, buffers + kernel.numBuffers)] {
          return withName(runOrRecord(held.data()));
        });
    return Status::ok();
  }

private:
  virtual Status run(void *const *buffers) = 0;

  Status runOrRecord(void *const *buffers) {
    if (!*kernel.recording)
      return run(buffers);
    (*kernel.recording)
        ->add([this, held = std::vector(buffers, buffers + kernel.numBuffers)] {
          return withName(run(held.data()));
        });
    return Status::ok();
  }

  /// Of a launch that runs later than it was made.
  Status withName(Status status) const {
    if (status.failed())
      status.message = (name().empty() ? kernel.name : name()) + ": " +
                       std::move(status.message);
    return status;
  }

  Kernel kernel;
};

template <typename Params> class FunctionPlan final : public RecordedPlan {
public:
  using Function = void (*)(const Params &, void *const *);

  FunctionPlan(const Kernel &kernel, const Params &params, Function function,
               int groupSizes)
      : RecordedPlan(kernel), params(params), function(function),
        groupSizes(groupSizes) {}

private:
  Status run(void *const *buffers) override {
    if constexpr (requires { params.alignment; })
      if (groupSizes >= 0)
        TE_RT_RETURN_IF_FAILED(
            checkGroupSizes(static_cast<const int32_t *>(buffers[groupSizes]),
                            params.groups, params.rows, params.alignment));
    if constexpr (requires { checkBuffers(params, buffers); })
      TE_RT_RETURN_IF_FAILED(checkBuffers(params, buffers));
    if constexpr (requires { reference::checkValues(params, buffers); })
      TE_RT_RETURN_IF_FAILED(reference::checkValues(params, buffers));
    if constexpr (requires { params.matrices; })
      launchStack(buffers);
    else
      function(params, buffers);
    return Status::ok();
  }

  /// One matrix after another.
  void launchStack(void *const *buffers) const {
    const auto strides = stackStrides(params);
    for (int64_t matrix = 0; matrix < params.matrices; ++matrix) {
      void *moved[strides.size()];
      for (size_t i = 0; i < strides.size(); ++i)
        moved[i] = buffers[i]
                       ? static_cast<char *>(buffers[i]) + matrix * strides[i]
                       : nullptr;
      function(params, moved);
    }
  }

  Params params;
  Function function;
  int groupSizes;
};

/// A collective over several processes, or what depends on which of them this
/// is.
template <typename Params> class CollectivePlan final : public RecordedPlan {
public:
  CollectivePlan(const Kernel &kernel, const Params &params,
                 reference::HostGroup &group)
      : RecordedPlan(kernel), params(params), group(group) {}

private:
  Status run(void *const *buffers) override {
    if constexpr (requires { checkBuffers(params, buffers); })
      TE_RT_RETURN_IF_FAILED(checkBuffers(params, buffers));
    return reference::overGroup(params, group, buffers);
  }

  Params params;
  reference::HostGroup &group; // lives as long as the context
};

class ReferenceBackend final : public Backend {
public:
  const char *name() const override { return "reference"; }
  std::string description() const override {
    return "reference backend on the CPU";
  }

  Status alloc(int64_t bytes, void **pointer) override {
    constexpr int64_t kAlignment = 256;
    if (bytes > INT64_MAX - kAlignment)
      return {TE_RT_OUT_OF_MEMORY,
              "cannot allocate " + std::to_string(bytes) + " bytes"};
    // Never zero bytes, so that every pointer is unique.
    *pointer = std::aligned_alloc(
        kAlignment, roundUp(std::max<int64_t>(bytes, 1), kAlignment));
    if (*pointer)
      return Status::ok();
    return {TE_RT_OUT_OF_MEMORY,
            "cannot allocate " + std::to_string(bytes) + " bytes"};
  }
  Status free(void *pointer) override {
    std::free(pointer);
    return Status::ok();
  }
  Status copyToDevice(void *to, const void *from, int64_t bytes) override {
    if (bytes != 0)
      std::memmove(to, from, bytes);
    return Status::ok();
  }
  Status copyToHost(void *to, const void *from, int64_t bytes) override {
    return copyToDevice(to, from, bytes);
  }
  Status synchronize() override { return Status::ok(); }

  Status timerMark(int index) override {
    marks[index] = Clock::now();
    return Status::ok();
  }
  Status timerElapsed(float *milliseconds) override {
    *milliseconds =
        std::chrono::duration<float, std::milli>(marks[1] - marks[0]).count();
    return Status::ok();
  }

  Status bindGroup(int32_t, const char *, int32_t size, int32_t) override {
    if (size == 1)
      return Status::ok();
    return {TE_RT_UNSUPPORTED,
            "the reference backend does not connect processes: expected 'size' "
            "to be 1, but got " +
                std::to_string(size) +
                "; give it a communicator of the program with "
                "te_rt_context_bind_communicator, or use the 'cuda' backend"};
  }
  Status bindCommunicator(int32_t number,
                          const te_rt_communicator &communicator) override {
    auto group = std::make_unique<reference::HostGroup>(number, communicator,
                                                        groupTimeout);
    TE_RT_RETURN_IF_FAILED(group->greet());
    if (communicator.size > 1)
      groups[number] = std::move(group);
    return Status::ok();
  }
  Status bindNccl(int32_t, void *, int32_t, int32_t) override {
    return {TE_RT_UNSUPPORTED,
            "the reference backend does not use NCCL; give it a communicator "
            "with te_rt_context_bind_communicator, or use the 'cuda' backend"};
  }

  void *defaultStream() override { return nullptr; }
  Status sideStream(void **stream) override {
    *stream = &side;
    return Status::ok();
  }
  Status createEvent(std::unique_ptr<Event> *event) override {
    *event = std::make_unique<LateEvent>(side);
    return Status::ok();
  }
  Status beginCapture(void *) override {
    recording = std::make_unique<Recording>();
    return Status::ok();
  }
  Status endCapture(void *, std::unique_ptr<Graph> *graph) override {
    *graph = std::move(recording);
    return Status::ok();
  }

#define TE_RT_KERNEL(name, parameters, buffers)                                \
  Status plan_##name(const name##_params &params, std::unique_ptr<Plan> *plan) \
      override {                                                               \
    makePlan({#name, name##_buffers::count_, &recording, &side}, params,       \
             reference::name, name##_group_sizes, plan);                       \
    return Status::ok();                                                       \
  }
#include "TEDialect/Runtime/te_runtime_kernels.inc"

private:
  using Clock = std::chrono::steady_clock;

  template <typename Params>
  void makePlan(const RecordedPlan::Kernel &kernel, const Params &params,
                void (*alone)(const Params &, void *const *), int groupSizes,
                std::unique_ptr<Plan> *plan) {
    *plan = std::make_unique<FunctionPlan<Params>>(kernel, params, alone,
                                                   groupSizes);
  }
  /// For a group of several processes.
  template <typename Params>
    requires requires(const Params &params) { params.ranks; } ||
             requires(const Params &params) { params.group_id; }
  void makePlan(const RecordedPlan::Kernel &kernel, const Params &params,
                void (*alone)(const Params &, void *const *), int,
                std::unique_ptr<Plan> *plan) {
    int32_t number;
    if constexpr (requires { params.rank_of; })
      number = params.rank_of;
    else
      number = params.group_id;
    const auto group = groups.find(number);
    if (group == groups.end())
      *plan = std::make_unique<FunctionPlan<Params>>(kernel, params, alone, -1);
    else
      *plan = std::make_unique<CollectivePlan<Params>>(kernel, params,
                                                       *group->second);
  }

  std::map<int32_t, std::unique_ptr<reference::HostGroup>> groups;

  Clock::time_point marks[2] = {};
  SideStream side;
  /// Of the step that is being captured, if one is.
  std::unique_ptr<Recording> recording;
};

} // namespace

std::unique_ptr<Backend> createReferenceBackend() {
  return std::make_unique<ReferenceBackend>();
}

} // namespace te::rt
