//===- Picture.h - drawings of a step and of its compilation --------------===//
//
// Compiles a step and shows what the compiler did: the graph as the user wrote
// it (after import) and as it runs (after fuse), the precision of every GEMM,
// the memory plan and the launches. The result is one HTML page without scripts
// or other files, Graphviz text (only the graphs), or JSON (everything).
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_JIT_PICTURE_H
#define TEDIALECT_JIT_PICTURE_H

#include "TEDialect/JIT/Frontend.h"
#include "TEDialect/JIT/JIT.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir::te {

/// A result of a node.
struct GraphValue {
  /// As MLIR writes it: "tensor<256x512xbf16>", "!te.scaled<...>".
  std::string type;
  int64_t bytes;
  /// "row" or "col" of a scaled value, else "".
  std::string usage;
};

struct GraphNode {
  /// "te.linear", "argument" or "result".
  std::string op;
  /// The layer and product of a GEMM, the te.name of an argument or a result,
  /// else what reports call the first value.
  std::string name;
  /// "file:line:column", or "".
  std::string place;
  std::vector<GraphValue> values;
};

/// Value `value` of node `from` is an operand of node `to`.
struct GraphEdge {
  unsigned from, value, to;
};

/// One function at the end of a phase. Edges lead from lower to higher nodes.
struct StepGraph {
  std::string phase, function;
  std::vector<GraphNode> nodes;
  std::vector<GraphEdge> edges;
};

/// `function` as a graph; ops inside regions count to the op that has them.
StepGraph collectGraph(StringRef phase, func::FuncOp function);

void printDot(ArrayRef<StepGraph> graphs, raw_ostream &os);
/// As an SVG element: a node for each op, layers from above to below.
void printSvg(const StepGraph &graph, raw_ostream &os);

enum class PictureFormat { Html, Dot, Json };

/// The format called `name` ("html", "dot" or "json").
std::optional<PictureFormat> parsePictureFormat(StringRef name);

/// As runPipeline, and writes the picture of the step to `os`; nothing where
/// the outcome is not Ok.
CompileOutcome drawStep(llvm::SourceMgr &sources, MLIRContext *context,
                        const CompileRequest &request, PictureFormat format,
                        raw_ostream &os, CompiledProgram &program,
                        std::string &error);

} // namespace mlir::te

#endif // TEDIALECT_JIT_PICTURE_H
