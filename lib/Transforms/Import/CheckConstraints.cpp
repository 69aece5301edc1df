//===- CheckConstraints.cpp - every violation of a step at once -----------===//
//
// All violations are reported before anything is cast, each with a change that
// fixes it, so that one run shows everything that must change.
//
//===----------------------------------------------------------------------===//

#include "CheckConstraints.h"

#include "TEDialect/Analysis/CallSites.h"
#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/IR/DiagnosticData.h"
#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Import/Passes.h"
#include "TEDialect/Transforms/TargetOption.h"

#include "mlir/IR/Matchers.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::te {
#define GEN_PASS_DEF_CHECKCONSTRAINTSPASS
#include "TEDialect/Transforms/Import/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// "'float8_block_scaling'", the recipe in force at `op`.
static std::string recipeAt(Operation *op) {
  return support::quoted(
      stringifyRecipeKind(RecipeAttr::lookup(op).getKind()).str());
}

static void describe(Diagnostic &out, const StepRefusal &refusal) {
  out << refusal.reason << "; asked for by the ";
  llvm::interleave(
      refusal.gemms, [&](Gemm gemm) { out << stringifyGemm(gemm); },
      [&] { out << ", "; });
  out << " of layer '" << refusal.layer << "' under the recipe "
      << recipeAt(refusal.op);
  if (refusal.runsInHighPrecision)
    out << "; 'te.recipe = #te.recipe<high_precision>' leaves the layer as it "
           "is";
}

/// An error message if the sizes of groups are a constant and do not fit in
/// `rows` rows; else "".
static std::string refuseGroupSizes(Value groupSizes, int64_t rows,
                                    int64_t alignment) {
  DenseIntElementsAttr sizes;
  if (!matchPattern(groupSizes, m_Constant(&sizes)))
    return "";
  int64_t begin = 0;
  for (auto [group, value] : llvm::enumerate(sizes.getValues<APInt>())) {
    int64_t size = value.getSExtValue();
    if (size < 0 || size > rows - begin)
      return llvm::formatv("expected 'group_sizes[{0}]' to be from 0 to the "
                           "{1} rows that are left of {2}, but got {3}",
                           group, rows - begin, rows, size);
    begin += llvm::alignTo(size, alignment);
  }
  return "";
}

/// Checks the sizes of the groups of all layers of `module`.
static unsigned reportGroupSizes(ModuleOp module, bool asWarnings) {
  unsigned violations = 0;
  const CallSites sites(module);
  module.walk([&](GroupedLinearOp op) {
    std::string refusal =
        refuseGroupSizes(op.getGroupSizes(), op.getX().getType().getDimSize(0),
                         static_cast<int64_t>(op.getAlignment()));
    if (refusal.empty())
      return;
    ++violations;
    InFlightDiagnostic diagnostic =
        withData(asWarnings ? op.emitWarning() : op.emitError(),
                 {code::kGroupSizes,
                  describeLayer(op.getLoc(), sites.outermost(op.getW()))});
    diagnostic << refusal;
    diagnostic.attachNote(op.getGroupSizes().getLoc())
        << "the sizes are written here";
  });
  return violations;
}

unsigned te::reportConstraintViolations(ModuleOp module, StepTarget target,
                                        bool asWarnings) {
  unsigned violations = 0;
  StepConstraints constraints = collectStepConstraints(module, target);
  violations += reportGroupSizes(module, asWarnings);
  for (const StepRefusal &refusal : constraints.refusals) {
    ++violations;
    InFlightDiagnostic diagnostic = withData(
        asWarnings ? refusal.op->emitWarning() : refusal.op->emitError(),
        {code::kNoKernel, refusal.layer});
    describe(*diagnostic.getUnderlyingDiagnostic(), refusal);
  }
  return violations;
}

FailureOr<StepTarget> te::parseStepTarget(MLIRContext *context, StringRef pass,
                                          StringRef target, bool emulate) {
  if (failed(checkTargetOption(context, pass, target)))
    return failure();
  return StepTarget{support::parseTarget({target.data(), target.size()}),
                    emulate};
}

namespace {
struct CheckConstraints final
    : te::impl::CheckConstraintsPassBase<CheckConstraints> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    FailureOr<StepTarget> parsed =
        parseStepTarget(context, getArgument(), target, emulate);
    stepTarget = parsed.value_or(StepTarget());
    return parsed;
  }

  void runOnOperation() override {
    unsigned violations =
        reportConstraintViolations(getOperation(), stepTarget, warnOnly);
    numViolations += violations;
    if (violations != 0 && !warnOnly)
      signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  StepTarget stepTarget;
};
} // namespace
