//===- ReportConstraints.cpp - prints the constraints of a step -----------===//
//
// The report has the axes that casts pad, the rows of groups, and the GEMMs
// that the recipes ask for and the target does not have.
//
//===----------------------------------------------------------------------===//

#include "Table.h"

#include "TEDialect/Analysis/StepConstraints.h"
#include "TEDialect/Transforms/Report/Passes.h"
#include "TEDialect/Transforms/Report/ReportStream.h"
#include "TEDialect/Transforms/TargetOption.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/JSON.h"

namespace mlir::te {
#define GEN_PASS_DEF_REPORTCONSTRAINTSPASS
#include "TEDialect/Transforms/Report/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// "wgrad contraction" or "fprop output".
static std::string describeRule(const SizeRule &rule) {
  return (stringifyGemm(rule.gemm) +
          (rule.contracted ? " contraction" : " output"))
      .str();
}

static std::string describeGemms(const StepRefusal &refusal) {
  std::string text;
  for (Gemm gemm : refusal.gemms)
    text += (text.empty() ? "" : ", ") + stringifyGemm(gemm).str();
  return text;
}

static void printText(const StepConstraints &constraints, raw_ostream &os) {
  os << "size constraints\n";
  Table table(
      {"layer", "axis", "tensor", "size", "multiple of", "by", "padded to"});
  for (const StepConstraint &c : constraints.sizes)
    table.addRow({c.layer, std::string(1, c.rule.axis),
                  c.tensorAxis.str() + " of " + c.tensor,
                  std::to_string(c.size()), std::to_string(c.rule.multiple),
                  describeRule(c.rule),
                  c.padded() == c.size() ? "-" : std::to_string(c.padded())});
  table.print(os);
  if (!constraints.groups.empty()) {
    os << "rows of groups\n";
    Table groups({"layer", "rows", "groups", "alignment", "entries", "padding",
                  "rows for any routing"});
    auto known = [](std::optional<int64_t> number) {
      return number ? std::to_string(*number) : "-";
    };
    for (const StepGroups &g : constraints.groups)
      groups.addRow(
          {g.layer, std::to_string(g.rows), std::to_string(g.groups),
           std::to_string(g.alignment), known(g.entries),
           g.entries ? std::to_string(std::max<int64_t>(g.rows - *g.entries, 0))
                     : "-",
           known(g.enough)});
    groups.print(os);
  }
  if (!constraints.refusals.empty()) {
    os << "GEMMs that the target does not have\n";
    Table refusals({"layer", "gemm", "why"});
    for (const StepRefusal &refusal : constraints.refusals)
      refusals.addRow({refusal.layer, describeGemms(refusal), refusal.reason});
    refusals.print(os);
  }
}

static void printJson(const StepConstraints &constraints) {
  llvm::json::Array rows, refusals, groups;
  auto known = [](std::optional<int64_t> number) {
    return number ? llvm::json::Value(*number) : llvm::json::Value(nullptr);
  };
  for (const StepGroups &g : constraints.groups)
    groups.push_back(llvm::json::Object{{"layer", g.layer},
                                        {"rows", g.rows},
                                        {"groups", g.groups},
                                        {"alignment", g.alignment},
                                        {"entries", known(g.entries)},
                                        {"enough_rows", known(g.enough)}});
  for (const StepConstraint &c : constraints.sizes)
    rows.push_back(llvm::json::Object{{"layer", c.layer},
                                      {"axis", std::string(1, c.rule.axis)},
                                      {"tensor", c.tensor},
                                      {"tensor_axis", c.tensorAxis},
                                      {"size", c.size()},
                                      {"multiple", c.rule.multiple},
                                      {"by", describeRule(c.rule)},
                                      {"padded", c.padded()}});
  for (const StepRefusal &refusal : constraints.refusals)
    refusals.push_back(llvm::json::Object{{"layer", refusal.layer},
                                          {"gemm", describeGemms(refusal)},
                                          {"why", refusal.reason}});
  mlir::te::printJsonReport(
      llvm::json::Object{{"constraints", std::move(rows)},
                         {"groups", std::move(groups)},
                         {"refused", std::move(refusals)}});
}

namespace {
struct ReportConstraints final
    : te::impl::ReportConstraintsPassBase<ReportConstraints> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    if (failed(checkTargetOption(context, getArgument(), target.getValue())))
      return failure();
    return checkReportFormat(context, getArgument(), format);
  }

  void runOnOperation() override {
    StepConstraints constraints = collectStepConstraints(
        getOperation(), {support::parseTarget(target), emulate});
    numRules += constraints.sizes.size();
    if (format == "json")
      printJson(constraints);
    else
      printText(constraints, reportStream());
    reportStream().flush();
    markAllAnalysesPreserved();
  }
};
} // namespace
