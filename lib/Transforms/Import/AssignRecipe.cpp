//===- AssignRecipe.cpp - recipes from pipeline options -------------------===//
//
// An option is an explicit wish, so one that cannot be granted is an error and
// never dropped: an unknown name, or a backward override that reaches no
// quantised recipe. Options are parsed with the attribute's own parser, so both
// spell recipes the same way.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Import/Passes.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"

namespace mlir::te {
#define GEN_PASS_DEF_ASSIGNRECIPEPASS
#include "TEDialect/Transforms/Import/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// The recipe that `text` spells between `<` and `>`; what is wrong with it
/// becomes an error on `module`.
static RecipeAttr parseRecipe(ModuleOp module, StringRef text) {
  std::string problem;
  Attribute parsed;
  {
    ScopedDiagnosticHandler handler(module.getContext(),
                                    [&](Diagnostic &diagnostic) {
                                      if (problem.empty())
                                        problem = diagnostic.str();
                                      return success();
                                    });
    parsed =
        parseAttribute(("#te.recipe<" + text + ">").str(), module.getContext());
  }
  auto recipe = dyn_cast_or_null<RecipeAttr>(parsed);
  if (!recipe)
    module.emitError() << "option 'recipe' of 'te-assign-recipe': " << problem;
  return recipe;
}

namespace {
struct AssignRecipe final : te::impl::AssignRecipePassBase<AssignRecipe> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(assignRecipe()) || failed(assignOverride()))
      signalPassFailure();
  }

  /// Sets the module's recipe. Functions and ops that have their own keep it.
  LogicalResult assignRecipe() {
    if (recipe.empty())
      return success();
    ModuleOp module = getOperation();
    RecipeAttr parsed = parseRecipe(module, recipe);
    if (!parsed)
      return failure();
    module->setAttr(kRecipeAttr, parsed);
    ++numRecipes;
    module.walk([&](Operation *op) {
      auto own = op->getAttrOfType<RecipeAttr>(kRecipeAttr);
      if (own && op != module)
        remark::analysis(
            op->getLoc(),
            remark::RemarkOpts::name("own-recipe").category("te-assign-recipe"))
            << remark::add("keeps its own recipe '{0}'",
                           stringifyRecipeKind(own.getKind()));
    });
    return success();
  }

  /// Sets the backward override of every quantised recipe of the module.
  LogicalResult assignOverride() {
    if (backwardOverride.empty())
      return success();
    ModuleOp module = getOperation();
    std::optional<BackwardOverride> mode =
        symbolizeBackwardOverride(backwardOverride);
    if (!mode)
      return module.emitError()
             << "expected option 'backward-override' of 'te-assign-recipe' to "
                "be one of 'none', 'high_precision', 'dequantized', but got '"
             << backwardOverride.getValue() << "'";
    bool reached = false;
    module.walk([&](Operation *op) {
      auto own = op->getAttrOfType<RecipeAttr>(kRecipeAttr);
      if (!own || !own.isQuantized())
        return;
      op->setAttr(kRecipeAttr, own.withBackwardOverride(*mode));
      reached = true;
      ++numRecipes;
    });
    if (reached || *mode == BackwardOverride::None)
      return success();
    return module.emitError()
           << "expected a quantised recipe for backward override '"
           << stringifyBackwardOverride(*mode) << "', but got '"
           << stringifyRecipeKind(RecipeAttr::lookup(module).getKind())
           << "', whose backward is high precision already";
  }
};
} // namespace
