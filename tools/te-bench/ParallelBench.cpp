//===- ParallelBench.cpp - a layer over several ranks ---------------------===//
//
// Forward and backward of a Llama layer, tensor-parallel with sequence
// parallelism, over 1, 2, 4, ... ranks: threads of this process, each with a
// GPU of its own, with the collectives on one stream with everything else and
// on one of their own. All begin a measurement together, and the slowest
// counts. Then its collectives in isolation (CollectiveBench.cpp), and
// exchanges of experts' rows (ExchangeBench.cpp).
//
//===----------------------------------------------------------------------===//

#include "Parallel.h"

#include "TEDialect/InitAllTE.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <map>
#include <memory>

using namespace mlir;
using namespace ::te::bench;

namespace {

constexpr const char *kRecipes[] = {"high_precision", "float8_current_scaling",
                                    "float8_block_scaling", "delayed_scaling"};

constexpr Sizes kLlama8B = {8192, 2048, 4096, 14336, 32, 8};
/// For `--quick`, with the shape of the other.
constexpr Sizes kSmall = {128, 64, 128, 128, 4, 4};

constexpr Experts kManyRows = {16, 1024, 4096};
constexpr Experts kFewRows = {8, 32, 128};

/// The collectives of a step, and what a rank receives in them.
struct Traffic {
  std::vector<Collective> all, amaxes, gathers;
  int64_t gatheredBytes = 0, scatteredBytes = 0;
};

Traffic trafficOf(const mlir::te::CompiledStep &step, int ranks) {
  Traffic traffic;
  traffic.all = collectivesOf(step);
  for (const Collective &each : traffic.all) {
    if (each.isAmax())
      traffic.amaxes.push_back(each);
    if (each.kernel == "all_gather") {
      traffic.gathers.push_back(each);
      traffic.gatheredBytes += each.count * (ranks - 1);
    }
    if (each.kernel == "reduce_scatter_sum")
      traffic.scatteredBytes += each.bytesOf(ranks) / ranks * (ranks - 1);
  }
  return traffic;
}

/// Milliseconds of the collectives of a step in isolation.
struct CollectiveTimes {
  double all = 0, amaxes = 0, gathers = 0;
};

/// A layer that was compiled and measured. `serial` is the step on one stream,
/// captured, with which this one is compared.
struct LayerRow {
  int ranks = 0;
  const char *recipe = "", *overlap = "";
  Timing graph, run, serial;
  /// Hashes of the results of each rank, and whether they are the serial ones.
  std::vector<std::vector<size_t>> found;
  bool isSame = true;
  CollectiveTimes times;
  Traffic traffic;
  double speedup = 1;
  int64_t launches = 0, sideLaunches = 0, arenaBytes = 0;

  double hiddenMs() const { return serial.sustainedMs - graph.sustainedMs; }
  double hiddenShare() const {
    return times.all == 0 ? 0 : hiddenMs() / times.all;
  }
};

void print(const LayerRow &row) {
  const double ms = row.graph.sustainedMs;
  llvm::outs() << llvm::format(
      "%5d  %-24s %-6s %9.3f %10.3f %17.3f %9.2f %12.3f (%4.1f %%) "
      "%10.3f (%5.1f %%) %9.3f (%4.2f %%) %8.1f%s\n",
      row.ranks, row.recipe, row.overlap, row.graph.burstMs, ms,
      row.run.sustainedMs, row.speedup, row.times.all, 100 * row.times.all / ms,
      row.hiddenMs(), 100 * row.hiddenShare(), row.times.amaxes,
      100 * row.times.amaxes / ms,
      static_cast<double>(row.traffic.gatheredBytes) / 1048576.0,
      row.isSame ? "" : "  BITS DIFFER");
  llvm::outs().flush();
}

llvm::json::Object toJson(const LayerRow &row, const Sizes &sizes) {
  const double ms = row.graph.sustainedMs;
  const auto count = [](const std::vector<Collective> &of) {
    return static_cast<int64_t>(of.size());
  };
  return llvm::json::Object{
      {"ranks", row.ranks},
      {"recipe", row.recipe},
      {"overlap", row.overlap},
      {"same_bits", row.isSame},
      {"tokens", sizes.tokens},
      {"hidden", sizes.hidden},
      {"ffn", sizes.ffn},
      {"graph_burst_ms", row.graph.burstMs},
      {"graph_sustained_ms", ms},
      {"run_burst_ms", row.run.burstMs},
      {"run_sustained_ms", row.run.sustainedMs},
      {"speedup_over_one_rank", row.speedup},
      {"collectives_ms", row.times.all},
      {"collectives_share", row.times.all / ms},
      {"hidden_burst_ms", row.serial.burstMs - row.graph.burstMs},
      {"hidden_ms", row.hiddenMs()},
      {"hidden_share", row.hiddenShare()},
      {"amax_ms", row.times.amaxes},
      {"amax_share", row.times.amaxes / ms},
      {"gathers_ms", row.times.gathers},
      {"num_collectives", count(row.traffic.all)},
      {"num_side", row.sideLaunches},
      {"num_amax_reductions", count(row.traffic.amaxes)},
      {"num_gathers", count(row.traffic.gathers)},
      {"gathered_bytes_received", row.traffic.gatheredBytes},
      {"scattered_bytes_received", row.traffic.scatteredBytes},
      {"launches", row.launches},
      {"arena_bytes", row.arenaBytes}};
}

/// Loads a step on all ranks, and fills in what is measured of it.
void measureLayer(const Ranks &ranks, const Effort &effort,
                  const mlir::te::CompiledStep &step, LayerRow &row) {
  std::vector<std::unique_ptr<LoadedLayer>> loaded(
      static_cast<size_t>(ranks.size()));
  row.found.resize(loaded.size());
  ranks.each([&](te_rt_context *context, int rank) {
    auto &one = loaded[static_cast<size_t>(rank)];
    one = std::make_unique<LoadedLayer>(context, step);
    row.found[static_cast<size_t>(rank)] = one->twoSteps();
  });
  row.run = ranks.measure(effort, [&](int rank, int64_t i) {
    LoadedLayer &one = *loaded[static_cast<size_t>(rank)];
    need(te_rt_instance_run(one.instance,
                            one.arguments[i % LoadedLayer::sets].data(),
                            nullptr),
         "layer");
  });
  // One set: a captured graph holds its pointers. Each activation alone is
  // larger than the cache.
  row.graph = ranks.measure(effort, [&](int rank, int64_t) {
    LoadedLayer &one = *loaded[static_cast<size_t>(rank)];
    need(te_rt_instance_run_graph(one.instance, one.arguments[0].data()),
         "captured layer");
  });
  ranks.each([&](te_rt_context *, int rank) {
    loaded[static_cast<size_t>(rank)].reset();
  });
}

/// How long a row of the layer is measured, and one of its collectives.
struct Efforts {
  Effort layer, brief;
};
Efforts effortsOf(const Effort &full) {
  // Rows are many, and several GPUs are dear.
  return {{std::min(full.burstRounds, 5), full.burstMs, full.idleMs / 2,
           full.sustainedMs * 2 / 3},
          {std::min(full.burstRounds, 3), full.burstMs, full.idleMs / 4,
           full.sustainedMs / 3}};
}

/// A row of a recipe: with the collectives on one stream with everything else,
/// or, where that is `serial`, on one of their own.
LayerRow benchLayer(MLIRContext *mlirContext, const Ranks &ranks,
                    const Efforts &efforts, const Sizes &sizes, bool small,
                    const char *recipe, const LayerRow *serial) {
  LayerRow row;
  row.ranks = ranks.size();
  row.recipe = recipe;
  row.overlap = serial ? "auto" : "never";
  mlir::te::TrainingPipelineOptions options;
  options.recipe = recipe;
  options.vjp = "layer";
  options.strict = true;
  options.overlap = small && serial ? "always" : row.overlap;
  auto step = compileText(mlirContext, layerOf(sizes, ranks.size()), options,
                          row.launches);
  row.arenaBytes = step->module().arena_bytes;
  for (const mlir::te::LaunchInfo &launch : step->launches())
    row.sideLaunches += launch.side;
  measureLayer(ranks, efforts.layer, *step, row);
  row.traffic = trafficOf(*step, ranks.size());
  if (serial) {
    row.times = serial->times;
    row.isSame = row.found == serial->found;
  } else {
    row.times.all = timeCollectives(ranks, efforts.brief, row.traffic.all);
    row.times.amaxes =
        timeCollectives(ranks, efforts.brief, row.traffic.amaxes);
    row.times.gathers =
        timeCollectives(ranks, efforts.brief, row.traffic.gathers);
  }
  row.serial = serial ? serial->graph : row.graph;
  return row;
}

} // namespace

namespace te::bench {

llvm::json::Array runParallelBench(const std::string &backend,
                                   const Effort &full, int maxRanks, bool small,
                                   bool &differ, llvm::json::Array &exchanges) {
  const Sizes sizes = small ? kSmall : kLlama8B;
  const Efforts efforts = effortsOf(full);
  Team team(backend, maxRanks);
  std::vector<int> counts;
  for (int count = 1; count <= maxRanks; count *= 2)
    counts.push_back(count);
  for (int count : counts)
    if (count > 1)
      team.bind(count, count);

  mlir::DialectRegistry registry;
  mlir::te::registerAllTEDialects(registry);
  MLIRContext mlirContext(registry);
  llvm::json::Array rows;
  std::map<std::string, Timing> alone;
  llvm::outs() << "ranks  recipe                  overlap  graph ms (burst, "
                  "sustained)  run ms   x 1 rank  collectives ms (share)  "
                  "hidden ms (share)  amax ms (share)  gathered MiB\n";
  const auto add = [&](LayerRow &row) {
    const Timing &first =
        alone.try_emplace(row.recipe, row.graph).first->second;
    row.speedup = first.sustainedMs / row.graph.sustainedMs;
    differ |= !row.isSame;
    print(row);
    rows.push_back(toJson(row, sizes));
  };
  for (int count : counts) {
    const Ranks ranks = team.first(count);
    for (const char *recipe : kRecipes) {
      LayerRow serial = benchLayer(&mlirContext, ranks, efforts, sizes, small,
                                   recipe, nullptr);
      add(serial);
      if (count == 1)
        continue;
      LayerRow beside = benchLayer(&mlirContext, ranks, efforts, sizes, small,
                                   recipe, &serial);
      add(beside);
    }
  }
  for (int count : counts) {
    if (count == 1)
      continue;
    Experts experts = small ? kFewRows : kManyRows;
    experts.experts = std::max<int64_t>(experts.experts, count);
    benchExchanges(&mlirContext, team.first(count), efforts.layer, experts,
                   differ, exchanges);
  }
  return rows;
}

} // namespace te::bench
