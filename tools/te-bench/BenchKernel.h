//===- BenchKernel.h - a kernel to time, without a compiled program -------===//
//
// Kernels are planned and launched through the ABI compiled code uses.
//
//===----------------------------------------------------------------------===//

#ifndef TE_BENCH_BENCHKERNEL_H
#define TE_BENCH_BENCHKERNEL_H

#include "Bench.h"

#include "TEDialect/Runtime/te_runtime_compiled.h"

#include <map>

namespace te::bench {

using Planner = std::function<te_rt_status(te_rt_instance *)>;

/// One kernel as a module of one plan. The ABI's load and step are plain
/// functions, so the kernel being loaded or stepped is found in `current`.
class Kernel {
public:
  Kernel(te_rt_context *context, Planner planner) : planner(planner) {
    te_rt_module module = {
        TE_RT_MODULE_MAGIC,
        TE_RT_VERSION,
        0,
        1,
        0,
        [](te_rt_instance *instance) { return current->planner(instance); },
        [](te_rt_instance *instance, char *, void *const *) {
          te_rt_launch(instance, 0, current->buffers);
        },
        /*origins=*/nullptr,
        nullptr,
        0,
        0};
    current = this;
    check(te_rt_instance_create(context, &module, &instance), "plan");
  }
  ~Kernel() { te_rt_instance_destroy(instance); }
  Kernel(const Kernel &) = delete;

  void enqueue(void *const *launchBuffers) {
    current = this;
    buffers = launchBuffers;
    check(te_rt_instance_run(instance, nullptr, nullptr), "launch");
  }

private:
  static inline Kernel *current = nullptr;
  Planner planner;
  te_rt_instance *instance = nullptr;
  void *const *buffers = nullptr;
};

/// How long copies take. Each size is measured once.
class CopyTimes {
public:
  CopyTimes(te_rt_context *context, const Effort &effort)
      : context(context), effort(effort) {}

  /// Milliseconds of a copy that moves `bytes`, read and written together.
  double of(int64_t bytes) {
    auto [time, isNew] = times.try_emplace(bytes);
    if (!isNew)
      return time->second;
    const int64_t half = bytes / 2;
    DeviceBuffers memory(context);
    void *buffers[3][2];
    for (auto &set : buffers) {
      set[0] = memory.allocateRandom(half, TE_RT_F8E4M3FN, 1.0f);
      set[1] = memory.allocate(half);
    }
    Kernel kernel(context, [=](te_rt_instance *instance) {
      return te_rt_plan_copy(instance, 0, half);
    });
    return time->second = measureSustained(context, effort, [&](int64_t i) {
             kernel.enqueue(buffers[i % 3]);
           });
  }

private:
  te_rt_context *context;
  const Effort &effort;
  std::map<int64_t, double> times;
};

} // namespace te::bench

#endif // TE_BENCH_BENCHKERNEL_H
