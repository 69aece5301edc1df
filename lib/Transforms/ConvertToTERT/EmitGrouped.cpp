//===- EmitGrouped.cpp - launches of ops on groups of rows ----------------===//
//
// This covers casts with a scale for each group, and GEMMs and layers of
// groups. The sizes of the groups are a buffer like any other.
//
//===----------------------------------------------------------------------===//

#include "LaunchCall.h"

using namespace mlir;
using namespace mlir::te;

template <>
LogicalResult te::emitLaunches(GroupedAmaxOp op, LaunchEmitter &emitter) {
  LaunchCall call(emitter, op, "grouped_amax");
  return call.groups(op, dim(op.getX(), 0))
      .i64("cols", dim(op.getX(), 1))
      .type("type", elementType(op.getX()))
      .in(op.getX())
      .in(op.getGroupSizes())
      .out(op.getAmax())
      .emit();
}

template <>
LogicalResult te::emitLaunches(ZeroPaddingOp op, LaunchEmitter &emitter) {
  LaunchCall call(emitter, op, "grouped_zero_padding");
  return call.groups(op, dim(op.getX(), 0))
      .i64("cols", dim(op.getX(), 1))
      .type("type", elementType(op.getX()))
      .in(op.getX())
      .in(op.getGroupSizes())
      .out(op.getY())
      .emit();
}

template <>
LogicalResult te::emitLaunches(RoundGroupSizesOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "grouped_round_sizes")
      .i64("groups", dim(op.getGroupSizes(), 0))
      .i64("multiple", op.getMultiple())
      .in(op.getGroupSizes())
      .out(op.getRounded())
      .emit();
}

template <>
LogicalResult te::emitLaunches(GroupedScaledMatmulOp op,
                               LaunchEmitter &emitter) {
  ScaledType a = op.getA().getType(), b = op.getB().getType();
  LaunchCall call(emitter, op, "grouped_scaled_matmul");
  return call.groups(op, a.getRows())
      .i64("n", b.getOuter())
      .i64("k", a.getContraction())
      .type("a_type", a.getElementType())
      .i32("a_scheme", static_cast<int32_t>(a.getScheme()))
      .type("b_type", b.getElementType())
      .i32("b_scheme", static_cast<int32_t>(b.getScheme()))
      .type("out_type", elementType(op.getOut()))
      .i32("fast_accumulation", op.getFastAccumulation())
      .i32("b_axis", b.getContract())
      .i32("a_row_scaled", a.is(ScaleVariant::RowScaled))
      .i32("a_scale_max", scaleMax(a))
      .i32("b_scale_max", scaleMax(b))
      .inScaled(op.getA())
      .inScaled(op.getB())
      .in(op.getGroupSizes())
      .in(op.getBias())
      .out(op.getOut())
      .emit();
}

template <>
LogicalResult te::emitLaunches(GroupedScaledWgradOp op,
                               LaunchEmitter &emitter) {
  ScaledType a = op.getA().getType(), b = op.getB().getType();
  LaunchCall call(emitter, op, "grouped_scaled_wgrad");
  return call.groups(op, a.getRows())
      .i64("m", a.getCols())
      .i64("n", b.getCols())
      .type("a_type", a.getElementType())
      .i32("a_scheme", static_cast<int32_t>(a.getScheme()))
      .type("b_type", b.getElementType())
      .i32("b_scheme", static_cast<int32_t>(b.getScheme()))
      .type("out_type", elementType(op.getOut()))
      .i32("fast_accumulation", op.getFastAccumulation())
      .i32("a_scale_max", scaleMax(a))
      .i32("b_scale_max", scaleMax(b))
      .inScaled(op.getA())
      .inScaled(op.getB())
      .in(op.getGroupSizes())
      .inSummand(op.getAccumulate())
      .out(op.getOut())
      .keep(op.getAccumulate())
      .emit();
}

template <>
LogicalResult te::emitLaunches(GroupedMatmulOp op, LaunchEmitter &emitter) {
  LaunchCall call(emitter, op, "grouped_matmul");
  return call.groups(op, dim(op.getA(), 0))
      .i64("n", dim(op.getOut(), 1))
      .i64("k", dim(op.getA(), 1))
      .i32("trans_b", op.getContract() == 0)
      .type("type", elementType(op.getA()))
      .type("out_type", elementType(op.getOut()))
      .in(op.getA())
      .in(op.getB())
      .in(op.getGroupSizes())
      .in(op.getAlpha())
      .in(op.getBias())
      .out(op.getOut())
      .emit();
}

template <>
LogicalResult te::emitLaunches(GroupedWgradOp op, LaunchEmitter &emitter) {
  LaunchCall call(emitter, op, "grouped_wgrad");
  return call.groups(op, dim(op.getA(), 0))
      .i64("m", dim(op.getA(), 1))
      .i64("n", dim(op.getB(), 1))
      .type("type", elementType(op.getA()))
      .type("out_type", elementType(op.getOut()))
      .in(op.getA())
      .in(op.getB())
      .in(op.getGroupSizes())
      .in(op.getAlpha())
      .inSummand(op.getAccumulate())
      .out(op.getOut())
      .keep(op.getAccumulate())
      .emit();
}

template <>
LogicalResult te::emitLaunches(GroupedBiasGradOp op, LaunchEmitter &emitter) {
  LaunchCall call(emitter, op, "grouped_bias_grad");
  return call.groups(op, dim(op.getDy(), 0))
      .i64("cols", dim(op.getDy(), 1))
      .type("type", elementType(op.getDy()))
      .type("out_type", elementType(op.getDb()))
      .in(op.getDy())
      .in(op.getGroupSizes())
      .out(op.getDb())
      .emit();
}

void te::attachGroupedKernels(MLIRContext *context) {
  attachKernels<GroupedAmaxOp, ZeroPaddingOp, RoundGroupSizesOp,
                GroupedScaledMatmulOp, GroupedScaledWgradOp, GroupedMatmulOp,
                GroupedWgradOp, GroupedBiasGradOp>(context);
}
