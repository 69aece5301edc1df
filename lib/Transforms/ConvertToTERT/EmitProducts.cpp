//===- EmitProducts.cpp - launches of GEMMs -------------------------------===//
//
// This covers GEMMs of plain and of scaled matrices, and the bias gradient.
//
//===----------------------------------------------------------------------===//

#include "LaunchCall.h"

using namespace mlir;
using namespace mlir::te;

LogicalResult te::emitRows(MatmulOp op, LaunchEmitter &emitter, RowRange rows) {
  ArrayRef<int64_t> contract = op.getContract();
  return LaunchCall(emitter, op, "matmul")
      .i64("m", rows.count)
      .i64("n", dim(op.getOut(), 1))
      .i64("k", dim(op.getA(), contract[0]))
      .i32("trans_a", contract[0] == 0)
      .i32("trans_b", contract[1] == 0)
      .type("type", elementType(op.getA()))
      .type("out_type", elementType(op.getOut()))
      .in(op.getA())
      .in(op.getB())
      .in(op.getAlpha())
      .in(op.getBias())
      .in(op.getAccumulate())
      .out(op.getOut())
      .emit();
}

template <>
LogicalResult te::emitLaunches(MatmulOp op, LaunchEmitter &emitter) {
  const int64_t rows = dim(op.getOut(), 0);
  return emitRows(op, emitter, {0, rows, rows});
}

LogicalResult te::emitRows(ScaledMatmulOp op, LaunchEmitter &emitter,
                           RowRange rows) {
  ScaledType a = op.getA().getType(), b = op.getB().getType();
  // 0 if the operand is contiguous along the axis that is not contracted.
  auto axis = [&](unsigned operand, ScaledType type) -> int32_t {
    return type.getScheme() == Scheme::PerTensor
               ? op.getContractedAxis(operand) == type.getContract()
               : type.getContract();
  };
  return LaunchCall(emitter, op, "scaled_matmul")
      .i64("m", rows.count)
      .i64("n", op.getOuterSize(1))
      .i64("k", op.getContractedSize(0))
      .type("a_type", a.getElementType())
      .i32("a_scheme", static_cast<int32_t>(a.getScheme()))
      .type("b_type", b.getElementType())
      .i32("b_scheme", static_cast<int32_t>(b.getScheme()))
      .type("out_type", elementType(op.getOut()))
      .i32("fast_accumulation", op.getFastAccumulation())
      .i32("a_axis", axis(0, a))
      .i32("b_axis", axis(1, b))
      .i32("swizzled", a.is(ScaleVariant::Swizzled))
      .i32("a_row_scaled", a.is(ScaleVariant::RowScaled))
      .i32("a_scale_max", scaleMax(a))
      .i32("b_scale_max", scaleMax(b))
      .inScaled(op.getA())
      .inScaled(op.getB())
      .in(op.getBias())
      .in(op.getAccumulate())
      .out(op.getOut())
      .emit();
}

template <>
LogicalResult te::emitLaunches(ScaledMatmulOp op, LaunchEmitter &emitter) {
  const int64_t rows = op.getOuterSize(0);
  return emitRows(op, emitter, {0, rows, rows});
}

template <>
LogicalResult te::emitLaunches(BiasGradOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "bias_grad")
      .i64("rows", dim(op.getDy(), 0))
      .i64("cols", dim(op.getDy(), 1))
      .type("type", elementType(op.getDy()))
      .type("out_type", elementType(op.getDb()))
      .in(op.getDy())
      .out(op.getDb())
      .emit();
}

void te::attachProductKernels(MLIRContext *context) {
  attachKernels<MatmulOp, ScaledMatmulOp, BiasGradOp>(context);
}
