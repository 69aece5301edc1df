//===- ReportMemory.cpp - where the bytes of a step are -------------------===//
//
// Reads the plan back from the IR: offsets from the allocs, lifetimes from the
// order of launches, what is recomputed from tert.remat.
//
//===----------------------------------------------------------------------===//

#include "Table.h"

#include "TEDialect/TERT/BufferLifetimes.h"
#include "TEDialect/TERT/Remat.h"
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

/// A row of tert.remat.
struct RematRow {
  std::string op, layer;
  int64_t freed, held, traffic, flops;
};

/// What te-rematerialize decided.
struct Remat {
  std::string policy;
  int64_t heldBefore, heldAfter;
  SmallVector<RematRow> rows;
};

struct MemoryReport {
  std::string function;
  int64_t arenaBytes, maxLiveBytes, argumentBytes;
  SmallVector<BufferRow> buffers;
  std::map<tert::Cause, int64_t> totals;
  std::optional<Remat> remat;
};

} // namespace

/// The decisions at `function`, if there are any.
static std::optional<Remat> collectRemat(func::FuncOp function) {
  auto entries = function->getAttrOfType<DictionaryAttr>(tert::kRematAttr);
  if (!entries)
    return std::nullopt;
  auto text = [](DictionaryAttr from, StringRef name) {
    auto value = from.getAs<StringAttr>(name);
    return value ? value.str() : std::string();
  };
  auto number = [](DictionaryAttr from, StringRef name) {
    auto value = from.getAs<IntegerAttr>(name);
    return value ? value.getInt() : 0;
  };
  Remat remat = {text(entries, "policy"),
                 number(entries, "held_before"),
                 number(entries, "held_after"),
                 {}};
  if (auto rows = entries.getAs<ArrayAttr>("recomputed"))
    for (auto row : rows.getAsRange<DictionaryAttr>())
      remat.rows.push_back({text(row, "op"), text(row, "layer"),
                            number(row, "freed"), number(row, "held"),
                            number(row, "traffic"), number(row, "flops")});
  return remat;
}

static MemoryReport collectReport(func::FuncOp function) {
  MemoryReport report;
  report.function = function.getName();
  report.arenaBytes =
      function->getAttrOfType<IntegerAttr>(tert::kArenaBytesAttr).getInt();
  report.maxLiveBytes =
      function->getAttrOfType<IntegerAttr>(tert::kMaxLiveBytesAttr).getInt();
  report.argumentBytes = 0;
  report.remat = collectRemat(function);
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

static void printRemat(const Remat &remat, raw_ostream &os) {
  os << "\nremat '" << remat.policy << "' holds " << remat.heldAfter
     << " bytes of " << remat.heldBefore << " for the backward\n";
  if (remat.rows.empty())
    return;
  Table table({"recomputed", "layer", "bytes freed", "held instead",
               "bytes moved", "operations"});
  for (const RematRow &row : remat.rows)
    table.addRow({row.op, row.layer, std::to_string(row.freed),
                  std::to_string(row.held), std::to_string(row.traffic),
                  std::to_string(row.flops)});
  table.print(os);
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
  if (report.remat)
    printRemat(*report.remat, os);
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

static llvm::json::Object toJson(const Remat &remat) {
  llvm::json::Array rows;
  for (const RematRow &row : remat.rows)
    rows.push_back(llvm::json::Object{{"op", row.op},
                                      {"layer", row.layer},
                                      {"freed_bytes", row.freed},
                                      {"held_instead_bytes", row.held},
                                      {"moved_bytes", row.traffic},
                                      {"operations", row.flops}});
  return llvm::json::Object{{"policy", remat.policy},
                            {"held_before_bytes", remat.heldBefore},
                            {"held_bytes", remat.heldAfter},
                            {"recomputed", std::move(rows)}};
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
  llvm::json::Object object{{"function", report.function},
                            {"arena_bytes", report.arenaBytes},
                            {"max_live_bytes", report.maxLiveBytes},
                            {"argument_bytes", report.argumentBytes},
                            {"totals", std::move(totals)},
                            {"buffers", std::move(buffers)}};
  if (report.remat)
    object["remat"] = toJson(*report.remat);
  return object;
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
