//===- PassBoundary.cpp - where values cross into the backward ------------===//

#include "PassBoundary.h"
#include "LayerGemms.h"

using namespace mlir;
using namespace mlir::te;

PassBoundary::PassBoundary(FunctionOpInterface function) {
  unsigned number = 0;
  DenseMap<Block *, Last> before;
  function->walk([&](Operation *op) {
    ++number;
    if (auto residual = dyn_cast<ResidualOp>(op)) {
      before[op->getBlock()] = {residual, number};
    } else if (isForwardLayer(op) || isBackwardLayer(op)) {
      const Last found = before.lookup(op->getBlock());
      places[op] = {number, found.residual, found.number};
    }
  });
}

Value PassBoundary::save(Value value, unsigned forward, Operation *backward,
                         StringAttr name) {
  const Place &place = places.at(backward);
  Last &known = last[backward->getBlock()];
  if (place.residualNumber > known.number)
    known = {place.residual, place.residualNumber};
  OpBuilder builder(backward);
  if (known.number > forward)
    builder.setInsertionPointAfter(known.residual);
  else // no residual is between the two yet
    known.number = place.number;
  known.residual = ResidualOp::create(builder, backward->getLoc(),
                                      value.getType(), value, name);
  return known.residual.getHeld();
}
