//===- Graph.cpp - a function as nodes and edges --------------------------===//

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/IR/TE.h"
#include "TEDialect/JIT/Picture.h"
#include "TEDialect/TERT/RuntimeTypes.h"
#include "TEDialect/Transforms/Report/HtmlPage.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::te;

static GraphValue describe(Type type) {
  GraphValue value;
  llvm::raw_string_ostream(value.type) << type;
  value.bytes = 0;
  for (const tert::BufferLayout &layout : tert::getBufferLayouts(type))
    value.bytes += layout.bytes;
  if (auto scaled = dyn_cast<ScaledType>(type))
    value.usage = scaled.getContract() == 1 ? "row" : "col";
  return value;
}

StepGraph mlir::te::collectGraph(StringRef phase, func::FuncOp function) {
  StepGraph graph;
  graph.phase = phase;
  graph.function = function.getName();
  DenseMap<Value, std::pair<unsigned, unsigned>> places;
  auto connect = [&](Value operand, unsigned to) {
    auto from = places.find(operand);
    if (from == places.end())
      return;
    graph.edges.push_back({from->second.first, from->second.second, to});
  };
  auto nameOf = [](StringAttr name, StringRef otherwise, unsigned index) {
    return name ? name.str() : (otherwise + Twine(index)).str();
  };

  for (auto [i, argument] : llvm::enumerate(function.getArguments())) {
    places[argument] = {graph.nodes.size(), 0};
    graph.nodes.push_back(
        {"argument",
         nameOf(function.getArgAttrOfType<StringAttr>(i, kNameAttr), "arg", i),
         "",
         {describe(argument.getType())}});
  }
  for (Operation &op : function.getBody().front().without_terminator()) {
    const unsigned index = graph.nodes.size();
    GraphNode node;
    node.op = op.getName().getStringRef();
    node.place = describePlace(op.getLoc());
    if (auto origin = GemmOrigin::find(op.getLoc()))
      node.name = origin->layer + " " + origin->gemm;
    else if (op.getNumResults() > 0)
      node.name = describeValue(op.getResult(0));
    for (auto [i, result] : llvm::enumerate(op.getResults())) {
      places[result] = {index, unsigned(i)};
      node.values.push_back(describe(result.getType()));
    }
    graph.nodes.push_back(std::move(node));
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        connect(operand, index);
    });
  }
  Operation *end = function.getBody().front().getTerminator();
  for (auto [i, operand] : llvm::enumerate(end->getOperands())) {
    connect(operand, graph.nodes.size());
    graph.nodes.push_back(
        {"result",
         nameOf(function.getResultAttrOfType<StringAttr>(i, kNameAttr),
                "result", i),
         "",
         {}});
  }
  return graph;
}

/// What a value is, for people.
static std::string textOf(const GraphValue &value) {
  std::string text = value.type;
  if (!value.usage.empty())
    text += ", " + value.usage + " usage";
  return text + ", " + std::to_string(value.bytes) + " bytes";
}

/// Colors tell what moves bytes or rounds from what multiplies.
static StringRef colorOf(StringRef op) {
  if (op == "argument" || op == "result")
    return "#e4e4e4";
  if (op.contains("matmul") || op.contains("wgrad") || op.contains("linear"))
    return "#9fc5e8";
  if (op.contains("quantize") || op.contains("amax") || op.contains("scale"))
    return "#f6c27a";
  if (op.contains("transpose"))
    return "#e8a0a8";
  if (op == "te.adamw" || op == "te.sgd")
    return "#cbb3d6";
  return "#c9e2c9";
}

static std::string titleOf(const GraphNode &node) {
  std::string title = node.op;
  if (!node.name.empty())
    title += " '" + node.name + "'";
  if (!node.place.empty())
    title += " at " + node.place;
  for (const GraphValue &value : node.values)
    title += "\n" + textOf(value);
  return title;
}

void mlir::te::printDot(ArrayRef<StepGraph> graphs, raw_ostream &os) {
  auto quote = [](StringRef text) {
    std::string quoted = "\"";
    for (char c : text) {
      if (c == '"' || c == '\\')
        quoted += '\\';
      quoted += c;
    }
    return quoted + "\"";
  };
  os << "digraph step {\n  node [shape=box, style=filled, fontsize=10];\n";
  for (auto [g, graph] : llvm::enumerate(graphs)) {
    os << "  subgraph cluster_" << g << " {\n    label="
       << quote("'" + graph.function + "' after " + graph.phase) << ";\n";
    for (auto [n, node] : llvm::enumerate(graph.nodes)) {
      os << "    g" << g << "n" << n << " [label=" << quote(node.op);
      // Two lines; a name cannot hold an escape after `quote`.
      if (!node.name.empty())
        os << " + \"\\n\" + " << quote(node.name);
      os << ", fillcolor=\"" << colorOf(node.op) << "\"];\n";
    }
    for (const GraphEdge &edge : graph.edges) {
      const GraphValue &value = graph.nodes[edge.from].values[edge.value];
      os << "    g" << g << "n" << edge.from << " -> g" << g << "n" << edge.to
         << " [tooltip=" << quote(textOf(value)) << ", label="
         << quote(value.usage.empty()
                      ? ""
                      : value.usage + " " + std::to_string(value.bytes))
         << ", fontsize=8];\n";
    }
    os << "  }\n";
  }
  os << "}\n";
}

namespace {

/// Where the nodes of a graph are: as far down as their uses allow, in a row by
/// the middle of what is above.
struct Layout {
  explicit Layout(const StepGraph &graph);

  static constexpr double kWidth = 190, kHeight = 36, kStepX = 206, kStepY = 78;

  std::vector<unsigned> row, column;
  unsigned rows = 0, columns = 0;
};

} // namespace

Layout::Layout(const StepGraph &graph)
    : row(graph.nodes.size(), 0), column(graph.nodes.size(), 0) {
  for (const GraphEdge &edge : graph.edges)
    row[edge.to] = std::max(row[edge.to], row[edge.from] + 1);
  // Then each directly above its first use, so that casts of parameters are
  // next to the GEMMs and not all at the top. Edges lead to higher nodes.
  std::vector<unsigned> firstUse(graph.nodes.size(), ~0u);
  std::vector<std::vector<unsigned>> above(graph.nodes.size());
  for (const GraphEdge &edge : graph.edges)
    above[edge.to].push_back(edge.from);
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    if (firstUse[n] != ~0u)
      row[n] = firstUse[n] - 1;
    for (unsigned from : above[n])
      firstUse[from] = std::min(firstUse[from], row[n]);
  }

  std::vector<std::vector<unsigned>> byRow;
  for (size_t n = 0; n < row.size(); ++n) {
    byRow.resize(std::max<size_t>(byRow.size(), row[n] + 1));
    byRow[row[n]].push_back(n);
  }
  for (std::vector<unsigned> &members : byRow) {
    std::vector<std::pair<double, unsigned>> order;
    for (auto [i, node] : llvm::enumerate(members)) {
      double sum = 0;
      for (unsigned from : above[node])
        sum += column[from];
      order.push_back(
          {above[node].empty() ? double(i) : sum / above[node].size(), node});
    }
    llvm::sort(order);
    for (auto [i, entry] : llvm::enumerate(order))
      column[entry.second] = i;
    columns = std::max<unsigned>(columns, members.size());
  }
  rows = byRow.size();
}

void mlir::te::printSvg(const StepGraph &graph, raw_ostream &os) {
  const Layout layout(graph);
  auto x = [&](unsigned node) {
    return 8 + layout.column[node] * Layout::kStepX;
  };
  auto y = [&](unsigned node) { return 8 + layout.row[node] * Layout::kStepY; };
  const double width = 8 + layout.columns * Layout::kStepX;
  const double height = 8 + layout.rows * Layout::kStepY;
  os << llvm::formatv(
      "<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"monospace\" font-size=\"11\">\n",
      width, height);
  for (const GraphEdge &edge : graph.edges) {
    const GraphValue &value = graph.nodes[edge.from].values[edge.value];
    const double x0 = x(edge.from) + Layout::kWidth / 2,
                 y0 = y(edge.from) + Layout::kHeight;
    const double x1 = x(edge.to) + Layout::kWidth / 2, y1 = y(edge.to);
    const double bend = std::max(18.0, (y1 - y0) / 2);
    os << llvm::formatv("<path d=\"M{0} {1} C{0} {2} {3} {4} {3} {5}\" "
                        "fill=\"none\" stroke=\"{6}\" stroke-width=\"{7}\">"
                        "<title>{8}</title></path>\n",
                        x0, y0, y0 + bend, x1, y1 - bend, y1,
                        value.usage.empty() ? "#999" : "#d07a10",
                        value.usage.empty() ? 1 : 2, escapeHtml(textOf(value)));
  }
  for (auto [n, node] : llvm::enumerate(graph.nodes)) {
    auto cut = [](StringRef text) {
      return escapeHtml(text.size() <= 27 ? text.str()
                                          : text.take_front(25).str() + "..");
    };
    os << llvm::formatv(
        "<g><title>{0}</title><rect x=\"{1}\" y=\"{2}\" width=\"{3}\" "
        "height=\"{4}\" rx=\"4\" fill=\"{5}\" stroke=\"#555\"/><text x=\"{6}\" "
        "y=\"{7}\">{8}</text><text x=\"{6}\" y=\"{9}\" fill=\"#444\">{10}"
        "</text></g>\n",
        escapeHtml(titleOf(node)), x(n), y(n), Layout::kWidth, Layout::kHeight,
        colorOf(node.op), x(n) + 6, y(n) + 15, cut(node.op), y(n) + 29,
        cut(node.name));
  }
  os << "</svg>\n";
}
