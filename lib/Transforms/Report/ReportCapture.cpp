//===- ReportCapture.cpp - states and inputs of a captured step -----------===//
//
// The report has two tables of arguments of a step: those whose value one
// replay passes to the next, with the flag on the device that decides whether
// it changes; and those that may have another value in every replay. The tables
// are read from the ops, like the rules of te-verify-capture, which reports
// what a step must not do.
//
//===----------------------------------------------------------------------===//

#include "Table.h"

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Report/Passes.h"
#include "TEDialect/Transforms/Report/ReportStream.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/JSON.h"

namespace mlir::te {
#define GEN_PASS_DEF_REPORTCAPTUREPASS
#include "TEDialect/Transforms/Report/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {
/// An argument of the step.
struct CaptureRow {
  std::string name, what;
  int64_t bytes;
};

struct StepCapture {
  std::string function;
  std::vector<CaptureRow> carried, given;
};
} // namespace

static int64_t bytesOf(Type type) {
  if (auto scaled = dyn_cast<ScaledType>(type))
    return scaled.getDataBytes() + scaled.getScaleBytes() +
           4 * scaled.getNumAmaxes();
  auto shaped = dyn_cast<ShapedType>(type);
  return shaped && shaped.hasStaticShape()
             ? shaped.getNumElements() * shaped.getElementTypeBitWidth() / 8
             : 0;
}

/// The flag that makes `op` skip its work, or null.
static Value skipFlagOf(Operation *op) {
  auto skippable = dyn_cast<SkippableOpInterface>(op);
  return skippable ? skippable.getSkip() : Value();
}

/// Whether `op` leaves `state` as it is, or adds to it, under its flag.
static bool keeps(Operation *op, Value state) {
  return isa<ZeroUnlessOp>(op) ||
         llvm::any_of(op->getResults(), [&](OpResult result) {
           return cast<SkippableOpInterface>(op).getCached(
                      result.getResultNumber()) == state;
         });
}

/// The flag that keeps the state `argument` unchanged, or null.
static Value keptBy(BlockArgument argument) {
  for (Operation *user : argument.getUsers()) {
    Value skip = skipFlagOf(user);
    if (skip && skip != argument && keeps(user, argument))
      return skip;
    // A history does not change if its amax is not measured.
    auto update = dyn_cast<DelayedScalingUpdateOp>(user);
    Operation *measured = update ? update.getAmax().getDefiningOp() : nullptr;
    if (measured && skipFlagOf(measured))
      return skipFlagOf(measured);
  }
  return {};
}

static std::string describeState(BlockArgument state) {
  if (Value flag = keptBy(state))
    return "unless " + describeValue(flag);
  for (Operation *user : state.getUsers())
    if (isa<RngAdvanceOp>(user))
      return "advanced";
  return "every replay";
}

static std::string describeInput(func::FuncOp function,
                                 BlockArgument argument) {
  int64_t flagged = llvm::count_if(argument.getUsers(), [&](Operation *user) {
    return skipFlagOf(user) == argument;
  });
  if (flagged)
    return "skip flag of " + std::to_string(flagged) + " ops";
  return function.getArgAttr(argument.getArgNumber(), kWeightAttr) ? "weight"
                                                                   : "input";
}

static StepCapture collect(func::FuncOp function) {
  StepCapture step{function.getName().str(), {}, {}};
  llvm::SmallPtrSet<Attribute, 16> results;
  for (unsigned i = 0, e = function.getNumResults(); i < e; ++i)
    if (Attribute name = function.getResultAttr(i, kNameAttr))
      results.insert(name);
  for (BlockArgument argument : function.getArguments()) {
    Attribute name = function.getArgAttr(argument.getArgNumber(), kNameAttr);
    const bool isState = name && results.contains(name);
    (isState ? step.carried : step.given)
        .push_back({describeValue(argument),
                    isState ? describeState(argument)
                            : describeInput(function, argument),
                    bytesOf(argument.getType())});
  }
  return step;
}

static void printText(const StepCapture &step, raw_ostream &os) {
  for (const auto &[title, header, rows] :
       {std::tuple("left by one replay to the next", "changes", &step.carried),
        {"given to a replay", "is", &step.given}}) {
    os << "capture of @" << printable(step.function) << ": " << title << "\n";
    Table table({"argument", "bytes", header});
    for (const CaptureRow &row : *rows)
      table.addRow({row.name, std::to_string(row.bytes), row.what});
    table.print(os);
  }
}

static llvm::json::Value toJson(const StepCapture &step) {
  auto array = [](const std::vector<CaptureRow> &rows, StringRef key) {
    llvm::json::Array values;
    for (const CaptureRow &row : rows)
      values.push_back(llvm::json::Object{
          {"name", row.name}, {"bytes", row.bytes}, {key, row.what}});
    return values;
  };
  return llvm::json::Object{{"function", step.function},
                            {"carried", array(step.carried, "changes")},
                            {"given", array(step.given, "is")}};
}

namespace {
struct ReportCaptured final : te::impl::ReportCapturePassBase<ReportCaptured> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    return checkReportFormat(context, getArgument(), format);
  }

  void runOnOperation() override {
    llvm::json::Array functions;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      StepCapture step = collect(function);
      numCarried += step.carried.size();
      if (format == "json")
        functions.push_back(toJson(step));
      else
        printText(step, reportStream());
    }
    if (format == "json")
      printJsonReport(llvm::json::Object{{"capture", std::move(functions)}});
    reportStream().flush();
    markAllAnalysesPreserved();
  }
};
} // namespace
