//===- EmitMoe.cpp - launches of routing and of moving rows ---------------===//

#include "LaunchCall.h"

#include "TEDialect/IR/TEMoe.h"

using namespace mlir;
using namespace mlir::te;

/// te.permute is two kernels: one computes where rows go, one moves them.
template <>
LogicalResult te::emitLaunches(PermuteOp permute, LaunchEmitter &emitter) {
  int64_t k = dim(permute.getIds(), 1), tokens = dim(permute.getX(), 0);
  int64_t rows = dim(permute.getY(), 0);
  if (failed(LaunchCall(emitter, permute, "moe_route")
                 .i64("tokens", tokens)
                 .i64("k", k)
                 .i64("groups", dim(permute.getGroupSizes(), 0))
                 .i64("rows", rows)
                 .i64("alignment", permute.getAlignment())
                 .i64("capacity", permute.getCapacity())
                 .i32("padded", permute.getPadded())
                 .in(permute.getIds())
                 .in(permute.getUsed())
                 .out(permute.getGroupSizes())
                 .out(permute.getRowOf())
                 .out(permute.getEntryOf())
                 .out(permute.getDropped())
                 .emit()))
    return failure();
  return LaunchCall(emitter, permute, "moe_permute")
      .i64("tokens", tokens)
      .i64("k", k)
      .i64("rows", rows)
      .i64("cols", dim(permute.getX(), 1))
      .type("type", elementType(permute.getX()))
      .in(permute.getX())
      .in(permute.getEntryOf())
      .none(1)
      .out(permute.getY())
      .emit();
}

template <>
LogicalResult te::emitLaunches(RouterTopKOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "router_topk")
      .i64("tokens", dim(op.getLogits(), 0))
      .i64("experts", dim(op.getLogits(), 1))
      .i64("k", dim(op.getIds(), 1))
      .type("type", elementType(op.getLogits()))
      .i32("score", op.getSigmoid())
      .i32("normalize", op.getNormalize())
      .i64("groups", op.getGroups())
      .i64("chosen_groups", op.getChosenGroups())
      .in(op.getLogits())
      .in(op.getBias())
      .out(op.getIds())
      .out(op.getProbs())
      .out(op.getScores())
      .emit();
}

template <>
LogicalResult te::emitLaunches(RouterTopKBackwardOp op,
                               LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "router_topk_backward")
      .i64("tokens", dim(op.getDlogits(), 0))
      .i64("experts", dim(op.getDlogits(), 1))
      .i64("k", dim(op.getIds(), 1))
      .type("type", elementType(op.getDlogits()))
      .i32("score", op.getSigmoid())
      .i32("normalize", op.getNormalize())
      .in(op.getDprobs())
      .in(op.getIds())
      .in(op.getProbs())
      .in(op.getScores())
      .out(op.getDlogits())
      .emit();
}

template <>
LogicalResult te::emitLaunches(UnpermuteOp op, LaunchEmitter &emitter) {
  int64_t tokens = dim(op.getOut(), 0);
  return LaunchCall(emitter, op, "moe_unpermute")
      .i64("tokens", tokens)
      .i64("k", dim(op.getRowOf(), 0) / tokens)
      .i64("rows", dim(op.getY(), 0))
      .i64("cols", dim(op.getY(), 1))
      .type("type", elementType(op.getY()))
      .in(op.getY())
      .in(op.getRowOf())
      .in(op.getProbs())
      .out(op.getOut())
      .emit();
}

template <>
LogicalResult te::emitLaunches(UnpermuteBackwardOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "moe_permute")
      .i64("tokens", dim(op.getDout(), 0))
      .i64("k", op.getK())
      .i64("rows", dim(op.getDy(), 0))
      .i64("cols", dim(op.getDy(), 1))
      .type("type", elementType(op.getDy()))
      .in(op.getDout())
      .in(op.getEntryOf())
      .in(op.getProbs())
      .out(op.getDy())
      .emit();
}

template <>
LogicalResult te::emitLaunches(ProbGradOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "moe_prob_grad")
      .i64("tokens", dim(op.getDprobs(), 0))
      .i64("k", dim(op.getDprobs(), 1))
      .i64("rows", dim(op.getY(), 0))
      .i64("cols", dim(op.getY(), 1))
      .type("type", elementType(op.getY()))
      .in(op.getDout())
      .in(op.getY())
      .in(op.getRowOf())
      .out(op.getDprobs())
      .emit();
}

void te::attachMoeKernels(MLIRContext *context) {
  attachKernels<RouterTopKOp, RouterTopKBackwardOp, PermuteOp, UnpermuteOp,
                UnpermuteBackwardOp, ProbGradOp>(context);
}
