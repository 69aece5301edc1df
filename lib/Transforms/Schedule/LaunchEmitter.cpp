//===- LaunchEmitter.cpp - te ops as kernel launches ----------------------===//
//
// Where values are, what buffers are called and what they are for. Which kernel
// computes an op is in EmitCasts.cpp, EmitProducts.cpp and EmitLayers.cpp.
//
//===----------------------------------------------------------------------===//

#include "LaunchCall.h"

#include "TEDialect/Runtime/te_runtime_types.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::te;
using tert::AllocOp;
using tert::BufferType;
using tert::Cause;
using tert::LaunchOp;

/// The operand that `op` only looks at, or null.
static Value viewedOperand(Operation *op) {
  if (isa_and_present<ResidualOp, tensor::CollapseShapeOp,
                      tensor::ExpandShapeOp>(op))
    return op->getOperand(0);
  return {};
}

Value te::lookThroughViews(Value value) {
  while (Value viewed = viewedOperand(value.getDefiningOp()))
    value = viewed;
  return value;
}

//===----------------------------------------------------------------------===//
// Names and causes
//===----------------------------------------------------------------------===//

/// The innermost name in a location, or "".
static StringRef findName(Location loc) {
  if (auto named = dyn_cast<NameLoc>(loc))
    return named.getName();
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location inner : fused.getLocations())
      if (StringRef name = findName(inner); !name.empty())
        return name;
  return {};
}

std::string LaunchEmitter::baseName(Operation *op) {
  StringRef kind = op->getName().stripDialect();
  StringRef name = findName(op->getLoc());
  return name.empty() ? kind.str() : (name + "." + kind).str();
}

std::string LaunchEmitter::uniqueName(StringRef name) {
  unsigned n = nameCounts[name]++;
  return n == 0 ? name.str() : (name + "#" + Twine(n + 1)).str();
}

Cause LaunchEmitter::causeOf(Operation *op, Value result) const {
  if (residualNames.contains(result))
    return Cause::Residual;
  if (isa<arith::ConstantOp>(op))
    return Cause::Constant;
  if (isa<TransposeOp>(op))
    return Cause::Transpose;
  if (isa<ScaledType>(result.getType()))
    return Cause::CachedCast;
  if (isa<AdamWOp, SgdOp>(op))
    return Cause::Optimizer;
  return inBackward ? Cause::Gradient : Cause::Activation;
}

//===----------------------------------------------------------------------===//
// The emitter
//===----------------------------------------------------------------------===//

LaunchEmitter::LaunchEmitter(OpBuilder &builder, Block &block)
    : builder(builder) {
  for (auto residual : block.getOps<ResidualOp>())
    residualNames.try_emplace(lookThroughViews(residual.getHeld()),
                              residual.getName());
  for (auto reduce : block.getOps<AmaxReduceOp>()) {
    int64_t offset = 0;
    for (Value amax : reduce.getAmaxes()) {
      if (reduce.getAmaxes().size() > 1 && !isa<BlockArgument>(amax))
        places.try_emplace(amax, reduce, offset);
      offset += cast<ShapedType>(amax.getType()).getNumElements() *
                int64_t(sizeof(float));
    }
  }
}

void LaunchEmitter::bind(Value value, Buffers buffers) {
  bindings[value] = std::move(buffers);
}

FailureOr<Buffers> LaunchEmitter::lookup(Value value) {
  value = lookThroughViews(value);
  if (auto constant = value.getDefiningOp<arith::ConstantOp>();
      constant && !bindings.contains(value) && failed(emitConstant(constant)))
    return failure();
  auto found = bindings.find(value);
  if (found == bindings.end())
    return failure();
  return found->second;
}

Value LaunchEmitter::alloc(Location loc, StringRef name, Cause cause,
                           int64_t bytes) {
  return AllocOp::create(builder, loc,
                         BufferType::get(builder.getContext(), bytes),
                         builder.getStringAttr(uniqueName(name)),
                         tert::CauseAttr::get(builder.getContext(), cause),
                         /*offset=*/IntegerAttr());
}

Value LaunchEmitter::slice(Location loc, Value buffer, int64_t offset,
                           int64_t bytes) {
  return tert::SliceOp::create(builder, loc,
                               BufferType::get(builder.getContext(), bytes),
                               buffer, builder.getI64IntegerAttr(offset));
}

Value LaunchEmitter::placeOf(Location loc, Value amax) {
  auto found = places.find(amax);
  if (found == places.end())
    return {};
  auto [reduce, offset] = found->second;
  auto bytesOf = [](Value value) {
    return cast<ShapedType>(value.getType()).getNumElements() *
           int64_t(sizeof(float));
  };
  Value &whole = packed[reduce];
  if (!whole) {
    int64_t bytes = 0;
    for (Value each : reduce.getAmaxes())
      bytes += bytesOf(each);
    whole = alloc(loc, baseName(reduce) + ".amaxes",
                  causeOf(reduce, reduce.getReduced().front()), bytes);
  }
  return slice(loc, whole, offset, bytesOf(amax));
}

LaunchOp LaunchEmitter::copy(Location loc, Value from, Value to) {
  int64_t bytes = cast<BufferType>(from.getType()).getBytes();
  return LaunchOp::create(builder, loc, "copy",
                          builder.getDictionaryAttr(builder.getNamedAttr(
                              "bytes", builder.getI64IntegerAttr(bytes))),
                          ValueRange{from, to});
}

LogicalResult LaunchEmitter::emit(Operation *op) {
  // The backward starts where the forward hands over its residuals.
  inBackward |= isa<ResidualOp>(op);
  // Constants wait for their first use, which keeps their buffers short-lived.
  if (viewedOperand(op) || isa<arith::ConstantOp>(op))
    return success();
  for (Type type : op->getResultTypes())
    if (tert::getBufferLayouts(type).empty())
      return op->emitError()
             << "the runtime has no buffer for a result of type " << type;

  bool isKnown = true;
  LogicalResult result = emitCast(op, isKnown);
  if (!isKnown)
    result = emitProduct(op, isKnown = true);
  if (!isKnown)
    result = emitCollective(op, isKnown = true);
  if (!isKnown)
    result = emitGrouped(op, isKnown = true);
  if (!isKnown)
    result = emitMoe(op, isKnown = true);
  if (!isKnown)
    result = emitLayer(op, isKnown = true);
  if (!isKnown)
    result = emitAttention(op, isKnown = true);
  if (!isKnown)
    result = emitOptimizer(op, isKnown = true);
  if (!isKnown)
    result = emitProbe(op, isKnown = true);
  if (!isKnown)
    return op->emitError()
           << "the runtime has no kernel for '" << op->getName()
           << "'; expected layers to be replaced by casts and products before";
  return result;
}

LogicalResult LaunchEmitter::emitConstant(Operation *op) {
  DenseElementsAttr value;
  Value result = op->getResult(0);
  // Zero has the same bits in f32, which the kernel knows, and in i32.
  if (elementType(result).isInteger(32) && matchPattern(op, m_Zero()))
    return Call(*this, op, "fill")
        .i64("count", count(result))
        .i32("type", TE_RT_F32)
        .f32("value", APFloat(0.0f))
        .out(result)
        .none(1)
        .emit();
  if (matchPattern(op, m_Constant(&value)) &&
      value.getElementType().isSignlessInteger(32))
    return emitGroupSizes(op, value);
  if (!value || !value.isSplat() || !isa<FloatType>(value.getElementType()))
    return op->emitError()
           << "expected a constant to be a splat of a float, but its type is "
           << op->getResult(0).getType();
  APFloat splat = value.getSplatValue<APFloat>();
  bool losesInfo = false;
  splat.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven,
                &losesInfo);
  if (losesInfo)
    return op->emitError() << "expected a constant to fit into f32";
  return Call(*this, op, "fill")
      .i64("count", count(result))
      .type("type", elementType(result))
      .f32("value", splat)
      .out(result)
      .none(1)
      .emit();
}

LogicalResult LaunchEmitter::emitPointwise(Operation *op, int32_t kind) {
  Value result = op->getResult(0), a = op->getOperand(0);
  Value b = op->getNumOperands() == 2 ? op->getOperand(1) : Value();
  return Call(*this, op, "pointwise")
      .i64("count", count(result))
      .i32("op", kind)
      .type("type", elementType(a))
      .type("out_type", elementType(result))
      .in(a)
      .in(b)
      .out(result)
      .emit();
}
