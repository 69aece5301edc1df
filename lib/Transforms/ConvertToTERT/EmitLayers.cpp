//===- EmitLayers.cpp - launches of layers and optimizers -----------------===//
//
// This covers norms, activations, embedding, loss and optimizer updates.
//
//===----------------------------------------------------------------------===//

#include "LaunchCall.h"

using namespace mlir;
using namespace mlir::te;

template <>
LogicalResult te::emitLaunches(RmsNormOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "rms_norm")
      .i64("rows", dim(op.getX(), 0))
      .i64("cols", dim(op.getX(), 1))
      .type("type", elementType(op.getX()))
      .f32("epsilon", op.getEpsilon())
      .i32("zero_centered", op.getZeroCenteredGamma())
      .in(op.getX())
      .in(op.getGamma())
      .out(op.getY())
      .outOrScratch(op.getRsigma(), dim(op.getX(), 0))
      .out(op.getAmax())
      .in(op.getAddend())
      .out(op.getSum())
      .in(op.getBase())
      .emit();
}

template <>
LogicalResult te::emitLaunches(RmsNormBackwardOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "rms_norm_backward")
      .i64("rows", dim(op.getX(), 0))
      .i64("cols", dim(op.getX(), 1))
      .type("type", elementType(op.getX()))
      .i32("zero_centered", op.getZeroCenteredGamma())
      .in(op.getDy())
      .in(op.getX())
      .in(op.getGamma())
      .in(op.getRsigma())
      .out(op.getDx())
      .out(op.getDgamma())
      .out(op.getAmax())
      .in(op.getAddend())
      .emit();
}

template <>
LogicalResult te::emitLaunches(LayerNormOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "layer_norm")
      .i64("rows", dim(op.getX(), 0))
      .i64("cols", dim(op.getX(), 1))
      .type("type", elementType(op.getX()))
      .f32("epsilon", op.getEpsilon())
      .i32("zero_centered", op.getZeroCenteredGamma())
      .in(op.getX())
      .in(op.getGamma())
      .in(op.getBeta())
      .out(op.getY())
      .outOrScratch(op.getMu(), dim(op.getX(), 0))
      .outOrScratch(op.getRsigma(), dim(op.getX(), 0))
      .out(op.getAmax())
      .in(op.getAddend())
      .out(op.getSum())
      .in(op.getBase())
      .emit();
}

template <>
LogicalResult te::emitLaunches(LayerNormBackwardOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "layer_norm_backward")
      .i64("rows", dim(op.getX(), 0))
      .i64("cols", dim(op.getX(), 1))
      .type("type", elementType(op.getX()))
      .i32("zero_centered", op.getZeroCenteredGamma())
      .in(op.getDy())
      .in(op.getX())
      .in(op.getGamma())
      .in(op.getMu())
      .in(op.getRsigma())
      .out(op.getDx())
      .out(op.getDgamma())
      .out(op.getDbeta())
      .out(op.getAmax())
      .in(op.getAddend())
      .emit();
}

template <>
LogicalResult te::emitLaunches(ActivationOp op, LaunchEmitter &emitter) {
  LaunchCall call(emitter, op,
                  op.getGate() ? "gated_activation" : "activation");
  call.i64("rows", dim(op.getY(), 0))
      .i64("cols", dim(op.getY(), 1))
      .type("type", elementType(op.getX()))
      .activation(op)
      .in(op.getX());
  if (op.getGate())
    call.in(op.getGate());
  return call.out(op.getY()).out(op.getAmax()).emit();
}

template <>
LogicalResult te::emitLaunches(ActivationBackwardOp op,
                               LaunchEmitter &emitter) {
  LaunchCall call(emitter, op,
                  op.getGate() ? "gated_activation_backward"
                               : "activation_backward");
  call.i64("rows", dim(op.getDy(), 0))
      .i64("cols", dim(op.getDy(), 1))
      .type("type", elementType(op.getX()))
      .activation(op)
      .in(op.getDy())
      .in(op.getX());
  if (!op.getGate())
    return call.out(op.getDx()).out(op.getAmax()).emit();
  return call.in(op.getGate())
      .out(op.getDx())
      .out(op.getDgate())
      .out(op.getAmax())
      .out(op.getDgateAmax())
      .emit();
}

template <>
LogicalResult te::emitLaunches(EmbeddingOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "embedding")
      .i64("tokens", dim(op.getY(), 0))
      .i64("vocab", dim(op.getTable(), 0))
      .i64("hidden", dim(op.getTable(), 1))
      .type("type", elementType(op.getTable()))
      .in(op.getIds())
      .in(op.getTable())
      .out(op.getY())
      .emit();
}

template <>
LogicalResult te::emitLaunches(EmbeddingBackwardOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "embedding_backward")
      .i64("tokens", dim(op.getDy(), 0))
      .i64("vocab", dim(op.getDtable(), 0))
      .i64("hidden", dim(op.getDtable(), 1))
      .type("type", elementType(op.getDy()))
      .type("out_type", elementType(op.getDtable()))
      .in(op.getIds())
      .in(op.getDy())
      .out(op.getDtable())
      .in(op.getAccumulate())
      .emit();
}

template <>
LogicalResult te::emitLaunches(BiasAddOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "bias_add")
      .i64("rows", dim(op.getX(), 0))
      .i64("cols", dim(op.getX(), 1))
      .type("type", elementType(op.getX()))
      .in(op.getX())
      .in(op.getBias())
      .out(op.getY())
      .emit();
}

template <> LogicalResult te::emitLaunches(AdamWOp op, LaunchEmitter &emitter) {
  LaunchCall call(emitter, op, op.getScales() ? "adamw_fp8" : "adamw");
  if (!op.getScales())
    call.type("moment_type", elementType(op.getM()));
  call.i64("count", count(op.getParam()))
      .type("param_type", elementType(op.getParam()))
      .type("grad_type", elementType(op.getGrad()))
      .attributes()
      .in(op.getParam())
      .in(op.getGrad())
      .in(op.getM())
      .in(op.getV());
  if (op.getScales())
    call.in(op.getScales());
  call.in(op.getLr())
      .in(op.getStep())
      .in(op.getGradScale())
      .out(op.getNewParam())
      .out(op.getNewM())
      .out(op.getNewV());
  if (op.getNewScales())
    call.out(op.getNewScales());
  return call.in(op.getSkip()).emit();
}

template <> LogicalResult te::emitLaunches(SgdOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "sgd")
      .i64("count", count(op.getParam()))
      .type("param_type", elementType(op.getParam()))
      .type("grad_type", elementType(op.getGrad()))
      .attributes()
      .in(op.getParam())
      .in(op.getGrad())
      .in(op.getBuffer())
      .in(op.getLr())
      .in(op.getGradScale())
      .out(op.getNewParam())
      .out(op.getNewBuffer())
      .in(op.getSkip())
      .emit();
}

template <>
LogicalResult te::emitLaunches(SumOfSquaresOp op, LaunchEmitter &emitter) {
  const tert::KernelInfo *kernel = tert::lookupKernel("sum_of_squares");
  const unsigned ofSum = *kernel->findBuffer("sum"), most = ofSum;
  FloatType f32 = emitter.getBuilder().getF32Type();
  Value sum;
  for (size_t first = 0; first < op.getX().size(); first += most) {
    const OperandRange rest = op.getX().drop_front(first);
    const OperandRange tensors = rest.take_front(most);
    LaunchCall call(emitter, op, kernel->name);
    for (unsigned i = 0; i < most; ++i) {
      const bool isGiven = i < tensors.size();
      call.i64(("count" + Twine(i)).str(), isGiven ? count(tensors[i]) : 0)
          .type(("type" + Twine(i)).str(),
                isGiven ? elementType(tensors[i]) : f32)
          .in(isGiven ? tensors[i] : Value());
    }
    sum ? call.buffer(sum) : call.in(op.getSum());
    const bool isLast = rest.size() <= most;
    FailureOr<tert::LaunchOp> launch =
        call.outOrScratch(isLast ? op.getNewSum() : Value(), 1)
            .in(op.getSkip())
            .launch();
    if (failed(launch))
      return failure();
    sum = launch->getBuffers()[ofSum + 1];
  }
  return success();
}

template <>
LogicalResult te::emitLaunches(ClipFactorOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "clip_factor")
      .attributes()
      .in(op.getSum())
      .out(op.getNorm())
      .out(op.getFactor())
      .emit();
}

template <>
LogicalResult te::emitLaunches(ZeroUnlessOp op, LaunchEmitter &emitter) {
  if (summandStart(op.getY()))
    return success();
  return LaunchCall(emitter, op, "fill")
      .i64("count", count(op.getX()))
      .type("type", elementType(op.getX()))
      .f32("value", APFloat(0.0f))
      .outOn(op.getY(), op.getX())
      .in(op.getSkip())
      .emit();
}

void te::attachLayerKernels(MLIRContext *context) {
  attachKernels<BiasAddOp, RmsNormOp, RmsNormBackwardOp, LayerNormOp,
                LayerNormBackwardOp, ActivationOp, ActivationBackwardOp,
                EmbeddingOp, EmbeddingBackwardOp, ZeroUnlessOp>(context);
  attachKernelsOf<tert::Cause::Optimizer, AdamWOp, SgdOp, SumOfSquaresOp,
                  ClipFactorOp>(context);
}
