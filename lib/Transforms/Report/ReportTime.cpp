//===- ReportTime.cpp - the least time of each kernel of a step -----------===//
//
// A launch moves each of its buffers once, and cannot be faster than that, or
// than its matrix products. What a kernel reads twice, or keeps in a cache
// between launches, is not known here.
//
//===----------------------------------------------------------------------===//

#include "Table.h"

#include "TEDialect/TERT/KernelTable.h"
#include "TEDialect/TERT/TERT.h"
#include "TEDialect/Transforms/Report/Passes.h"
#include "TEDialect/Transforms/Report/ReportStream.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <map>
#include <numeric>

namespace mlir::te {
#define GEN_PASS_DEF_REPORTTIMEPASS
#include "TEDialect/Transforms/Report/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {
/// Launches of one kernel that move and compute as much.
struct Row {
  std::string kernel;
  int64_t bytes;
  double flops;
  /// The least time of each, in microseconds, and whether memory limits it.
  double floor;
  bool isMemory;
  int64_t launches = 0;

  double total() const { return floor * launches; }
};
} // namespace

/// The integer parameter `name` of a launch.
static double parameter(tert::LaunchOp launch, StringRef name) {
  return static_cast<double>(
      launch.getParameters().getAs<IntegerAttr>(name).getInt());
}

/// Whether two buffers are one, or have one place in the arena.
static bool areInOnePlace(Value a, Value b) {
  auto first = a.getDefiningOp<tert::AllocOp>(),
       second = b.getDefiningOp<tert::AllocOp>();
  return a == b || (first && second && first.getOffset() &&
                    first.getOffset() == second.getOffset());
}

/// The bytes that a launch moves of its buffers. A buffer that is read and
/// written is two operands.
static int64_t bytesOf(tert::LaunchOp launch) {
  SmallVector<int64_t> bytes;
  for (Value buffer : launch.getBuffers())
    bytes.push_back(cast<tert::BufferType>(buffer.getType()).getBytes());
  // Of a table, only the rows of the tokens are read.
  if (launch.getKernel() == "embedding")
    bytes[1] = std::min(bytes[1], bytes[2]);
  // Of one that is added to in place, they are read and written.
  if (launch.getKernel() == "embedding_backward" &&
      areInOnePlace(launch.getBuffers()[2], launch.getBuffers()[3])) {
    const double tokens = parameter(launch, "tokens"),
                 rows = parameter(launch, "vocab");
    if (tokens < rows)
      bytes[2] = bytes[3] = static_cast<int64_t>(bytes[3] * tokens / rows);
  }
  // The cast for the weight's gradient is written for some of all rows.
  if (launch.getParameters().contains("whole_rows"))
    for (auto [buffer, moved] : llvm::zip_equal(
             tert::lookupKernel(launch.getKernel())->buffers, bytes))
      if (buffer.name.starts_with("col"))
        moved = static_cast<int64_t>(moved * parameter(launch, "rows") /
                                     parameter(launch, "whole_rows"));
  return std::accumulate(bytes.begin(), bytes.end(), int64_t(0));
}

/// The pairs of a query and a key that attention over whole sequences
/// multiplies, in one head.
static double pairsOf(tert::LaunchOp launch) {
  const double length = parameter(launch, "sequence");
  if (length == 0)
    return 0;
  const double window = parameter(launch, "window_left");
  const double reach =
      window < 0 ? length : std::min(length, window + 1); // keys up to a query
  const double causal = reach * (reach + 1) / 2 + (length - reach) * reach;
  const double sequences = parameter(launch, "tokens") / length;
  return sequences * (parameter(launch, "causal") ? causal : length * length);
}

/// Operations of a launch that multiplies matrices, two for each product. 0 for
/// other launches, and where sizes are known on the device only: groups, and
/// documents.
static double flopsOf(tert::LaunchOp launch) {
  StringRef kernel = launch.getKernel();
  if (kernel == "matmul" || kernel == "scaled_matmul")
    return 2 * parameter(launch, "m") * parameter(launch, "n") *
           parameter(launch, "k");
  const bool isBackward = kernel == "attention_backward";
  if ((kernel != "attention" && !isBackward) ||
      parameter(launch, "boundaries") != 0)
    return 0;
  const double heads = parameter(launch, "heads");
  const double size = parameter(launch, "head_dim");
  const double valueSize = parameter(launch, "value_dim");
  return 2 * pairsOf(launch) * heads *
         (isBackward ? 3 * size + 2 * valueSize : size + valueSize);
}

static std::string formatNumber(double value) {
  return llvm::formatv("{0:F1}", value);
}

static void printText(StringRef function, ArrayRef<Row> rows, raw_ostream &os) {
  double total = 0, bytes = 0, flops = 0;
  int64_t launches = 0;
  Table table({"kernel", "launches", "MB each", "GFLOP each", "floor us each",
               "floor us", "limit"});
  for (const Row &row : rows) {
    table.addRow({row.kernel, std::to_string(row.launches),
                  formatNumber(row.bytes / 1e6), formatNumber(row.flops / 1e9),
                  formatNumber(row.floor), formatNumber(row.total()),
                  row.isMemory ? "memory" : "arithmetic"});
    total += row.total();
    launches += row.launches;
    bytes += static_cast<double>(row.bytes) * row.launches;
    flops += row.flops * row.launches;
  }
  os << llvm::formatv("least time of '{0}': {1:F3} ms, {2} launches, {3:F2} "
                      "GB, {4:F3} TFLOP\n",
                      printable(function), total / 1e3, launches, bytes / 1e9,
                      flops / 1e12);
  table.print(os);
}

static llvm::json::Object toJson(StringRef function, ArrayRef<Row> rows) {
  llvm::json::Array kernels;
  for (const Row &row : rows)
    kernels.push_back(
        llvm::json::Object{{"kernel", row.kernel},
                           {"launches", row.launches},
                           {"bytes", row.bytes},
                           {"flops", row.flops},
                           {"floor_us", row.floor},
                           {"limit", row.isMemory ? "memory" : "arithmetic"}});
  return llvm::json::Object{{"function", function.str()},
                            {"kernels", std::move(kernels)}};
}

namespace {
struct ReportTime final : te::impl::ReportTimePassBase<ReportTime> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    for (const Option<double> *rate : {&bandwidth, &tflops8, &tflops16})
      if (!(*rate > 0))
        return emitError(UnknownLoc::get(context))
               << "expected option '" << rate->getArgStr() << "' of '"
               << getArgument() << "' to be above 0, but got "
               << rate->getValue();
    return checkReportFormat(context, getArgument(), format);
  }

  /// The least time of a launch.
  Row measure(tert::LaunchOp launch) {
    const int64_t bytes = bytesOf(launch);
    const double flops = flopsOf(launch);
    const double rate = launch.getKernel() == "scaled_matmul"
                            ? tflops8.getValue()
                            : tflops16.getValue();
    const double memory = bytes / bandwidth / 1e6, math = flops / rate / 1e6;
    return {launch.getKernel().str(), bytes, flops, std::max(memory, math),
            memory >= math};
  }

  /// The rows of a function, the longest first.
  SmallVector<Row> collect(func::FuncOp function) {
    std::map<std::tuple<std::string, int64_t, double>, Row> rows;
    function.walk([&](tert::LaunchOp launch) {
      Row row = measure(launch);
      ++rows.insert({{row.kernel, row.bytes, row.flops}, row})
            .first->second.launches;
      ++numLaunches;
    });
    SmallVector<Row> sorted(llvm::make_second_range(rows));
    llvm::sort(sorted, [](const Row &a, const Row &b) {
      return std::tuple(-a.total(), a.kernel, a.bytes) <
             std::tuple(-b.total(), b.kernel, b.bytes);
    });
    return sorted;
  }

  void runOnOperation() override {
    llvm::json::Array functions;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal() || !function->hasAttr(tert::kSignatureAttr))
        continue;
      if (format == "json")
        functions.push_back(toJson(function.getName(), collect(function)));
      else
        printText(function.getName(), collect(function), reportStream());
    }
    if (format == "json")
      printJsonReport(llvm::json::Object{{"time", std::move(functions)}});
    reportStream().flush();
    markAllAnalysesPreserved();
  }
};
} // namespace
