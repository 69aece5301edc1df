//===- CastPlacement.cpp - where the casts of operands go -----------------===//

#include "CastPlacement.h"
#include "GatheredOperands.h"

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/IR/Chunks.h"
#include "TEDialect/IR/Support.h"
#include "TEDialect/Transforms/Utils/Padding.h"

using namespace mlir;
using namespace mlir::te;

/// Whether `value` is rows that were saved, as a layer reads them that
/// te-chunk-rows computes again in the backward.
static bool isSavedRows(Value value) {
  auto slice = value.getDefiningOp<tensor::ExtractSliceOp>();
  return slice && slice->hasAttr(kChunkAttr) &&
         slice.getSource().getDefiningOp<ResidualOp>();
}

/// Whether the layer `op` is of the forward, and is not computed again.
static bool isOfForward(Operation *op) {
  return isForwardLayer(op) && !isSavedRows(op->getOperand(0));
}

bool te::readsRowsAsColumns(const Operand &operand, const QuantPolicy &policy) {
  if (operand.contract == 1 || operand.hasGroups())
    return false;
  // A custom recipe may cast a tensor in different ways for its two GEMMs.
  if (policy.recipeOf(readerOf(operand.role, 0)) !=
          policy.recipeOf(readerOf(operand.role, 1)) ||
      policy.columnSource(operand.role) == CastSource::RowwiseDequantized)
    return false;
  ScaledType type = castTypeOf(operand, policy);
  const auto scheme = static_cast<int32_t>(Scheme::PerTensor);
  return type.getScheme() == Scheme::PerTensor &&
         type.getCols() % support::productRow(scheme, scheme).k == 0;
}

Value CastPlacement::castFor(Operation *user, const Operand &operand,
                             const Layer &layer) {
  const bool rows = anyLayout && readsRowsAsColumns(operand, layer.policy);
  Operand part = operand;
  if (operand.view)
    part.contract = castTypeOf(operand, layer.policy).getContract();
  else if (rows || gathersRowsOnly(operand, layer.policy))
    part.contract = 1;
  Value local = castPartFor(user, part, layer);
  if (!operand.gather)
    return local;
  OpBuilder builder(user);
  Value whole = gatherParts(builder, local, operand.gather);
  if (rows || part.contract == operand.contract)
    return whole;
  auto transposed = cast<ScaledType>(whole.getType()).getTransposedUsage();
  return TransposeOp::create(builder, user->getLoc(), transposed, whole,
                             /*into=*/Value(), /*skip=*/Value());
}

Value CastPlacement::castPartFor(Operation *user, const Operand &operand,
                                 const Layer &layer) {
  OpBuilder builder(user);
  if (isOfForward(user) || operand.role == TensorRole::Dy)
    return casts.create(builder, operand, layer);
  if (auto residual = operand.value.getDefiningOp<ResidualOp>()) {
    builder.setInsertionPoint(residual);
    Operand saved = operand;
    saved.value = residual.getValue();
    Value scaled = casts.create(builder, saved, layer);
    replacedResiduals.insert(residual);
    return ResidualOp::create(builder, residual.getLoc(), scaled.getType(),
                              scaled, residual.getNameAttr());
  }
  const Reader reader =
      forwardReaders.lookup({operand.value, operand.groupSizes});
  const bool isInForward = reader.op &&
                           reader.op->getBlock() == user->getBlock() &&
                           reader.number < boundary.numberOf(user);
  if (!isInForward)
    return casts.create(builder, operand, layer);
  builder.setInsertionPoint(reader.op);
  Value scaled = casts.create(builder, operand, layer);
  return boundary.save(scaled, reader.number, user,
                       builder.getStringAttr(describeValue(operand.value)));
}

Value CastPlacement::dequantizedFor(Operation *user, const Operand &operand,
                                    const Layer &layer) {
  // The cast of the forward, regardless of the axis that this GEMM contracts.
  Operand forward = operand;
  forward.contract = operand.firstAxis();
  forward =
      keepExactGather(forward, layer.policy,
                      user->getParentOfType<FunctionOpInterface>().getName());
  Value scaled = castPartFor(user, forward, layer);
  OpBuilder builder(user);
  if (forward.view)
    return casts.dequantize(
        builder, gatherParts(builder, scaled, forward.gather), forward);
  Value local =
      cutTo(builder, user->getLoc(), casts.dequantize(builder, scaled, forward),
            forward.value.getType());
  return forward.gather ? gatherParts(builder, local, forward.gather) : local;
}

void CastPlacement::measureFor(Operation *user, const Operand &operand,
                               const Layer &layer) {
  if (!layer.policy.isDelayed(operand.reader()))
    return;
  OpBuilder builder(user);
  Operand measured = operand;
  // Measure in the forward, where the cast would be.
  if (auto residual = operand.value.getDefiningOp<ResidualOp>()) {
    builder.setInsertionPoint(residual);
    measured.value = residual.getValue();
  }
  (void)slots.scaleFor(builder, measured, layer);
}

void CastPlacement::replacedForward(const LayerGemm &gemm, Operation *product) {
  if (!isOfForward(gemm.op))
    return;
  const Reader reader = {product, boundary.numberOf(gemm.op)};
  for (const Operand &operand : {gemm.a, gemm.b})
    forwardReaders.try_emplace({operand.value, operand.groupSizes}, reader);
}

void CastPlacement::eraseUnusedResiduals() {
  for (Operation *residual : replacedResiduals)
    if (residual->use_empty())
      residual->erase();
}
