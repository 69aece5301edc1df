//===- ReportConstraints.cpp - size rules of the step, printed ------------===//
//
// The rows that te-check-constraints judges, all of them.
//
//===----------------------------------------------------------------------===//

#include "Table.h"

#include "TEDialect/Transforms/Quantize/StepConstraints.h"
#include "TEDialect/Transforms/Report/Passes.h"

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

static void printText(ArrayRef<StepConstraint> constraints, raw_ostream &os) {
  os << "size constraints\n";
  Table table(
      {"layer", "axis", "tensor", "size", "multiple of", "by", "padded to"});
  for (const StepConstraint &c : constraints)
    table.addRow({c.layer, std::string(1, c.rule.axis),
                  c.tensorAxis.str() + " of " + c.tensor,
                  std::to_string(c.rule.size(c.sizes)),
                  std::to_string(c.rule.multiple), describeRule(c.rule),
                  c.holds() ? "-" : std::to_string(c.rule.padded(c.sizes))});
  table.print(os);
}

static void printJson(ArrayRef<StepConstraint> constraints, raw_ostream &os) {
  llvm::json::Array rows;
  for (const StepConstraint &c : constraints)
    rows.push_back(llvm::json::Object{{"layer", c.layer},
                                      {"axis", std::string(1, c.rule.axis)},
                                      {"tensor", c.tensor},
                                      {"tensor_axis", c.tensorAxis},
                                      {"size", c.rule.size(c.sizes)},
                                      {"multiple", c.rule.multiple},
                                      {"by", describeRule(c.rule)},
                                      {"holds", c.holds()},
                                      {"padded", c.rule.padded(c.sizes)}});
  os << llvm::formatv("{0:2}\n", llvm::json::Value(llvm::json::Object{
                                     {"constraints", std::move(rows)}}));
}

namespace {
struct ReportConstraints final
    : te::impl::ReportConstraintsPassBase<ReportConstraints> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    return checkReportFormat(context, getArgument(), format);
  }

  void runOnOperation() override {
    SmallVector<StepConstraint> constraints =
        collectStepConstraints(getOperation());
    numRules += constraints.size();
    if (format == "json")
      printJson(constraints, llvm::outs());
    else
      printText(constraints, llvm::outs());
    llvm::outs().flush();
    markAllAnalysesPreserved();
  }
};
} // namespace
