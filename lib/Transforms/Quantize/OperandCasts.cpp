//===- OperandCasts.cpp - the cast of one operand, at one place -----------===//

#include "OperandCasts.h"
#include "OperandAmax.h"
#include "ZeroPadding.h"

#include "TEDialect/Transforms/Utils/Padding.h"

using namespace mlir;
using namespace mlir::te;

static constexpr StringLiteral kRngState = "rng_state";

ScaledType te::castTypeOf(const Operand &operand, const QuantPolicy &policy) {
  if (operand.view) {
    auto whole = cast<ShapedType>(operand.whole().getType()).getShape();
    ScaledType type = policy.castType(operand.role, operand.reader(), whole,
                                      operand.contract);
    if (!type.isMx()) // the columns are the rows, transposed
      type = policy.castType(TensorRole::W, Gemm::Fprop, type.getShape(), 1);
    return type.getShardOf(operand.shape()[0]);
  }
  ScaledType type = policy.castType(operand.role, operand.reader(),
                                    operand.castShape(), operand.contract);
  return operand.groupSizes ? type.getInGroups(operand.perGroup()[0]) : type;
}

/// `operand` as a cast to `type` reads it: with its padding, and the padding
/// between the groups is set to zeros if the cast reads it.
static Operand prepare(OpBuilder &builder, Value source, const Operand &operand,
                       ScaledType type) {
  Operand result = operand;
  result.value = source;
  if (!operand.groupSizes) {
    result.value = padWithZeros(builder, source, operand.castShape());
    return result;
  }
  const bool readsPadding =
      type.is(ScaleVariant::Hadamard) ||
      (type.getScheme() != Scheme::PerTensor &&
       (!type.isNv() || type.is(ScaleVariant::RowScaled)));
  if (readsPadding &&
      !hasZeroPadding(source, operand.groupSizes, operand.alignment))
    result.value = ZeroPaddingOp::create(
        builder, operand.value.getLoc(), source.getType(), source,
        operand.groupSizes, builder.getI64IntegerAttr(operand.alignment));
  result.value = padWithZeros(builder, result.value, operand.castShape());
  // The transform fills up the last run of 16 rows of each group.
  if (type.is(ScaleVariant::Hadamard))
    result.groupSizes = RoundGroupSizesOp::create(
        builder, operand.value.getLoc(), operand.groupSizes.getType(),
        operand.groupSizes, builder.getI64IntegerAttr(16));
  return result;
}

/// Creates the cast of `read`, a matrix, a stack or groups of rows, to `type`.
static Value createCast(OpBuilder &builder, Location loc, ScaledType type,
                        const Operand &read, const CastArgs &args) {
  if (read.groupSizes)
    return GroupedQuantizeOp::create(builder, loc, TypeRange(type), read.value,
                                     read.groupSizes, read.alignment, args)
        .getUsages()
        .front();
  return QuantizeOp::create(builder, loc, TypeRange(type), read.value, args)
      .getUsages()
      .front();
}

/// Creates the cast of the shard `source` to `type`. Blocks that are split
/// between ranks have the maximum of the amaxes of several ranks.
static Value createShardCast(OpBuilder &builder, Location loc, ScaledType type,
                             Value source, const Operand &operand,
                             CastArgs args, RecipeAttr recipe) {
  IntegerAttr group;
  if (!args.scale) {
    group = AllGatherOp(operand.gather).getGroupAttr();
    auto blocks = RankedTensorType::get(type.getBlocks(), builder.getF32Type());
    args.givenAmax = reduceAmax(
        builder,
        PartialAmaxOp::create(builder, loc, blocks, source, group.getInt(),
                              type.getShape(), type.getBlockShape()),
        group.getInt(), recipe);
  }
  return QuantizeShardOp::create(builder, loc, type, source, group, args)
      .getUsage();
}

Value OperandCasts::dequantize(OpBuilder &builder, Value scaled,
                               const Operand &operand) {
  Value source = operand.view ? operand.whole() : operand.value;
  auto type = cast<RankedTensorType>(source.getType());
  if (operand.isPadded())
    type = type.clone(operand.castShape());
  return DequantizeOp::create(builder, operand.value.getLoc(), type, scaled,
                              operand.groupSizes,
                              builder.getI64IntegerAttr(operand.alignment),
                              /*without_amax=*/UnitAttr());
}

Value OperandCasts::create(OpBuilder &builder, const Operand &operand,
                           const Layer &layer) {
  const QuantPolicy &policy = layer.policy;
  if (operand.contract != operand.firstAxis() &&
      policy.columnSource(operand.role) == CastSource::RowwiseDequantized &&
      policy.operandMode(readerOf(operand.role, 1)) == OperandMode::Quantized) {
    Operand first = operand;
    first.contract = operand.firstAxis();
    Value rounded = dequantize(builder, create(builder, first, layer), operand);
    return quantize(builder, rounded, operand, layer);
  }
  return quantize(builder, operand.value, operand, layer);
}

Value OperandCasts::randomState(OpBuilder &builder) {
  if (!rngState) {
    rngName = states.uniqueBase(kRngState, {""});
    rngState = states.addState(
        rngName, RankedTensorType::get({2}, builder.getI32Type()), 0.0);
  }
  return rngState;
}

void OperandCasts::finish(OpBuilder &builder) {
  if (rngState)
    states.setNext(rngName, RngAdvanceOp::create(
                                builder, builder.getInsertionPoint()->getLoc(),
                                rngState.getType(), rngState,
                                builder.getI32IntegerAttr(1)));
}

Value OperandCasts::quantizeToFP4(OpBuilder &builder, Value source,
                                  const Operand &operand, ScaledType type,
                                  const Layer &layer) {
  Location loc = operand.value.getLoc();
  const Gemm gemm = operand.reader();
  Operand read = prepare(builder, source, operand, type);
  source = read.value;
  if (type.is(ScaleVariant::Hadamard))
    source = HadamardOp::create(builder, loc, source.getType(), source);
  read.value = source;
  CastArgs args;
  args.givenAmax =
      type.is(ScaleVariant::RowScaled)
          ? AmaxRowsOp::create(
                builder, loc,
                RankedTensorType::get({type.getRows()}, builder.getF32Type()),
                source)
          : createAmax(builder, source, read, layer.policy.getRecipe());
  args.fourOverSix = layer.policy.fourOverSix(operand.role, gemm);
  if (layer.policy.stochasticRounding(operand.role, gemm)) {
    args.rng = randomState(builder);
    // Equal casts have one stream, so that cse may merge them; others differ.
    args.stream = streams
                      .try_emplace({operand.value, operand.contract},
                                   static_cast<int32_t>(streams.size()))
                      .first->second;
  }
  return createCast(builder, loc, type, read, args);
}

Value OperandCasts::quantize(OpBuilder &builder, Value source,
                             const Operand &operand, const Layer &layer) {
  const QuantPolicy &policy = layer.policy;
  Location loc = operand.value.getLoc();
  ScaledType type = castTypeOf(operand, policy);
  const Gemm gemm = operand.reader();
  if (type.isNv() && !type.isShard())
    return quantizeToFP4(builder, source, operand, type, layer);
  CastArgs args;
  args.amaxEpsilon = policy.recipeOf(gemm).getOptions().amaxEpsilon;
  if (policy.isDelayed(gemm)) {
    args.scale = slots.scaleFor(builder, operand, layer);
  } else if (type.getScheme() == Scheme::PerTensor) {
    Value amax = createAmax(builder, source, operand, policy.getRecipe());
    args.scale =
        ComputeScaleOp::create(builder, loc, amax.getType(), amax,
                               TypeAttr::get(type.getElementType()),
                               builder.getBoolAttr(type.getPow2()),
                               builder.getF32FloatAttr(args.amaxEpsilon));
    // The scale contains the epsilon, so the cast must not use it again.
    args.amaxEpsilon = 0.0f;
  }
  if (type.isShard())
    return createShardCast(builder, loc, type, source, operand, args,
                           policy.getRecipe());
  return createCast(builder, loc, type, prepare(builder, source, operand, type),
                    args);
}
