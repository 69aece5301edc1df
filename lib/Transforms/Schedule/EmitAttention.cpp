//===- EmitAttention.cpp - launches of rotary embedding and attention -----===//
//
// The size of a head is the columns over the number of heads.
//
//===----------------------------------------------------------------------===//

#include "LaunchCall.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::te;

/// The parameters of attention and its backward.
template <typename Call, typename Op>
static Call &attentionCall(Call &&call, Op op) {
  return call.i64("tokens", dim(op.getQ(), 0))
      .i64("sequence", op.getSequence())
      .i64("heads", op.getHeads())
      .i64("kv_heads", op.getKvHeads())
      .i64("head_dim", dim(op.getQ(), 1) / op.getHeads())
      .type("type", elementType(op.getQ()))
      .i32("causal", op.getCausal())
      .i64("window_left", op.getWindowLeft())
      .f32("scale", op.getScaleOrDefault())
      .f32("softcap", op.getSoftcapOrZero());
}

LogicalResult LaunchEmitter::emitAttention(Operation *op, bool &isKnown) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](AttentionOp op) {
        return attentionCall(Call(*this, op, "attention"), op)
            .i32("has_sinks", op.getSinks() != nullptr)
            .in(op.getQ())
            .in(op.getK())
            .in(op.getV())
            .in(op.getSinks())
            .out(op.getO())
            .outOrScratch(op.getLse(), dim(op.getQ(), 0) * op.getHeads())
            .emit();
      })
      .Case([&](AttentionBackwardOp op) {
        return attentionCall(Call(*this, op, "attention_backward"), op)
            .i32("deterministic", op.getDeterministic())
            .in(op.getDout())
            .in(op.getQ())
            .in(op.getK())
            .in(op.getV())
            .in(op.getO())
            .in(op.getLse())
            .out(op.getDq())
            .out(op.getDk())
            .out(op.getDv())
            .emit();
      })
      .Case([&](AttentionSinkGradOp op) {
        const int64_t heads = dim(op.getSinks(), 0);
        return Call(*this, op, "attention_sink_grad")
            .i64("tokens", dim(op.getO(), 0))
            .i64("sequence", op.getSequence())
            .i64("heads", heads)
            .i64("head_dim", dim(op.getO(), 1) / heads)
            .type("type", elementType(op.getO()))
            .in(op.getDout())
            .in(op.getO())
            .in(op.getLse())
            .in(op.getSinks())
            .out(op.getDsinks())
            .emit();
      })
      .Case([&](RopeOp op) {
        return Call(*this, op, "rope")
            .i64("tokens", dim(op.getX(), 0))
            .i64("heads", op.getHeads())
            .i64("head_dim", dim(op.getX(), 1) / op.getHeads())
            .i64("sequence", dim(op.getCos(), 0))
            .i64("rotary_dim", 2 * dim(op.getCos(), 1))
            .type("type", elementType(op.getX()))
            .i32("interleaved", static_cast<int32_t>(op.getStyle()))
            .i32("inverse", op.getInverse())
            .in(op.getX())
            .in(op.getCos())
            .in(op.getSin())
            .out(op.getY())
            .emit();
      })
      .Default([&](Operation *) {
        isKnown = false;
        return failure();
      });
}
