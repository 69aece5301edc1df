//===- ReportSchedule.cpp - prints the streams of a step ------------------===//
//
// Streams, waits and windows are computed from the launches (Streams.h) in the
// same way as in the lowering, so that the report agrees with what runs.
//
//===----------------------------------------------------------------------===//

#include "LaunchName.h"
#include "Table.h"

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/TERT/BufferLifetimes.h"
#include "TEDialect/TERT/KernelTable.h"
#include "TEDialect/TERT/Streams.h"
#include "TEDialect/Transforms/Report/Passes.h"
#include "TEDialect/Transforms/Report/ReportStream.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

namespace mlir::te {
#define GEN_PASS_DEF_REPORTSCHEDULEPASS
#include "TEDialect/Transforms/Report/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {

struct Row {
  std::string kernel, name;
  bool side;
  /// The launch of the other stream that this one waits for, or -1.
  int wait;
  /// For a launch of the side stream: the launches of the main stream that may
  /// run at the same time.
  SmallVector<unsigned> beside;
};

} // namespace

std::string te::nameOfLaunch(tert::LaunchOp launch, ArrayAttr signature) {
  if (auto origin = GemmOrigin::find(launch.getLoc()))
    return origin->layer + " " + origin->gemm;
  auto rows = tert::lookupKernel(launch.getKernel())->buffers;
  for (auto [row, part] : llvm::zip(rows, launch.getBuffers())) {
    if (!row.isOutput)
      continue;
    Value buffer = tert::lookThroughSlice(part);
    if (auto alloc = buffer.getDefiningOp<tert::AllocOp>())
      return alloc.getName().str();
    auto argument = dyn_cast<BlockArgument>(buffer);
    if (argument && signature && argument.getArgNumber() < signature.size())
      return cast<DictionaryAttr>(signature[argument.getArgNumber()])
          .getAs<StringAttr>("name")
          .str();
  }
  return "";
}

static SmallVector<Row> collect(func::FuncOp function) {
  auto signature = function->getAttrOfType<ArrayAttr>(tert::kSignatureAttr);
  const tert::StreamOrder order(function.getBody().front());
  SmallVector<Row> rows;
  for (auto [index, each] : llvm::enumerate(order.getLaunches())) {
    tert::LaunchOp launch = each;
    rows.push_back({launch.getKernel().str(),
                    nameOfLaunch(launch, signature),
                    launch.getSide(),
                    order.waitOf(index),
                    {}});
    if (!launch.getSide())
      continue;
    auto [first, last] = order.windowOf(index);
    for (unsigned other = first; other <= last; ++other)
      if (tert::LaunchOp beside = order.getLaunches()[other]; !beside.getSide())
        rows.back().beside.push_back(other);
  }
  return rows;
}

/// GEMMs and attention are listed by name; the others are counted.
static std::string describeBeside(ArrayRef<Row> rows, const Row &row) {
  std::string text;
  unsigned others = 0;
  for (unsigned index : row.beside) {
    StringRef kernel = rows[index].kernel;
    if (!kernel.ends_with("matmul") && !kernel.ends_with("wgrad") &&
        !kernel.starts_with("attention")) {
      ++others;
      continue;
    }
    text += (text.empty() ? "" : ", ") + std::to_string(index) + " " +
            (rows[index].name.empty() ? rows[index].kernel : rows[index].name);
  }
  if (others != 0)
    text += (text.empty() ? "" : ", ") + std::to_string(others) +
            (others == 1 ? " other" : " others");
  return text.empty() ? "nothing" : text;
}

static void printText(StringRef function, ArrayRef<Row> rows, raw_ostream &os) {
  os << "launches of '" << printable(function) << "'\n";
  Table table({"launch", "stream", "kernel", "name", "waits for", "beside"});
  for (auto [index, row] : llvm::enumerate(rows))
    table.addRow({std::to_string(index), row.side ? "side" : "main", row.kernel,
                  row.name.empty() ? "-" : row.name,
                  row.wait < 0 ? "-" : std::to_string(row.wait),
                  row.side ? describeBeside(rows, row) : "-"});
  table.print(os);
}

static llvm::json::Object toJson(StringRef function, ArrayRef<Row> rows) {
  llvm::json::Array launches;
  for (const Row &row : rows) {
    llvm::json::Object launch{{"kernel", row.kernel},
                              {"name", row.name},
                              {"stream", row.side ? "side" : "main"}};
    if (row.wait >= 0)
      launch["waits_for"] = row.wait;
    if (row.side) {
      launch["beside"] = llvm::json::Array(row.beside);
      launch["beside_text"] = describeBeside(rows, row);
    }
    launches.push_back(std::move(launch));
  }
  return llvm::json::Object{{"function", function.str()},
                            {"launches", std::move(launches)}};
}

namespace {
struct ReportSchedule final : te::impl::ReportSchedulePassBase<ReportSchedule> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    return checkReportFormat(context, getArgument(), format);
  }

  void runOnOperation() override {
    llvm::json::Array functions;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal() || !function->hasAttr(tert::kSignatureAttr))
        continue;
      SmallVector<Row> rows = collect(function);
      numSide += llvm::count_if(rows, [](const Row &row) { return row.side; });
      if (format == "json")
        functions.push_back(toJson(function.getName(), rows));
      else
        printText(function.getName(), rows, reportStream());
    }
    if (format == "json")
      printJsonReport(llvm::json::Object{{"schedule", std::move(functions)}});
    reportStream().flush();
    markAllAnalysesPreserved();
  }
};
} // namespace
