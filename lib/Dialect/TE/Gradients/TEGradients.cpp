//===- TEGradients.cpp - derivatives of te ops ----------------------------===//
//
// One rule per differentiable op: the backward op it has, and what that reads
// of the forward. Backward ops take their forward op's location and recipe, so
// that they are quantised as that layer. A rule that needs an optional result
// (rsigma, lse) puts a new op in place of the forward one and leaves the old
// one without users, for te-differentiate to erase.
//
//===----------------------------------------------------------------------===//

#include "SideResults.h"

#include "TEDialect/IR/DiagnosticData.h"
#include "TEDialect/IR/TE.h"

using namespace mlir;
using namespace mlir::te;

/// Gives `backward` the recipe that is written on `forward`, if any.
static void keepRecipe(Operation *forward, Operation *backward) {
  if (Attribute recipe = forward->getDiscardableAttr(kRecipeAttr))
    backward->setDiscardableAttr(kRecipeAttr, recipe);
}

LogicalResult te::expectNoCotangent(Operation *op, AdjointContext &adjoints,
                                    Value side, StringRef name) {
  if (!side || !adjoints.get(side))
    return success();
  return withData(op->emitError(), {code::kNotDifferentiable})
         << "'" << op->getName() << "' has no derivative through its result '"
         << name << "'";
}

LogicalResult LinearOp::differentiate(OpBuilder &b, AdjointContext &adjoints) {
  Value dy = adjoints.get(getY());
  if (adjoints.wants(getX())) {
    Value w = adjoints.residual(getW(), "w");
    auto dgrad =
        LinearDgradOp::create(b, getLoc(), getX().getType(), dy, w,
                              getParallelAttr(), getTransposedWeightAttr());
    keepRecipe(*this, dgrad);
    adjoints.add(getX(), dgrad.getDx());
  }
  if (adjoints.wants(getW())) {
    Value x = adjoints.residual(getX(), "x");
    auto wgrad = LinearWgradOp::create(
        b, getLoc(), getW().getType(), dy, x,
        /*accumulate=*/Value(), getParallelAttr(), getTransposedWeightAttr());
    keepRecipe(*this, wgrad);
    adjoints.add(getW(), wgrad.getDw());
  }
  if (getBias() && adjoints.wants(getBias())) {
    Value db = BiasGradOp::create(b, getLoc(), getBias().getType(), dy);
    // Every rank has the bias, and a part of the rows of dy.
    if (ParallelAttr parallel = getParallelAttr();
        parallel && parallel.isRow() && parallel.getSequence())
      db = AllReduceOp::create(b, getLoc(), db.getType(), db,
                               parallel.getGroup());
    adjoints.add(getBias(), db);
  }
  return success();
}

/// A norm that adds is made after differentiation.
template <typename NormOp> static LogicalResult expectNoAddend(NormOp norm) {
  if (!norm.getAddend() && !norm.getBase())
    return success();
  return norm.emitOpError()
         << "expected no operand '" << (norm.getAddend() ? "addend" : "base")
         << "' in what is differentiated; add "
         << (norm.getAddend() ? "before" : "after") << " the norm";
}

/// The op itself if it gives its statistics of each row of its first operand,
/// the optional results `indices`; else one that does in its place.
template <typename Op>
static Op requireStatistics(Op op, ArrayRef<unsigned> indices) {
  if (!op.getODSResults(indices.front()).empty())
    return op;
  auto x = cast<RankedTensorType>(op->getOperand(0).getType());
  return addResults(op, indices,
                    RankedTensorType::get({x.getDimSize(0)},
                                          Float32Type::get(op.getContext())));
}

LogicalResult RmsNormOp::differentiate(OpBuilder &b, AdjointContext &adjoints) {
  if (failed(expectNoAddend(*this)) ||
      failed(expectNoCotangent(*this, adjoints, getRsigma(), "rsigma")) ||
      failed(expectNoCotangent(*this, adjoints, getAmax(), "amax")))
    return failure();
  Value dy = adjoints.get(getY());
  Value x = adjoints.residual(getX(), "x");
  Value gamma = adjoints.residual(getGamma(), "gamma");
  Value rsigma = adjoints.residual(
      requireStatistics(*this, /*rsigma*/ 1).getRsigma(), "rsigma");
  auto backward = RmsNormBackwardOp::create(
      b, getLoc(), getX().getType(), getGamma().getType(), /*amax=*/Type(), dy,
      x, gamma, rsigma, /*addend=*/Value(), getZeroCenteredGammaAttr());
  if (adjoints.wants(getX()))
    adjoints.add(getX(), backward.getDx());
  if (adjoints.wants(getGamma()))
    adjoints.add(getGamma(), backward.getDgamma());
  return success();
}

LogicalResult LayerNormOp::differentiate(OpBuilder &b,
                                         AdjointContext &adjoints) {
  if (failed(expectNoAddend(*this)) ||
      failed(expectNoCotangent(*this, adjoints, getMu(), "mu")) ||
      failed(expectNoCotangent(*this, adjoints, getRsigma(), "rsigma")) ||
      failed(expectNoCotangent(*this, adjoints, getAmax(), "amax")))
    return failure();
  Value dy = adjoints.get(getY());
  Value x = adjoints.residual(getX(), "x");
  Value gamma = adjoints.residual(getGamma(), "gamma");
  LayerNormOp norm = requireStatistics(*this, {/*mu*/ 1, /*rsigma*/ 2});
  Value mu = adjoints.residual(norm.getMu(), "mu");
  Value rsigma = adjoints.residual(norm.getRsigma(), "rsigma");
  auto backward = LayerNormBackwardOp::create(
      b, getLoc(), getX().getType(), getGamma().getType(), getBeta().getType(),
      /*amax=*/Type(), dy, x, gamma, mu, rsigma, /*addend=*/Value(),
      getZeroCenteredGammaAttr());
  if (adjoints.wants(getX()))
    adjoints.add(getX(), backward.getDx());
  if (adjoints.wants(getGamma()))
    adjoints.add(getGamma(), backward.getDgamma());
  if (adjoints.wants(getBeta()))
    adjoints.add(getBeta(), backward.getDbeta());
  return success();
}

LogicalResult ActivationOp::differentiate(OpBuilder &b,
                                          AdjointContext &adjoints) {
  if (failed(expectNoCotangent(*this, adjoints, getAmax(), "amax")))
    return failure();
  Value dy = adjoints.get(getY());
  Value x = adjoints.residual(getX(), "x");
  Value gate = getGate() ? adjoints.residual(getGate(), "gate") : Value();
  auto backward = ActivationBackwardOp::create(
      b, getLoc(), getX().getType(), gate ? gate.getType() : Type(),
      /*amax=*/Type(), /*dgate_amax=*/Type(), getKindAttr(), dy, x, gate,
      getLimitAttr(), getAlphaAttr(), getOffsetAttr());
  adjoints.add(getX(), backward.getDx());
  if (gate)
    adjoints.add(getGate(), backward.getDgate());
  return success();
}

LogicalResult SoftmaxOp::differentiate(OpBuilder &b, AdjointContext &adjoints) {
  Value dy = adjoints.get(getY());
  Value y = adjoints.residual(getY(), "y");
  adjoints.add(getX(), SoftmaxBackwardOp::create(b, getLoc(), getX().getType(),
                                                 dy, y, getScaleAttr()));
  return success();
}

LogicalResult DropoutOp::differentiate(OpBuilder &b, AdjointContext &adjoints) {
  Value dy = adjoints.get(getY());
  Value rng = adjoints.residual(getRng(), "rng");
  adjoints.add(getX(),
               DropoutOp::create(b, getLoc(), getX().getType(), dy, rng,
                                 getProbabilityAttr(), getStreamAttr()));
  return success();
}

LogicalResult EmbeddingOp::differentiate(OpBuilder &b,
                                         AdjointContext &adjoints) {
  Value dy = adjoints.get(getY());
  Value ids = adjoints.residual(getIds(), "ids");
  adjoints.add(getTable(),
               EmbeddingBackwardOp::create(b, getLoc(), getTable().getType(),
                                           ids, dy, /*accumulate=*/Value()));
  return success();
}

LogicalResult CrossEntropyOp::differentiate(OpBuilder &b,
                                            AdjointContext &adjoints) {
  if (failed(expectNoCotangent(*this, adjoints, getLse(), "lse")))
    return failure();
  Value dloss = adjoints.get(getLoss());
  Value logits = adjoints.residual(getLogits(), "logits");
  Value targets = adjoints.residual(getTargets(), "targets");
  Value lse =
      adjoints.residual(requireStatistics(*this, /*lse*/ 1).getLse(), "lse");
  Value weight = CrossEntropyWeightOp::create(
      b, getLoc(), dloss.getType(), targets, dloss,
      b.getI64IntegerAttr(getClasses()), getIgnoreIndexAttr());
  auto backward = CrossEntropyBackwardOp::create(
      b, getLoc(), getLogits().getType(), weight, logits, targets, lse,
      getVocabularyAttr(), getIgnoreIndexAttr());
  adjoints.add(getLogits(), backward.getDlogits());
  return success();
}
