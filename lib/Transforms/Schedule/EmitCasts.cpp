//===- EmitCasts.cpp - launches of casts and elementwise ops --------------===//
//
// Everything that changes how numbers are stored: scales, casts and their
// inverses, and the ops of arith and math, one kernel for all of them.
//
//===----------------------------------------------------------------------===//

#include "LaunchCall.h"

#include "TEDialect/Runtime/te_runtime_types.h"
#include "TEDialect/TERT/PointwiseOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
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

/// A divisor of `count`: of the rows in which a run is cast, which the kernel
/// takes in tiles of 128 x 128.
static int64_t columnsOfRun(int64_t count) {
  const int64_t power = count & -count;
  return power < 128 ? count : std::min<int64_t>(power, 4096);
}

LogicalResult LaunchEmitter::emitQuantizeShard(QuantizeOp op) {
  auto type = cast<ScaledType>(op.getUsages()[0].getType());
  Call call(*this, op, type.isNv() ? "quantize_nvfp4_shard" : "quantize_shard");
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
  Value usage = op.getUsages()[0];
  op.getSkip() ? call.outOn(usage, op.getInto()[0]) : call.out(usage);
  return call.in(op.getSkip()).emit();
}

LogicalResult LaunchEmitter::emitQuantize(QuantizeOp op) {
  auto type = cast<ScaledType>(op.getUsages()[0].getType());
  if (op.getGroup())
    return emitQuantizeShard(op);
  // Other casts of groups are those of the matrix that holds them.
  if (type.isGrouped() && hasScaleOfGroup(type))
    return emitGroupedQuantize(op);
  Call call(*this, op, quantizeKernel(type));
  // A shard that has one scale is any matrix of its elements.
  const int64_t cols =
      type.isShard() ? columnsOfRun(type.getShard()) : type.getCols();
  call.i64("matrices", type.getNumMatrices())
      .i64("rows", type.isShard() ? type.getShard() / cols : type.getRows())
      .i64("cols", cols)
      .type("type", elementType(op.getX()))
      .in(op.getX());
  // Every element of an nv value is FP4.
  if (!type.isNv())
    call.type("fp8_type", type.getElementType());
  bool isPerTensor = type.getScheme() == Scheme::PerTensor;
  if (!isPerTensor)
    call.i32("scheme", static_cast<int32_t>(type.getScheme()));

  if (isPerTensor)
    call.in(op.getScale());
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
  for (unsigned axis : {1, 0}) {
    Value usage = findUsage(op.getUsages(), axis);
    if (usage && op.getSkip())
      call.outOn(usage, op.getInto()[cast<OpResult>(usage).getResultNumber()]);
    else
      call.out(usage, parts);
  }
  if (isPerTensor)
    call.out(op.getAmax());
  return call.in(op.getSkip()).emit();
}

LogicalResult LaunchEmitter::emitDequantize(DequantizeOp op) {
  ScaledType type = op.getQ().getType();
  if (type.isGrouped() && hasScaleOfGroup(type))
    return emitGroupedDequantize(op);
  return Call(*this, op, "dequantize")
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

LogicalResult LaunchEmitter::emitSwizzle(SwizzleScalesOp op) {
  FailureOr<Buffers> from = lookup(op.getQ());
  if (failed(from))
    return failure();
  ScaledType type = op.getSwizzled().getType();
  StringRef residual = residualNames.lookup(op.getSwizzled());
  std::string base = residual.empty() ? baseName(op) : residual.str();
  Buffers to;
  for (auto [part, source] :
       llvm::zip_equal(tert::getBufferLayouts(type), *from)) {
    to.push_back(alloc(op.getLoc(), base + "." + part.part.str(),
                       causeOf(op, op.getSwizzled()), part.bytes));
    // The kernel has the scales; data and amax only change hands.
    if (part.part != "scale")
      copy(op.getLoc(), source, to.back());
  }
  bind(op.getSwizzled(), to);
  return Call(*this, op, "swizzle_scales")
      .i64("rows", type.getRows())
      .i64("cols", type.getCols())
      .i32("scheme", static_cast<int32_t>(type.getScheme()))
      .i32("axis", type.getContract())
      .buffer((*from)[1])
      .buffer(to[1])
      .emit();
}

LogicalResult LaunchEmitter::emitCast(Operation *op, bool &isKnown) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](AmaxOp op) {
        return Call(*this, op, "amax")
            .i64("count", count(op.getX()))
            .type("type", elementType(op.getX()))
            .in(op.getX())
            .out(op.getAmax())
            .in(op.getSkip())
            .emit();
      })
      .Case([&](ComputeScaleOp op) {
        return Call(*this, op, "compute_scale")
            .i64("count", count(op.getAmax()))
            .type("fp8_type", op.getElementType())
            .i32("pow2_scales", op.getPow2Scales())
            .f32("amax_epsilon", op.getAmaxEpsilon())
            .in(op.getAmax())
            .out(op.getScale())
            .emit();
      })
      .Case([&](DelayedScalingUpdateOp op) {
        return Call(*this, op, "delayed_scaling_update")
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
      })
      .Case([&](QuantizeOp op) { return emitQuantize(op); })
      .Case([&](AmaxRowsOp op) {
        return Call(*this, op, "amax_rows")
            .i64("rows", dim(op.getX(), 0))
            .i64("cols", dim(op.getX(), 1))
            .type("type", elementType(op.getX()))
            .in(op.getX())
            .out(op.getAmax())
            .in(op.getSkip())
            .emit();
      })
      .Case([&](PartialAmaxOp op) {
        return Call(*this, op, "partial_amax")
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
      })
      .Case([&](HadamardOp op) {
        return Call(*this, op, "hadamard")
            .i64("rows", dim(op.getX(), 0))
            .i64("cols", dim(op.getX(), 1))
            .in(op.getX())
            .out(op.getY())
            .emit();
      })
      .Case([&](RngAdvanceOp op) {
        return Call(*this, op, "rng_advance")
            .i32("count", op.getCount())
            .in(op.getState())
            .out(op.getNext())
            .emit();
      })
      .Case([&](NvFp4AlphaOp op) {
        // One amax for each group on either side.
        return Call(*this, op, "nvfp4_alpha")
            .i64("matrices", op.getA().getType().getNumGroups())
            .i64("rows", 1)
            .i32("a_scale_max", scaleMax(op.getA().getType()))
            .i32("b_scale_max", scaleMax(op.getB().getType()))
            .inAmax(op.getA())
            .inAmax(op.getB())
            .out(op.getAlpha())
            .emit();
      })
      .Case([&](SwizzleScalesOp op) { return emitSwizzle(op); })
      .Case([&](DequantizeOp op) { return emitDequantize(op); })
      .Case([&](TransposeOp op) {
        ScaledType type = op.getQ().getType();
        return Call(*this, op, "transpose_scaled")
            .i64("matrices", type.getNumMatrices())
            .i64("rows", type.getRows())
            .i64("cols", type.getCols())
            .i32("scheme", static_cast<int32_t>(type.getScheme()))
            .inScaled(op.getQ())
            .outScaled(op.getTransposed(), op.getInto())
            .in(op.getSkip())
            .emit();
      })
      .Case([&](ActivationQuantizeOp op) {
        auto type = cast<ScaledType>(op.getUsages()[0].getType());
        Call call(*this, op,
                  op.getGate() ? "gated_activation_quantize_block"
                               : "activation_quantize_block");
        call.i64("rows", type.getRows())
            .i64("cols", type.getCols())
            .type("type", elementType(op.getX()))
            .activation(op)
            .type("fp8_type", type.getElementType())
            .i32("pow2_scales", type.getPow2())
            .f32("amax_epsilon", op.getAmaxEpsilon())
            .in(op.getX());
        if (op.getGate())
          call.in(op.getGate());
        return call.out(findUsage(op.getUsages(), 1), 2)
            .out(findUsage(op.getUsages(), 0), 2)
            .emit();
      })
      .Case([&](ActivationBackwardQuantizeOp op) {
        auto type = cast<ScaledType>(op.getUsages()[0].getType());
        return Call(*this, op, "activation_backward_quantize_block")
            .i64("rows", dim(op.getDy(), 0))
            .i64("cols", dim(op.getDy(), 1))
            .type("type", elementType(op.getX()))
            .activation(op)
            .type("fp8_type", type.getElementType())
            .i32("pow2_scales", type.getPow2())
            .f32("amax_epsilon", op.getAmaxEpsilon())
            .in(op.getDy())
            .in(op.getX())
            .out(findUsage(op.getUsages(), 1), 2)
            .out(findUsage(op.getUsages(), 0), 2)
            .emit();
      })
      .Case([&](arith::TruncFOp op) -> LogicalResult {
        if (op.getRoundingmode().value_or(
                arith::RoundingMode::to_nearest_even) !=
            arith::RoundingMode::to_nearest_even)
          return op.emitError() << "expected 'roundingmode' to be "
                                   "to_nearest_even, which is all the runtime "
                                   "has";
        return emitPointwise(op, TE_RT_CAST);
      })
      .Default([&](Operation *op) -> LogicalResult {
        std::optional<int32_t> code =
            tert::lookupPointwise(op->getName().getStringRef());
        isKnown = code.has_value();
        return isKnown ? emitPointwise(op, *code) : failure();
      });
}
