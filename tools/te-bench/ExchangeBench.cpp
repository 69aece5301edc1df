//===- ExchangeBench.cpp - exchanges of experts' rows ---------------------===//
//
// The two exchanges of a mixture of experts, there and back, of bf16, of casts,
// and of casts that are made and undone around each.
//
//===----------------------------------------------------------------------===//

#include "Parallel.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace ::te::bench;

namespace {

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

} // namespace

namespace te::bench {

void benchExchanges(mlir::MLIRContext *mlirContext, const Ranks &ranks,
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

} // namespace te::bench
