//===- MoeBench.cpp - experts over micro-batches, captured ----------------===//
//
// Forward and backward of a grouped linear layer with even and with uneven
// groups, and of a whole MoE layer, compiled as any program, with gradients in
// f32 states and cached casts of weights, and captured: as the first
// micro-batch, which casts the weights, and as a later one, which does not, by
// the flag alone; with columns of weights made for each use, and made and kept
// with the rows. The host's time is that of a replay.
//
//===----------------------------------------------------------------------===//

#include "CompileStep.h"

#include "Bench.h"

#include "TEDialect/InitAllTE.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <limits>
#include <utility>

using namespace mlir;
using mlir::te::ArgumentInfo;
using ::te::bench::check;

namespace {

/// Shares of a symmetric Dirichlet distribution of that concentration, a tenth
/// of the groups left empty, of `rows` rows of which each group's take up a
/// multiple of `alignment`.
std::vector<int32_t> unevenSizes(int64_t groups, int64_t rows,
                                 int64_t alignment) {
  std::mt19937 generator(5);
  std::gamma_distribution<double> share(2.0);
  std::vector<double> shares;
  double sum = 0;
  for (int64_t g = 0; g < groups; ++g) {
    shares.push_back(g % 10 == 3 ? 0 : share(generator));
    sum += shares.back();
  }
  // What padding may take in the worst case is left out.
  const auto tokens =
      static_cast<double>(std::max<int64_t>(rows - groups * alignment, 0));
  std::vector<int32_t> sizes;
  for (double part : shares)
    sizes.push_back(static_cast<int32_t>(part / sum * tokens));
  return sizes;
}

/// A loaded step with its arguments, all states zero.
class MicroBatch {
public:
  MicroBatch(te_rt_context *context, const mlir::te::CompiledStep &step,
             bool uneven)
      : context(context), memory(context) {
    for (const ArgumentInfo &info : step.arguments())
      pointers.push_back(info.carriedInput >= 0 ? pointers[info.carriedInput]
                                                : allocate(info, uneven));
    status = te_rt_instance_create(context, &step.module(), &instance);
    if (status == TE_RT_OK)
      check(te_rt_instance_memory(instance, &arenaBytes, &workspaceBytes),
            "memory");
  }
  ~MicroBatch() { te_rt_instance_destroy(instance); }
  MicroBatch(const MicroBatch &) = delete;

  void setFlag(float value) {
    check(te_rt_copy_to_device(context, flag, &value, sizeof(value)), "flag");
  }
  void replay() {
    check(te_rt_instance_run_graph(instance, pointers.data()), "replay");
  }
  /// Microseconds until a replay is enqueued, with few enough of them that the
  /// driver's queue does not fill.
  double hostMicroseconds(const ::te::bench::Effort &effort) {
    const int replays = effort.hostRepetitions;
    double best = std::numeric_limits<double>::max();
    for (int round = 0; round < effort.burstRounds; ++round) {
      check(te_rt_synchronize(context), "synchronize");
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < replays; ++i)
        replay();
      best = std::min(best, std::chrono::duration<double, std::micro>(
                                std::chrono::steady_clock::now() - start)
                                    .count() /
                                replays);
    }
    check(te_rt_synchronize(context), "synchronize");
    return best;
  }

  /// Of loading: what this machine lacks is no failure of the benchmark.
  te_rt_status status;
  int64_t arenaBytes = 0, workspaceBytes = 0, argumentBytes = 0;

private:
  void *allocate(const ArgumentInfo &info, bool uneven) {
    argumentBytes += info.bytes;
    int64_t count = 1;
    for (int64_t size : info.shape)
      count *= size;
    if (info.role == ArgumentInfo::Role::Argument && !info.init && !info.groups)
      return memory.allocateRandom(
          count, info.type, StringRef(info.name).starts_with("w") ? 0.02f : 1);
    void *pointer = memory.allocate(info.bytes);
    std::vector<int32_t> values((info.bytes + 3) / 4);
    if (info.groups && uneven)
      values = unevenSizes(count, info.groups->rows, info.groups->alignment);
    else if (info.groups)
      std::fill(values.begin(), values.end(),
                static_cast<int32_t>(info.groups->rows / count));
    check(te_rt_copy_to_device(context, pointer, values.data(), info.bytes),
          "copy");
    if (info.name == "skip_weight_update")
      flag = pointer;
    return pointer;
  }

  te_rt_context *context;
  ::te::bench::DeviceBuffers memory;
  std::vector<void *> pointers;
  void *flag = nullptr;
  te_rt_instance *instance = nullptr;
};

} // namespace

namespace te::bench {

llvm::json::Array runMoeBench(te_rt_context *context, const Effort &effort,
                              const std::string &file) {
  mlir::DialectRegistry registry;
  mlir::te::registerAllTEDialects(registry);
  MLIRContext mlirContext(registry);
  llvm::json::Array rows;
  llvm::outs() << "recipe / step / transposes                       "
                  "micro-batch  burst ms "
                  "sustained ms  host us  launches  arena MiB  workspace MiB\n";
  for (const char *recipe :
       {"high_precision", "float8_current_scaling", "float8_block_scaling"})
    for (auto [entry, policy] :
         std::initializer_list<std::pair<const char *, const char *>>{
             {"even", "on-demand"},
             {"even", "eager"},
             {"uneven", "on-demand"},
             {"uneven", "eager"},
             {"layer", "on-demand"},
             {"layer", "eager"}}) {
      // bf16 products take weights as they are.
      if (StringRef(recipe) == "high_precision" && StringRef(policy) == "eager")
        continue;
      mlir::te::TrainingPipelineOptions options;
      options.recipe = recipe;
      options.vjp = entry;
      options.transposePolicy = policy;
      options.cacheWeights = true;
      options.mainGrad = true;
      int64_t launches = 0;
      auto step = compileStep(&mlirContext, file, options, launches, entry);
      MicroBatch batch(context, *step, StringRef(entry) == "uneven");
      const std::string name =
          std::string(recipe) + " / " + entry + " / " + policy;
      if (batch.status != TE_RT_OK) {
        llvm::outs() << llvm::format("%-48s refused: %s\n", name.c_str(),
                                     te_rt_last_error());
        rows.push_back(llvm::json::Object{{"recipe", recipe},
                                          {"step", entry},
                                          {"transpose_policy", policy},
                                          {"refused", te_rt_last_error()}});
        continue;
      }
      for (bool first : {true, false}) {
        batch.setFlag(first ? 0.0f : 1.0f);
        const Timing timing =
            measure(context, effort, [&](int64_t) { batch.replay(); });
        const double hostUs = batch.hostMicroseconds(effort);
        llvm::outs() << llvm::format(
            "%-48s %-11s %9.3f %12.3f %8.1f %9lld %10.1f %14.1f\n",
            name.c_str(), first ? "first" : "later", timing.burstMs,
            timing.sustainedMs, hostUs, static_cast<long long>(launches),
            batch.arenaBytes / 1048576.0, batch.workspaceBytes / 1048576.0);
        llvm::outs().flush();
        rows.push_back(
            llvm::json::Object{{"recipe", recipe},
                               {"step", entry},
                               {"transpose_policy", policy},
                               {"micro_batch", first ? "first" : "later"},
                               {"graph_burst_ms", timing.burstMs},
                               {"graph_sustained_ms", timing.sustainedMs},
                               {"graph_host_us", hostUs},
                               {"launches", launches},
                               {"arena_bytes", batch.arenaBytes},
                               {"workspace_bytes", batch.workspaceBytes},
                               {"argument_bytes", batch.argumentBytes}});
      }
    }
  return rows;
}

} // namespace te::bench
