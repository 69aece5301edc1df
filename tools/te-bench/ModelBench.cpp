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
#include "ModelStep.h"
#include "Ranks.h"

#include "TEDialect/InitAllTE.h"
#include "TEDialect/Pipelines/PipelineGuard.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>

using namespace mlir;
using mlir::te::ArgumentInfo;
using mlir::te::LaunchInfo;
using namespace ::te::bench;

namespace {

constexpr const char *kRecipes[] = {"high_precision", "float8_current_scaling",
                                    "float8_block_scaling", "delayed_scaling"};
/// Steps whose losses are compared.
constexpr int kSteps = 3;

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
    // Two GEMMs forward and five backward, which computes the scores again.
    const double columns =
        launch.kernel == "attention" ? number("head_dim") + number("value_dim")
        : launch.kernel == "attention_backward"
            ? 3 * number("head_dim") + 2 * number("value_dim")
            : 0;
    flops += 2 * number("tokens") * number("sequence") * number("heads") *
             columns / (number("causal") != 0 ? 2 : 1);
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

/// A step that was compiled and measured over all ranks. Times are those of a
/// micro-batch, averaged over the period of an update.
struct ModelRow {
  const char *recipe = "", *overlap = "";
  int ranks = 0, microBatches = 1;
  int64_t tokens = 0, launches = 0;
  double flops = 0;
  /// Over the same step in bf16; 0 where that was not measured.
  double speedup = 0;
  Timing timing;
  /// Of each rank, and whether they are those of the step on one stream.
  std::vector<std::vector<float>> losses;
  bool isSame = true;
  int64_t weightElements = 0, argumentBytes = 0;
  int64_t arenaBytes = 0, workspaceBytes = 0;
  double loadMs = 0;
  llvm::json::Array kernels;

  double tokensPerSecond() const {
    return 1e3 * static_cast<double>(tokens) / timing.sustainedMs;
  }
  double tflops() const { return flops / timing.sustainedMs * 1e-9; }
};

void print(const ModelRow &row) {
  auto mib = [](int64_t bytes) {
    return static_cast<double>(bytes) / 1048576.0;
  };
  llvm::outs() << llvm::format(
      "%-24s %-6s %13d %10.3f %12.3f %16.0f %7.0f %7.2f  %-9.5f %13.0f %10.0f "
      "%14.0f %9lld %8.0f%s\n",
      row.recipe, row.overlap, row.microBatches, row.timing.burstMs,
      row.timing.sustainedMs, row.tokensPerSecond(), row.tflops(), row.speedup,
      static_cast<double>(row.losses.front().back()), mib(row.argumentBytes),
      mib(row.arenaBytes), mib(row.workspaceBytes),
      static_cast<long long>(row.launches), row.loadMs,
      row.isSame ? "" : "  LOSSES DIFFER");
  llvm::outs().flush();
}

llvm::json::Object toJson(const ModelRow &row) {
  llvm::json::Object object{
      {"recipe", row.recipe},
      {"ranks", row.ranks},
      {"overlap", row.overlap},
      {"tokens", row.tokens},
      {"micro_batches", row.microBatches},
      {"update_period_ms", row.microBatches * row.timing.sustainedMs},
      {"graph_burst_ms", row.timing.burstMs},
      {"graph_sustained_ms", row.timing.sustainedMs},
      {"tokens_per_second", row.tokensPerSecond()},
      {"flops", row.flops},
      {"tflops", row.tflops()},
      {"losses", llvm::json::Array(row.losses.front())},
      {"same_losses", row.isSame},
      {"weight_elements", row.weightElements},
      {"argument_bytes", row.argumentBytes},
      {"arena_bytes", row.arenaBytes},
      {"workspace_bytes", row.workspaceBytes},
      {"launches", row.launches},
      {"load_ms", row.loadMs},
      {"kernels", llvm::json::Array(row.kernels)}};
  if (row.speedup != 0)
    object.insert({"speedup_over_bf16", row.speedup});
  return object;
}

/// The number of ids of a step; exits unless it has ids, a loss, and groups of
/// `ranks` ranks.
int64_t tokensOf(const mlir::te::CompiledStep &step, const std::string &file,
                 int ranks) {
  int64_t tokens = 0;
  bool hasLoss = false;
  for (const ArgumentInfo &info : step.arguments()) {
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
  for (const mlir::te::GroupInfo &group : step.groups())
    if (group.size != ranks) {
      llvm::WithColor::error(llvm::errs(), "te-bench")
          << "expected '--ranks' to be " << group.size
          << ", the ranks of group '" << group.name << "' of '" << file
          << "', but got " << ranks << "\n";
      std::exit(mlir::te::kUsage);
    }
  return tokens;
}

/// Exits unless a flag decides whether a micro-batch updates the weights.
void expectFlag(const LoadedStep &step, int microBatches) {
  if (microBatches == 1 || step.canSkipUpdates())
    return;
  llvm::WithColor::error(llvm::errs(), "te-bench")
      << "expected the model to have an argument 'skip_optimizer' for "
         "'--micro-batches="
      << microBatches
      << "', but it has none (scripts/llama_step.py --micro-batches)\n";
  std::exit(mlir::te::kUsage);
}

/// Loads a step on all ranks, and fills in what is measured of it.
void measureStep(const Ranks &ranks, const Effort &effort,
                 const mlir::te::CompiledStep &step, ModelRow &row) {
  std::vector<std::unique_ptr<LoadedStep>> loaded(
      static_cast<size_t>(ranks.size()));
  row.losses.resize(loaded.size());
  ranks.each([&](te_rt_context *context, int rank) {
    auto &one = loaded[static_cast<size_t>(rank)];
    one = std::make_unique<LoadedStep>(context, step, rank);
    expectFlag(*one, row.microBatches);
    for (int i = 0; i < kSteps; ++i) {
      one->replayPeriod(row.microBatches);
      row.losses[static_cast<size_t>(rank)].push_back(one->readLoss());
    }
  });
  row.timing = ranks.measure(effort, [&](int rank, int64_t) {
    loaded[static_cast<size_t>(rank)]->replayPeriod(row.microBatches);
  });
  row.timing.burstMs /= row.microBatches;
  row.timing.sustainedMs /= row.microBatches;
  std::vector<float> times(step.launches().size());
  ranks.each([&](te_rt_context *, int rank) {
    LoadedStep &mine = *loaded[static_cast<size_t>(rank)];
    mine.replayPeriod(row.microBatches, [&] {
      const std::vector<float> once = mine.trace(times.size());
      for (size_t i = 0; rank == 0 && i < times.size(); ++i)
        times[i] += once[i] / static_cast<float>(row.microBatches);
    });
  });
  row.kernels = kernelsOf(step, times);
  const LoadedStep &one = *loaded.front();
  row.weightElements = one.weightElements;
  row.argumentBytes = one.argumentBytes;
  row.arenaBytes = one.arenaBytes;
  row.workspaceBytes = one.workspaceBytes;
  row.loadMs = one.loadMs;
  ranks.each([&](te_rt_context *, int rank) {
    loaded[static_cast<size_t>(rank)].reset();
  });
}

} // namespace

namespace te::bench {

llvm::json::Array runModelBench(const std::string &backend, const Effort &full,
                                const std::string &file, int size,
                                int microBatches, const std::string &filter,
                                bool &failed) {
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
  llvm::outs() << "recipe                   overlap micro-batches  burst ms "
                  "sustained ms  "
                  "tokens/s a rank  TFLOPS  x bf16  loss      arguments MiB  "
                  "arena MiB  workspace MiB  launches  load ms\n";
  // Of bf16, by the overlap.
  std::map<std::string, double> plainMs;
  for (const char *recipe : kRecipes) {
    if (!StringRef(recipe).contains(filter))
      continue;
    std::vector<std::vector<float>> wanted;
    for (const char *overlap : {"never", "auto"}) {
      if (!wanted.empty() && size == 1)
        break;
      mlir::te::TrainingPipelineOptions options;
      options.recipe = recipe;
      options.strict = true;
      options.overlap = overlap;
      if (microBatches > 1) {
        options.cacheWeights = options.mainGrad = true;
        // Weights are transposed once for each update.
        options.transposePolicy = "eager";
      }
      ModelRow row;
      row.recipe = recipe;
      row.overlap = overlap;
      row.ranks = size;
      row.microBatches = microBatches;
      auto step = compileStep(&mlirContext, file, options, row.launches);
      row.tokens = tokensOf(*step, file, size);
      row.flops = flopsOf(*step);
      if (!isBound)
        for (const mlir::te::GroupInfo &group : step->groups())
          team.bind(group.id, size);
      isBound = true;
      measureStep(ranks, effort, *step, row);
      if (wanted.empty())
        wanted = row.losses;
      row.isSame = row.losses == wanted &&
                   llvm::all_of(row.losses, [](ArrayRef<float> of) {
                     return std::isfinite(of.back());
                   });
      failed |= !row.isSame;
      if (StringRef(recipe) == "high_precision")
        plainMs[overlap] = row.timing.sustainedMs;
      row.speedup = plainMs[overlap] / row.timing.sustainedMs;
      print(row);
      rows.push_back(toJson(row));
    }
  }
  return rows;
}

} // namespace te::bench
