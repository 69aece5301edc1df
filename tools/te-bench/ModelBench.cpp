//===- ModelBench.cpp - a whole training step over several ranks ----------===//
//
// A program that takes ids, masters and moments, and gives a loss and the next
// masters and moments: scripts/llama_step.py writes such ones. It is compiled
// under every recipe and, over several ranks, with its collectives on one
// stream with everything else and beside it; both have to have the same losses
// to the bit. FLOPs are those of products and attention. At last a step whose
// launches wait for each other tells where time goes.
//
//===----------------------------------------------------------------------===//

#include "CompileStep.h"

#include "Bench.h"
#include "Ranks.h"

#include "TEDialect/InitAllTE.h"
#include "TEDialect/Pipelines/PipelineGuard.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>

using namespace mlir;
using mlir::te::ArgumentInfo;
using mlir::te::LaunchInfo;
using namespace ::te::bench;

namespace {

constexpr const char *kRecipes[] = {"high_precision", "float8_current_scaling",
                                    "float8_block_scaling", "delayed_scaling"};
/// Steps whose losses are compared.
constexpr int kSteps = 3;

int64_t elementsOf(const ArgumentInfo &info) {
  return std::accumulate(info.shape.begin(), info.shape.end(), int64_t(1),
                         std::multiplies<int64_t>());
}

bool isLoss(const ArgumentInfo &info) {
  return info.role == ArgumentInfo::Role::Result && info.name == "loss" &&
         info.type == TE_RT_F32 && info.shape.empty();
}

/// What an argument holds, as a block that is repeated: ids below 256, matrices
/// of weights of a standard deviation of 0.02, gains of 1, states as `te.init`
/// says, a learning rate of 1e-5, and 1 where another scalar is.
std::vector<char> contentOf(const ArgumentInfo &info, std::mt19937 &generator) {
  const int64_t count = std::min<int64_t>(elementsOf(info), (1 << 20) + 7);
  if (info.type == TE_RT_I32) {
    std::vector<int32_t> values(static_cast<size_t>(count));
    for (int32_t &value : values)
      value = static_cast<int32_t>(generator() % 256);
    return {reinterpret_cast<char *>(values.data()),
            reinterpret_cast<char *>(values.data() + count)};
  }
  std::vector<float> values(static_cast<size_t>(count));
  const bool isMatrix = info.shape.size() > 1;
  std::normal_distribution<float> normal(0.0f, info.isWeight ? 0.02f : 0.5f);
  for (float &value : values)
    value = info.init           ? *info.init
            : isMatrix          ? normal(generator)
            : info.name == "lr" ? 1e-5f
                                : 1.0f;
  if (info.type == TE_RT_F32)
    return {reinterpret_cast<char *>(values.data()),
            reinterpret_cast<char *>(values.data() + count)};
  if (info.type != TE_RT_BF16) {
    llvm::WithColor::error(llvm::errs(), "te-bench")
        << "expected arguments in f32, bf16 or i32, but got " << info.typeName
        << " of '" << info.name << "'\n";
    std::_Exit(1);
  }
  std::vector<char> halves;
  for (float value : values) {
    const auto bits = llvm::bit_cast<uint32_t>(value);
    halves.push_back(static_cast<char>(bits >> 16));
    halves.push_back(static_cast<char>(bits >> 24));
  }
  return halves;
}

/// The step of one rank.
class LoadedStep {
public:
  LoadedStep(te_rt_context *context, const mlir::te::CompiledStep &step,
             int rank)
      : memory(context) {
    std::mt19937 generator(static_cast<unsigned>(rank + 1));
    for (const ArgumentInfo &info : step.arguments()) {
      if (info.carriedInput >= 0) {
        pointers.push_back(pointers[static_cast<size_t>(info.carriedInput)]);
        continue;
      }
      argumentBytes += info.bytes;
      weightElements += info.isWeight ? elementsOf(info) : 0;
      pointers.push_back(memory.allocate(info.bytes));
      if (info.role == ArgumentInfo::Role::Result) {
        if (isLoss(info))
          loss = pointers.back();
        continue;
      }
      const std::vector<char> block = contentOf(info, generator);
      for (int64_t done = 0; done < info.bytes;
           done += static_cast<int64_t>(block.size()))
        need(te_rt_copy_to_device(context,
                                  static_cast<char *>(pointers.back()) + done,
                                  block.data(),
                                  std::min(info.bytes - done,
                                           static_cast<int64_t>(block.size()))),
             "copy");
    }
    need(te_rt_instance_create(context, &step.module(), &instance),
         "loading the step");
    need(te_rt_instance_memory(instance, &arenaBytes, &workspaceBytes),
         "memory");
  }
  ~LoadedStep() { te_rt_instance_destroy(instance); }
  LoadedStep(const LoadedStep &) = delete;

  void replay() {
    need(te_rt_instance_run_graph(instance, pointers.data()), "step");
  }
  /// Milliseconds of each launch of a step whose launches wait for each other.
  std::vector<float> trace(size_t launches) {
    std::vector<float> times(launches);
    need(te_rt_instance_trace(
             instance, pointers.data(),
             [](void *user, int32_t slot, const char *, float milliseconds) {
               static_cast<float *>(user)[slot] = milliseconds;
             },
             times.data()),
         "trace");
    return times;
  }
  float readLoss() const {
    float value = 0.0f;
    need(te_rt_copy_to_host(memory.owner(), &value, loss, sizeof(value)),
         "copy");
    return value;
  }

  int64_t argumentBytes = 0, weightElements = 0;
  int64_t arenaBytes = 0, workspaceBytes = 0;

private:
  DeviceBuffers memory;
  std::vector<void *> pointers;
  void *loss = nullptr;
  te_rt_instance *instance = nullptr;
};

/// A parameter of a launch; 0 where it has none of this name.
double parameterOf(const LaunchInfo &launch, StringRef name) {
  auto attribute = launch.parameters.getAs<IntegerAttr>(name);
  return attribute ? static_cast<double>(attribute.getInt()) : 0.0;
}

/// FLOPs of products and of attention, of which a causal one has half.
double flopsOf(const mlir::te::CompiledStep &step) {
  double flops = 0;
  for (const LaunchInfo &launch : step.launches()) {
    const auto number = [&](StringRef name) {
      return parameterOf(launch, name);
    };
    if (launch.kernel == "matmul" || launch.kernel == "scaled_matmul")
      flops += 2 * number("m") * number("n") * number("k");
    // Two products forward, five backward: the scores are made again.
    const double products = launch.kernel == "attention"            ? 2
                            : launch.kernel == "attention_backward" ? 5
                                                                    : 0;
    flops += products * 2 * number("tokens") * number("sequence") *
             number("heads") * number("head_dim") /
             (number("causal") != 0 ? 2 : 1);
  }
  return flops;
}

/// Where the time of a step goes: launches and milliseconds by kernel, products
/// by their sizes; the slowest first.
llvm::json::Array kernelsOf(const mlir::te::CompiledStep &step,
                            ArrayRef<float> times) {
  std::map<std::string, std::pair<int64_t, double>> sums;
  for (const auto &[launch, ms] : llvm::zip_equal(step.launches(), times)) {
    std::string name = launch.kernel;
    if (const double m = parameterOf(launch, "m"); m != 0)
      llvm::raw_string_ostream(name)
          << llvm::format(" %.0fx%.0fx%.0f", m, parameterOf(launch, "n"),
                          parameterOf(launch, "k"));
    auto &[count, sum] = sums[name];
    ++count;
    sum += ms;
  }
  std::vector<std::pair<std::string, std::pair<int64_t, double>>> sorted(
      sums.begin(), sums.end());
  llvm::sort(sorted, [](const auto &a, const auto &b) {
    return a.second.second > b.second.second;
  });
  llvm::json::Array rows;
  for (const auto &[name, row] : sorted)
    rows.push_back(llvm::json::Object{
        {"kernel", name}, {"launches", row.first}, {"ms", row.second}});
  return rows;
}

} // namespace

namespace te::bench {

llvm::json::Array runModelBench(const std::string &backend, const Effort &full,
                                const std::string &file, int size,
                                const std::string &filter, bool &failed) {
  // A step takes half a second, and several GPUs are dear.
  Effort effort = full;
  effort.burstRounds = std::min(full.burstRounds, 3);
  DialectRegistry registry;
  mlir::te::registerAllTEDialects(registry);
  MLIRContext mlirContext(registry);
  Team team(backend, size);
  const Ranks ranks = team.first(size);
  bool isBound = false;
  llvm::json::Array rows;
  llvm::outs() << "recipe                   overlap  burst ms sustained ms  "
                  "tokens/s a rank  TFLOPS  x bf16  loss      arguments MiB  "
                  "arena MiB  workspace MiB  launches\n";
  // Of bf16, by the overlap.
  std::map<std::string, double> plainMs;
  for (const char *recipe : kRecipes) {
    if (!StringRef(recipe).contains(filter))
      continue;
    std::vector<std::vector<float>> wanted;
    for (const char *overlap : {"never", "auto"}) {
      const bool isFirst = StringRef(overlap) == "never";
      if (!isFirst && size == 1)
        break;
      mlir::te::TrainingPipelineOptions options;
      options.recipe = recipe;
      options.strict = true;
      options.overlap = overlap;
      int64_t launches = 0;
      auto step = compileStep(&mlirContext, file, options, launches);
      int64_t tokens = 0;
      bool hasLoss = false;
      for (const ArgumentInfo &info : step->arguments()) {
        if (info.name == "ids")
          tokens = elementsOf(info);
        hasLoss |= isLoss(info);
      }
      if (tokens == 0 || !hasLoss) {
        llvm::WithColor::error(llvm::errs(), "te-bench")
            << "expected '" << file << "' to have an argument 'ids' and a "
            << "result 'loss' of type f32, but it has no "
            << (hasLoss ? "'ids'" : "'loss'") << "\n";
        std::exit(1);
      }
      for (const mlir::te::GroupInfo &group : step->groups()) {
        if (group.size != size) {
          llvm::WithColor::error(llvm::errs(), "te-bench")
              << "expected '--ranks' to be " << group.size
              << ", the ranks of group '" << group.name << "' of '" << file
              << "', but got " << size << "\n";
          std::exit(mlir::te::kUsage);
        }
        if (!isBound)
          team.bind(group.id, size);
      }
      isBound = true;

      std::vector<std::unique_ptr<LoadedStep>> loaded(
          static_cast<size_t>(size));
      std::vector<std::vector<float>> losses(static_cast<size_t>(size));
      ranks.each([&](te_rt_context *context, int rank) {
        auto &one = loaded[static_cast<size_t>(rank)];
        one = std::make_unique<LoadedStep>(context, *step, rank);
        for (int i = 0; i < kSteps; ++i) {
          one->replay();
          losses[static_cast<size_t>(rank)].push_back(one->readLoss());
        }
      });
      if (isFirst)
        wanted = losses;
      const bool isFinite = llvm::all_of(
          losses, [](ArrayRef<float> of) { return std::isfinite(of.back()); });
      const bool isSame = losses == wanted && isFinite;
      failed |= !isSame;
      const Timing timing = ranks.measure(effort, [&](int rank, int64_t) {
        loaded[static_cast<size_t>(rank)]->replay();
      });
      std::vector<float> times;
      ranks.each([&](te_rt_context *, int rank) {
        std::vector<float> mine =
            loaded[static_cast<size_t>(rank)]->trace(step->launches().size());
        if (rank == 0)
          times = std::move(mine);
      });
      const LoadedStep &one = *loaded.front();
      if (StringRef(recipe) == "high_precision")
        plainMs[overlap] = timing.sustainedMs;
      const double speedup = plainMs[overlap] / timing.sustainedMs;
      const double flops = flopsOf(*step);
      const double tokensPerSecond =
          1e3 * static_cast<double>(tokens) / timing.sustainedMs;
      auto mib = [](int64_t bytes) {
        return static_cast<double>(bytes) / 1048576.0;
      };
      llvm::outs() << llvm::format(
          "%-24s %-6s %10.3f %12.3f %16.0f %7.0f %7.2f  %-9.5f %13.0f %10.0f "
          "%14.0f %9lld%s\n",
          recipe, overlap, timing.burstMs, timing.sustainedMs, tokensPerSecond,
          flops / timing.sustainedMs * 1e-9, speedup,
          static_cast<double>(losses.front().back()), mib(one.argumentBytes),
          mib(one.arenaBytes), mib(one.workspaceBytes),
          static_cast<long long>(launches), isSame ? "" : "  LOSSES DIFFER");
      llvm::outs().flush();
      rows.push_back(
          llvm::json::Object{{"recipe", recipe},
                             {"ranks", size},
                             {"overlap", overlap},
                             {"tokens", tokens},
                             {"graph_burst_ms", timing.burstMs},
                             {"graph_sustained_ms", timing.sustainedMs},
                             {"tokens_per_second", tokensPerSecond},
                             {"flops", flops},
                             {"tflops", flops / timing.sustainedMs * 1e-9},
                             {"losses", llvm::json::Array(losses.front())},
                             {"same_losses", isSame},
                             {"weight_elements", one.weightElements},
                             {"argument_bytes", one.argumentBytes},
                             {"arena_bytes", one.arenaBytes},
                             {"workspace_bytes", one.workspaceBytes},
                             {"launches", launches},
                             {"kernels", kernelsOf(*step, times)}});
      if (speedup != 0)
        rows.back().getAsObject()->insert({"speedup_over_bf16", speedup});
      ranks.each([&](te_rt_context *, int rank) {
        loaded[static_cast<size_t>(rank)].reset();
      });
    }
  }
  return rows;
}

} // namespace te::bench
