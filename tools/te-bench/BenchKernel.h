//===- BenchKernel.h - a kernel to time, without a compiled program -------===//
//
// Kernels are planned and launched through the ABI compiled code uses.
//
//===----------------------------------------------------------------------===//

#ifndef TE_BENCH_BENCHKERNEL_H
#define TE_BENCH_BENCHKERNEL_H

#include "Bench.h"

#include "TEDialect/Runtime/te_runtime_compiled.h"

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

} // namespace te::bench

#endif // TE_BENCH_BENCHKERNEL_H
