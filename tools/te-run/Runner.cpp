//===- Runner.cpp - running a compiled step on the runtime ----------------===//

#include "Runner.h"

#include "llvm/Support/xxhash.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

namespace te::run {
namespace {

/// Device memory for the life of a run.
class Buffer {
public:
  explicit Buffer(te_rt_context *context) : context(context) {}
  Buffer(Buffer &&other) noexcept
      : context(other.context), pointer(std::exchange(other.pointer, nullptr)) {
  }
  Buffer &operator=(Buffer &&) = delete;
  ~Buffer() {
    if (pointer)
      (void)te_rt_free(context, pointer);
  }

  te_rt_status allocate(int64_t bytes) {
    return te_rt_alloc(context, bytes, &pointer);
  }
  void *get() const { return pointer; }

private:
  te_rt_context *context;
  void *pointer = nullptr;
};

struct InstanceDeleter {
  void operator()(te_rt_instance *instance) const {
    te_rt_instance_destroy(instance);
  }
};

/// A result that is written to the outputs.
struct Result {
  const TensorSpec *spec;
  void *pointer;
  /// Collected after every step: a history, or rank 0 and not the state of an
  /// argument.
  bool collected;
  /// Shown to RunOptions::inspect after every step.
  bool inspected;
  /// Memory for the end, made at the start.
  support::NpyArray value, history, digests;
};

class Run {
public:
  Run(te_rt_context *context, const RunOptions &options, RunFailure &failure)
      : context(context), options(options), failure(failure) {}

  /// Makes every plan.
  bool plan(const te_rt_module &module, std::vector<GemmLaunch> &gemms) {
    te_rt_instance *raw = nullptr;
    if (!check(te_rt_instance_create_without_arena(context, &module, &raw)))
      return false;
    instance.reset(raw);
    for (int32_t slot = 0; slot < module.num_plans; ++slot) {
      te_rt_gemm_info info = {};
      if (!check(te_rt_instance_gemm(raw, slot, &info)))
        return false;
      if (info.origin != TE_RT_GEMM_ORIGIN_NONE)
        gemms.push_back({slot, info.origin, info.gemm, info.algorithm});
    }
    return true;
  }

  bool load(const te_rt_module &module, RunSummary &summary) {
    // Results may be in the arena, so this program has to know where it is.
    Buffer &memory = buffers.emplace_back(context);
    if (!plan(module, summary.gemms))
      return false;
    te_rt_instance *raw = instance.get();
    if (!check(memory.allocate(module.arena_bytes)) ||
        !check(te_rt_instance_set_arena(raw, memory.get(), module.arena_bytes)))
      return false;
    arena = static_cast<char *>(memory.get());
    summary.backend = te_rt_context_backend(context);
    summary.device = te_rt_context_description(context);
    int64_t own = 0;
    if (!check(te_rt_instance_memory(raw, &own, &summary.workspaceBytes)))
      return false;
    summary.arenaBytes = module.arena_bytes;
    summary.workspaceOf.resize(module.num_plans);
    for (int32_t slot = 0; slot < module.num_plans; ++slot)
      if (!check(
              te_rt_instance_workspace(raw, slot, &summary.workspaceOf[slot])))
        return false;
    return true;
  }

  /// Makes the buffers; carried results share their argument's.
  bool allocate(const std::vector<StepArgument> &arguments,
                RunSummary &summary) {
    for (const StepArgument &argument : arguments) {
      const TensorSpec &spec = argument.spec;
      const bool carried = argument.carriedInput >= 0;
      if (carried) {
        pointers.push_back(pointers[argument.carriedInput]);
      } else if (argument.arenaOffset >= 0) {
        pointers.push_back(arena + argument.arenaOffset);
      } else {
        Buffer &buffer = buffers.emplace_back(context);
        if (!check(buffer.allocate(spec.bytes())))
          return false;
        summary.argumentBytes += spec.bytes();
        pointers.push_back(buffer.get());
      }
      if (argument.isResult)
        results.push_back(
            {&spec,
             pointers.back(),
             argument.isHistory || (spec.shape.empty() && !carried),
             argument.isInspected,
             {},
             {},
             {}});
    }
    return true;
  }

  /// Makes what results are downloaded to.
  bool allocateResults() {
    for (Result &result : results) {
      TensorSpec history{
          result.spec->name + ".steps", result.spec->type, {options.steps}};
      history.shape.insert(history.shape.end(), result.spec->shape.begin(),
                           result.spec->shape.end());
      if (!make(*result.spec, result.value) ||
          (result.collected && !make(history, result.history)))
        return false;
      if (options.digests && !makeDigests(result))
        return false;
    }
    return true;
  }

  /// Uploads what step `step` (from 0) needs that earlier ones did not.
  bool upload(const std::vector<StepInput> &inputs, int64_t step) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::vector<uint8_t> &data = inputs[i].array.data;
      if (!inputs[i].perStep && step != 0)
        continue;
      const auto size = static_cast<int64_t>(data.size());
      const int64_t bytes = inputs[i].perStep ? size / options.steps : size;
      const int64_t offset = inputs[i].perStep ? bytes * step : 0;
      if (!check(te_rt_copy_to_device(context, pointers[i],
                                      data.data() + offset, bytes)))
        return false;
    }
    return true;
  }

  /// Runs one step and waits for it.
  bool step(bool traced, double &ms) {
    const auto start = std::chrono::steady_clock::now();
    if (!check(traced ? runTraced()
               : options.graph
                   ? te_rt_instance_run_graph(instance.get(), pointers.data())
                   : te_rt_instance_run(instance.get(), pointers.data(),
                                        nullptr)) ||
        !check(te_rt_synchronize(context)))
      return false;
    ms = std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now() - start)
             .count();
    return true;
  }

  /// Adds the rank-0 results of step `step` (from 0) to their histories and,
  /// as text, to `scalars`.
  bool collect(int64_t step, std::string &scalars) {
    for (Result &result : results) {
      if (!result.collected)
        continue;
      uint8_t *place = &result.history.data[step * result.spec->bytes()];
      if (!check(te_rt_copy_to_host(context, place, result.pointer,
                                    result.spec->bytes())))
        return false;
      if (result.spec->type != TE_RT_F32 || !result.spec->shape.empty())
        continue;
      float value;
      std::memcpy(&value, place, sizeof(value));
      char text[32];
      std::snprintf(text, sizeof(text), " %.4f", value);
      scalars += (scalars.empty() ? "" : ", ") + result.spec->name + text;
    }
    return true;
  }

  /// Shows the results of step `step` (from 0) that are inspected.
  bool inspect(int64_t step) {
    for (Result &result : results)
      if (result.inspected && options.inspect &&
          (!fetch(result) ||
           !options.inspect(step + 1, result.spec->name, result.value)))
        return false;
    return true;
  }

  /// Takes the digests of step `step` (from 0).
  bool digest(int64_t step) {
    for (Result &result : results) {
      if (!options.digests)
        return true;
      if (!fetch(result))
        return false;
      const uint64_t digest = llvm::xxh3_64bits(result.value.data);
      std::memcpy(&result.digests.data[step * sizeof(digest)], &digest,
                  sizeof(digest));
    }
    return true;
  }

  bool download(support::NpzArchive &outputs) {
    for (Result &result : results) {
      const TensorSpec &spec = *result.spec;
      if (!fetch(result))
        return false;
      outputs[spec.name] = std::move(result.value);
      if (result.collected)
        outputs[spec.name + ".steps"] = std::move(result.history);
      if (options.digests)
        outputs[spec.name + ".digests"] = std::move(result.digests);
    }
    return true;
  }

private:
  bool fetch(Result &result) {
    return check(te_rt_copy_to_host(context, result.value.data.data(),
                                    result.pointer, result.spec->bytes()));
  }

  te_rt_status runTraced() {
    return te_rt_instance_trace(
        instance.get(), pointers.data(),
        [](void *trace, int32_t slot, const char *kernel, float milliseconds) {
          static_cast<Trace *>(trace)->launch(slot, kernel, milliseconds);
        },
        options.trace);
  }

  bool make(const TensorSpec &spec, support::NpyArray &array) {
    if (zerosArray(spec, array))
      return true;
    failure = {TE_RT_OUT_OF_MEMORY, noMemoryFor(spec)};
    return false;
  }

  bool makeDigests(Result &result) {
    result.digests = {"<u8", {options.steps}, {}};
    int64_t bytes = 0;
    if (support::checkedByteSize(result.digests.shape, sizeof(uint64_t),
                                 bytes) &&
        support::tryResize(result.digests.data, bytes))
      return true;
    failure = {TE_RT_OUT_OF_MEMORY,
               "no host memory for '" + result.spec->name + ".digests' of " +
                   std::to_string(options.steps) + " steps"};
    return false;
  }

  /// Remembers the message of a failed call.
  bool check(te_rt_status status) {
    if (status != TE_RT_OK)
      failure = {status, te_rt_last_error()};
    return status == TE_RT_OK;
  }

  te_rt_context *context;
  const RunOptions &options;
  RunFailure &failure;
  std::vector<Buffer> buffers;
  char *arena = nullptr;
  std::vector<void *> pointers;
  std::vector<Result> results;
  /// After the buffers, so that it is destroyed, and waits, before them.
  std::unique_ptr<te_rt_instance, InstanceDeleter> instance;
};

} // namespace

bool planGemms(te_rt_context *context, const te_rt_module &module,
               std::vector<GemmLaunch> &gemms, RunFailure &failure) {
  // What is measured here is for the file that the step is run with.
  te_rt_module tuned = module;
  tuned.flags &= ~uint32_t{TE_RT_IS_DETERMINISTIC};
  return Run(context, RunOptions(), failure).plan(tuned, gemms);
}

bool runSteps(te_rt_context *context, const te_rt_module &module,
              const std::vector<StepArgument> &arguments,
              const InputSource &source, const RunOptions &options,
              support::NpzArchive &outputs, RunSummary &summary,
              RunFailure &failure) {
  Run run(context, options, failure);
  std::vector<StepInput> inputs;
  auto start = Trace::Clock::now();
  auto note = [&](std::string what) {
    if (options.trace)
      options.trace->span(std::move(what), start);
    start = Trace::Clock::now();
  };
  if (!run.load(module, summary))
    return false;
  note("load");
  if (!run.allocate(arguments, summary) || !run.allocateResults() ||
      !source(inputs))
    return false;
  note("inputs");
  if (options.graph && options.beforeCapture)
    options.beforeCapture(summary);
  std::vector<double> times;
  for (int64_t i = 0; i < options.steps; ++i) {
    const bool traced = options.trace && i + 1 == options.steps;
    double ms = 0;
    std::string scalars;
    if (!run.upload(inputs, i))
      return false;
    start = Trace::Clock::now();
    if (!run.step(traced, ms))
      return false;
    note("step " + std::to_string(i + 1));
    if (!run.collect(i, scalars) || !run.inspect(i) || !run.digest(i))
      return false;
    // Times that are not comparable count only if there are no others.
    if (!traced || i == 0)
      times.push_back(ms);
    if (options.progress)
      options.progress(i + 1, ms, scalars);
  }
  summary.msFirstStep = times.front();
  auto later = times.begin() + (times.size() > 1 ? 1 : 0);
  auto middle = later + (times.end() - later) / 2;
  std::nth_element(later, middle, times.end());
  summary.msPerStep = *middle;
  return run.download(outputs);
}

} // namespace te::run
