//===- GroupedGradients.cpp - derivatives of layers of groups -------------===//
//
// As those of te.linear, with the sizes of the groups beside the tensors: they
// are values of the forward, so the backward reads them as residuals.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/TE.h"

using namespace mlir;
using namespace mlir::te;

LogicalResult GroupedLinearOp::differentiate(OpBuilder &b,
                                             AdjointContext &adjoints) {
  Value dy = adjoints.get(getY());
  Value sizes = adjoints.residual(getGroupSizes(), "group_sizes");
  auto keepRecipe = [&](Operation *backward) {
    if (Attribute recipe = (*this)->getDiscardableAttr(kRecipeAttr))
      backward->setDiscardableAttr(kRecipeAttr, recipe);
  };
  if (adjoints.wants(getX())) {
    Value w = adjoints.residual(getW(), "w");
    auto dgrad = GroupedLinearDgradOp::create(b, getLoc(), getX().getType(), dy,
                                              w, sizes, getAlignmentAttr());
    keepRecipe(dgrad);
    adjoints.add(getX(), dgrad.getDx());
  }
  if (adjoints.wants(getW())) {
    Value x = adjoints.residual(getX(), "x");
    auto wgrad = GroupedLinearWgradOp::create(b, getLoc(), getW().getType(), dy,
                                              x, sizes, /*accumulate=*/Value(),
                                              getAlignmentAttr());
    keepRecipe(wgrad);
    adjoints.add(getW(), wgrad.getDw());
  }
  if (getBias() && adjoints.wants(getBias()))
    adjoints.add(getBias(),
                 GroupedBiasGradOp::create(b, getLoc(), getBias().getType(), dy,
                                           sizes, getAlignmentAttr()));
  return success();
}
