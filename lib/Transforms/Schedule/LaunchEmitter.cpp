//===- LaunchEmitter.cpp - te ops as kernel launches ----------------------===//
//
// One line per kernel: which parameters, which buffers, in the order of its row
// in te_runtime_kernels.inc. The verifier of tert.launch checks the parameters
// and the number of buffers against the row.
//
//===----------------------------------------------------------------------===//

#include "LaunchEmitter.h"

#include "TEDialect/Runtime/te_runtime_types.h"
#include "TEDialect/TERT/KernelTable.h"
#include "TEDialect/TERT/PointwiseOps.h"
#include "TEDialect/TERT/RuntimeTypes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

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

static Type elementType(Value value) {
  return getElementTypeOrSelf(value.getType());
}
static int64_t dim(Value value, unsigned axis) {
  return cast<ShapedType>(value.getType()).getDimSize(axis);
}
static int64_t count(Value value) {
  return cast<ShapedType>(value.getType()).getNumElements();
}

/// The largest block scale of an nv value, 0 for the kernels of others.
static int32_t scaleMax(ScaledType type) {
  return type.isNv() ? type.getScaleMax() : 0;
}

/// The usage of a cast that may be contracted along `axis`, or null.
static Value findUsage(ResultRange usages, unsigned axis) {
  for (Value usage : usages)
    if (cast<ScaledType>(usage.getType()).getContract() == axis)
      return usage;
  return {};
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// A launch being put together: parameters by name, buffers in row order.
struct LaunchEmitter::Call {
  Call(LaunchEmitter &emitter, Operation *op, StringRef kernel)
      : emitter(emitter), op(op), kernel(*tert::lookupKernel(kernel)),
        base(emitter.baseName(op)) {}

  Call &i64(StringRef name, int64_t value) {
    return parameter(name, emitter.builder.getI64IntegerAttr(value));
  }
  Call &i32(StringRef name, int32_t value) {
    return parameter(name, emitter.builder.getI32IntegerAttr(value));
  }
  Call &f32(StringRef name, APFloat value) {
    return parameter(name, FloatAttr::get(emitter.builder.getF32Type(),
                                          value.convertToFloat()));
  }
  Call &type(StringRef name, Type type) {
    std::optional<int32_t> runtimeType = tert::getRuntimeType(type);
    isValid &= runtimeType.has_value();
    return i32(name, runtimeType.value_or(-1));
  }

  /// Appends the buffers of an operand, or `absentBuffers` nulls.
  Call &in(Value value, unsigned absentBuffers = 1) {
    if (!value)
      return none(absentBuffers);
    FailureOr<Buffers> found = emitter.lookup(value);
    isValid &= succeeded(found);
    if (succeeded(found))
      llvm::append_range(buffers, *found);
    return *this;
  }

  /// As `in`, for a scaled operand of a kernel that takes an amax of some: a
  /// null for the amax of one that has none or is `withoutAmax`.
  Call &inScaled(Value value, bool withoutAmax = false) {
    in(value);
    if (!cast<ScaledType>(value.getType()).isNv())
      return none(1);
    if (withoutAmax && isValid) {
      buffers.pop_back();
      return none(1);
    }
    return *this;
  }

  /// Appends only the last buffer of an operand, the amax of an nv value.
  Call &inAmax(Value value) {
    FailureOr<Buffers> found = emitter.lookup(value);
    isValid &= succeeded(found);
    if (succeeded(found))
      buffers.push_back(found->back());
    return *this;
  }

  /// Appends new temporaries for a result, or `absentBuffers` nulls.
  Call &out(Value result, unsigned absentBuffers = 1) {
    if (!result)
      return none(absentBuffers);
    Buffers made;
    StringRef residual = emitter.residualNames.lookup(result);
    for (const tert::BufferLayout &layout :
         tert::getBufferLayouts(result.getType())) {
      std::string name = !residual.empty() ? residual.str() : nextName();
      if (!residual.empty() && layout.part != "value")
        name += "." + layout.part.str();
      made.push_back(emitter.alloc(op->getLoc(), name,
                                   emitter.causeOf(op, result), layout.bytes));
      buffers.push_back(made.back());
    }
    isValid &= !made.empty();
    emitter.bind(result, made);
    return *this;
  }

  /// As `out`, for a scaled result of a kernel that writes an amax of some.
  Call &outScaled(Value result) {
    out(result);
    return cast<ScaledType>(result.getType()).isNv() ? *this : none(1);
  }

  /// As `out`, for `count` f32 the kernel always writes.
  Call &outOrScratch(Value result, int64_t count) {
    if (result)
      return out(result);
    auto type = RankedTensorType::get({count}, emitter.builder.getF32Type());
    for (const tert::BufferLayout &layout : tert::getBufferLayouts(type)) {
      buffers.push_back(emitter.alloc(op->getLoc(), nextName(),
                                      emitter.causeOf(op, op->getResult(0)),
                                      layout.bytes));
      return *this;
    }
    op->emitError() << "the runtime has no buffer for " << count
                    << " f32 beside the results";
    isValid = false;
    return none(1);
  }

  Call &none(unsigned n) {
    if (!emitter.null)
      emitter.null = tert::NullOp::create(
          emitter.builder, op->getLoc(),
          BufferType::get(emitter.builder.getContext(), 0));
    buffers.append(n, emitter.null);
    return *this;
  }

  Call &buffer(Value value) {
    buffers.push_back(value);
    return *this;
  }

  LogicalResult emit() {
    // Whatever is wrong was said where the operand or result has no buffer.
    if (!isValid)
      return failure();
    LaunchOp::create(emitter.builder, op->getLoc(), kernel.name,
                     emitter.builder.getDictionaryAttr(parameters), buffers);
    return success();
  }

private:
  Call &parameter(StringRef name, Attribute value) {
    parameters.push_back(emitter.builder.getNamedAttr(name, value));
    return *this;
  }
  std::string nextName() const {
    return base + "." + kernel.buffers[buffers.size()].name.str();
  }

  LaunchEmitter &emitter;
  Operation *op;
  const tert::KernelInfo &kernel;
  std::string base;
  SmallVector<NamedAttribute> parameters;
  SmallVector<Value> buffers;
  bool isValid = true;
};

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
    result = emitLayer(op, isKnown = true);
  if (!isKnown)
    result = emitOptimizer(op, isKnown = true);
  if (!isKnown)
    return op->emitError()
           << "the runtime has no kernel for '" << op->getName()
           << "'; expected layers to be replaced by casts and products before";
  return result;
}

LogicalResult LaunchEmitter::emitConstant(Operation *op) {
  DenseElementsAttr value;
  if (!matchPattern(op, m_Constant(&value)) || !value.isSplat() ||
      !isa<FloatType>(value.getElementType()))
    return op->emitError()
           << "expected a constant to be a splat of a float, but its type is "
           << op->getResult(0).getType();
  APFloat splat = value.getSplatValue<APFloat>();
  bool losesInfo = false;
  splat.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven,
                &losesInfo);
  if (losesInfo)
    return op->emitError() << "expected a constant to fit into f32";
  Value result = op->getResult(0);
  return Call(*this, op, "fill")
      .i64("count", count(result))
      .type("type", elementType(result))
      .f32("value", splat)
      .out(result)
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

static StringRef quantizeKernel(ScaledType type) {
  if (type.getScheme() == Scheme::PerTensor)
    return "quantize_tensor";
  if (type.isMx())
    return "quantize_mx";
  return type.isNv() ? "quantize_nvfp4" : "quantize_block";
}

LogicalResult LaunchEmitter::emitQuantize(QuantizeOp op) {
  auto type = cast<ScaledType>(op.getUsages()[0].getType());
  Call call(*this, op, quantizeKernel(type));
  call.i64("rows", type.getRows())
      .i64("cols", type.getCols())
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
  call.out(findUsage(op.getUsages(), 1), parts)
      .out(findUsage(op.getUsages(), 0), parts);
  if (isPerTensor)
    call.out(op.getAmax());
  return call.emit();
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
            .emit();
      })
      .Case([&](AmaxReduceOp op) {
        return Call(*this, op, "all_reduce_max")
            .i64("count", 1)
            .i32("group_id", op.getGroupId())
            .in(op.getAmax())
            .out(op.getReduced())
            .emit();
      })
      .Case([&](ComputeScaleOp op) {
        return Call(*this, op, "compute_scale")
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
        return Call(*this, op, "nvfp4_alpha")
            .i64("rows", 1)
            .i32("a_scale_max", scaleMax(op.getA().getType()))
            .i32("b_scale_max", scaleMax(op.getB().getType()))
            .inAmax(op.getA())
            .inAmax(op.getB())
            .out(op.getAlpha())
            .emit();
      })
      .Case([&](SwizzleScalesOp op) { return emitSwizzle(op); })
      .Case([&](DequantizeOp op) {
        ScaledType type = op.getQ().getType();
        return Call(*this, op, "dequantize")
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
      })
      .Case([&](TransposeOp op) {
        ScaledType type = op.getQ().getType();
        return Call(*this, op, "transpose_scaled")
            .i64("rows", type.getRows())
            .i64("cols", type.getCols())
            .i32("scheme", static_cast<int32_t>(type.getScheme()))
            .inScaled(op.getQ())
            .outScaled(op.getTransposed())
            .emit();
      })
      .Case([&](ActivationQuantizeOp op) {
        auto type = cast<ScaledType>(op.getUsages()[0].getType());
        return Call(*this, op, "activation_quantize_block")
            .i64("rows", type.getRows())
            .i64("cols", type.getCols())
            .type("type", elementType(op.getX()))
            .i32("kind", static_cast<int32_t>(op.getKind()))
            .type("fp8_type", type.getElementType())
            .i32("pow2_scales", type.getPow2())
            .f32("amax_epsilon", op.getAmaxEpsilon())
            .in(op.getX())
            .out(findUsage(op.getUsages(), 1), 2)
            .out(findUsage(op.getUsages(), 0), 2)
            .emit();
      })
      .Case([&](ActivationBackwardQuantizeOp op) {
        auto type = cast<ScaledType>(op.getUsages()[0].getType());
        return Call(*this, op, "activation_backward_quantize_block")
            .i64("rows", dim(op.getDy(), 0))
            .i64("cols", dim(op.getDy(), 1))
            .type("type", elementType(op.getX()))
            .i32("kind", static_cast<int32_t>(op.getKind()))
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

LogicalResult LaunchEmitter::emitProduct(Operation *op, bool &isKnown) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](MatmulOp op) {
        ArrayRef<int64_t> contract = op.getContract();
        return Call(*this, op, "matmul")
            .i64("m", dim(op.getOut(), 0))
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
      })
      .Case([&](ScaledMatmulOp op) {
        ScaledType a = op.getA().getType(), b = op.getB().getType();
        return Call(*this, op, "scaled_matmul")
            .i64("m", a.getOuter())
            .i64("n", b.getOuter())
            .i64("k", a.getContraction())
            .type("a_type", a.getElementType())
            .i32("a_scheme", static_cast<int32_t>(a.getScheme()))
            .type("b_type", b.getElementType())
            .i32("b_scheme", static_cast<int32_t>(b.getScheme()))
            .type("out_type", elementType(op.getOut()))
            .i32("fast_accumulation", op.getFastAccumulation())
            .i32("a_axis", a.getContract())
            .i32("b_axis", b.getContract())
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
      })
      .Case([&](BiasGradOp op) {
        return Call(*this, op, "bias_grad")
            .i64("rows", dim(op.getDy(), 0))
            .i64("cols", dim(op.getDy(), 1))
            .type("type", elementType(op.getDy()))
            .type("out_type", elementType(op.getDb()))
            .in(op.getDy())
            .out(op.getDb())
            .emit();
      })
      .Default([&](Operation *) {
        isKnown = false;
        return failure();
      });
}

LogicalResult LaunchEmitter::emitLayer(Operation *op, bool &isKnown) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](RmsNormOp op) {
        return Call(*this, op, "rms_norm")
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
            .emit();
      })
      .Case([&](RmsNormBackwardOp op) {
        return Call(*this, op, "rms_norm_backward")
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
            .emit();
      })
      .Case([&](ActivationOp op) {
        return Call(*this, op, "activation")
            .i64("rows", dim(op.getY(), 0))
            .i64("cols", dim(op.getY(), 1))
            .type("type", elementType(op.getX()))
            .i32("kind", static_cast<int32_t>(op.getKind()))
            .in(op.getX())
            .out(op.getY())
            .out(op.getAmax())
            .emit();
      })
      .Case([&](ActivationBackwardOp op) {
        return Call(*this, op, "activation_backward")
            .i64("rows", dim(op.getDy(), 0))
            .i64("cols", dim(op.getDy(), 1))
            .type("type", elementType(op.getX()))
            .i32("kind", static_cast<int32_t>(op.getKind()))
            .in(op.getDy())
            .in(op.getX())
            .out(op.getDx())
            .out(op.getAmax())
            .emit();
      })
      .Case([&](EmbeddingOp op) {
        return Call(*this, op, "embedding")
            .i64("tokens", dim(op.getY(), 0))
            .i64("vocab", dim(op.getTable(), 0))
            .i64("hidden", dim(op.getTable(), 1))
            .type("type", elementType(op.getTable()))
            .in(op.getIds())
            .in(op.getTable())
            .out(op.getY())
            .emit();
      })
      .Case([&](EmbeddingBackwardOp op) {
        return Call(*this, op, "embedding_backward")
            .i64("tokens", dim(op.getDy(), 0))
            .i64("vocab", dim(op.getDtable(), 0))
            .i64("hidden", dim(op.getDtable(), 1))
            .type("type", elementType(op.getDtable()))
            .in(op.getIds())
            .in(op.getDy())
            .out(op.getDtable())
            .emit();
      })
      .Case([&](CrossEntropyOp op) {
        return Call(*this, op, "cross_entropy")
            .i64("tokens", dim(op.getLogits(), 0))
            .i64("vocab", dim(op.getLogits(), 1))
            .type("type", elementType(op.getLogits()))
            .i32("ignore_index", op.getIgnoreIndex())
            .in(op.getLogits())
            .in(op.getTargets())
            .out(op.getLoss())
            .outOrScratch(op.getLse(), dim(op.getLogits(), 0))
            .emit();
      })
      .Case([&](CrossEntropyBackwardOp op) {
        return Call(*this, op, "cross_entropy_backward")
            .i64("tokens", dim(op.getLogits(), 0))
            .i64("vocab", dim(op.getLogits(), 1))
            .type("type", elementType(op.getLogits()))
            .i32("ignore_index", op.getIgnoreIndex())
            .in(op.getDloss())
            .in(op.getLogits())
            .in(op.getTargets())
            .in(op.getLse())
            .out(op.getDlogits())
            .emit();
      })
      .Default([&](Operation *) {
        isKnown = false;
        return failure();
      });
}

LogicalResult LaunchEmitter::emitOptimizer(Operation *op, bool &isKnown) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](AdamWOp op) {
        return Call(*this, op, "adamw")
            .i64("count", count(op.getParam()))
            .type("param_type", elementType(op.getParam()))
            .type("grad_type", elementType(op.getGrad()))
            .f32("beta1", op.getBeta1())
            .f32("beta2", op.getBeta2())
            .f32("epsilon", op.getEpsilon())
            .f32("weight_decay", op.getWeightDecay())
            .in(op.getParam())
            .in(op.getGrad())
            .in(op.getM())
            .in(op.getV())
            .in(op.getLr())
            .in(op.getStep())
            .out(op.getNewParam())
            .out(op.getNewM())
            .out(op.getNewV())
            .emit();
      })
      .Case([&](SgdOp op) {
        return Call(*this, op, "sgd")
            .i64("count", count(op.getParam()))
            .type("param_type", elementType(op.getParam()))
            .type("grad_type", elementType(op.getGrad()))
            .f32("momentum", op.getMomentum())
            .f32("weight_decay", op.getWeightDecay())
            .in(op.getParam())
            .in(op.getGrad())
            .in(op.getBuffer())
            .in(op.getLr())
            .out(op.getNewParam())
            .out(op.getNewBuffer())
            .emit();
      })
      .Default([&](Operation *) {
        isKnown = false;
        return failure();
      });
}
