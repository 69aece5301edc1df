//===- EmitProbes.cpp - launches of the ops that inspect values -----------===//

#include "LaunchCall.h"

#include "TEDialect/Runtime/te_runtime_types.h"

using namespace mlir;
using namespace mlir::te;

/// Half a step above the largest value of an 8-bit float.
static APFloat roundingLimit(Type type) {
  return APFloat(isa<Float8E5M2Type>(type) ? 61440.0f : 464.0f);
}

template <>
LogicalResult te::emitLaunches(CountNonfiniteOp op, LaunchEmitter &emitter) {
  LaunchCall call(emitter, op, "count_nonfinite");
  call.i64("count", count(op.getX()))
      .type("type", elementType(op.getX()))
      .i64("entries", dim(op.getCounts(), 0))
      .i64("index", op.getIndex())
      .f32("limit",
           op.getScale() ? roundingLimit(*op.getElementType()) : APFloat(0.0f))
      .in(op.getX())
      .in(op.getScale())
      .in(op.getCounts());
  // A chain of counts uses one buffer, because its old values are not read.
  FailureOr<Buffers> counts = emitter.lookup(op.getCounts());
  if (failed(counts) || !op.getCounts().hasOneUse() ||
      isa<BlockArgument>(counts->front()))
    return call.out(op.getNewCounts()).emit();
  emitter.bind(op.getNewCounts(), *counts);
  return call.buffer(counts->front()).emit();
}

/// The parameters and buffers of a scaled value.
static void describeCast(LaunchCall &call, Value q) {
  auto type = cast<ScaledType>(q.getType());
  call.type("fp8_type", type.getElementType())
      .i32("scheme", static_cast<int32_t>(type.getScheme()))
      .i32("axis", type.getContract())
      .i32("row_scaled", type.is(ScaleVariant::RowScaled))
      .i32("scale_max", scaleMax(type))
      .inScaled(q);
}

template <>
LogicalResult te::emitLaunches(TensorStatsOp op, LaunchEmitter &emitter) {
  LaunchCall call(emitter, op, "tensor_stats");
  call.i64("rows", dim(op.getX(), 0))
      .i64("cols", dim(op.getX(), 1))
      .type("type", elementType(op.getX()))
      .in(op.getX());
  if (!op.getQ())
    call.i32("fp8_type", TE_RT_F8E4M3FN)
        .i32("scheme", TE_RT_PER_TENSOR)
        .i32("axis", 1)
        .i32("row_scaled", 0)
        .i32("scale_max", 0)
        .none(3);
  else
    describeCast(call, op.getQ());
  return call.out(op.getStats()).emit();
}

void te::attachProbeKernels(MLIRContext *context) {
  attachKernels<CountNonfiniteOp, TensorStatsOp>(context);
}
