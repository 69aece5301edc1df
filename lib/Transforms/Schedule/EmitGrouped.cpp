//===- EmitGrouped.cpp - launches of ops on groups of rows ----------------===//
//
// Casts whose scales belong to a group, and products and layers of groups. The
// sizes of the groups are a buffer like any other.
//
//===----------------------------------------------------------------------===//

#include "LaunchCall.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::te;

/// The parameters that say where the groups lie.
template <typename Call, typename GroupedOp>
static Call &addLayout(Call &call, GroupedOp op, int64_t rows) {
  return call.i64("rows", rows)
      .i64("groups", dim(op.getGroupSizes(), 0))
      .i64("alignment", op.getAlignment());
}

LogicalResult LaunchEmitter::emitGroupedQuantize(QuantizeOp op) {
  auto type = cast<ScaledType>(op.getUsages()[0].getType());
  Call call(*this, op,
            type.isNv() ? "grouped_quantize_nvfp4" : "grouped_quantize_tensor");
  addLayout(call, op, type.getRows())
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

LogicalResult LaunchEmitter::emitGroupedDequantize(DequantizeOp op) {
  ScaledType type = op.getQ().getType();
  Call call(*this, op, "grouped_dequantize");
  return addLayout(call, op, type.getRows())
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

/// Sizes that are a constant: runs of equal ones are filled with the f32 that
/// has their bits.
LogicalResult LaunchEmitter::emitGroupSizes(Operation *op,
                                            DenseElementsAttr sizes) {
  SmallVector<APInt> values(sizes.getValues<APInt>());
  // Above are the bits of NaNs, which have no f32 to be filled with.
  constexpr uint64_t kLargest = 0x7f7fffff;
  for (const APInt &value : values)
    if (value.ugt(kLargest))
      return op->emitError()
             << "expected a constant of i32 to hold values "
                "from 0 to "
             << kLargest << ", but got " << value.getSExtValue();
  Value result = op->getResult(0);
  const int64_t count = te::count(result);
  Value whole = alloc(op->getLoc(), baseName(op), tert::Cause::Constant,
                      count * int64_t(sizeof(int32_t)));
  bind(result, {whole});
  for (int64_t begin = 0, end = 0; begin < count; begin = end) {
    while (end < count && values[end] == values[begin])
      ++end;
    auto type = tert::BufferType::get(builder.getContext(),
                                      (end - begin) * int64_t(sizeof(int32_t)));
    Value run = tert::SliceOp::create(
        builder, op->getLoc(), type, whole,
        builder.getI64IntegerAttr(begin * int64_t(sizeof(int32_t))));
    if (failed(Call(*this, op, "fill")
                   .i64("count", end - begin)
                   .type("type", builder.getF32Type())
                   .f32("value", APFloat(APFloat::IEEEsingle(), values[begin]))
                   .buffer(run)
                   .none(1)
                   .emit()))
      return failure();
  }
  return success();
}

LogicalResult LaunchEmitter::emitGrouped(Operation *op, bool &isKnown) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](GroupedAmaxOp op) {
        Call call(*this, op, "grouped_amax");
        return addLayout(call, op, dim(op.getX(), 0))
            .i64("cols", dim(op.getX(), 1))
            .type("type", elementType(op.getX()))
            .in(op.getX())
            .in(op.getGroupSizes())
            .out(op.getAmax())
            .emit();
      })
      .Case([&](ZeroPaddingOp op) {
        Call call(*this, op, "grouped_zero_padding");
        return addLayout(call, op, dim(op.getX(), 0))
            .i64("cols", dim(op.getX(), 1))
            .type("type", elementType(op.getX()))
            .in(op.getX())
            .in(op.getGroupSizes())
            .out(op.getY())
            .emit();
      })
      .Case([&](RoundGroupSizesOp op) {
        return Call(*this, op, "grouped_round_sizes")
            .i64("groups", dim(op.getGroupSizes(), 0))
            .i64("multiple", op.getMultiple())
            .in(op.getGroupSizes())
            .out(op.getRounded())
            .emit();
      })
      .Case([&](GroupedScaledMatmulOp op) {
        ScaledType a = op.getA().getType(), b = op.getB().getType();
        Call call(*this, op, "grouped_scaled_matmul");
        return addLayout(call, op, a.getRows())
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
      })
      .Case([&](GroupedScaledWgradOp op) {
        ScaledType a = op.getA().getType(), b = op.getB().getType();
        Call call(*this, op, "grouped_scaled_wgrad");
        return addLayout(call, op, a.getRows())
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
      })
      .Case([&](GroupedMatmulOp op) {
        Call call(*this, op, "grouped_matmul");
        return addLayout(call, op, dim(op.getA(), 0))
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
      })
      .Case([&](GroupedWgradOp op) {
        Call call(*this, op, "grouped_wgrad");
        return addLayout(call, op, dim(op.getA(), 0))
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
      })
      .Case([&](GroupedBiasGradOp op) {
        Call call(*this, op, "grouped_bias_grad");
        return addLayout(call, op, dim(op.getDy(), 0))
            .i64("cols", dim(op.getDy(), 1))
            .type("type", elementType(op.getDy()))
            .type("out_type", elementType(op.getDb()))
            .in(op.getDy())
            .in(op.getGroupSizes())
            .out(op.getDb())
            .emit();
      })
      .Default([&](Operation *) {
        isKnown = false;
        return failure();
      });
}
