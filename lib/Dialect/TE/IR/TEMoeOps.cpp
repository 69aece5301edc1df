//===- TEMoeOps.cpp - verifiers and derivatives of routing ----------------===//
//
// Which experts are chosen, and which row an entry has, are integers: gradients
// pass through the probabilities and the rows alone.
//
//===----------------------------------------------------------------------===//

#include "TEVerifiers.h"

#include "TEDialect/IR/DiagnosticData.h"
#include "TEDialect/IR/TEMoe.h"

using namespace mlir;
using namespace mlir::te;

#define GET_OP_CLASSES
#include "TEDialect/IR/TEMoeOps.cpp.inc"

LogicalResult RouterTopKOp::verify() {
  auto logits = shapeOf(getLogits().getType()),
       ids = shapeOf(getIds().getType());
  // router_topk-c1
  if (failed(
          verifyShape(*this, "ids", getIds().getType(), {logits[0], ids[1]})) ||
      failed(verifyShape(*this, "probs", getProbs().getType(), ids)) ||
      failed(verifyShape(*this, "scores", getScores().getType(), logits)) ||
      (getBias() &&
       failed(verifyShape(*this, "bias", getBias().getType(), {logits[1]}))))
    return failure();
  const auto groups = static_cast<int64_t>(getGroups()),
             chosen = static_cast<int64_t>(getChosenGroups());
  // router_topk-c3
  if (groups < 1 || logits[1] % groups != 0 ||
      (groups > 1 && logits[1] == groups))
    return emitOpError() << "expected 'groups' to split " << logits[1]
                         << " experts into groups of two or more, but got "
                         << groups;
  // router_topk-c4
  if (chosen < 1 || chosen > groups)
    return emitOpError() << "expected 'chosen_groups' to be from 1 to "
                         << groups << ", but got " << chosen;
  // router_topk-c2
  const int64_t candidates = logits[1] / groups * chosen;
  if (ids[1] < 1 || ids[1] > candidates)
    return emitOpError() << "expected from 1 to " << candidates
                         << " experts of a token, but got " << ids[1];
  return success();
}

LogicalResult RouterTopKBackwardOp::verify() {
  auto dprobs = shapeOf(getDprobs().getType());
  auto scores = shapeOf(getScores().getType());
  // router_topk_backward-c1
  if (failed(verifyShape(*this, "ids", getIds().getType(), dprobs)) ||
      failed(verifyShape(*this, "dlogits", getDlogits().getType(), scores)))
    return failure();
  return verifyShape(*this, "scores", getScores().getType(),
                     {dprobs[0], scores[1]});
}

/// `matrix` has the columns and the element type of `other`.
static LogicalResult verifySameColumns(Operation *op, StringRef name,
                                       Type matrix, StringRef otherName,
                                       Type other) {
  if (failed(verifyShape(op, name, matrix,
                         {shapeOf(matrix)[0], shapeOf(other)[1]})))
    return failure();
  return verifySameElementType(op, name, matrix, otherName, other);
}

LogicalResult PermuteOp::verify() {
  auto x = shapeOf(getX().getType()), ids = shapeOf(getIds().getType());
  auto y = shapeOf(getY().getType());
  // permute-c1
  if (failed(verifyShape(*this, "ids", getIds().getType(), {x[0], ids[1]})) ||
      failed(verifySameColumns(*this, "y", getY().getType(), "x",
                               getX().getType())) ||
      failed(verifyShape(*this, "row_of", getRowOf().getType(),
                         {x[0] * ids[1]})) ||
      failed(verifyShape(*this, "entry_of", getEntryOf().getType(), {y[0]})))
    return failure();
  // permute-c5
  if (getUsed() &&
      failed(verifyShape(*this, "used", getUsed().getType(), {x[0]})))
    return failure();
  // permute-c3
  if (static_cast<int64_t>(getCapacity()) < 0)
    return emitOpError() << "expected 'capacity' not to be negative, but got "
                         << static_cast<int64_t>(getCapacity());
  // permute-c2
  if (failed(verifyGroupLayout(*this, y[0], getAlignment())))
    return failure();
  // permute-c4
  const auto capacity = static_cast<int64_t>(getCapacity());
  const int64_t experts = shapeOf(getGroupSizes().getType())[0];
  if (getPadded() &&
      (capacity == 0 || capacity % static_cast<int64_t>(getAlignment()) != 0 ||
       y[0] != experts * capacity))
    return emitOpError()
           << "expected 'padded' groups to have a 'capacity' that "
              "is a multiple of the alignment "
           << static_cast<int64_t>(getAlignment())
           << " and 'y' that many rows for each of " << experts
           << " experts, but got " << capacity << " and " << y[0];
  return success();
}

/// 'probs' is `[tokens, k]` for `entries` entries.
static LogicalResult verifyProbs(Operation *op, Value probs, int64_t tokens,
                                 int64_t k) {
  return probs ? verifyShape(op, "probs", probs.getType(), {tokens, k})
               : success();
}

LogicalResult UnpermuteOp::verify() {
  int64_t tokens = shapeOf(getOut().getType())[0];
  int64_t entries = shapeOf(getRowOf().getType())[0];
  // unpermute-c1
  if (failed(verifySameColumns(*this, "out", getOut().getType(), "y",
                               getY().getType())) ||
      failed(verifyShape(*this, "entry_of", getEntryOf().getType(),
                         {shapeOf(getY().getType())[0]})))
    return failure();
  if (tokens == 0 || entries % tokens != 0)
    return emitOpError() << "expected as many entries for each of " << tokens
                         << " tokens, but got " << entries;
  // unpermute-c2
  return verifyProbs(*this, getProbs(), tokens, entries / tokens);
}

LogicalResult UnpermuteBackwardOp::verify() {
  // unpermute_backward-c1
  if (failed(verifySameColumns(*this, "dy", getDy().getType(), "dout",
                               getDout().getType())) ||
      failed(verifyShape(*this, "entry_of", getEntryOf().getType(),
                         {shapeOf(getDy().getType())[0]})))
    return failure();
  // unpermute_backward-c2
  if (static_cast<int64_t>(getK()) < 1)
    return emitOpError() << "expected 'k' to be one or more, but got "
                         << static_cast<int64_t>(getK());
  return verifyProbs(*this, getProbs(), shapeOf(getDout().getType())[0],
                     getK());
}

LogicalResult ProbGradOp::verify() {
  auto dprobs = shapeOf(getDprobs().getType());
  // prob_grad-c1
  if (failed(verifySameColumns(*this, "y", getY().getType(), "dout",
                               getDout().getType())) ||
      failed(verifyShape(*this, "dprobs", getDprobs().getType(),
                         {shapeOf(getDout().getType())[0], dprobs[1]})))
    return failure();
  return verifyShape(*this, "row_of", getRowOf().getType(),
                     {dprobs[0] * dprobs[1]});
}

//===----------------------------------------------------------------------===//
// Derivatives
//===----------------------------------------------------------------------===//

LogicalResult RouterTopKOp::differentiate(OpBuilder &b,
                                          AdjointContext &adjoints) {
  if (adjoints.get(getScores()))
    return withData(emitError(), {code::kNotDifferentiable})
           << "'te.router_topk' has no derivative through its "
              "result 'scores'";
  Value dprobs = adjoints.get(getProbs());
  auto backward =
      RouterTopKBackwardOp::create(b, getLoc(), getLogits().getType(), dprobs,
                                   adjoints.residual(getIds(), "ids"),
                                   adjoints.residual(getProbs(), "probs"),
                                   adjoints.residual(getScores(), "scores"),
                                   getSigmoidAttr(), getNormalizeAttr());
  adjoints.add(getLogits(), backward.getDlogits());
  return success();
}

LogicalResult PermuteOp::differentiate(OpBuilder &b, AdjointContext &adjoints) {
  Value rowOf = adjoints.residual(getRowOf(), "row_of");
  Value entryOf = adjoints.residual(getEntryOf(), "entry_of");
  adjoints.add(getX(), UnpermuteOp::create(b, getLoc(), getX().getType(),
                                           adjoints.get(getY()), rowOf, entryOf,
                                           /*probs=*/Value()));
  return success();
}

LogicalResult UnpermuteOp::differentiate(OpBuilder &b,
                                         AdjointContext &adjoints) {
  Value dout = adjoints.get(getOut());
  int64_t k =
      getRowOf().getType().getDimSize(0) / getOut().getType().getDimSize(0);
  if (adjoints.wants(getY())) {
    Value probs = getProbs() ? adjoints.residual(getProbs(), "probs") : Value();
    Value entryOf = adjoints.residual(getEntryOf(), "entry_of");
    adjoints.add(getY(), UnpermuteBackwardOp::create(
                             b, getLoc(), getY().getType(), dout, entryOf,
                             probs, b.getI64IntegerAttr(k)));
  }
  if (getProbs() && adjoints.wants(getProbs())) {
    Value y = adjoints.residual(getY(), "y");
    Value rowOf = adjoints.residual(getRowOf(), "row_of");
    adjoints.add(
        getProbs(),
        ProbGradOp::create(b, getLoc(), getProbs().getType(), dout, y, rowOf));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Rows of no group
//===----------------------------------------------------------------------===//

std::optional<RowGroups> PermuteOp::getZeroPaddedGroups(Value result) {
  if (result != getY())
    return std::nullopt;
  return RowGroups{getGroupSizes(), static_cast<int64_t>(getAlignment())};
}

/// Its rows without an entry are those of no group of te.permute.
std::optional<RowGroups> UnpermuteBackwardOp::getZeroPaddedGroups(Value) {
  Value entries = getEntryOf();
  while (auto residual = entries.getDefiningOp<ResidualOp>())
    entries = residual.getValue();
  auto route = entries.getDefiningOp<PermuteOp>();
  return route ? route.getZeroPaddedGroups(route.getY()) : std::nullopt;
}
