//===- Runner.h - running a compiled step on the runtime ------------------===//
//
// Everything between a loaded module and arrays in memory: device buffers,
// uploads, N steps, downloads. Knows the runtime's C ABI and nothing of the
// compiler, so it is also the shortest example of a host program.
//
// State stays on the device: a result that is an argument's next state shares
// that argument's buffer.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TOOLS_TE_RUN_RUNNER_H
#define TE_TOOLS_TE_RUN_RUNNER_H

#include "TEDialect/Runtime/te_runtime.h"
#include "Tensors.h"
#include "Trace.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace te::run {

/// One pointer the compiled step takes; in the order of te_rt_module.
struct StepArgument {
  TensorSpec spec;
  bool isResult = false;
  /// For a result that is the next state of an argument: that argument's
  /// index. The two share a buffer. Else -1.
  int carriedInput = -1;
  /// Of a result in the arena: its place there. Else -1.
  int64_t arenaOffset = -1;
  /// Of a result: handed to RunOptions::inspect after every step.
  bool isInspected = false;
  /// Of a result: written to the outputs for every step, as scalars are.
  bool isHistory = false;
  /// Of sizes of groups: the rows they have to fit, each group at a multiple of
  /// `alignment`. Else 0.
  int64_t rows = 0, alignment = 0;
};

/// The values of one argument: `array` has the argument's shape, or one value
/// for each step below a leading dimension.
struct StepInput {
  support::NpyArray array;
  bool perStep = false;
};

/// A launch that is a GEMM of a library, and how its algorithm was chosen.
struct GemmLaunch {
  int32_t slot = 0;
  /// A te_rt_gemm_origin.
  int32_t origin = TE_RT_GEMM_ORIGIN_NONE;
  std::string gemm, algorithm;
};

/// What a run reports about itself.
struct RunSummary {
  std::string backend;
  std::string device;
  /// Median over all steps but the first, which also loads code and captures,
  /// and a traced one.
  double msPerStep = 0;
  double msFirstStep = 0;
  int64_t arenaBytes = 0;
  int64_t workspaceBytes = 0;
  /// What the loaded plan of each launch takes of the workspace.
  std::vector<int64_t> workspaceOf;
  int64_t argumentBytes = 0;
  std::vector<GemmLaunch> gemms;
};

/// A failed runtime call.
struct RunFailure {
  te_rt_status status = TE_RT_OK;
  std::string message;
};

struct RunOptions {
  int64_t steps = 1;
  bool graph = false;
  /// Adds `<name>.digests` to the outputs, of every result.
  bool digests = false;
  /// Called with what is known before the first step of a graph is captured.
  std::function<void(const RunSummary &summary)> beforeCapture;
  /// Called after every step with its number from 1, the time it took, and the
  /// rank-0 f32 results as "name value" pairs.
  std::function<void(int64_t step, double ms, const std::string &scalars)>
      progress;
  /// Sees the value of every inspected result after each step (from 1). Where
  /// it returns false, having said why, the run ends.
  std::function<bool(int64_t step, const std::string &name,
                     const support::NpyArray &value)>
      inspect;
  /// Gets a span for loading, the inputs and every step, and the launches of
  /// the last step, which is then run launch by launch.
  Trace *trace = nullptr;
};

/// Makes one entry for each argument that is not a result, in order. Returns
/// false, having said why, where it cannot.
using InputSource = std::function<bool(std::vector<StepInput> &inputs)>;

/// Runs `options.steps` steps. All memory, first that of the device, is
/// allocated before `source` provides the inputs. `outputs` gets every result
/// after the last step, and `<name>.steps` with one value a step for each
/// history and each rank-0 result that is not carried. Returns false if the
/// source or `inspect` does, or, with `failure` set, if a runtime call fails or
/// there is no memory.
bool runSteps(te_rt_context *context, const te_rt_module &module,
              const std::vector<StepArgument> &arguments,
              const InputSource &source, const RunOptions &options,
              support::NpzArchive &outputs, RunSummary &summary,
              RunFailure &failure);

/// Makes the plans of the step, which tunes its GEMMs, and runs nothing. False,
/// with `failure` set, if a runtime call fails.
bool planGemms(te_rt_context *context, const te_rt_module &module,
               std::vector<GemmLaunch> &gemms, RunFailure &failure);

} // namespace te::run

#endif // TE_TOOLS_TE_RUN_RUNNER_H
