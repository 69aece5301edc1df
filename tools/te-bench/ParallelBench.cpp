//===- ParallelBench.cpp - a layer over several ranks ---------------------===//
//
// Forward and backward of a Llama layer, tensor-parallel with sequence
// parallelism, over 1, 2, 4, ... ranks: threads of this process, each with a
// GPU of its own, with the collectives on one stream with everything else and
// on one of their own. All begin a measurement together, and the slowest
// counts. What collectives cost is measured by a second step that has the
// collectives of the first, in its order and with its sizes, and nothing else.
//
// Then the two exchanges of a mixture of experts, there and back, of bf16, of
// casts, and of casts that are made and undone around each.
//
//===----------------------------------------------------------------------===//

#include "CompileStep.h"

#include "Bench.h"
#include "Ranks.h"

#include "TEDialect/InitAllTE.h"
#include "TEDialect/Runtime/te_runtime_compiled.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>

using namespace mlir;
using mlir::te::ArgumentInfo;
using namespace ::te::bench;

namespace {

constexpr const char *kRecipes[] = {"high_precision", "float8_current_scaling",
                                    "float8_block_scaling", "delayed_scaling"};

struct Sizes {
  int64_t tokens, sequence, hidden, ffn, heads, kvHeads;
};
constexpr Sizes kLlama8B = {8192, 2048, 4096, 14336, 32, 8};
/// For `--quick`, with the shape of the other.
constexpr Sizes kSmall = {128, 64, 128, 128, 4, 4};

//===----------------------------------------------------------------------===//
// The layer
//===----------------------------------------------------------------------===//

std::string matrix(int64_t rows, int64_t columns) {
  return llvm::formatv("tensor<{0}x{1}xbf16>", rows, columns);
}

/// One rank's part of the layer, whose group is numbered by its size.
std::string layerOf(const Sizes &sizes, int64_t ranks) {
  const bool alone = ranks == 1;
  const std::string group = std::to_string(ranks);
  const auto parallel = [&](const char *mode) {
    return alone ? std::string()
                 : std::string(" parallel <") + mode + ", group = " + group +
                       ", sequence>";
  };
  const auto split = [&](int axis) {
    return alone ? std::string()
                 : ", te.sharding = [#te.shard<axis = " + std::to_string(axis) +
                       ", group = " + group + ">]";
  };
  const int64_t own = sizes.tokens / ranks, all = sizes.tokens;
  const int64_t hidden = sizes.hidden, ffn = sizes.ffn / ranks;
  const int64_t width = hidden / ranks;
  const int64_t kvWidth = hidden / sizes.heads * sizes.kvHeads / ranks;
  const std::string x = matrix(own, hidden), q = matrix(all, width);
  const std::string kv = matrix(all, kvWidth);
  const std::string gamma = "tensor<" + std::to_string(hidden) + "xbf16>";
  const std::string table = llvm::formatv("tensor<{0}x{1}xf32>", sizes.sequence,
                                          hidden / sizes.heads / 2);
  std::string text = "module";
  if (!alone)
    text += llvm::formatv(" attributes {{te.groups = [#te.group<id = {0}, name "
                          "= \"tp\", axis = \"tp\", size = {0}>]}",
                          ranks);
  text += " {\n  func.func @layer(";
  const auto argument = [&](const char *name, const std::string &type,
                            const std::string &more) {
    text += std::string("%") + name + ": " + type + " {te.name = \"" + name +
            "\"" + more + "},\n    ";
  };
  const std::string rows = ", te.weight" + split(0);
  const std::string columns = ", te.weight" + split(1);
  argument("x", x, split(0));
  argument("cos", table, "");
  argument("sin", table, "");
  argument("g1", gamma, ", te.weight");
  argument("wq", matrix(width, hidden), rows);
  argument("wk", matrix(kvWidth, hidden), rows);
  argument("wv", matrix(kvWidth, hidden), rows);
  argument("wo", matrix(hidden, width), columns);
  argument("g2", gamma, ", te.weight");
  argument("wu", matrix(2 * ffn, hidden), rows);
  argument("wd", matrix(hidden, ffn), columns);
  text.resize(text.rfind(','));
  text += ")\n      -> (" + x + " {te.name = \"y\"" + split(0) + "}) {\n";
  const auto op = [&](const std::string &line) {
    text += "    " + line + "\n";
  };
  const auto linear = [&](const char *to, const char *from, const char *w,
                          const char *mode, const std::string &in,
                          const std::string &weight, const std::string &out) {
    op(std::string("%") + to + " = te.linear %" + from + ", %" + w +
       parallel(mode) + " : " + in + ", " + weight + " -> " + out);
  };
  op("%n1 = te.rms_norm %x, %g1 {epsilon = 1.0e-5 : f32} : " + x + ", " +
     gamma);
  linear("q0", "n1", "wq", "column", x, matrix(width, hidden), q);
  linear("k0", "n1", "wk", "column", x, matrix(kvWidth, hidden), kv);
  linear("v", "n1", "wv", "column", x, matrix(kvWidth, hidden), kv);
  const std::string heads = std::to_string(sizes.heads / ranks);
  const std::string kvHeads = std::to_string(sizes.kvHeads / ranks);
  op("%q = te.rope %q0, %cos, %sin {heads = " + heads + " : i64} : " + q +
     ", " + table);
  op("%k = te.rope %k0, %cos, %sin {heads = " + kvHeads + " : i64} : " + kv +
     ", " + table);
  op("%a = te.attention %q, %k, %v {heads = " + heads + " : i64, kv_heads = " +
     kvHeads + " : i64, sequence = " + std::to_string(sizes.sequence) +
     " : i64, causal} : " + q + ", " + kv);
  linear("o", "a", "wo", "row", q, matrix(hidden, width), x);
  op("%r = arith.addf %x, %o : " + x);
  op("%n2 = te.rms_norm %r, %g2 {epsilon = 1.0e-5 : f32} : " + x + ", " +
     gamma);
  const std::string wide = matrix(all, 2 * ffn), narrow = matrix(all, ffn);
  linear("u", "n2", "wu", "column", x, matrix(2 * ffn, hidden), wide);
  op("%h = te.activation <swiglu> %u : " + wide + " -> " + narrow);
  linear("d", "h", "wd", "row", narrow, matrix(hidden, ffn), x);
  op("%y = arith.addf %r, %d : " + x);
  op("return %y : " + x);
  return text + "  }\n}\n";
}

/// A step loaded on one rank with random inputs; activations rotate.
class LoadedLayer {
public:
  static constexpr int sets = 3;

  LoadedLayer(te_rt_context *context, const mlir::te::CompiledStep &step)
      : memory(context) {
    arguments.resize(sets);
    for (const ArgumentInfo &info : step.arguments()) {
      const bool isResult = info.role == ArgumentInfo::Role::Result;
      const bool rotates =
          !isResult && (info.name == "x" || StringRef(info.name) == "grad.y");
      int64_t count = 1;
      for (int64_t size : info.shape)
        count *= size;
      void *pointer = nullptr;
      for (std::vector<void *> &set : arguments) {
        if (info.carriedInput >= 0)
          pointer = set[static_cast<size_t>(info.carriedInput)];
        else if (isResult && !pointer)
          pointer = memory.allocate(info.bytes);
        else if (!isResult && (!pointer || rotates))
          pointer = memory.allocateRandom(
              count, info.type,
              StringRef(info.name).starts_with("w") ? 0.02f : 1.0f);
        set.push_back(pointer);
      }
    }
    need(te_rt_instance_create(context, &step.module(), &instance),
         "loading the layer");
    for (auto [index, info] : llvm::enumerate(step.arguments()))
      if (info.role == ArgumentInfo::Role::Result)
        results.push_back({index, info.bytes});
  }
  ~LoadedLayer() { te_rt_instance_destroy(instance); }
  LoadedLayer(const LoadedLayer &) = delete;

  /// Hashes of all results of a captured step, then of one that is not, each on
  /// what the one before left. Waits for them.
  std::vector<size_t> twoSteps() {
    std::vector<size_t> hashes;
    for (bool captured : {true, false}) {
      need(captured
               ? te_rt_instance_run_graph(instance, arguments[0].data())
               : te_rt_instance_run(instance, arguments[0].data(), nullptr),
           "layer");
      need(te_rt_synchronize(memory.owner()), "synchronize");
      for (auto [index, bytes] : results)
        hashes.push_back(hash(index, bytes));
    }
    return hashes;
  }

  /// Hashes of all arguments, twice: what `twoSteps` says of a step that gives
  /// its arguments back. None of what is random has to be zero or NaN.
  std::vector<size_t> hashesOfArguments(const mlir::te::CompiledStep &step) {
    std::vector<size_t> hashes;
    for (int i = 0; i < 2; ++i)
      for (auto [index, info] : llvm::enumerate(step.arguments()))
        if (info.role != ArgumentInfo::Role::Result)
          hashes.push_back(hash(index, info.bytes));
    return hashes;
  }

  DeviceBuffers memory;
  std::vector<std::vector<void *>> arguments;
  te_rt_instance *instance = nullptr;

private:
  size_t hash(size_t index, int64_t bytes) const {
    std::string host(static_cast<size_t>(bytes), '\0');
    need(te_rt_copy_to_host(memory.owner(), host.data(), arguments[0][index],
                            bytes),
         "copy");
    return std::hash<std::string>()(host);
  }

  /// Places and bytes of the results.
  std::vector<std::pair<size_t, int64_t>> results;
};

//===----------------------------------------------------------------------===//
// Exchanges of experts' rows
//===----------------------------------------------------------------------===//

struct Experts {
  int64_t experts, capacity, hidden;
};
constexpr Experts kManyRows = {16, 1024, 4096};
constexpr Experts kFewRows = {8, 32, 128};

enum class Payload { BF16, Casts, CastsMade };

/// Rows of all experts to the ranks that have them, and back.
std::string exchangesOf(const Experts &sizes, int64_t ranks, Payload payload) {
  const int64_t rows = sizes.experts * sizes.capacity;
  const int64_t own = sizes.experts / ranks;
  const std::string flat = matrix(rows, sizes.hidden);
  const auto stack = [&](int64_t groups) {
    return llvm::formatv("tensor<{0}x{1}x{2}xbf16>", groups, rows / groups,
                         sizes.hidden)
        .str();
  };
  const auto scaled = [&](int64_t groups) {
    return llvm::formatv("!te.scaled<{0}x{1}xf8E4M3FN, block_1x128, contract = "
                         "1{2}>",
                         rows, sizes.hidden,
                         groups ? ", groups = " + std::to_string(groups) : "")
        .str();
  };
  const std::string type = payload == Payload::Casts ? scaled(0) : flat;
  std::string text = llvm::formatv(
      "module attributes {{te.groups = [#te.group<id = {0}, name = \"ep\", "
      "axis "
      "= \"ep\", size = {0}>]} {{\n  func.func @exchange(%x: {1} {{te.name = "
      "\"x\"}) -> ({1} {{te.name = \"y\"}) {{\n",
      ranks, type);
  const auto op = [&](const std::string &line) {
    text += "    " + line + "\n";
  };
  const std::string over = " group " + std::to_string(ranks);
  if (payload == Payload::BF16) {
    op("%e = tensor.expand_shape %x [[0, 1], [2]] output_shape [" +
       std::to_string(sizes.experts) + ", " + std::to_string(sizes.capacity) +
       ", " + std::to_string(sizes.hidden) + "] : " + flat + " into " +
       stack(sizes.experts));
    op("%a = te.all_to_all %e" + over +
       " split 0 concat 1 : " + stack(sizes.experts) + " -> " + stack(own));
    op("%b = te.all_to_all %a" + over + " split 1 concat 0 : " + stack(own) +
       " -> " + stack(sizes.experts));
    op("%y = tensor.collapse_shape %b [[0, 1], [2]] : " + stack(sizes.experts) +
       " into " + flat);
    op("return %y : " + flat);
    return text + "  }\n}\n";
  }
  const bool makes = payload == Payload::CastsMade;
  const std::string full =
      "sizes %sizes {alignment = " + std::to_string(rows / own) + " : i64} : ";
  if (makes) {
    op("%sizes = arith.constant dense<" + std::to_string(rows / own) +
       "> : tensor<" + std::to_string(own) + "xi32>");
    op("%q = te.quantize %x : " + flat + " -> " + scaled(0));
  }
  op("%a = te.all_to_all " + std::string(makes ? "%q" : "%x") + over +
     " split 0 concat 1 : " + scaled(0) + " -> " + scaled(own));
  if (makes) {
    op("%h = te.dequantize %a " + full + scaled(own) + " -> " + flat);
    op("%r = te.grouped_quantize %h " + full + flat + " -> " + scaled(own));
  }
  op("%b = te.all_to_all " + std::string(makes ? "%r" : "%a") + over +
     " split 1 concat 0 : " + scaled(own) + " -> " + scaled(0));
  if (makes)
    op("%y = te.dequantize %b : " + scaled(0) + " -> " + flat);
  op("return " + std::string(makes ? "%y" : "%b") + " : " + type);
  return text + "  }\n}\n";
}

/// Bytes of all exchanges of a rank, of which one in each `ranks` is its own.
int64_t exchangedBytes(const mlir::te::CompiledStep &step, int64_t ranks) {
  int64_t bytes = 0;
  for (const mlir::te::LaunchInfo &launch : step.launches())
    if (launch.kernel == "all_to_all")
      for (const char *name : {"bytes", "scale_bytes"})
        bytes += launch.parameters.getAs<IntegerAttr>(name).getInt() * ranks;
  return bytes;
}

/// Prints and adds a row for each payload. Sets `differ` where what was brought
/// back is not what was sent.
void benchExchanges(MLIRContext *mlirContext, const Ranks &ranks,
                    const Effort &effort, const Experts &sizes, bool &differ,
                    llvm::json::Array &rows) {
  double plainMs = 0;
  for (auto [payload, name] : {std::pair(Payload::BF16, "bf16"),
                               {Payload::Casts, "f8E4M3FN"},
                               {Payload::CastsMade, "f8E4M3FN and casts"}}) {
    int64_t launches = 0;
    auto step =
        compileText(mlirContext, exchangesOf(sizes, ranks.size(), payload),
                    mlir::te::TrainingPipelineOptions(), launches);
    std::vector<std::unique_ptr<LoadedLayer>> loaded(
        static_cast<size_t>(ranks.size()));
    std::vector<char> same(static_cast<size_t>(ranks.size()));
    ranks.each([&](te_rt_context *context, int rank) {
      auto &one = loaded[static_cast<size_t>(rank)];
      one = std::make_unique<LoadedLayer>(context, *step);
      same[static_cast<size_t>(rank)] =
          one->twoSteps() == one->hashesOfArguments(*step);
    });
    const bool isBack =
        payload == Payload::CastsMade || !llvm::is_contained(same, 0);
    differ |= !isBack;
    const Timing graph = ranks.measure(effort, [&](int rank, int64_t) {
      LoadedLayer &one = *loaded[static_cast<size_t>(rank)];
      need(te_rt_instance_run_graph(one.instance, one.arguments[0].data()),
           "captured exchanges");
    });
    ranks.each([&](te_rt_context *, int rank) {
      loaded[static_cast<size_t>(rank)].reset();
    });
    if (payload == Payload::BF16)
      plainMs = graph.sustainedMs;
    const int64_t bytes = exchangedBytes(*step, ranks.size());
    llvm::outs() << llvm::format(
        "%5d  exchanges of %-19s %9.3f %10.3f  %6.2f x bf16 %10.1f MiB%s\n",
        ranks.size(), name, graph.burstMs, graph.sustainedMs,
        plainMs / graph.sustainedMs, static_cast<double>(bytes) / 1048576.0,
        isBack ? "" : "  BITS DIFFER");
    llvm::outs().flush();
    rows.push_back(
        llvm::json::Object{{"ranks", ranks.size()},
                           {"payload", name},
                           {"experts", sizes.experts},
                           {"capacity", sizes.capacity},
                           {"hidden", sizes.hidden},
                           {"exchanged_bytes", bytes},
                           {"same_bits", isBack},
                           {"graph_burst_ms", graph.burstMs},
                           {"graph_sustained_ms", graph.sustainedMs},
                           {"speedup_over_bf16", plainMs / graph.sustainedMs}});
  }
}

//===----------------------------------------------------------------------===//
// Its collectives alone
//===----------------------------------------------------------------------===//

struct Collective {
  std::string kernel;
  /// Bytes of a gather, elements of the others.
  int64_t count;
  int32_t type, group;

  bool isAmax() const { return kernel == "all_reduce_max"; }
  int64_t bytesOf(int32_t ranks) const {
    const int64_t element = kernel == "all_gather" ? 1
                            : isAmax()             ? 4
                            : type == TE_RT_F32    ? 4
                                                   : 2;
    return count * element *
           (kernel == "all_reduce_sum" || isAmax() ? 1 : ranks);
  }
};

std::vector<Collective> collectivesOf(const mlir::te::CompiledStep &step) {
  std::vector<Collective> found;
  for (const mlir::te::LaunchInfo &launch : step.launches()) {
    if (!llvm::is_contained({"all_gather", "all_reduce_max", "all_reduce_sum",
                             "reduce_scatter_sum"},
                            launch.kernel))
      continue;
    const auto number = [&](StringRef name) -> int64_t {
      auto attribute = launch.parameters.getAs<IntegerAttr>(name);
      return attribute ? attribute.getInt() : 0;
    };
    found.push_back(
        {launch.kernel,
         launch.kernel == "all_gather" ? number("bytes") : number("count"),
         static_cast<int32_t>(number("type")),
         static_cast<int32_t>(number("group_id"))});
  }
  return found;
}

/// What a module's functions, which are given nothing but the instance, load
/// and run on this thread.
thread_local const std::vector<Collective> *current;
thread_local int32_t currentRanks;

te_rt_status loadCollectives(te_rt_instance *instance) {
  int32_t slot = 0;
  for (const Collective &each : *current) {
    te_rt_status status = TE_RT_OK;
    if (each.kernel == "all_gather")
      status = te_rt_plan_all_gather(instance, slot, each.count, currentRanks,
                                     each.group);
    else if (each.isAmax())
      status =
          te_rt_plan_all_reduce_max(instance, slot, each.count, each.group);
    else if (each.kernel == "all_reduce_sum")
      status = te_rt_plan_all_reduce_sum(instance, slot, each.count, each.type,
                                         currentRanks, each.group);
    else
      status = te_rt_plan_reduce_scatter_sum(
          instance, slot, each.count, each.type, currentRanks, each.group);
    if (status != TE_RT_OK)
      return status;
    ++slot;
  }
  return TE_RT_OK;
}

/// The buffers are two sets of three, in turns, so that no collective finds
/// what the one before it left in the cache.
void runCollectives(te_rt_instance *instance, char *, void *const *arguments) {
  for (int32_t slot = 0; slot < static_cast<int32_t>(current->size()); ++slot) {
    void *const buffers[] = {arguments[slot % 3], arguments[3 + slot % 3]};
    te_rt_launch(instance, slot, buffers);
  }
}

/// Milliseconds of one step of `collectives`, captured.
double timeCollectives(const Ranks &ranks, const Effort &effort,
                       const std::vector<Collective> &collectives) {
  if (collectives.empty())
    return 0;
  int64_t bytes = 0;
  for (const Collective &each : collectives)
    bytes = std::max(bytes, each.bytesOf(ranks.size()));
  const te_rt_module module = {TE_RT_MODULE_MAGIC,
                               TE_RT_VERSION,
                               0,
                               static_cast<int32_t>(collectives.size()),
                               6,
                               loadCollectives,
                               runCollectives,
                               /*origins=*/nullptr,
                               nullptr,
                               0,
                               0};
  struct One {
    std::unique_ptr<DeviceBuffers> memory;
    std::vector<void *> arguments;
    te_rt_instance *instance = nullptr;
  };
  std::vector<One> all(static_cast<size_t>(ranks.size()));
  const auto enter = [&] {
    current = &collectives;
    currentRanks = ranks.size();
  };
  ranks.each([&](te_rt_context *context, int rank) {
    enter();
    One &one = all[static_cast<size_t>(rank)];
    one.memory = std::make_unique<DeviceBuffers>(context);
    for (int i = 0; i < 6; ++i)
      one.arguments.push_back(
          one.memory->allocateRandom(bytes / 2 + 1, TE_RT_BF16, 1.0f));
    need(te_rt_instance_create(context, &module, &one.instance),
         "loading collectives");
  });
  const Timing timing = ranks.measure(effort, [&](int rank, int64_t) {
    enter();
    One &one = all[static_cast<size_t>(rank)];
    need(te_rt_instance_run_graph(one.instance, one.arguments.data()),
         "collectives");
  });
  ranks.each([&](te_rt_context *, int rank) {
    te_rt_instance_destroy(all[static_cast<size_t>(rank)].instance);
  });
  return timing.sustainedMs;
}

} // namespace

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

namespace te::bench {

llvm::json::Array runParallelBench(const std::string &backend,
                                   const Effort &full, int maxRanks, bool small,
                                   bool &differ, llvm::json::Array &exchanges) {
  const Sizes sizes = small ? kSmall : kLlama8B;
  // Rows are many, and several GPUs are dear.
  const Effort layer = {std::min(full.burstRounds, 5), full.burstMs,
                        full.idleMs / 2, full.sustainedMs * 2 / 3};
  const Effort brief = {std::min(full.burstRounds, 3), full.burstMs,
                        full.idleMs / 4, full.sustainedMs / 3};
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
  for (int count : counts) {
    const Ranks ranks = team.first(count);
    for (const char *recipe : kRecipes) {
      // Of the step on one stream, which the other is compared with.
      Timing serial;
      double allMs = 0, amaxMs = 0, gatherMs = 0;
      std::vector<std::vector<size_t>> wanted(static_cast<size_t>(count));
      for (const char *overlap : {"never", "auto"}) {
        const bool isFirst = StringRef(overlap) == "never";
        if (!isFirst && count == 1)
          break;
        mlir::te::TrainingPipelineOptions options;
        options.recipe = recipe;
        options.vjp = "layer";
        options.strict = true;
        options.overlap = small && !isFirst ? "always" : overlap;
        int64_t launches = 0;
        auto step =
            compileText(&mlirContext, layerOf(sizes, count), options, launches);
        std::vector<std::unique_ptr<LoadedLayer>> loaded(
            static_cast<size_t>(count));
        std::vector<std::vector<size_t>> found(static_cast<size_t>(count));
        ranks.each([&](te_rt_context *context, int rank) {
          auto &one = loaded[static_cast<size_t>(rank)];
          one = std::make_unique<LoadedLayer>(context, *step);
          found[static_cast<size_t>(rank)] = one->twoSteps();
        });
        if (isFirst)
          wanted = found;
        differ |= found != wanted;
        const Timing run = ranks.measure(layer, [&](int rank, int64_t i) {
          LoadedLayer &one = *loaded[static_cast<size_t>(rank)];
          need(te_rt_instance_run(one.instance,
                                  one.arguments[i % LoadedLayer::sets].data(),
                                  nullptr),
               "layer");
        });
        // One set: a captured graph holds its pointers. Each activation alone
        // is larger than the cache.
        const Timing graph = ranks.measure(layer, [&](int rank, int64_t) {
          LoadedLayer &one = *loaded[static_cast<size_t>(rank)];
          need(te_rt_instance_run_graph(one.instance, one.arguments[0].data()),
               "captured layer");
        });
        ranks.each([&](te_rt_context *, int rank) {
          loaded[static_cast<size_t>(rank)].reset();
        });

        const std::vector<Collective> collectives = collectivesOf(*step);
        std::vector<Collective> amaxes, gathers;
        int64_t gathered = 0, scattered = 0, numSide = 0;
        for (const mlir::te::LaunchInfo &launch : step->launches())
          numSide += launch.side;
        for (const Collective &each : collectives) {
          if (each.isAmax())
            amaxes.push_back(each);
          if (each.kernel == "all_gather") {
            gathers.push_back(each);
            gathered += each.count * (count - 1);
          }
          if (each.kernel == "reduce_scatter_sum")
            scattered += each.bytesOf(count) / count * (count - 1);
        }
        if (isFirst) {
          serial = graph;
          allMs = timeCollectives(ranks, brief, collectives);
          amaxMs = timeCollectives(ranks, brief, amaxes);
          gatherMs = timeCollectives(ranks, brief, gathers);
        }
        const double hiddenMs = serial.sustainedMs - graph.sustainedMs;
        const double hiddenShare = allMs == 0 ? 0 : hiddenMs / allMs;
        const Timing first = alone.try_emplace(recipe, graph).first->second;
        const double speedup = first.sustainedMs / graph.sustainedMs;
        llvm::outs() << llvm::format(
            "%5d  %-24s %-6s %9.3f %10.3f %17.3f %9.2f %12.3f (%4.1f %%) "
            "%10.3f (%5.1f %%) %9.3f (%4.2f %%) %8.1f%s\n",
            count, recipe, overlap, graph.burstMs, graph.sustainedMs,
            run.sustainedMs, speedup, allMs, 100 * allMs / graph.sustainedMs,
            hiddenMs, 100 * hiddenShare, amaxMs,
            100 * amaxMs / graph.sustainedMs,
            static_cast<double>(gathered) / 1048576.0,
            found == wanted ? "" : "  BITS DIFFER");
        llvm::outs().flush();
        rows.push_back(llvm::json::Object{
            {"ranks", count},
            {"recipe", recipe},
            {"overlap", overlap},
            {"same_bits", found == wanted},
            {"tokens", sizes.tokens},
            {"hidden", sizes.hidden},
            {"ffn", sizes.ffn},
            {"graph_burst_ms", graph.burstMs},
            {"graph_sustained_ms", graph.sustainedMs},
            {"run_burst_ms", run.burstMs},
            {"run_sustained_ms", run.sustainedMs},
            {"speedup_over_one_rank", speedup},
            {"collectives_ms", allMs},
            {"collectives_share", allMs / graph.sustainedMs},
            {"hidden_burst_ms", serial.burstMs - graph.burstMs},
            {"hidden_ms", hiddenMs},
            {"hidden_share", hiddenShare},
            {"amax_ms", amaxMs},
            {"amax_share", amaxMs / graph.sustainedMs},
            {"gathers_ms", gatherMs},
            {"num_collectives", static_cast<int64_t>(collectives.size())},
            {"num_side", numSide},
            {"num_amax_reductions", static_cast<int64_t>(amaxes.size())},
            {"num_gathers", static_cast<int64_t>(gathers.size())},
            {"gathered_bytes_received", gathered},
            {"scattered_bytes_received", scattered},
            {"launches", launches},
            {"arena_bytes", step->module().arena_bytes}});
      }
    }
  }
  for (int count : counts) {
    if (count == 1)
      continue;
    Experts experts = small ? kFewRows : kManyRows;
    experts.experts = std::max<int64_t>(experts.experts, count);
    benchExchanges(&mlirContext, team.first(count), layer, experts, differ,
                   exchanges);
  }
  return rows;
}

} // namespace te::bench
