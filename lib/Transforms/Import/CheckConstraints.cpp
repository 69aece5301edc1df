//===- CheckConstraints.cpp - every violation of a step at once -----------===//
//
// All violations are reported before anything is cast, each with what removes
// it, so that one run shows all that must change.
//
//===----------------------------------------------------------------------===//

#include "CheckConstraints.h"

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Import/Passes.h"
#include "TEDialect/Transforms/Quantize/GemmOrigin.h"

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

static void describe(Diagnostic &out, const StepConstraint &constraint) {
  const SizeRule &rule = constraint.rule;
  out << "expected the " << constraint.tensorAxis << " of '"
      << constraint.tensor << "' in layer '" << constraint.layer
      << "' to be a multiple of " << rule.multiple << ", but got "
      << constraint.size() << "; its " << stringifyGemm(rule.gemm)
      << (rule.contracted ? " contracts them" : " writes them")
      << " under the recipe " << recipeAt(constraint.op)
      << "; the smallest padded size is " << constraint.padded;
}

static void describe(Diagnostic &out, const StepRefusal &refusal) {
  out << refusal.reason << "; asked for by the ";
  llvm::interleave(
      refusal.gemms, [&](Gemm gemm) { out << stringifyGemm(gemm); },
      [&] { out << ", "; });
  out << " of layer '" << refusal.layer << "' under the recipe "
      << recipeAt(refusal.op)
      << "; 'te.recipe = #te.recipe<high_precision>' leaves the layer as it is";
}

unsigned te::reportConstraintViolations(ModuleOp module, StepTarget target,
                                        bool asWarnings) {
  unsigned violations = 0;
  auto report = [&](const auto &violation) {
    ++violations;
    InFlightDiagnostic diagnostic =
        asWarnings ? violation.op->emitWarning() : violation.op->emitError();
    describe(*diagnostic.getUnderlyingDiagnostic(), violation);
  };
  StepConstraints constraints = collectStepConstraints(module, target);
  for (const StepConstraint &constraint : constraints.sizes)
    if (!constraint.holds())
      report(constraint);
  for (const StepRefusal &refusal : constraints.refusals)
    report(refusal);
  return violations;
}

FailureOr<StepTarget> te::parseStepTarget(MLIRContext *context, StringRef pass,
                                          StringRef target, bool emulate) {
  std::optional<support::Target> parsed =
      support::parseTarget({target.data(), target.size()});
  if (parsed)
    return StepTarget{parsed, emulate};
  return emitError(UnknownLoc::get(context))
         << pass << ": " << support::refuseTargetName(target.str());
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
