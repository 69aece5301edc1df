//===- TECastOps.cpp - verifiers of amaxes and of scaled values -----------===//
//--------------===//

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

LogicalResult AmaxOp::verify() {
  // amax-c1
  std::optional<Type> rounded = getRounded();
  if (!rounded || isRoundedF32(getX().getType(), *rounded))
    return success();
  return emitOpError() << "expected 'rounded' to be bf16, for an 'x' of f32, "
                          "but got "
                       << *rounded << " for " << getX().getType();
}

LogicalResult AmaxRowsOp::verify() {
  // amax_rows-c1
  return verifyShape(*this, "amax", getAmax().getType(),
                     {shapeOf(getX().getType())[0]});
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

LogicalResult RescaleOp::verify() {
  auto type = cast<ScaledType>(getQ().getType());
  // rescale-c1
  const Scheme scheme = type.getScheme();
  if ((scheme != Scheme::PerTensor && scheme != Scheme::Block1x128 &&
       scheme != Scheme::Block128x128) ||
      type.isStacked())
    return emitOpError() << "expected a matrix with f32 scales, which "
                            "'per_tensor', 'block_1x128' and 'block_128x128' "
                            "have, but got "
                         << type;
  // rescale-c2
  if (getRescaled().getType() == type.getAnyScales())
    return success();
  return emitOpError() << "expected the result to be " << type.getAnyScales()
                       << ", whose scales may have any value, but got "
                       << getRescaled().getType();
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
