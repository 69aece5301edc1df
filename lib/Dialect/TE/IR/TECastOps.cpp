//===- TECastOps.cpp - verifiers of amax, scale and cast ops --------------===//

#include "TEVerifiers.h"

#include "TEDialect/IR/Support.h"

using namespace mlir;
using namespace mlir::te;

LogicalResult AmaxReduceOp::verify() {
  // amax_reduce-c2
  if (getAmaxes().empty() || getAmaxes().getTypes() != getReduced().getTypes())
    return emitOpError()
           << "expected one amax or more and a result of the type "
              "of each, but got "
           << getAmaxes().size() << " amaxes and " << getReduced().size()
           << " results";
  // amax_reduce-c1
  return verifyGroup(*this, static_cast<int32_t>(getGroupId()));
}

LogicalResult AmaxRowsOp::verify() {
  // amax_rows-c1
  return verifyShape(*this, "amax", getAmax().getType(),
                     {shapeOf(getX().getType())[0]});
}

/// Shards of `count` elements, one for each rank of `group`, cover a matrix of
/// `shape` and nothing but padding beyond.
static LogicalResult verifyCovers(Operation *op, GroupAttr group, int64_t count,
                                  ArrayRef<int64_t> shape) {
  const int64_t all = shape[0] * shape[1];
  if (count <= all && count * group.getSize() >= all)
    return success();
  return op->emitOpError() << "expected a shard of the " << all
                           << " elements of the matrix to have from "
                           << llvm::divideCeil(all, group.getSize()) << " to "
                           << all << " of them for a group of "
                           << group.getSize() << ", but got " << count;
}

LogicalResult PartialAmaxOp::verify() {
  // partial_amax-c1
  FailureOr<GroupAttr> group = verifyGroup(*this, getGroup());
  if (failed(group))
    return failure();
  // partial_amax-c2
  ArrayRef<int64_t> shape = getShape();
  if (shape.size() != 2 || shape[0] < 0 || shape[1] < 0)
    return emitOpError() << "expected 'shape' to be that of a matrix, but got "
                         << formatShape(shape);
  if (failed(verifyCovers(*this, *group, shapeOf(getX().getType())[0], shape)))
    return failure();
  // partial_amax-c3
  ArrayRef<int64_t> blocks = getBlocks();
  constexpr int64_t kBlocks[][2] = {{128, 128}, {1, 32}, {32, 1},
                                    {32, 32},   {1, 16}, {16, 16}};
  if (llvm::none_of(kBlocks,
                    [&](ArrayRef<int64_t> each) { return each == blocks; }))
    return emitOpError() << "expected 'blocks' to be [128, 128], [1, 32], "
                            "[32, 1], [32, 32], [1, 16] or [16, 16], but got ["
                         << blocks << "]";
  // partial_amax-c4
  return verifyShape(
      *this, "amax", getAmax().getType(),
      {static_cast<int64_t>(llvm::divideCeil(shape[0], blocks[0])),
       static_cast<int64_t>(llvm::divideCeil(shape[1], blocks[1]))});
}

LogicalResult HadamardOp::verify() {
  // hadamard-c1
  int64_t rows = shapeOf(getX().getType())[0];
  if (rows % 16)
    return emitOpError() << "expected the rows to be a multiple of 16, but got "
                         << rows;
  return success();
}

static LogicalResult verifyFp8(Operation *op, Type elementType) {
  if (isa<Float8E4M3FNType, Float8E5M2Type>(elementType))
    return success();
  return op->emitOpError()
         << "expected 'element_type' to be 'f8E4M3FN' or 'f8E5M2', but got "
         << elementType;
}

LogicalResult ComputeScaleOp::verify() {
  // compute_scale-c1
  if (failed(verifyFp8(*this, getElementType())))
    return failure();
  // compute_scale-c2
  return verifyNonNegative(*this, "amax_epsilon", getAmaxEpsilon());
}

LogicalResult DelayedScalingUpdateOp::verify() {
  // delayed_scaling_update-c1
  ArrayRef<int64_t> slots = shapeOf(getAmax().getType());
  ArrayRef<int64_t> history = shapeOf(getHistory().getType());
  if (history.empty() || history.front() < 1 || history.drop_front() != slots)
    return emitOpError() << "expected 'history' to have one row or more, each "
                            "of the shape of 'amax', but got "
                         << getHistory().getType() << " and "
                         << getAmax().getType();
  // delayed_scaling_update-c2
  if (failed(verifyFp8(*this, getElementType())))
    return failure();
  // delayed_scaling_update-c3
  int32_t margin = static_cast<int32_t>(getMargin());
  if (margin < -100 || margin > 100)
    return emitOpError() << "expected 'margin' to be from -100 to 100, but got "
                         << margin;
  return success();
}

void QuantizeOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  if (getAmax())
    setName(getAmax(), "amax");
}

/// A shard whose blocks other ranks may have the rest of.
static bool isBlockShard(ScaledType type) {
  return type.isShard() && type.getScheme() != Scheme::PerTensor;
}

/// What an nv cast is given, and no other but that of a shard of blocks.
static LogicalResult verifyNvOperands(QuantizeOp op, ScaledType type) {
  StringRef scheme = stringifyScheme(type.getScheme());
  // quantize-c7
  const bool isCut = isBlockShard(type);
  if ((type.isNv() || isCut) != static_cast<bool>(op.getGivenAmax()))
    return op.emitOpError() << "expected 'given_amax' to be given exactly for "
                               "nv schemes and shards of blocks, but got "
                            << (op.getGivenAmax() ? "one" : "none") << " with '"
                            << scheme << "'";
  if (isCut && failed(verifyShape(op, "given_amax", op.getGivenAmax().getType(),
                                  type.getBlocks())))
    return failure();
  if (op.getGivenAmax() && type.is(ScaleVariant::RowScaled) &&
      failed(verifyShape(op, "given_amax", op.getGivenAmax().getType(),
                         {type.getRows()})))
    return failure();
  // quantize-c8
  const bool isWholeNv = type.isNv() && !isCut;
  if (op.getRng() && !isWholeNv)
    return op.emitOpError() << "expected 'rng' only for nv schemes without "
                               "'shard', but got one with "
                            << type;
  if (op.getFourOverSix() != FourOverSix::Off && !isWholeNv)
    return op.emitOpError() << "expected 'four_over_six' only for nv schemes "
                               "without 'shard', but got one with "
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

/// Only products read scales that are swizzled.
static LogicalResult verifyNotSwizzled(Operation *op, StringRef name,
                                       ScaledType type) {
  if (type.is(ScaleVariant::Swizzled))
    return op->emitOpError()
           << "expected '" << name << "' not to be swizzled, but got " << type;
  return success();
}

/// The sizes and the alignment of a value with groups, and of no other.
static LogicalResult verifyGroupsOf(Operation *op, ScaledType type,
                                    Value groupSizes, int64_t alignment) {
  if (type.isGrouped() != static_cast<bool>(groupSizes))
    return op->emitOpError()
           << "expected 'group_sizes' exactly for a value with groups, but got "
           << (groupSizes ? "them" : "none") << " with " << type;
  if (!type.isGrouped() && alignment != 0)
    return op->emitOpError() << "expected 'alignment' only for a value with "
                                "groups, but got "
                             << alignment << " with " << type;
  if (!type.isGrouped())
    return success();
  if (failed(verifyShape(op, "group_sizes", groupSizes.getType(),
                         {type.getGroups()})))
    return failure();
  return verifyGroupLayout(op, type.getRows(), alignment);
}

/// What is given for each group of a cast.
static LogicalResult verifyPerGroup(QuantizeOp op, ScaledType type) {
  SmallVector<int64_t, 1> shape;
  if (type.isGrouped() || type.isStacked())
    shape.push_back(type.getNumGroups());
  // quantize-c11
  if (op.getScale() &&
      failed(verifyShape(op, "scale", op.getScale().getType(), shape)))
    return failure();
  if (op.getGivenAmax() && type.isNv() && !type.isShard() &&
      !type.is(ScaleVariant::RowScaled) &&
      failed(verifyShape(op, "given_amax", op.getGivenAmax().getType(), shape)))
    return failure();
  if (op.getAmax() && !shape.empty())
    return op.emitOpError() << "expected no 'amax' of a cast with groups; "
                               "te.grouped_amax measures them";
  return success();
}

/// What a cached cast keeps, `into`, for its `results`.
static LogicalResult verifyCached(Operation *op, ValueRange into, Value skip,
                                  TypeRange results) {
  if (into.empty() == static_cast<bool>(skip))
    return op->emitOpError()
           << "expected 'into' exactly with 'skip', but got "
           << (skip ? "a flag alone" : "a cached value without a flag");
  if (!into.empty() && into.getTypes() != results)
    return op->emitOpError() << "expected 'into' to have the types " << results
                             << " of the results, but got " << into.getTypes();
  return success();
}

LogicalResult QuantizeOp::verify() {
  // quantize-c1, quantize-c2, quantize-c3
  auto type = getUsages().empty() ? ScaledType()
                                  : cast<ScaledType>(getUsages()[0].getType());
  if (type && type.isShard()) {
    if (getUsages().size() != 1)
      return emitOpError() << "expected one result with 'shard', but got "
                           << getUsages().size();
    if (failed(verifyShape(*this, "x", getX().getType(), {type.getShard()})))
      return failure();
  } else if (failed(verifyUsages(*this, getUsages().getTypes(),
                                 shapeOf(getX().getType())))) {
    return failure();
  }
  // quantize-c13
  if (isBlockShard(type) != getGroup().has_value())
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
  // quantize-c4
  Scheme scheme = type.getScheme();
  bool perTensor = scheme == Scheme::PerTensor;
  if (perTensor != static_cast<bool>(getScale()))
    return emitOpError() << "expected 'scale' to be given exactly for "
                            "'per_tensor' results, but got "
                         << (getScale() ? "one" : "none") << " with '"
                         << stringifyScheme(scheme) << "'";
  // quantize-c5
  if (failed(verifyNonNegative(*this, "amax_epsilon", getAmaxEpsilon())))
    return failure();
  if (perTensor && !getAmaxEpsilon().isZero())
    return emitOpError() << "expected 'amax_epsilon' only for block schemes; "
                            "for 'per_tensor' it belongs to te.compute_scale";
  if ((type.isMx() || type.isNv()) && !getAmaxEpsilon().isZero())
    return emitOpError() << "expected 'amax_epsilon' only for block schemes, "
                            "but got one with '"
                         << stringifyScheme(scheme) << "'";
  // quantize-c6
  if (getAmax() && !perTensor)
    return emitOpError() << "expected 'amax' only for 'per_tensor' results, "
                            "but got one with '"
                         << stringifyScheme(scheme) << "'";
  if (failed(verifyNvOperands(*this, type)) ||
      failed(verifyPerGroup(*this, type)))
    return failure();
  // quantize-c10
  if (failed(verifyGroupsOf(*this, type, getGroupSizes(), getAlignment())))
    return failure();
  // quantize-c9
  if (failed(verifyNotSwizzled(*this, "usages", type)))
    return failure();
  // quantize-c12
  if (getSkip() && type.isGrouped())
    return emitOpError() << "expected no 'skip' of a cast with groups, which "
                            "weights have not, but got "
                         << type;
  return verifyCached(*this, getInto(), getSkip(), getUsages().getTypes());
}

LogicalResult DequantizeOp::verify() {
  auto type = cast<ScaledType>(getQ().getType());
  // dequantize-c1
  if (failed(verifyShape(*this, "x", getX().getType(), type.getShape())))
    return failure();
  // dequantize-c2
  if (getWithoutAmax() && !type.isNv())
    return emitOpError() << "expected 'without_amax' only for nv schemes, but "
                            "got it with '"
                         << stringifyScheme(type.getScheme()) << "'";
  // dequantize-c4
  if (failed(verifyGroupsOf(*this, type, getGroupSizes(), getAlignment())))
    return failure();
  // dequantize-c3
  return verifyNotSwizzled(*this, "q", type);
}

LogicalResult TransposeOp::verify() {
  auto source = cast<ScaledType>(getQ().getType());
  // transpose-c1
  std::string refusal =
      support::refuseTranspose(static_cast<int32_t>(source.getScheme()));
  if (!refusal.empty())
    return emitOpError() << refusal
                         << "; quantise the high-precision tensor for "
                            "'contract = 0' instead";
  // transpose-c5
  if (source.isGrouped())
    return emitOpError() << "expected an operand without 'groups', but got "
                         << source;
  // transpose-c2
  if (getTransposed().getType() != source.getTransposedUsage())
    return emitOpError() << "expected the result to be "
                         << source.getTransposedUsage() << ", but got "
                         << getTransposed().getType();
  // transpose-c3
  if (source.getContract() != 1)
    return emitOpError() << "expected an operand made for axis 1, but got "
                         << source;
  // transpose-c4
  if (failed(verifyNotSwizzled(*this, "q", source)))
    return failure();
  // transpose-c6
  return verifyCached(*this, getInto() ? ValueRange(getInto()) : ValueRange(),
                      getSkip(), TypeRange(getTransposed().getType()));
}

LogicalResult SwizzleScalesOp::verify() {
  ScaledType type = getQ().getType();
  // swizzle_scales-c1
  if (!type.isMx() && !type.isNv())
    return emitOpError() << "expected 'q' to have an mx or nv scheme, but got "
                         << type;
  if (failed(verifyNotSwizzled(*this, "q", type)))
    return failure();
  // swizzle_scales-c2
  if (getSwizzled().getType() != type.getSwizzled())
    return emitOpError() << "expected the result to be " << type.getSwizzled()
                         << ", but got " << getSwizzled().getType();
  return success();
}

LogicalResult NvFp4AlphaOp::verify() {
  for (auto [name, type] :
       {std::pair("a", getA().getType()), std::pair("b", getB().getType())}) {
    // nvfp4_alpha-c1
    if (!type.isNv())
      return emitOpError() << "expected '" << name
                           << "' to have an nv scheme, but got " << type;
    // nvfp4_alpha-c2
    if (type.is(ScaleVariant::RowScaled))
      return emitOpError() << "expected '" << name
                           << "' not to be row-scaled, but got " << type;
  }
  // nvfp4_alpha-c3
  if (getA().getType().getNumGroups() != getB().getType().getNumGroups())
    return emitOpError() << "expected 'a' and 'b' to have as many groups, but "
                            "got "
                         << getA().getType().getNumGroups() << " and "
                         << getB().getType().getNumGroups();
  return success();
}

LogicalResult NvFp4AlphaOp::inferReturnTypes(MLIRContext *context,
                                             std::optional<Location>,
                                             ValueRange operands,
                                             DictionaryAttr, OpaqueProperties,
                                             RegionRange,
                                             SmallVectorImpl<Type> &inferred) {
  auto type = dyn_cast<ScaledType>(operands.front().getType());
  SmallVector<int64_t, 1> shape;
  if (type && (type.isGrouped() || type.isStacked()))
    shape.push_back(type.getNumGroups());
  inferred.push_back(RankedTensorType::get(shape, Float32Type::get(context)));
  return success();
}
