//===- Picture.cpp - drawings of a step and of its compilation ------------===//
//
// Looks at the module while it is compiled: the graphs at the ends of two
// phases, the ledger as te-report-precision prints it, the plan where
// te-plan-memory left it. What is drawn is what the passes saw.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/JIT/Picture.h"

#include "TEDialect/TERT/TERT.h"
#include "TEDialect/Transforms/Report/HtmlPage.h"
#include "TEDialect/Transforms/Report/MemoryPicture.h"
#include "TEDialect/Transforms/Report/ReportStream.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <map>

using namespace mlir;
using namespace mlir::te;

namespace {

/// What a picture shows.
struct Step {
  std::string entry, pipeline, recipe;
  std::vector<StepGraph> graphs;
  llvm::json::Value precision = nullptr, schedule = nullptr,
                    memoryJson = nullptr;
  std::vector<MemoryReport> memory;
  std::vector<LaunchInfo> launches;
};

class Observer final : public PassInstrumentation {
public:
  Observer(Step &step, std::string &reports)
      : step(step), reports(reports), phases(getPhaseNames()) {}

  void runAfterPass(Pass *pass, Operation *op) override {
    StringRef name = pass->getArgument();
    auto module = dyn_cast<ModuleOp>(op);
    if (name == "te-report-precision")
      step.precision = takeReport("precision");
    else if (name == "te-report-schedule")
      step.schedule = takeReport("schedule");
    else if (name == "te-report-memory")
      step.memoryJson = takeReport("memory");
    else if (name == "te-plan-memory" && module)
      for (auto function : module.getOps<func::FuncOp>())
        step.memory.push_back(collectMemoryReport(function));
    if (name != "te-verify-stage" || nextPhase == phases.size())
      return;
    StringRef phase = phases[nextPhase++];
    if (phase == "import" || phase == "fuse")
      for (auto function : module.getOps<func::FuncOp>())
        if (!function.isExternal())
          step.graphs.push_back(collectGraph(phase, function));
  }

private:
  /// What was printed since the last time, under `key`.
  llvm::json::Value takeReport(StringRef key) {
    auto parsed = llvm::json::parse(reports);
    reports.clear();
    if (!parsed) {
      llvm::consumeError(parsed.takeError());
      return nullptr;
    }
    llvm::json::Object *object = parsed->getAsObject();
    llvm::json::Value *value = object ? object->get(key) : nullptr;
    return value ? *value : nullptr;
  }

  Step &step;
  std::string &reports;
  SmallVector<StringRef> phases;
  size_t nextPhase = 0;
};

} // namespace

static std::string textOf(Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream(text) << attribute;
  return text;
}

static std::string describe(DictionaryAttr parameters) {
  std::string text;
  for (NamedAttribute parameter :
       parameters ? parameters.getValue() : ArrayRef<NamedAttribute>()) {
    auto integer = dyn_cast<IntegerAttr>(parameter.getValue());
    text += (text.empty() ? "" : ", ") + parameter.getName().str() + "=" +
            (integer ? std::to_string(integer.getInt())
                     : textOf(parameter.getValue()));
  }
  return text;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static llvm::json::Value toJson(const StepGraph &graph) {
  llvm::json::Array nodes, edges;
  for (const GraphNode &node : graph.nodes) {
    llvm::json::Array values;
    for (const GraphValue &value : node.values)
      values.push_back(llvm::json::Object{{"type", value.type},
                                          {"bytes", value.bytes},
                                          {"usage", value.usage}});
    nodes.push_back(llvm::json::Object{{"op", node.op},
                                       {"name", node.name},
                                       {"location", node.place},
                                       {"values", std::move(values)}});
  }
  for (const GraphEdge &edge : graph.edges)
    edges.push_back(llvm::json::Object{
        {"from", edge.from}, {"value", edge.value}, {"to", edge.to}});
  return llvm::json::Object{{"phase", graph.phase},
                            {"function", graph.function},
                            {"nodes", std::move(nodes)},
                            {"edges", std::move(edges)}};
}

/// What the report of the schedule says of the launch of `slot`; null where it
/// says nothing.
static const llvm::json::Object *scheduleOf(const Step &step, size_t slot) {
  const llvm::json::Array *functions = step.schedule.getAsArray();
  const llvm::json::Object *function = functions && functions->size() == 1
                                           ? functions->front().getAsObject()
                                           : nullptr;
  const llvm::json::Array *launches =
      function ? function->getArray("launches") : nullptr;
  return launches && slot < launches->size() ? (*launches)[slot].getAsObject()
                                             : nullptr;
}

static void printJson(const Step &step, raw_ostream &os) {
  llvm::json::Array graphs, launches;
  for (const StepGraph &graph : step.graphs)
    graphs.push_back(toJson(graph));
  for (auto [slot, launch] : llvm::enumerate(step.launches)) {
    llvm::json::Object row{{"kernel", launch.kernel},
                           {"name", launch.name},
                           {"location", launch.location},
                           {"parameters", describe(launch.parameters)}};
    if (const llvm::json::Object *scheduled = scheduleOf(step, slot))
      for (const char *key : {"stream", "waits_for", "beside"})
        if (const llvm::json::Value *value = scheduled->get(key))
          row[key] = *value;
    launches.push_back(std::move(row));
  }
  os << llvm::formatv("{0:2}\n", llvm::json::Value(llvm::json::Object{
                                     {"entry", step.entry},
                                     {"pipeline", step.pipeline},
                                     {"recipe", step.recipe},
                                     {"graphs", std::move(graphs)},
                                     {"precision", step.precision},
                                     {"memory", step.memoryJson},
                                     {"launches", std::move(launches)}}));
}

//===----------------------------------------------------------------------===//
// HTML
//===----------------------------------------------------------------------===//

/// The rows of an array of objects, by the keys of `columns`.
static void printTable(const llvm::json::Array *rows,
                       ArrayRef<StringRef> columns, raw_ostream &os) {
  if (!rows || rows->empty()) {
    os << "<p>none</p>\n";
    return;
  }
  std::vector<std::vector<std::string>> cells;
  for (const llvm::json::Value &row : *rows) {
    std::vector<std::string> &line = cells.emplace_back();
    const llvm::json::Object *object = row.getAsObject();
    for (StringRef column : columns) {
      const llvm::json::Value *value = object ? object->get(column) : nullptr;
      if (auto text = value ? value->getAsString() : std::nullopt)
        line.push_back(text->str());
      else
        line.push_back(value ? llvm::formatv("{0}", *value).str() : "");
    }
  }
  printHtmlTable(columns, cells, os);
}

static void printGraphs(const Step &step, StringRef phase, raw_ostream &os) {
  for (const StepGraph &graph : step.graphs) {
    if (graph.phase != phase)
      continue;
    std::map<std::string, std::pair<int64_t, int64_t>> byOp;
    std::vector<std::vector<std::string>> rows;
    for (const GraphNode &node : graph.nodes) {
      std::string types, usages;
      int64_t bytes = 0;
      for (const GraphValue &value : node.values) {
        types += (types.empty() ? "" : ", ") + value.type;
        usages += (usages.empty() ? "" : " ") + value.usage;
        bytes += value.bytes;
      }
      rows.push_back({node.op, node.name, types, usages, std::to_string(bytes),
                      node.place});
      ++byOp[node.op].first;
      byOp[node.op].second += bytes;
    }
    os << "<h3>'" << escapeHtml(graph.function) << "', " << graph.nodes.size()
       << " nodes</h3>\n<div class=\"wide\">\n";
    printSvg(graph, os);
    os << "</div>\n<details><summary>as a table</summary>\n";
    printHtmlTable({"op", "name", "types", "usage", "bytes", "place"}, rows,
                   os);
    os << "</details>\n<details><summary>ops and the bytes they "
          "make</summary>\n";
    std::vector<std::vector<std::string>> sums;
    for (const auto &[op, sum] : byOp)
      sums.push_back(
          {op, std::to_string(sum.first), std::to_string(sum.second)});
    printHtmlTable({"op", "count", "bytes"}, sums, os);
    os << "</details>\n";
  }
}

static void printHtml(const Step &step, raw_ostream &os) {
  openPage("step '" + step.entry + "'", os);
  os << "<p>" << escapeHtml(step.recipe) << "</p>\n";
  if (!step.pipeline.empty())
    os << "<p>pipeline: " << escapeHtml(step.pipeline) << "</p>\n";
  os << "<p>Orange edges and boxes are quantised values and what makes them, "
        "blue boxes multiply; point at one for its type, usage, bytes and "
        "place in the source.</p>\n<h2>As written</h2>\n";
  printGraphs(step, "import", os);
  os << "<h2>As it runs</h2>\n";
  printGraphs(step, "fuse", os);

  os << "<h2>Precision</h2>\n";
  if (const llvm::json::Array *functions = step.precision.getAsArray())
    for (const llvm::json::Value &value : *functions) {
      const llvm::json::Object *ledger = value.getAsObject();
      if (!ledger)
        continue;
      os << "<h3>GEMMs of '"
         << escapeHtml(ledger->getString("function").value_or(""))
         << "'</h3>\n";
      printTable(
          ledger->getArray("gemms"),
          {"gemm", "layer", "a", "b", "accumulate", "out", "kernel", "why"},
          os);
      os << "<h3>Casts and transposes</h3>\n";
      printTable(ledger->getArray("casts"),
                 {"cast", "tensor", "format", "read_bytes", "written_bytes"},
                 os);
    }

  os << "<h2>Memory</h2>\n";
  for (const MemoryReport &report : step.memory)
    printMemoryPicture(report, os);

  os << "<h2>Launches</h2>\n";
  std::vector<std::vector<std::string>> rows;
  for (auto [slot, launch] : llvm::enumerate(step.launches)) {
    std::string stream, wait, beside;
    if (const llvm::json::Object *scheduled = scheduleOf(step, slot)) {
      stream = scheduled->getString("stream").value_or("");
      if (auto waited = scheduled->getInteger("waits_for"))
        wait = std::to_string(*waited);
      beside = scheduled->getString("beside_text").value_or("");
    }
    rows.push_back({std::to_string(slot), launch.kernel, launch.name, stream,
                    wait, beside, describe(launch.parameters),
                    launch.location});
  }
  printHtmlTable({"slot", "kernel", "for", "stream", "waits for", "beside",
                  "parameters", "place"},
                 rows, os);
  os << "</html>\n";
}

std::optional<PictureFormat> mlir::te::parsePictureFormat(StringRef name) {
  if (name == "html")
    return PictureFormat::Html;
  if (name == "dot")
    return PictureFormat::Dot;
  if (name == "json")
    return PictureFormat::Json;
  return std::nullopt;
}

CompileOutcome mlir::te::drawStep(llvm::SourceMgr &sources,
                                  MLIRContext *context,
                                  const CompileRequest &request,
                                  PictureFormat format, raw_ostream &os,
                                  CompiledProgram &program,
                                  std::string &error) {
  Step step;
  step.entry = request.entry;
  step.pipeline = request.pipeline;
  std::string reports;
  llvm::raw_string_ostream stream(reports);
  ReportCapture capture(stream);
  CompileRequest watched = request;
  watched.adjust = [&](TrainingPipelineOptions &options) {
    if (request.adjust)
      request.adjust(options);
    options.report = ArrayRef<std::string>{"precision", "schedule", "memory"};
    options.reportFormat = "json";
  };
  watched.prepare = [&](PassManager &manager) -> LogicalResult {
    if (request.prepare && failed(request.prepare(manager)))
      return failure();
    manager.addInstrumentation(std::make_unique<Observer>(step, reports));
    return success();
  };
  const CompileOutcome outcome =
      runPipeline(sources, context, watched, program, error);
  if (outcome != CompileOutcome::Ok)
    return outcome;
  step.recipe = program.recipe;
  step.launches = readLaunches(*program.module);
  if (format == PictureFormat::Html)
    printHtml(step, os);
  else if (format == PictureFormat::Dot)
    printDot(step.graphs, os);
  else
    printJson(step, os);
  return outcome;
}
