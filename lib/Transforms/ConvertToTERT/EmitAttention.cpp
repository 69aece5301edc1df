//===- EmitAttention.cpp - launches of rotary embedding and attention -----===//
//
// The size of a head is the number of columns divided by the number of heads.
//
//===----------------------------------------------------------------------===//

#include "LaunchCall.h"

using namespace mlir;
using namespace mlir::te;

/// The number of boundaries of documents; 0 if there are none.
template <typename Op> static int64_t boundaries(Op op) {
  return op.getDocuments() ? dim(op.getDocuments(), 0) : 0;
}

/// The parameters of attention and its backward.
template <typename Op>
static LaunchCall &attentionCall(LaunchCall &&call, Op op) {
  return call.i64("tokens", dim(op.getQ(), 0))
      .i64("head_dim", dim(op.getQ(), 1) / op.getHeads())
      .i64("value_dim", dim(op.getV(), 1) / op.getKvHeads())
      .type("type", elementType(op.getQ()))
      .i64("window_left", op.getWindowLeft())
      .f32("scale", op.getScaleOrDefault())
      .i64("boundaries", boundaries(op))
      .attributes();
}

template <>
LogicalResult te::emitLaunches(AttentionOp op, LaunchEmitter &emitter) {
  return attentionCall(LaunchCall(emitter, op, "attention"), op)
      .i32("has_sinks", op.getSinks() != nullptr)
      .in(op.getQ())
      .in(op.getK())
      .in(op.getV())
      .in(op.getSinks())
      .in(op.getDocuments())
      .in(op.getRng())
      .out(op.getO())
      .outOrScratch(op.getLse(), dim(op.getQ(), 0) * op.getHeads())
      .emit();
}

template <>
LogicalResult te::emitLaunches(AttentionBackwardOp op, LaunchEmitter &emitter) {
  return attentionCall(LaunchCall(emitter, op, "attention_backward"), op)
      .in(op.getDout())
      .in(op.getQ())
      .in(op.getK())
      .in(op.getV())
      .in(op.getO())
      .in(op.getLse())
      .in(op.getDocuments())
      .in(op.getRng())
      .out(op.getDq())
      .out(op.getDk())
      .out(op.getDv())
      .emit();
}

template <>
LogicalResult te::emitLaunches(AttentionSinkGradOp op, LaunchEmitter &emitter) {
  const int64_t heads = dim(op.getSinks(), 0);
  return LaunchCall(emitter, op, "attention_sink_grad")
      .i64("tokens", dim(op.getO(), 0))
      .i64("sequence", op.getSequence())
      .i64("heads", heads)
      .i64("head_dim", dim(op.getO(), 1) / heads)
      .type("type", elementType(op.getO()))
      .i64("boundaries", boundaries(op))
      .in(op.getDout())
      .in(op.getO())
      .in(op.getLse())
      .in(op.getSinks())
      .in(op.getDocuments())
      .out(op.getDsinks())
      .emit();
}

template <> LogicalResult te::emitLaunches(RopeOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "rope")
      .i64("tokens", dim(op.getX(), 0))
      .i64("heads", op.getHeads())
      .i64("head_dim", dim(op.getX(), 1) / op.getHeads())
      .i64("sequence", dim(op.getCos(), 0))
      .i64("rotary_dim", 2 * dim(op.getCos(), 1))
      .type("type", elementType(op.getX()))
      .i32("interleaved", static_cast<int32_t>(op.getStyle()))
      .i32("inverse", op.getInverse())
      .i32("has_positions", op.getPositions() != nullptr)
      .in(op.getX())
      .in(op.getCos())
      .in(op.getSin())
      .in(op.getPositions())
      .out(op.getY())
      .out(op.getAmax())
      .emit();
}

template <>
LogicalResult te::emitLaunches(UsedRowsOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "used_rows")
      .i64("tokens", dim(op.getUsed(), 0))
      .i64("boundaries", dim(op.getDocuments(), 0))
      .in(op.getDocuments())
      .out(op.getUsed())
      .emit();
}

void te::attachAttentionKernels(MLIRContext *context) {
  attachKernels<AttentionOp, AttentionBackwardOp, AttentionSinkGradOp, RopeOp,
                UsedRowsOp>(context);
}
