//===- AttentionGradients.cpp - derivatives of rope and attention ---------===//
//
// A rotation is undone by the inverse one. Attention saves what its backward
// reads: q, k, v, its result and the row sums of its softmax (lse), which a new
// op in place of the forward one gives. Sinks are in these sums, so that the
// backward is the same with them.
//
//===----------------------------------------------------------------------===//

#include "SideResults.h"

using namespace mlir;
using namespace mlir::te;

/// The op's `lse`; makes the op produce it if it does not yet.
static Value requireLse(AttentionOp op) {
  if (op.getLse())
    return op.getLse();
  int64_t rows = op.getQ().getType().getDimSize(0);
  auto lse = RankedTensorType::get({rows * static_cast<int64_t>(op.getHeads())},
                                   Float32Type::get(op.getContext()));
  return addResults(op, /*lse*/ 1, lse).getLse();
}

LogicalResult AttentionOp::differentiate(OpBuilder &b,
                                         AdjointContext &adjoints) {
  if (failed(expectNoCotangent(*this, adjoints, getLse(), "lse")))
    return failure();
  Value dout = adjoints.get(getO());
  Value lse = requireLse(*this);
  // The op that gives lse gives o, too.
  Value o = lse.getDefiningOp<AttentionOp>().getO();
  Value q = adjoints.residual(getQ(), "q");
  Value k = adjoints.residual(getK(), "k");
  Value v = adjoints.residual(getV(), "v");
  o = adjoints.residual(o, "o");
  lse = adjoints.residual(lse, "lse");
  Value documents, rng;
  if (getDocuments())
    documents = adjoints.residual(getDocuments(), "documents");
  if (getRng())
    rng = adjoints.residual(getRng(), "rng");
  auto backward = AttentionBackwardOp::create(
      b, getLoc(), getQ().getType(), getK().getType(), getV().getType(), dout,
      q, k, v, o, lse, documents, rng, getHeadsAttr(), getKvHeadsAttr(),
      getSequenceAttr(), getCausalAttr(), getWindowSizeAttr(), getScaleAttr(),
      getSoftcapAttr(), getDropoutAttr(), getStreamAttr(),
      getDeterministicAttr());
  for (auto [operand, gradient] :
       {std::pair<Value, Value>(getQ(), backward.getDq()),
        {getK(), backward.getDk()},
        {getV(), backward.getDv()}})
    if (adjoints.wants(operand))
      adjoints.add(operand, gradient);
  if (getSinks() && adjoints.wants(getSinks()))
    adjoints.add(getSinks(), AttentionSinkGradOp::create(
                                 b, getLoc(), getSinks().getType(), dout, o,
                                 lse, adjoints.residual(getSinks(), "sinks"),
                                 documents, getSequenceAttr()));
  return success();
}

LogicalResult RopeOp::differentiate(OpBuilder &b, AdjointContext &adjoints) {
  if (failed(expectNoCotangent(*this, adjoints, getAmax(), "amax")))
    return failure();
  // The tables are treated as constants and have no gradient.
  if (!adjoints.wants(getX()))
    return success();
  Value cos = adjoints.residual(getCos(), "cos");
  Value sin = adjoints.residual(getSin(), "sin");
  Value positions;
  if (getPositions())
    positions = adjoints.residual(getPositions(), "positions");
  auto backward = RopeOp::create(b, getLoc(), getX().getType(), /*amax=*/Type(),
                                 adjoints.get(getY()), cos, sin, positions,
                                 getHeads(), getStyle(), !getInverse());
  adjoints.add(getX(), backward.getY());
  return success();
}

LogicalResult ZeroUnusedOp::differentiate(OpBuilder &b,
                                          AdjointContext &adjoints) {
  if (adjoints.wants(getX()))
    adjoints.add(getX(),
                 ZeroUnusedOp::create(b, getLoc(), adjoints.get(getY()),
                                      adjoints.residual(getUsed(), "used")));
  return success();
}
