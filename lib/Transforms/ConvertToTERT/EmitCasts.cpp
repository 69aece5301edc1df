//===- EmitCasts.cpp - launches of casts ----------------------------------===//
//
// This covers everything that changes how numbers are stored: scales, casts and
// their inverses.
//
//===----------------------------------------------------------------------===//

#include "LaunchCall.h"

#include "TEDialect/Transforms/Utils/Padding.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::te;

static StringRef quantizeKernel(ScaledType type) {
  if (type.getScheme() == Scheme::PerTensor)
    return "quantize_tensor";
  if (type.isMx())
    return "quantize_mx";
  return type.isNv() ? "quantize_nvfp4" : "quantize_block";
}

/// `x` without the zeros that are concatenated to its last two axes: casts
/// write them themselves. Returns `x` if it has none.
static Value withoutZeros(Value x) {
  auto concat = x.getDefiningOp<tensor::ConcatOp>();
  if (!addsZeros(concat))
    return x;
  const int64_t rank = concat.getResultType().getRank();
  return static_cast<int64_t>(concat.getDim()) >= rank - 2
             ? withoutZeros(concat.getInputs().front())
             : x;
}

/// What the cast `op` to `type` reads: x without its zeros, if the rows of the
/// type are those of one axis of x and no row has an amax of its own.
static Value readOf(Value x, ScaledType type) {
  auto tensor = cast<ShapedType>(x.getType());
  return tensor.getRank() >= 2 && !type.is(ScaleVariant::RowScaled) &&
                 tensor.getDimSize(tensor.getRank() - 2) == type.getRows()
             ? withoutZeros(x)
             : x;
}

/// A divisor of `count` to use as the number of columns of a flat shard, which
/// the kernel casts in tiles of 128 x 128.
static int64_t columnsOfRun(int64_t count) {
  const int64_t power = count & -count;
  return power < 128 ? count : std::min<int64_t>(power, 4096);
}

/// Adds the buffers of `usage` of the cast `op`, with its cached value, or
/// `parts` absent buffers if `usage` is null.
static void addUsage(LaunchCall &call, Operation *op, Value usage,
                     unsigned parts) {
  auto cached = dyn_cast<SkippableOpInterface>(op);
  if (usage && cached && cached.getSkip())
    call.outOn(usage,
               cached.getCached(cast<OpResult>(usage).getResultNumber()));
  else
    call.out(usage, parts);
}

/// Whether casts to `type` in group layout have a scale or an amax for each
/// group.
static bool hasScaleOfGroup(ScaledType type) {
  return type.getScheme() == Scheme::PerTensor ||
         (type.isNv() && !type.is(ScaleVariant::RowScaled));
}

bool te::isReadWithoutZeros(tensor::ConcatOp op) {
  const Value result = op.getResult();
  return withoutZeros(result) != result &&
         llvm::all_of(op->getUses(), [&](OpOperand &use) {
           // All of these ops have it as their first operand.
           Operation *user = use.getOwner();
           if (user->getBlock() != op->getBlock() || use.getOperandNumber())
             return false;
           return llvm::TypeSwitch<Operation *, bool>(user)
               .Case<QuantizeOp>([](QuantizeOp cast) {
                 return readOf(cast.getX(), cast.getUsageType()) != cast.getX();
               })
               .Case<GroupedQuantizeOp>([](GroupedQuantizeOp cast) {
                 return !hasScaleOfGroup(cast.getUsageType()) &&
                        readOf(cast.getX(), cast.getUsageType()) != cast.getX();
               })
               .Case<AmaxOp>([](AmaxOp) { return true; })
               .Case<tensor::ConcatOp>([](tensor::ConcatOp outer) {
                 return isReadWithoutZeros(outer);
               })
               .Default(false);
         });
}

static LogicalResult emitGroupedQuantize(GroupedQuantizeOp op,
                                         LaunchEmitter &emitter) {
  ScaledType type = op.getUsageType();
  LaunchCall call(emitter, op,
                  type.isNv() ? "grouped_quantize_nvfp4"
                              : "grouped_quantize_tensor");
  call.groups(op, type.getRows())
      .i64("cols", type.getCols())
      .type("type", elementType(op.getX()))
      .in(op.getX())
      .in(op.getGroupSizes());
  if (type.isNv())
    call.i32("scale_max", type.getScaleMax())
        .i32("four_over_six", static_cast<int32_t>(op.getFourOverSix()))
        .i32("stochastic", static_cast<bool>(op.getRng()))
        .i32("stream", op.getStream())
        .in(op.getGivenAmax())
        .in(op.getRng());
  else
    call.type("fp8_type", type.getElementType()).in(op.getScale());
  unsigned parts = type.isNv() ? 3 : 2;
  return call.out(findUsage(op.getUsages(), 1), parts)
      .out(findUsage(op.getUsages(), 0), parts)
      .emit();
}

static LogicalResult emitGroupedDequantize(DequantizeOp op,
                                           LaunchEmitter &emitter) {
  ScaledType type = op.getQ().getType();
  LaunchCall call(emitter, op, "grouped_dequantize");
  return call.groups(op, type.getRows())
      .i64("cols", type.getCols())
      .type("fp8_type", type.getElementType())
      .i32("scheme", static_cast<int32_t>(type.getScheme()))
      .i32("axis", type.getContract())
      .i32("row_scaled", 0)
      .i32("scale_max", scaleMax(type))
      .type("out_type", elementType(op.getX()))
      .inScaled(op.getQ(), op.getWithoutAmax())
      .in(op.getGroupSizes())
      .out(op.getX())
      .emit();
}

/// The te.compute_scale whose rule a quantize_tensor to `type` applies itself,
/// or null if `scale` is another value.
static ComputeScaleOp foldedScale(Value scale, ScaledType type) {
  auto computed = scale ? scale.getDefiningOp<ComputeScaleOp>() : nullptr;
  return computed && computed.getElementType() == type.getElementType()
             ? computed
             : ComputeScaleOp();
}

/// Whether `user` is a cast that computes the scale of `op` itself.
static bool foldsScale(Operation *user, ComputeScaleOp op) {
  return llvm::TypeSwitch<Operation *, bool>(user)
      .Case<QuantizeOp, QuantizeShardOp>([&](auto cast) {
        return foldedScale(cast.getScale(), cast.getUsageType()) == op;
      })
      .Default(false);
}

/// Adds the scale of a quantize_tensor, or the amax that it is computed from.
static void addScale(LaunchCall &call, Value scale, ScaledType type) {
  ComputeScaleOp folded = foldedScale(scale, type);
  call.i32("from_amax", static_cast<bool>(folded))
      .i32("pow2_scales", folded && folded.getPow2Scales())
      .f32("amax_epsilon", folded ? folded.getAmaxEpsilon() : APFloat(0.0f))
      .in(folded ? folded.getAmax() : scale);
}

/// Emits a cast of matrices: a te.quantize, or a grouped cast whose scales are
/// those of the whole matrix.
template <typename CastOp>
static LogicalResult emitQuantize(CastOp op, LaunchEmitter &emitter) {
  ScaledType type = op.getUsageType();
  const Value x = readOf(op.getX(), type);
  const bool isPadded = x != op.getX();
  const int64_t rank = cast<ShapedType>(x.getType()).getRank();
  const bool isPerTensor = type.getScheme() == Scheme::PerTensor;
  LaunchCall call(emitter, op, quantizeKernel(type));
  call.i64("matrices", type.getNumMatrices())
      .i64("rows", type.getRows())
      .i64("cols", type.getCols())
      .i64("x_rows", isPadded ? dim(x, rank - 2) : type.getRows())
      .i64("x_cols", isPadded ? dim(x, rank - 1) : type.getCols())
      .in(x);
  if constexpr (std::is_same_v<CastOp, QuantizeOp>)
    call.type("type", op.getQuantizedType());
  else
    call.type("type", elementType(x));
  if (!type.isMx() && !type.isNv())
    call.type("x_type", elementType(x));
  // Every element of an nv value is FP4.
  if (!type.isNv())
    call.type("fp8_type", type.getElementType());
  if (!isPerTensor)
    call.i32("scheme", static_cast<int32_t>(type.getScheme()));

  if (isPerTensor)
    addScale(call, op.getScale(), type);
  else if (type.isNv())
    call.i32("row_scaled", type.is(ScaleVariant::RowScaled))
        .i32("scale_max", type.getScaleMax())
        .i32("four_over_six", static_cast<int32_t>(op.getFourOverSix()))
        .i32("stochastic", static_cast<bool>(op.getRng()))
        .i32("stream", op.getStream())
        .in(op.getGivenAmax())
        .in(op.getRng());
  else if (!type.isMx())
    call.i32("pow2_scales", type.getPow2())
        .f32("amax_epsilon", op.getAmaxEpsilon());

  unsigned parts = type.isNv() ? 3 : 2;
  for (unsigned axis : {1, 0})
    addUsage(call, op, findUsage(op.getUsages(), axis), parts);
  if (isPerTensor)
    call.out(op.getAmax());
  return call.in(op.getSkip()).emit();
}

template <>
LogicalResult te::emitLaunches(QuantizeOp op, LaunchEmitter &emitter) {
  return emitQuantize(op, emitter);
}

LogicalResult te::emitRows(QuantizeOp op, LaunchEmitter &emitter,
                           RowRange rows) {
  ScaledType type = op.getUsageType();
  const bool isPerTensor = type.getScheme() == Scheme::PerTensor;
  CrossEntropyBackwardOp gradient = unstoredGradient(op);
  LaunchCall call(emitter, op,
                  gradient ? "cross_entropy_backward_quantize"
                           : "quantize_rows");
  call.i64("rows", rows.count)
      .i64("cols", type.getCols())
      .i64("whole_rows", rows.whole)
      .i64("first_row", rows.first)
      .type("type", elementType(op.getX()))
      .type("fp8_type", type.getElementType())
      .i32("scheme", static_cast<int32_t>(type.getScheme()))
      .i32("pow2_scales", !isPerTensor && type.getPow2())
      .f32("amax_epsilon", op.getAmaxEpsilon());
  if (gradient)
    call.i64("vocab", gradient.getClasses())
        .i32("ignore_index", gradient.getIgnoreIndex())
        .in(gradient.getWeight())
        .in(gradient.getLogits())
        .in(gradient.getTargets())
        .in(gradient.getLse());
  else
    call.in(op.getX());
  return call.in(op.getScale())
      .out(findUsage(op.getUsages(), 1), 2)
      .out(findUsage(op.getUsages(), 0), 2)
      .out(op.getAmax())
      .emit();
}

template <>
LogicalResult te::emitLaunches(GroupedQuantizeOp op, LaunchEmitter &emitter) {
  return hasScaleOfGroup(op.getUsageType()) ? emitGroupedQuantize(op, emitter)
                                            : emitQuantize(op, emitter);
}

template <>
LogicalResult te::emitLaunches(QuantizeShardOp op, LaunchEmitter &emitter) {
  ScaledType type = op.getUsageType();
  if (op.getScale()) {
    // With one scale, the elements can be cast as a matrix of any shape.
    const int64_t cols = columnsOfRun(type.getShard());
    LaunchCall call(emitter, op, "quantize_tensor");
    const int64_t rows = type.getShard() / cols;
    call.i64("matrices", 1)
        .i64("rows", rows)
        .i64("cols", cols)
        .i64("x_rows", rows)
        .i64("x_cols", cols)
        .type("x_type", elementType(op.getX()))
        .type("type", elementType(op.getX()))
        .in(op.getX())
        .type("fp8_type", type.getElementType());
    addScale(call, op.getScale(), type);
    for (unsigned axis : {1, 0})
      addUsage(call, op, findUsage(op.getUsages(), axis), 2);
    return call.out(op.getAmax()).in(op.getSkip()).emit();
  }
  LaunchCall call(emitter, op,
                  type.isNv() ? "quantize_nvfp4_shard" : "quantize_shard");
  call.i64("count", type.getShard())
      .i64("rows", type.getRows())
      .i64("cols", type.getCols())
      .i64("start", 0)
      .type("type", elementType(op.getX()))
      .i32("scheme", static_cast<int32_t>(type.getScheme()));
  if (type.isNv())
    call.i32("scale_max", type.getScaleMax());
  else
    call.type("fp8_type", type.getElementType())
        .i32("axis", type.getContract())
        .i32("pow2_scales", type.getPow2())
        .f32("amax_epsilon", op.getAmaxEpsilon());
  call.i32("ranks", lookupGroup(op, *op.getGroup()).getSize())
      .i32("rank_of", *op.getGroup())
      .in(op.getX())
      .in(op.getGivenAmax());
  addUsage(call, op, op.getUsage(), 1);
  return call.in(op.getSkip()).emit();
}

template <>
LogicalResult te::emitLaunches(DequantizeOp op, LaunchEmitter &emitter) {
  ScaledType type = op.getQ().getType();
  if (type.isGrouped() && hasScaleOfGroup(type))
    return emitGroupedDequantize(op, emitter);
  return LaunchCall(emitter, op, "dequantize")
      .i64("matrices", type.getNumMatrices())
      .i64("rows", type.getRows())
      .i64("cols", type.getCols())
      .type("fp8_type", type.getElementType())
      .i32("scheme", static_cast<int32_t>(type.getScheme()))
      .i32("axis", type.getContract())
      .i32("row_scaled",
           type.is(ScaleVariant::RowScaled) && !op.getWithoutAmax())
      .i32("scale_max", scaleMax(type))
      .type("out_type", elementType(op.getX()))
      .inScaled(op.getQ(), op.getWithoutAmax())
      .out(op.getX())
      .emit();
}

template <>
LogicalResult te::emitLaunches(SwizzleScalesOp op, LaunchEmitter &emitter) {
  FailureOr<Buffers> from = emitter.lookup(op.getQ());
  if (failed(from))
    return failure();
  ScaledType type = op.getSwizzled().getType();
  std::string base = emitter.baseName(op, op.getSwizzled());
  Buffers to;
  for (auto [part, source] :
       llvm::zip_equal(tert::getBufferLayouts(type), *from)) {
    to.push_back(emitter.alloc(op.getLoc(), base + "." + part.part.str(),
                               emitter.causeOf(op, op.getSwizzled()),
                               part.bytes));
    // The kernel writes the scales; data and amax are copied.
    if (part.part != "scale")
      emitter.copy(op.getLoc(), source, to.back());
  }
  emitter.bind(op.getSwizzled(), to);
  return LaunchCall(emitter, op, "swizzle_scales")
      .i64("rows", type.getRows())
      .i64("cols", type.getCols())
      .i32("scheme", static_cast<int32_t>(type.getScheme()))
      .i32("axis", type.getContract())
      .buffer((*from)[1])
      .buffer(to[1])
      .emit();
}

template <> LogicalResult te::emitLaunches(AmaxOp op, LaunchEmitter &emitter) {
  const Value x = withoutZeros(op.getX());
  return LaunchCall(emitter, op, "amax")
      .i64("count", count(x))
      .type("x_type", elementType(x))
      .type("type", op.getRounded().value_or(elementType(x)))
      .in(x)
      .out(op.getAmax())
      .in(op.getSkip())
      .emit();
}

template <>
LogicalResult te::emitLaunches(ComputeScaleOp op, LaunchEmitter &emitter) {
  // Casts compute the scale themselves.
  if (llvm::all_of(op->getUsers(),
                   [&](Operation *user) { return foldsScale(user, op); }))
    return success();
  return LaunchCall(emitter, op, "compute_scale")
      .i64("count", count(op.getAmax()))
      .type("fp8_type", op.getElementType())
      .i32("pow2_scales", op.getPow2Scales())
      .f32("amax_epsilon", op.getAmaxEpsilon())
      .in(op.getAmax())
      .out(op.getScale())
      .emit();
}

template <>
LogicalResult te::emitLaunches(DelayedScalingUpdateOp op,
                               LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "delayed_scaling_update")
      .i64("slots", count(op.getAmax()))
      .i64("history_length", dim(op.getHistory(), 0))
      .i32("algorithm", static_cast<int32_t>(op.getAlgorithm()))
      .f32("fp8_max", APFloat(maxFinite(op.getElementType())))
      .i32("margin", static_cast<int32_t>(op.getMargin()))
      .in(op.getAmax())
      .in(op.getHistory())
      .in(op.getScale())
      .out(op.getNewHistory())
      .out(op.getNewScale())
      .emit();
}

template <>
LogicalResult te::emitLaunches(AmaxRowsOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "amax_rows")
      .i64("rows", dim(op.getX(), 0))
      .i64("cols", dim(op.getX(), 1))
      .type("type", elementType(op.getX()))
      .in(op.getX())
      .out(op.getAmax())
      .in(op.getSkip())
      .emit();
}

template <>
LogicalResult te::emitLaunches(PartialAmaxOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "partial_amax")
      .i64("count", count(op.getX()))
      .i64("rows", op.getShape()[0])
      .i64("cols", op.getShape()[1])
      .i64("start", 0)
      .i64("block_rows", op.getBlocks()[0])
      .i64("block_cols", op.getBlocks()[1])
      .type("type", elementType(op.getX()))
      .i32("ranks", lookupGroup(op, op.getGroup()).getSize())
      .i32("rank_of", op.getGroup())
      .in(op.getX())
      .out(op.getAmax())
      .in(op.getSkip())
      .emit();
}

template <>
LogicalResult te::emitLaunches(HadamardOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "hadamard")
      .i64("rows", dim(op.getX(), 0))
      .i64("cols", dim(op.getX(), 1))
      .in(op.getX())
      .out(op.getY())
      .emit();
}

template <>
LogicalResult te::emitLaunches(RngAdvanceOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "rng_advance")
      .i32("count", op.getCount())
      .in(op.getState())
      .out(op.getNext())
      .emit();
}

template <>
LogicalResult te::emitLaunches(NvFp4AlphaOp op, LaunchEmitter &emitter) {
  // Both operands have one amax for each group.
  return LaunchCall(emitter, op, "nvfp4_alpha")
      .i64("matrices", op.getA().getType().getNumGroups())
      .i64("rows", 1)
      .i32("a_scale_max", scaleMax(op.getA().getType()))
      .i32("b_scale_max", scaleMax(op.getB().getType()))
      .inAmax(op.getA())
      .inAmax(op.getB())
      .out(op.getAlpha())
      .emit();
}

template <>
LogicalResult te::emitLaunches(RescaleOp op, LaunchEmitter &emitter) {
  FailureOr<Buffers> q = emitter.lookup(op.getQ());
  if (failed(q))
    return failure();
  ScaledType type = op.getRescaled().getType();
  tert::BufferLayout scales = tert::getBufferLayouts(type)[1];
  Value to = emitter.allocPart(op, op.getRescaled(), scales,
                               emitter.baseName(op) + ".scale");
  emitter.bind(op.getRescaled(), {(*q)[0], to});
  return emitProductWithScalar(op, scales.bytes / int64_t(sizeof(float)),
                               (*q)[1], op.getFactor(), to, emitter);
}

template <>
LogicalResult te::emitLaunches(TransposeOp op, LaunchEmitter &emitter) {
  ScaledType type = op.getQ().getType();
  return LaunchCall(emitter, op, "transpose_scaled")
      .i64("matrices", type.getNumMatrices())
      .i64("rows", type.getRows())
      .i64("cols", type.getCols())
      .i32("scheme", static_cast<int32_t>(type.getScheme()))
      .inScaled(op.getQ())
      .outScaled(op.getTransposed(), op.getInto())
      .in(op.getSkip())
      .emit();
}

/// Adds the parameters of an activation of [rows, cols] that is cast.
template <typename OpT>
static LaunchCall &addActivation(LaunchCall &call, OpT op, int64_t rows,
                                 int64_t cols) {
  auto type = cast<ScaledType>(op.getUsages()[0].getType());
  return call.i64("rows", rows)
      .i64("cols", cols)
      .type("type", elementType(op.getX()))
      .activation(op)
      .type("fp8_type", type.getElementType())
      .i32("scheme", static_cast<int32_t>(type.getScheme()))
      .i32("pow2_scales",
           type.getScheme() != Scheme::PerTensor && type.getPow2())
      .f32("amax_epsilon", op.getAmaxEpsilon());
}

/// Adds the scale, the usages and the amax of an activation that is cast.
static LaunchCall &addOwnCast(LaunchCall &call, Value scale, ResultRange usages,
                              Value amax) {
  return call.in(scale)
      .out(findUsage(usages, 1), 2)
      .out(findUsage(usages, 0), 2)
      .out(amax);
}

template <>
LogicalResult te::emitLaunches(ActivationQuantizeOp op,
                               LaunchEmitter &emitter) {
  auto type = cast<ScaledType>(op.getUsages()[0].getType());
  LaunchCall call(emitter, op,
                  op.getGate() ? "gated_activation_quantize"
                               : "activation_quantize");
  addActivation(call, op, type.getRows(), type.getCols()).in(op.getX());
  if (op.getGate())
    call.in(op.getGate());
  return addOwnCast(call, op.getScale(), op.getUsages(), op.getAmax()).emit();
}

template <>
LogicalResult te::emitLaunches(ActivationBackwardQuantizeOp op,
                               LaunchEmitter &emitter) {
  LaunchCall call(emitter, op,
                  op.getGate() ? "gated_activation_backward_quantize"
                               : "activation_backward_quantize");
  addActivation(call, op, dim(op.getDy(), 0), dim(op.getDy(), 1))
      .in(op.getDy())
      .in(op.getX());
  if (op.getGate())
    call.in(op.getGate());
  addOwnCast(call, op.getScale(), op.getUsages(), op.getAmax());
  if (op.getGate())
    addOwnCast(call, op.getGateScale(), op.getGateUsages(), op.getGateAmax());
  return call.emit();
}

void te::attachCastKernels(MLIRContext *context) {
  attachKernels<AmaxOp, ComputeScaleOp, DelayedScalingUpdateOp, QuantizeOp,
                QuantizeShardOp, GroupedQuantizeOp, AmaxRowsOp, PartialAmaxOp,
                HadamardOp, RngAdvanceOp, NvFp4AlphaOp, SwizzleScalesOp,
                DequantizeOp, ActivationQuantizeOp,
                ActivationBackwardQuantizeOp>(context);
  attachKernels<RescaleOp>(context);
  attachKernelsOf<tert::Cause::Transpose, TransposeOp>(context);
}
