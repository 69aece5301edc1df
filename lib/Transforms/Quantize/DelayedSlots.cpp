//===- DelayedSlots.cpp - the scales that delayed scaling carries ---------===//

#include "DelayedSlots.h"
#include "OperandAmax.h"

#include "TEDialect/IR/Chunks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::te;

static constexpr StringLiteral kHistory = ".amax_history", kScale = ".scale";

static StringRef suffixOf(TensorRole role) {
  switch (role) {
  case TensorRole::X:
    return ".x";
  case TensorRole::W:
    return ".w";
  case TensorRole::Dy:
    return ".dy";
  }
  llvm_unreachable("all roles are listed");
}

/// The tensor that `operand` is; all rows if it is the input of a layer that
/// te-chunk-rows computes over a few rows at a time.
static Value wholeOf(const Operand &operand) {
  auto slice = operand.value.getDefiningOp<tensor::ExtractSliceOp>();
  if (!slice || !slice->hasAttr(kChunkAttr))
    return operand.value;
  return slice.getSource();
}

DelayedSlots::Key DelayedSlots::keyOf(const Operand &operand,
                                      RecipeAttr recipe) {
  Value tensor = wholeOf(operand);
  while (auto residual = tensor.getDefiningOp<ResidualOp>())
    tensor = residual.getValue();
  // Several roundings of one weight are one tensor, because cse merges them.
  if (auto rounded = tensor.getDefiningOp<arith::TruncFOp>())
    tensor = roundings.try_emplace({rounded.getIn(), rounded.getType()}, tensor)
                 .first->second;
  const void *sizes = operand.groupSizes.getAsOpaquePointer();
  if (Attribute equal;
      sizes && matchPattern(operand.groupSizes, m_Constant(&equal)))
    sizes = equal.getAsOpaquePointer();
  return {tensor, unsigned(operand.role), sizes, operand.alignment, recipe};
}

Value DelayedSlots::scaleFor(OpBuilder &builder, const Operand &operand,
                             const Layer &layer) {
  const Gemm reader = operand.reader();
  RecipeAttr recipe = layer.policy.recipeOf(reader);
  auto [found, isNew] = slots.insert({keyOf(operand, recipe), {}});
  Slot &slot = found->second;
  if (!isNew)
    return slot.scale;
  SmallVector<int64_t, 1> groups = operand.perGroup();
  auto scaleType = RankedTensorType::get(groups, builder.getF32Type());
  groups.insert(groups.begin(), recipe.getOptions().amaxHistoryLen);
  auto history = RankedTensorType::get(groups, builder.getF32Type());
  slot.name = states.uniqueBase(layer.name + suffixOf(operand.role).str(),
                                {kHistory, kScale});
  slot.history = states.addState(slot.name + kHistory.str(), history, 0.0);
  slot.scale = states.addState(slot.name + kScale.str(), scaleType, 1.0);
  // Measure this rank's part only; update() reduces all amaxes together.
  Operand measured = operand;
  measured.value = wholeOf(operand);
  measured.gather = {};
  measured.view = {};
  slot.amax =
      createAmax(builder, measured.value, measured, layer.policy.getRecipe());
  slot.elementType = layer.policy.elementType(operand.role, reader);
  return slot.scale;
}

Value DelayedSlots::reduceOverAll(OpBuilder &builder, Value amax,
                                  RecipeAttr recipe) {
  // Layers with groups of rows are not split over ranks.
  if (cast<RankedTensorType>(amax.getType()).getRank() != 0)
    return amax;
  llvm::StringSet<> axes;
  for (GroupAttr group : getGroups(function))
    if (group.getSize() > 1 && axes.insert(group.getAxis()).second)
      amax = reduceAmax(builder, amax, group.getId(), recipe);
  return amax;
}

void DelayedSlots::update(OpBuilder &builder) {
  for (auto &[key, slot] : slots) {
    RecipeAttr recipe = std::get<RecipeAttr>(key);
    slot.amax = reduceOverAll(builder, slot.amax, recipe);
    auto update = DelayedScalingUpdateOp::create(
        builder, slot.amax.getLoc(), slot.history.getType(),
        slot.scale.getType(), slot.amax, slot.history, slot.scale,
        TypeAttr::get(slot.elementType),
        AmaxAlgorithmAttr::get(builder.getContext(),
                               recipe.getOptions().amaxComputeAlgo),
        builder.getI32IntegerAttr(recipe.getOptions().margin));
    states.setNext(slot.name + kHistory.str(), update.getNewHistory());
    states.setNext(slot.name + kScale.str(), update.getNewScale());
  }
}
