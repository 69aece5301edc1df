//===- ReportMemory.cpp - where the bytes of a step are -------------------===//
//
// Reads the plan back from the IR: offsets from the allocs, lifetimes from the
// order of launches.
//
//===----------------------------------------------------------------------===//

#include "Table.h"

#include "TEDialect/TERT/BufferLifetimes.h"
#include "TEDialect/Transforms/Report/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <map>

namespace mlir::te {
#define GEN_PASS_DEF_REPORTMEMORYPASS
#include "TEDialect/Transforms/Report/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {

struct BufferRow {
  std::string name;
  tert::Cause cause;
  int64_t bytes, offset;
  unsigned first, last;
};

struct MemoryReport {
  std::string function;
  int64_t arenaBytes, maxLiveBytes, argumentBytes;
  SmallVector<BufferRow> buffers;
  std::map<tert::Cause, int64_t> totals;
};

} // namespace

static MemoryReport collectReport(func::FuncOp function) {
  MemoryReport report;
  report.function = function.getName();
  report.arenaBytes =
      function->getAttrOfType<IntegerAttr>(tert::kArenaBytesAttr).getInt();
  report.maxLiveBytes =
      function->getAttrOfType<IntegerAttr>(tert::kMaxLiveBytesAttr).getInt();
  report.argumentBytes = 0;
  auto signature = function->getAttrOfType<ArrayAttr>(tert::kSignatureAttr);
  for (auto [index, argument] : llvm::enumerate(function.getArguments())) {
    // A carried result has no memory of its own.
    auto entry = signature && index < signature.size()
                     ? dyn_cast<DictionaryAttr>(signature[index])
                     : DictionaryAttr();
    auto carried = entry ? entry.getAs<IntegerAttr>("carried") : IntegerAttr();
    if (!carried || carried.getInt() < 0)
      report.argumentBytes +=
          cast<tert::BufferType>(argument.getType()).getBytes();
  }
  for (tert::BufferLifetime &life :
       tert::collectLifetimes(function.getBody().front())) {
    int64_t bytes = life.alloc.getBuffer().getType().getBytes();
    tert::Cause cause = life.alloc.getCause();
    report.buffers.push_back({life.alloc.getName().str(), cause, bytes,
                              int64_t(life.alloc.getOffset().value_or(-1)),
                              life.first, life.last});
    report.totals[cause] += bytes;
  }
  return report;
}

static void printText(const MemoryReport &report, raw_ostream &os) {
  os << "memory of '" << report.function << "'\n";
  Table summary({"", "bytes"});
  summary.addRow({"arena", std::to_string(report.arenaBytes)});
  summary.addRow(
      {"most alive at one launch", std::to_string(report.maxLiveBytes)});
  summary.addRow(
      {"arguments and results", std::to_string(report.argumentBytes)});
  for (auto [cause, bytes] : report.totals)
    summary.addRow({("all of " + tert::stringifyCause(cause)).str(),
                    std::to_string(bytes)});
  summary.print(os);
  if (report.buffers.empty())
    return;
  Table buffers(
      {"buffer", "cause", "bytes", "offset", "first launch", "last launch"});
  for (const BufferRow &row : report.buffers)
    buffers.addRow({row.name, tert::stringifyCause(row.cause).str(),
                    std::to_string(row.bytes), std::to_string(row.offset),
                    std::to_string(row.first), std::to_string(row.last)});
  os << "\n";
  buffers.print(os);
}

static llvm::json::Object toJson(const MemoryReport &report) {
  llvm::json::Object totals;
  for (auto [cause, bytes] : report.totals)
    totals[tert::stringifyCause(cause)] = bytes;
  llvm::json::Array buffers;
  for (const BufferRow &row : report.buffers)
    buffers.push_back(
        llvm::json::Object{{"name", row.name},
                           {"cause", tert::stringifyCause(row.cause)},
                           {"bytes", row.bytes},
                           {"offset", row.offset},
                           {"first_launch", row.first},
                           {"last_launch", row.last}});
  return llvm::json::Object{{"function", report.function},
                            {"arena_bytes", report.arenaBytes},
                            {"max_live_bytes", report.maxLiveBytes},
                            {"argument_bytes", report.argumentBytes},
                            {"totals", std::move(totals)},
                            {"buffers", std::move(buffers)}};
}

namespace {
struct ReportMemory final : te::impl::ReportMemoryPassBase<ReportMemory> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    return checkReportFormat(context, getArgument(), format);
  }

  void runOnOperation() override {
    llvm::json::Array functions;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (!function->hasAttr(tert::kArenaBytesAttr))
        continue;
      MemoryReport report = collectReport(function);
      numBuffers += report.buffers.size();
      if (format == "json")
        functions.push_back(toJson(report));
      else
        printText(report, llvm::outs());
    }
    if (format == "json")
      llvm::outs() << llvm::formatv(
          "{0:2}\n", llvm::json::Value(
                         llvm::json::Object{{"memory", std::move(functions)}}));
    llvm::outs().flush();
    markAllAnalysesPreserved();
  }
};
} // namespace
