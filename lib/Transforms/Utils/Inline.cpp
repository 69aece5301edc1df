//===- Inline.cpp - keeps recipes when calls are inlined ------------------===//

#include "TEDialect/Transforms/Utils/Inline.h"
#include "TEDialect/IR/TE.h"

using namespace mlir;
using namespace mlir::te;

void te::pinRecipes(func::FuncOp copy, func::FuncOp function,
                    Operation *destination) {
  RecipeAttr recipe = RecipeAttr::lookup(function);
  if (recipe == RecipeAttr::lookup(destination))
    return;
  copy.walk([&](LinearOp op) {
    if (!op->hasAttr(kRecipeAttr))
      op->setAttr(kRecipeAttr, recipe);
  });
}
