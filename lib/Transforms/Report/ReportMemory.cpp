//===- ReportMemory.cpp - where the bytes of a step are -------------------===//
//
// The report reads the plan from the IR: offsets from the allocs, lifetimes
// from the order of launches, and owners from the layers that te-insert-casts
// recorded in the locations of GEMMs. Arguments and results belong to the
// caller, except for results in the arena, which are buffers like temporaries.
// They are alive all the time and outside the arena; their purpose
// follows from the launches that use them. Scratch memory is one region for all
// launches, which the runtime allocates when it loads a step. The report lists
// the upper bound of each launch and no sum, because launches share the region.
// The recomputed values come from tert.remat.
//
//===----------------------------------------------------------------------===//

#include "Table.h"

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/TERT/BufferLifetimes.h"
#include "TEDialect/TERT/KernelTable.h"
#include "TEDialect/TERT/Remat.h"
#include "TEDialect/TERT/Workspaces.h"
#include "TEDialect/Transforms/Report/MemoryPicture.h"
#include "TEDialect/Transforms/Report/Passes.h"
#include "TEDialect/Transforms/Report/ReportStream.h"

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

/// The name of a buffer operand in the row of the launch's kernel.
static StringRef parameterName(tert::LaunchOp launch, unsigned index) {
  return tert::lookupKernel(launch.getKernel())->buffers[index].name;
}

static bool isGradient(StringRef parameter) {
  return parameter.size() > 1 && parameter.starts_with("d") &&
         !parameter.starts_with("data");
}

/// The purpose of the caller's buffer with this signature entry.
static StringRef causeOfArgument(DictionaryAttr entry, Value buffer) {
  bool isResult =
      entry && entry.getAs<StringAttr>("role").getValue() == "result";
  if (entry && entry.contains("weight"))
    return "weight";
  for (OpOperand &use : buffer.getUses()) {
    auto launch = dyn_cast<tert::LaunchOp>(use.getOwner());
    if (!launch)
      continue;
    StringRef kernel = launch.getKernel();
    StringRef parameter = parameterName(launch, use.getOperandNumber());
    if (llvm::is_contained({"adamw", "adamw_fp8", "adamw_group", "sgd"},
                           kernel) &&
        llvm::is_contained({"m", "v", "scales", "buf"},
                           parameter.rtrim("0123456789")))
      return "optimizer_state";
    if (llvm::is_contained({"delayed_scaling_update", "delayed_scaling_group"},
                           kernel) &&
        llvm::is_contained({"history", "scale"}, parameter.rtrim("0123456789")))
      return "quantiser_state";
    const tert::KernelInfo *row = tert::lookupKernel(kernel);
    if (!row->buffers[use.getOperandNumber()].isOutput)
      continue;
    std::optional<GemmOrigin> origin = GemmOrigin::find(launch.getLoc());
    if (origin && origin->gemm == "wgrad")
      return isResult ? "gradient" : "main_grad";
    if (isResult &&
        (isGradient(parameter) || (origin && origin->gemm == "dgrad")))
      return "gradient";
  }
  if (isResult &&
      entry.getAs<StringAttr>("name").getValue().starts_with("grad."))
    return "gradient";
  return isResult ? "output" : "input";
}

/// The layer of the first GEMM that uses `buffer`; without one, `name` without
/// its last part.
static std::string ownerOf(Value buffer, StringRef name) {
  std::optional<GemmOrigin> first;
  Operation *at = nullptr;
  for (Operation *user : buffer.getUsers())
    if (!at || user->isBeforeInBlock(at))
      if (auto origin = GemmOrigin::find(user->getLoc())) {
        first = origin;
        at = user;
      }
  return first ? first->layer : name.rsplit('.').first.str();
}

/// The decisions recorded on `function`, if there are any.
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

/// Fills `workspaces`, largest first.
static void collectWorkspaces(func::FuncOp function, MemoryReport &report) {
  auto planned =
      function->getAttrOfType<IntegerAttr>(tert::kWorkspaceBytesAttr);
  if (!planned)
    return;
  report.workspaceBytes = planned.getInt();
  std::map<std::pair<std::string, std::string>, size_t> rows;
  for (auto [index, launch] :
       llvm::enumerate(function.getOps<tert::LaunchOp>())) {
    int64_t bytes = tert::workspaceBytes(launch);
    if (bytes == 0)
      continue;
    auto origin = GemmOrigin::find(launch.getLoc());
    std::string kernel = launch.getKernel().str(),
                owner = origin ? origin->layer : kernel;
    auto [row, isNew] =
        rows.try_emplace({kernel, owner}, report.workspaces.size());
    unsigned at = index;
    if (isNew)
      report.workspaces.push_back(
          {kernel, owner, "workspace", bytes, -1, at, at});
    MemoryBuffer &buffer = report.workspaces[row->second];
    buffer.bytes = std::max(buffer.bytes, bytes);
    buffer.last = at;
  }
  llvm::sort(report.workspaces, [](auto &a, auto &b) {
    return std::pair(-a.bytes, a.first) < std::pair(-b.bytes, b.first);
  });
}

MemoryReport te::collectMemoryReport(func::FuncOp function) {
  MemoryReport report;
  report.function = function.getName();
  report.remat = collectRemat(function);
  report.arenaBytes =
      function->getAttrOfType<IntegerAttr>(tert::kArenaBytesAttr).getInt();
  report.maxLiveBytes =
      function->getAttrOfType<IntegerAttr>(tert::kMaxLiveBytesAttr).getInt();
  for (auto launch : function.getOps<tert::LaunchOp>())
    report.launches.push_back(launch.getKernel().str());
  unsigned last = report.launches.empty() ? 0 : report.launches.size() - 1;
  auto signature = function->getAttrOfType<ArrayAttr>(tert::kSignatureAttr);
  for (auto [index, argument] : llvm::enumerate(function.getArguments())) {
    // A result that is the next value of an argument, or in the arena, has no
    // memory of its own.
    auto entry = signature && index < signature.size()
                     ? dyn_cast<DictionaryAttr>(signature[index])
                     : DictionaryAttr();
    auto carried = entry ? entry.getAs<IntegerAttr>("carried") : IntegerAttr();
    if ((carried && carried.getInt() >= 0) ||
        (entry && entry.contains(tert::kOffsetEntry)))
      continue;
    int64_t bytes = cast<tert::BufferType>(argument.getType()).getBytes();
    std::string name = entry ? entry.getAs<StringAttr>("name").str()
                             : "arg" + std::to_string(index);
    std::string owner = ownerOf(argument, name);
    if (StringRef part = entry ? entry.getAs<StringAttr>("part").getValue()
                               : StringRef("value");
        part != "value")
      name += "." + part.str();
    report.argumentBytes += bytes;
    report.arguments.push_back({name, owner,
                                causeOfArgument(entry, argument).str(), bytes,
                                -1, 0, last});
  }
  std::map<tert::Cause, int64_t> totals;
  for (tert::BufferLifetime &life :
       tert::collectLifetimes(function.getBody().front())) {
    Value buffer = life.alloc.getBuffer();
    int64_t bytes = life.alloc.getBuffer().getType().getBytes();
    std::string cause = tert::stringifyCause(life.alloc.getCause()).str();
    report.buffers.push_back(
        {life.alloc.getName().str(), ownerOf(buffer, life.alloc.getName()),
         cause, bytes, int64_t(life.alloc.getOffset().value_or(-1)), life.first,
         life.last});
    totals[life.alloc.getCause()] += bytes;
  }
  for (auto [cause, bytes] : totals)
    report.totals.push_back({tert::stringifyCause(cause).str(), bytes});
  findPeak(report);
  collectWorkspaces(function, report);
  return report;
}

static void addRow(Table &table, const MemoryBuffer &row) {
  table.addRow({row.name, row.owner, row.cause, std::to_string(row.bytes),
                row.offset < 0 ? "-" : std::to_string(row.offset),
                std::to_string(row.first), std::to_string(row.last)});
}

static void printRemat(const Remat &remat, raw_ostream &os) {
  os << "\nremat '" << remat.policy << "' saves " << remat.heldAfter
     << " bytes of " << remat.heldBefore << " for the backward\n";
  if (remat.rows.empty())
    return;
  Table table({"recomputed", "layer", "bytes freed", "saved instead",
               "bytes moved", "operations"});
  for (const RematRow &row : remat.rows)
    table.addRow({row.op, row.layer, std::to_string(row.freed),
                  std::to_string(row.held), std::to_string(row.traffic),
                  std::to_string(row.flops)});
  table.print(os);
}

static void printText(const MemoryReport &report, raw_ostream &os) {
  os << "memory of '" << printable(report.function) << "'\n";
  Table summary({"", "bytes"});
  summary.addRow({"arena", std::to_string(report.arenaBytes)});
  summary.addRow(
      {"most alive at one launch", std::to_string(report.maxLiveBytes)});
  summary.addRow(
      {"arguments and results", std::to_string(report.argumentBytes)});
  if (report.workspaceBytes)
    summary.addRow(
        {"workspace, at most", std::to_string(*report.workspaceBytes)});
  for (auto &[cause, bytes] : report.totals)
    summary.addRow({"all of " + cause, std::to_string(bytes)});
  summary.print(os);
  if (report.remat)
    printRemat(*report.remat, os);
  SmallVector<std::string> columns = {"buffer",     "owner",  "cause",
                                      "bytes",      "offset", "first launch",
                                      "last launch"};
  if (!report.buffers.empty()) {
    os << "\nalive at the peak, launch " << report.peak << " ("
       << printable(report.launches[report.peak]) << "), largest first\n";
    Table atPeak(columns);
    for (unsigned index : ArrayRef(report.alive).take_front(10))
      addRow(atPeak, report.buffers[index]);
    atPeak.print(os);
    os << "\n";
    Table buffers(columns);
    for (const MemoryBuffer &row : report.buffers)
      addRow(buffers, row);
    buffers.print(os);
  }
  if (!report.workspaces.empty()) {
    os << "\nworkspaces, one region outside the arena for all launches\n";
    Table workspaces(columns);
    for (const MemoryBuffer &row : ArrayRef(report.workspaces).take_front(10))
      addRow(workspaces, row);
    workspaces.print(os);
  }
  if (report.arguments.empty())
    return;
  os << "\narguments and results, outside the arena\n";
  Table arguments(columns);
  for (const MemoryBuffer &row : report.arguments)
    addRow(arguments, row);
  arguments.print(os);
}

static llvm::json::Object toJson(const MemoryBuffer &row) {
  return llvm::json::Object{
      {"name", row.name},       {"owner", row.owner},
      {"cause", row.cause},     {"bytes", row.bytes},
      {"offset", row.offset},   {"first_launch", row.first},
      {"last_launch", row.last}};
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
  for (auto &[cause, bytes] : report.totals)
    totals[cause] = bytes;
  llvm::json::Array buffers, arguments, alive;
  for (const MemoryBuffer &row : report.buffers)
    buffers.push_back(toJson(row));
  for (const MemoryBuffer &row : report.arguments)
    arguments.push_back(toJson(row));
  for (unsigned index : report.alive)
    alive.push_back(report.buffers[index].name);
  llvm::json::Object object{{"function", report.function},
                            {"arena_bytes", report.arenaBytes},
                            {"max_live_bytes", report.maxLiveBytes},
                            {"argument_bytes", report.argumentBytes},
                            {"totals", std::move(totals)},
                            {"peak_launch", report.peak},
                            {"alive_at_peak", std::move(alive)},
                            {"buffers", std::move(buffers)},
                            {"arguments", std::move(arguments)}};
  if (report.workspaceBytes) {
    llvm::json::Array workspaces;
    for (const MemoryBuffer &row : report.workspaces)
      workspaces.push_back(toJson(row));
    object["workspace_bytes"] = *report.workspaceBytes;
    object["workspaces"] = std::move(workspaces);
  }
  if (report.remat)
    object["remat"] = toJson(*report.remat);
  return object;
}

namespace {
struct ReportMemory final : te::impl::ReportMemoryPassBase<ReportMemory> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    if (format == "html")
      return success();
    return checkReportFormat(context, getArgument(), format);
  }

  void runOnOperation() override {
    llvm::json::Array functions;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (!function->hasAttr(tert::kArenaBytesAttr))
        continue;
      MemoryReport report = collectMemoryReport(function);
      numBuffers += report.buffers.size();
      if (format == "html")
        printMemoryPage(report, reportStream());
      else if (format == "json")
        functions.push_back(toJson(report));
      else
        printText(report, reportStream());
    }
    if (format == "json")
      printJsonReport(llvm::json::Object{{"memory", std::move(functions)}});
    reportStream().flush();
    markAllAnalysesPreserved();
  }
};
} // namespace
