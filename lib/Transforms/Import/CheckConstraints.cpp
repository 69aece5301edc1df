//===- CheckConstraints.cpp - every size violation of a step at once ------===//
//
// All violations are reported before anything is cast, each with the padding
// that removes it, so that one run shows all that must change.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Transforms/Import/Passes.h"
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

namespace {
struct CheckConstraints final
    : te::impl::CheckConstraintsPassBase<CheckConstraints> {
  using Base::Base;

  void runOnOperation() override {
    bool violated = false;
    for (const StepConstraint &constraint :
         collectStepConstraints(getOperation())) {
      if (constraint.holds())
        continue;
      ++numViolations;
      violated = true;
      InFlightDiagnostic diagnostic =
          warnOnly ? constraint.op->emitWarning() : constraint.op->emitError();
      describe(*diagnostic.getUnderlyingDiagnostic(), constraint);
    }
    if (violated && !warnOnly)
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
