//===- AssignRecipe.cpp - recipes from pipeline options -------------------===//
//
// A user sets an option explicitly, so an option that has no effect is an
// error: an unknown name, or a backward override that reaches no quantised
// recipe. Options are parsed with the attribute's own parser, so both spell
// recipes in the same way.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/BackwardOverride.h"
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

/// The recipe that `text` spells between `<` and `>`. Errors have no location,
/// because the program does not cause them.
static RecipeAttr parseRecipe(MLIRContext *context, StringRef text) {
  std::string problem;
  Attribute parsed;
  {
    ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
      if (problem.empty())
        problem = diagnostic.str();
      return success();
    });
    parsed = parseAttribute(("#te.recipe<" + text + ">").str(), context);
  }
  auto attribute = dyn_cast_or_null<RecipeAttr>(parsed);
  if (!attribute) {
    InFlightDiagnostic error = emitError(UnknownLoc::get(context));
    error << "option 'recipe' of 'te-assign-recipe': " << problem;
    // The parser's message does not always contain the text that it got.
    if (!StringRef(problem).contains("but got"))
      error << ", but got '" << text << "'";
    if (!text.starts_with("{") && text.contains(','))
      error << "; options of the pipeline are separated by blanks";
  }
  return attribute;
}

namespace {
struct AssignRecipe final : te::impl::AssignRecipePassBase<AssignRecipe> {
  using Base::Base;

  /// Reads the options.
  LogicalResult initialize(MLIRContext *context) override {
    if (!recipe.empty() && !(parsedRecipe = parseRecipe(context, recipe)))
      return failure();
    if (backwardOverride.empty() ||
        (mode = symbolizeBackwardOverride(backwardOverride)))
      return success();
    return emitError(UnknownLoc::get(context))
           << "expected option 'backward-override' of 'te-assign-recipe' to "
              "be one of 'none', 'high_precision', 'dequantized', but got '"
           << backwardOverride.getValue() << "'";
  }

  void runOnOperation() override {
    if (failed(assignRecipe()) || failed(resolveOverrides()) ||
        failed(assignOverride()))
      signalPassFailure();
  }

  /// Sets the module's recipe. Functions and ops that have their own keep it.
  LogicalResult assignRecipe() {
    if (!parsedRecipe)
      return success();
    ModuleOp module = getOperation();
    module->setAttr(kRecipeAttr, parsedRecipe);
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

  /// Replaces every te.backward_override with the recipe that it results in.
  LogicalResult resolveOverrides() {
    bool refused = false;
    // From the outside in, because an op inherits the recipe of its function.
    getOperation().walk<WalkOrder::PreOrder>([&](Operation *op) {
      auto own = op->getAttrOfType<StringAttr>(kBackwardOverrideAttr);
      if (!own)
        return;
      auto error = [&] {
        return isa<ModuleOp>(op) ? emitError(getModuleLoc(op))
                                 : op->emitError();
      };
      RecipeAttr recipe = RecipeAttr::lookup(op);
      RecipeAttr changed;
      if (recipe.isQuantized())
        changed = recipe.withBackwardOverride(
            error, *symbolizeBackwardOverride(own.getValue()));
      else
        error() << "expected a quantised recipe for 'te.backward_override', "
                   "but got '"
                << stringifyRecipeKind(recipe.getKind())
                << "', whose backward is high precision already";
      refused |= !changed;
      op->removeAttr(kBackwardOverrideAttr);
      if (changed)
        op->setAttr(kRecipeAttr, changed);
      ++numRecipes;
    });
    return failure(refused);
  }

  /// Sets the backward override of every quantised recipe of the module.
  LogicalResult assignOverride() {
    if (!mode)
      return success();
    ModuleOp module = getOperation();
    bool reached = false, refused = false;
    module.walk([&](Operation *op) {
      auto own = op->getAttrOfType<RecipeAttr>(kRecipeAttr);
      if (!own || !own.isQuantized())
        return;
      reached = true;
      RecipeAttr changed = own.withBackwardOverride(
          [&] {
            return op == module ? emitError(getModuleLoc(module))
                                : op->emitError();
          },
          *mode);
      if (!changed) {
        refused = true;
        return;
      }
      op->setAttr(kRecipeAttr, changed);
      ++numRecipes;
    });
    if (refused)
      return failure();
    if (reached || *mode == BackwardOverride::None)
      return success();
    return emitError(getModuleLoc(module))
           << "expected a quantised recipe for backward override '"
           << stringifyBackwardOverride(*mode) << "', but got '"
           << stringifyRecipeKind(RecipeAttr::lookup(module).getKind())
           << "', whose backward is high precision already";
  }

private:
  /// The options; null or absent if they are not given.
  RecipeAttr parsedRecipe;
  std::optional<BackwardOverride> mode;
};
} // namespace
