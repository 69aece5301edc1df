//===- MlpBench.cpp - the MLP block under every recipe and override -------===//
//
// One forward and backward of test/bench/llama_mlp.mlir per row, compiled by
// the same pipeline as any program. The bf16 row is the same block under
// `high_precision`: its GEMMs are cuBLASLt's bf16 ones, tuned the same way, in
// the same run. Weights are cast in every step. y is compared over the
// override modes of a recipe, byte for byte.
//
//===----------------------------------------------------------------------===//

#include "CompileStep.h"

#include "Bench.h"

#include "TEDialect/InitAllTE.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <limits>
#include <map>

using namespace mlir;
using mlir::te::ArgumentInfo;
using ::te::bench::check;

namespace {

struct Config {
  const char *recipe;
  const char *backwardOverride;
};
constexpr Config configs[] = {
    {"high_precision", "none"},
    {"float8_current_scaling", "none"},
    {"float8_current_scaling", "high_precision"},
    {"float8_current_scaling", "dequantized"},
    {"float8_block_scaling", "none"},
    {"float8_block_scaling", "high_precision"},
    {"float8_block_scaling", "dequantized"},
    {"delayed_scaling", "none"},
};

/// A loaded step with random inputs; activations in three rotating sets.
class LoadedStep {
public:
  static constexpr int sets = 3;

  LoadedStep(te_rt_context *context, const mlir::te::CompiledStep &step,
             ::te::bench::DeviceBuffers &memory) {
    arguments.resize(sets);
    for (const ArgumentInfo &info : step.arguments()) {
      // The next value of a state replaces it.
      if (info.carriedInput >= 0) {
        for (std::vector<void *> &pointers : arguments)
          pointers.push_back(pointers[static_cast<size_t>(info.carriedInput)]);
        continue;
      }
      // Weights alone are larger than the cache; everything else rotates.
      bool rotates = info.role == ArgumentInfo::Role::Argument && !info.init &&
                     !StringRef(info.name).starts_with("w");
      int64_t count = 1;
      for (int64_t size : info.shape)
        count *= size;
      argumentBytes += info.bytes;
      void *pointer = nullptr;
      for (int set = 0; set < sets; ++set) {
        if (info.role == ArgumentInfo::Role::Result) {
          if (!pointer)
            pointer = memory.allocate(info.bytes);
        } else if (info.init) {
          if (!pointer)
            pointer = memory.allocateFilled(count, *info.init);
        } else if (!pointer || rotates) {
          pointer = memory.allocateRandom(
              count, info.type,
              StringRef(info.name).starts_with("w") ? 0.02f : 1.0f);
        }
        arguments[set].push_back(pointer);
        if (info.name == "y") {
          y = pointer;
          yBytes = info.bytes;
        }
      }
    }
    check(te_rt_instance_create(context, &step.module(), &instance),
          "loading the step");
  }
  ~LoadedStep() { te_rt_instance_destroy(instance); }
  LoadedStep(const LoadedStep &) = delete;

  std::vector<std::vector<void *>> arguments;
  te_rt_instance *instance = nullptr;
  int64_t argumentBytes = 0, yBytes = 0;
  void *y = nullptr;
};

} // namespace

namespace te::bench {

llvm::json::Array runMlpBench(te_rt_context *context, const Effort &effort,
                              const std::string &file, bool &failed) {
  mlir::DialectRegistry registry;
  mlir::te::registerAllTEDialects(registry);
  MLIRContext mlirContext(registry);
  llvm::json::Array rows;
  std::map<std::string, std::vector<char>> forwards;
  double bf16Burst = 0, bf16Sustained = 0;
  llvm::outs() << "recipe / override                          burst ms "
                  "sustained ms   x bf16 (burst, sustained)  arena MiB  "
                  "launches  host us/launch  graph ms  y\n";
  for (const Config &config : configs) {
    auto start = std::chrono::steady_clock::now();
    mlir::te::TrainingPipelineOptions options;
    options.recipe = config.recipe;
    if (StringRef(config.backwardOverride) != "none")
      options.backwardOverride = config.backwardOverride;
    options.vjp = "mlp";
    options.strict = true;
    int64_t launches = 0;
    auto step = compileStep(&mlirContext, file, options, launches);
    DeviceBuffers memory(context);
    LoadedStep loaded(context, *step, memory);
    double loadMs = std::chrono::duration<double, std::milli>(
                        std::chrono::steady_clock::now() - start)
                        .count();
    auto enqueue = [&](int64_t i) {
      check(te_rt_instance_run(loaded.instance,
                               loaded.arguments[i % LoadedStep::sets].data(),
                               nullptr),
            "step");
    };
    // The forward must not depend on the override.
    enqueue(0);
    std::vector<char> forward(loaded.yBytes);
    check(te_rt_copy_to_host(context, forward.data(), loaded.y, loaded.yBytes),
          "copy");
    auto [known, inserted] = forwards.try_emplace(config.recipe, forward);
    bool sameY = known->second == forward;
    failed |= !sameY;

    Timing timing = measure(context, effort, enqueue);
    // Host cost: enqueueing alone, the pointers unchanged as in training, and
    // few enough launches that the driver's queue never fills.
    double hostUs = std::numeric_limits<double>::max();
    for (int round = 0; round < 5; ++round) {
      check(te_rt_synchronize(context), "synchronize");
      constexpr int hostSteps = 10;
      auto hostStart = std::chrono::steady_clock::now();
      for (int i = 0; i < hostSteps; ++i)
        enqueue(0);
      hostUs =
          std::min(hostUs, std::chrono::duration<double, std::micro>(
                               std::chrono::steady_clock::now() - hostStart)
                                   .count() /
                               hostSteps / launches);
    }
    check(te_rt_synchronize(context), "synchronize");
    // One argument set: a captured graph holds its pointers.
    Timing graph = measure(context, effort, [&](int64_t) {
      check(
          te_rt_instance_run_graph(loaded.instance, loaded.arguments[0].data()),
          "graph");
    });
    if (bf16Burst == 0) {
      bf16Burst = timing.burstMs;
      bf16Sustained = timing.sustainedMs;
    }
    std::string name =
        std::string(config.recipe) + " / " + config.backwardOverride;
    double arenaMiB = step->module().arena_bytes / 1048576.0;
    llvm::outs() << llvm::format(
        "%-42s %8.3f %12.3f %10.3f %9.3f %14.1f %9lld %12.2f %12.3f  %s\n",
        name.c_str(), timing.burstMs, timing.sustainedMs,
        bf16Burst / timing.burstMs, bf16Sustained / timing.sustainedMs,
        arenaMiB, static_cast<long long>(launches), hostUs, graph.sustainedMs,
        sameY ? "same" : "DIFFERS");
    llvm::outs().flush();
    rows.push_back(llvm::json::Object{
        {"recipe", config.recipe},
        {"backward_override", config.backwardOverride},
        {"burst_ms", timing.burstMs},
        {"sustained_ms", timing.sustainedMs},
        {"speedup_burst", bf16Burst / timing.burstMs},
        {"speedup_sustained", bf16Sustained / timing.sustainedMs},
        {"graph_burst_ms", graph.burstMs},
        {"graph_sustained_ms", graph.sustainedMs},
        {"arena_bytes", step->module().arena_bytes},
        {"argument_bytes", loaded.argumentBytes},
        {"launches", launches},
        {"host_us_per_launch", hostUs},
        {"compile_and_load_ms", loadMs},
        {"forward_same_as_no_override", sameY}});
  }
  return rows;
}

} // namespace te::bench
