//===- CheckConstraints.cpp - every size violation of a step at once ------===//
//
// All violations are reported before anything is cast, each with the padding
// that removes it, so that one run shows all that must change.
//
//===----------------------------------------------------------------------===//

#include "CheckConstraints.h"

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Import/Passes.h"
#include "TEDialect/Transforms/Quantize/GemmOrigin.h"
#include "TEDialect/Transforms/Quantize/StepConstraints.h"

namespace mlir::te {
#define GEN_PASS_DEF_CHECKCONSTRAINTSPASS
#include "TEDialect/Transforms/Import/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

static void describe(Diagnostic &out, const StepConstraint &constraint) {
  const SizeRule &rule = constraint.rule;
  out << "expected the " << constraint.tensorAxis << " of '"
      << constraint.tensor << "' in layer '" << constraint.layer
      << "' to be a multiple of " << rule.multiple << ", but got "
      << rule.size(constraint.sizes) << "; its " << stringifyGemm(rule.gemm)
      << (rule.contracted ? " contracts them" : " writes them")
      << " under the recipe '"
      << stringifyRecipeKind(RecipeAttr::lookup(constraint.op).getKind())
      << "'; the smallest padded size is " << rule.padded(constraint.sizes);
}

/// What else than a size keeps a layer from being quantised as its recipe says.
static void describeBias(Diagnostic &out, LinearOp linear) {
  out << "expected layer '" << describeLayer(linear.getLoc(), linear.getW())
      << "' to compute in bf16 or f32, but got f16; quantised products add a "
         "bias to no other result, and the recipe in force is '"
      << stringifyRecipeKind(RecipeAttr::lookup(linear).getKind())
      << "'; compute in bf16, drop the bias, or set 'te.recipe = "
         "#te.recipe<high_precision>' on the layer";
}

unsigned te::reportConstraintViolations(ModuleOp module, bool asWarnings) {
  unsigned violations = 0;
  auto report = [&](Operation *op, auto describe) {
    ++violations;
    InFlightDiagnostic diagnostic =
        asWarnings ? op->emitWarning() : op->emitError();
    describe(*diagnostic.getUnderlyingDiagnostic());
  };
  for (const StepConstraint &constraint : collectStepConstraints(module))
    if (!ShapedType::isDynamic(constraint.rule.size(constraint.sizes)) &&
        !constraint.holds())
      report(constraint.op,
             [&](Diagnostic &out) { describe(out, constraint); });
  module.walk([&](LinearOp linear) {
    if (breaksBiasRule(linear))
      report(linear, [&](Diagnostic &out) { describeBias(out, linear); });
  });
  return violations;
}

namespace {
struct CheckConstraints final
    : te::impl::CheckConstraintsPassBase<CheckConstraints> {
  using Base::Base;

  void runOnOperation() override {
    unsigned violations = reportConstraintViolations(getOperation(), warnOnly);
    numViolations += violations;
    if (violations != 0 && !warnOnly)
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
