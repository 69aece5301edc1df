//===- TEQuantizeOps.cpp - casts of matrices, shards and groups -----------===//
//
// The three casts share their rules about numbers; each has its own about what
// is given for a tensor, a part or a group. A label stands beside the call that
// checks it.
//
//===----------------------------------------------------------------------===//

#include "TEVerifiers.h"

using namespace mlir;
using namespace mlir::te;

//===----------------------------------------------------------------------===//
// Rules of several casts
//===----------------------------------------------------------------------===//

/// `scale` is given for one scale of a tensor or group, and for no other.
static LogicalResult verifyScale(QuantizeOpInterface op, ScaledType type) {
  if ((type.getScheme() == Scheme::PerTensor) ==
      static_cast<bool>(op.getScale()))
    return success();
  return op->emitOpError() << "expected 'scale' to be given exactly for "
                              "'per_tensor' results, but got "
                           << (op.getScale() ? "one" : "none") << " with '"
                           << stringifyScheme(type.getScheme()) << "'";
}

/// `amax_epsilon` is a number to add to the amax of a block.
static LogicalResult verifyEpsilon(QuantizeOpInterface op, ScaledType type) {
  const APFloat epsilon = op.getAmaxEpsilon();
  if (failed(verifyNonNegative(op, "amax_epsilon", epsilon)))
    return failure();
  if (epsilon.isZero())
    return success();
  if (type.getScheme() == Scheme::PerTensor)
    return op->emitOpError()
           << "expected 'amax_epsilon' only for block schemes; "
              "for 'per_tensor' it belongs to te.compute_scale";
  if (type.isMx() || type.isNv())
    return op->emitOpError()
           << "expected 'amax_epsilon' only for block schemes, "
              "but got one with '"
           << stringifyScheme(type.getScheme()) << "'";
  return success();
}

/// Only casts with one scale measure.
static LogicalResult verifyMeasures(QuantizeOpInterface op, ScaledType type) {
  if (!op.getAmax() || type.getScheme() == Scheme::PerTensor)
    return success();
  return op->emitOpError() << "expected 'amax' only for 'per_tensor' results, "
                              "but got one with '"
                           << stringifyScheme(type.getScheme()) << "'";
}

/// `given_amax` is given for nv schemes, and for no other.
static LogicalResult verifyNvAmax(QuantizeOpInterface op, ScaledType type) {
  if (type.isNv() == static_cast<bool>(op.getGivenAmax()))
    return success();
  return op->emitOpError()
         << "expected 'given_amax' to be given exactly for nv schemes, but got "
         << (op.getGivenAmax() ? "one" : "none") << " with '"
         << stringifyScheme(type.getScheme()) << "'";
}

/// `scale` and `given_amax` are of `shape`; the amaxes of `row_scaled` values
/// are of rows.
static LogicalResult verifyFactors(QuantizeOpInterface op, ScaledType type,
                                   ArrayRef<int64_t> shape) {
  if (Value scale = op.getScale();
      scale && failed(verifyShape(op, "scale", scale.getType(), shape)))
    return failure();
  Value amax = op.getGivenAmax();
  if (!amax)
    return success();
  const int64_t rows[] = {type.getRows()};
  return verifyShape(op, "given_amax", amax.getType(),
                     type.is(ScaleVariant::RowScaled) ? ArrayRef(rows) : shape);
}

/// How FP4 is rounded: by chance, to nearest, or with two scales to choose
/// from.
template <typename CastOp>
static LogicalResult verifyRounding(CastOp op, ScaledType type) {
  if (op.getRng() && !type.isNv())
    return op.emitOpError()
           << "expected 'rng' only for nv schemes, but got one with " << type;
  if (op.getFourOverSix() != FourOverSix::Off && !type.isNv())
    return op.emitOpError() << "expected 'four_over_six' only for nv schemes, "
                               "but got one with "
                            << type;
  if (op.getStream() != 0 && !op.getRng())
    return op.emitOpError()
           << "expected 'stream' only with 'rng', but got "
           << static_cast<int32_t>(op.getStream()) << " without";
  if (op.getRng() && op.getFourOverSix() != FourOverSix::Off)
    return op.emitOpError() << "expected 'four_over_six' to be off with 'rng', "
                               "as the errors it compares are those of nearest "
                               "values, but got '"
                            << stringifyFourOverSix(op.getFourOverSix()) << "'";
  if (op.getRng() && type.is(ScaleVariant::RowScaled))
    return op.emitOpError() << "expected 'rng' only for values with one amax, "
                               "but got one with "
                            << type;
  return success();
}

//===----------------------------------------------------------------------===//
// te.quantize
//===----------------------------------------------------------------------===//

void QuantizeOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  if (getAmax())
    setName(getAmax(), "amax");
}

void QuantizeOp::build(OpBuilder &builder, OperationState &state,
                       TypeRange usages, Value x, const CastArgs &args) {
  build(builder, state, usages, /*amax=*/Type(), x, args.scale, args.givenAmax,
        args.rng, /*into=*/ValueRange(), /*skip=*/Value(),
        builder.getF32FloatAttr(args.amaxEpsilon),
        builder.getI32IntegerAttr(args.stream),
        FourOverSixAttr::get(builder.getContext(), args.fourOverSix),
        /*rounded=*/TypeAttr());
}

QuantizeOpInterface QuantizeOp::withResults(OpBuilder &builder,
                                            TypeRange usages, Type amax) {
  auto other = create(builder, getLoc(), usages, amax, getX(), getScale(),
                      getGivenAmax(), getRng(), getInto(), getSkip(),
                      getAmaxEpsilonAttr(), getStreamAttr(),
                      getFourOverSixAttr(), getRoundedAttr());
  other->setDiscardableAttrs((*this)->getDiscardableAttrDictionary());
  return other;
}

/// Whether casts of `x` to `type` can round to `rounded` first.
static bool canRound(Type x, Type rounded, ScaledType type) {
  return isRoundedF32(x, rounded) &&
         isa<Float8E4M3FNType>(type.getElementType()) &&
         (type.getScheme() == Scheme::PerTensor ||
          type.getScheme() == Scheme::Block128x128);
}

LogicalResult QuantizeOp::verify() {
  // quantize-c1, quantize-c2, quantize-c3
  if (failed(verifyUsages(*this, getUsages().getTypes(),
                          shapeOf(getX().getType()))))
    return failure();
  ScaledType type = getUsageType();
  // quantize-c4
  if (failed(verifyScale(*this, type)))
    return failure();
  // quantize-c5
  if (failed(verifyEpsilon(*this, type)))
    return failure();
  // quantize-c6
  if (failed(verifyMeasures(*this, type)))
    return failure();
  if (getAmax() && type.isStacked())
    return emitOpError() << "expected 'amax' only for one matrix, but got one "
                            "with "
                         << type << "; te.amax_rows measures a stack";
  // quantize-c7
  if (failed(verifyNvAmax(*this, type)))
    return failure();
  // quantize-c8
  if (failed(verifyRounding(*this, type)))
    return failure();
  // quantize-c10
  SmallVector<int64_t, 1> perMatrix;
  if (type.isStacked())
    perMatrix.push_back(type.getNumGroups());
  if (failed(verifyFactors(*this, type, perMatrix)))
    return failure();
  // quantize-c9
  if (failed(verifyNotSwizzled(*this, "usages", type)))
    return failure();
  // quantize-c12
  if (std::optional<Type> rounded = getRounded();
      rounded && !canRound(getX().getType(), *rounded, type))
    return emitOpError() << "expected 'rounded' to be bf16, for an 'x' of f32 "
                            "and results of f8E4M3FN, 'per_tensor' or "
                            "'block_128x128', but got "
                         << *rounded << " for " << getX().getType() << " and "
                         << type;
  // quantize-c11
  return verifyCached(*this, getInto(), getSkip(), getUsages().getTypes());
}

//===----------------------------------------------------------------------===//
// te.quantize_shard
//===----------------------------------------------------------------------===//

void QuantizeShardOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  if (getAmax())
    setName(getAmax(), "amax");
}

void QuantizeShardOp::build(OpBuilder &builder, OperationState &state,
                            Type usage, Value x, IntegerAttr group,
                            const CastArgs &args) {
  assert(!args.rng && "expected a cast of a shard to round to nearest");
  build(builder, state, usage, /*amax=*/Type(), x, args.scale, args.givenAmax,
        /*into=*/Value(), /*skip=*/Value(),
        builder.getF32FloatAttr(args.amaxEpsilon), group);
}

QuantizeOpInterface QuantizeShardOp::withResults(OpBuilder &builder,
                                                 TypeRange usages, Type amax) {
  auto other = create(builder, getLoc(), usages.front(), amax, getX(),
                      getScale(), getGivenAmax(), getInto(), getSkip(),
                      getAmaxEpsilonAttr(), getGroupAttr());
  other->setDiscardableAttrs((*this)->getDiscardableAttrDictionary());
  return other;
}

LogicalResult QuantizeShardOp::verify() {
  ScaledType type = getUsageType();
  // quantize_shard-c1
  if (failed(verifyShape(*this, "x", getX().getType(), {type.getShard()})))
    return failure();
  // quantize_shard-c2
  if (failed(verifyScale(*this, type)))
    return failure();
  // quantize_shard-c3
  const bool isCut = type.getScheme() != Scheme::PerTensor;
  if (isCut != static_cast<bool>(getGivenAmax()))
    return emitOpError() << "expected 'given_amax' to be given exactly for "
                            "schemes with blocks, but got "
                         << (getGivenAmax() ? "one" : "none") << " with '"
                         << stringifyScheme(type.getScheme()) << "'";
  if (isCut && failed(verifyShape(*this, "given_amax", getGivenAmax().getType(),
                                  type.getBlocks())))
    return failure();
  // quantize_shard-c4
  if (isCut != getGroup().has_value())
    return emitOpError() << "expected 'group' to be given exactly for a shard "
                            "of blocks, but got "
                         << (getGroup() ? "one" : "none") << " with " << type;
  if (getGroup()) {
    FailureOr<GroupAttr> group =
        verifyGroup(*this, static_cast<int64_t>(*getGroup()));
    if (failed(group) ||
        failed(verifyCovers(*this, *group, type.getShard(), type.getShape())))
      return failure();
  }
  // quantize_shard-c5
  if (failed(verifyEpsilon(*this, type)))
    return failure();
  // quantize_shard-c6
  if (failed(verifyMeasures(*this, type)))
    return failure();
  // quantize_shard-c7
  return verifyCached(*this, getInto() ? ValueRange(getInto()) : ValueRange(),
                      getSkip(), TypeRange(getUsages().getTypes()));
}

//===----------------------------------------------------------------------===//
// te.grouped_quantize
//===----------------------------------------------------------------------===//

void GroupedQuantizeOp::build(OpBuilder &builder, OperationState &state,
                              TypeRange usages, Value x, Value groupSizes,
                              int64_t alignment, const CastArgs &args) {
  build(builder, state, usages, x, args.scale, args.givenAmax, args.rng,
        groupSizes, builder.getI64IntegerAttr(alignment),
        builder.getF32FloatAttr(args.amaxEpsilon),
        builder.getI32IntegerAttr(args.stream),
        FourOverSixAttr::get(builder.getContext(), args.fourOverSix));
}

QuantizeOpInterface GroupedQuantizeOp::withResults(OpBuilder &builder,
                                                   TypeRange usages,
                                                   Type amax) {
  assert(!amax && "expected no amax of groups, which te.grouped_amax measures");
  (void)amax;
  auto other =
      create(builder, getLoc(), usages, getX(), getScale(), getGivenAmax(),
             getRng(), getGroupSizes(), getAlignmentAttr(),
             getAmaxEpsilonAttr(), getStreamAttr(), getFourOverSixAttr());
  other->setDiscardableAttrs((*this)->getDiscardableAttrDictionary());
  return other;
}

LogicalResult GroupedQuantizeOp::verify() {
  // grouped_quantize-c1, grouped_quantize-c2, grouped_quantize-c3
  if (failed(verifyUsages(*this, getUsages().getTypes(),
                          shapeOf(getX().getType()))))
    return failure();
  ScaledType type = getUsageType();
  const int64_t groups[] = {type.getGroups()};
  // grouped_quantize-c5
  if (failed(verifyEpsilon(*this, type)))
    return failure();
  // grouped_quantize-c4, grouped_quantize-c6
  if (failed(verifyScale(*this, type)) || failed(verifyNvAmax(*this, type)) ||
      failed(verifyFactors(*this, type, groups)))
    return failure();
  // grouped_quantize-c7
  if (failed(verifyRounding(*this, type)))
    return failure();
  // grouped_quantize-c8
  if (failed(
          verifyShape(*this, "group_sizes", getGroupSizes().getType(), groups)))
    return failure();
  return verifyGroupLayout(*this, type.getRows(),
                           static_cast<int64_t>(getAlignment()));
}
