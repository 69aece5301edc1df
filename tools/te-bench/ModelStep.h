//===- ModelStep.h - a training step on one rank --------------------------===//

#ifndef TE_BENCH_MODELSTEP_H
#define TE_BENCH_MODELSTEP_H

#include "Bench.h"

#include "TEDialect/JIT/JIT.h"

#include <functional>

namespace te::bench {

int64_t elementsOf(const mlir::te::ArgumentInfo &info);

bool isLoss(const mlir::te::ArgumentInfo &info);

/// The step of one rank, loaded with ids below 256, matrices of weights of a
/// standard deviation of 0.02, gains of 1, states as `te.init` says, a learning
/// rate of 1e-5, flags of 0, and 1 where another scalar is.
class LoadedStep {
public:
  LoadedStep(te_rt_context *context, const mlir::te::CompiledStep &step,
             int rank);
  ~LoadedStep() { te_rt_instance_destroy(instance); }
  LoadedStep(const LoadedStep &) = delete;

  /// Whether an argument says if a micro-batch updates no weights.
  bool canSkipUpdates() const { return skipOptimizer.pointer != nullptr; }
  /// Replays the micro-batches of an update: the first one casts weights and
  /// overwrites gradients, and the last one updates weights. `each` is called
  /// instead of a replay where given.
  void replayPeriod(int microBatches,
                    const std::function<void()> &each = nullptr);
  void replay();
  /// Milliseconds of each launch of a step whose launches wait for each other.
  std::vector<float> trace(size_t launches);
  float readLoss() const;

  int64_t argumentBytes = 0, weightElements = 0;
  int64_t arenaBytes = 0, workspaceBytes = 0;
  /// How long the runtime took to load the step: GEMMs are tuned in it unless
  /// the tuning file has them.
  double loadMs = 0;

private:
  /// A flag on the device, and its value there.
  struct Flag {
    void *pointer = nullptr;
    float value = 0;
  };
  /// Waits for all replays if the value changes.
  void set(Flag &flag, bool value);

  DeviceBuffers memory;
  std::vector<void *> pointers;
  void *loss = nullptr;
  Flag skipCasts, skipOptimizer;
  te_rt_instance *instance = nullptr;
};

} // namespace te::bench

#endif // TE_BENCH_MODELSTEP_H
