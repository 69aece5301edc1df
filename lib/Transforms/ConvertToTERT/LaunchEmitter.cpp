//===- LaunchEmitter.cpp - te ops as kernel launches ----------------------===//
//
// This file assigns buffers to values, and names and causes to buffers. Which
// kernel computes an op is in the Emit file of its family.
//
//===----------------------------------------------------------------------===//

#include "LaunchCall.h"

#include "TEDialect/IR/DiagnosticData.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::te;
using tert::AllocOp;
using tert::BufferType;
using tert::Cause;
using tert::LaunchOp;

#include "TEDialect/Transforms/ConvertToTERT/KernelOpInterface.cpp.inc"

/// The operand that the result of `op` is a view of, or null.
static Value viewedOperand(Operation *op) {
  auto kernel = dyn_cast_if_present<KernelOpInterface>(op);
  return kernel ? kernel.getViewedOperand() : Value();
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

std::string LaunchEmitter::baseName(Operation *op, Value value) {
  StringRef residual = getResidualName(value);
  return residual.empty() ? baseName(op) : residual.str();
}

std::string LaunchEmitter::uniqueName(StringRef name) {
  unsigned n = nameCounts[name]++;
  return n == 0 ? name.str() : (name + "#" + Twine(n + 1)).str();
}

Cause LaunchEmitter::causeOf(Operation *op, Value result) const {
  if (residualNames.contains(result))
    return Cause::Residual;
  auto kernel = dyn_cast<KernelOpInterface>(op);
  if (std::optional<Cause> cause =
          kernel ? kernel.getBufferCause() : std::nullopt)
    return *cause;
  if (isa<ScaledType>(result.getType()))
    return Cause::CachedCast;
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
        amaxPlaces.try_emplace(amax, reduce, offset);
      offset += cast<ShapedType>(amax.getType()).getNumElements() *
                int64_t(sizeof(float));
    }
  }
  for (auto concat : block.getOps<tensor::ConcatOp>())
    findJoined(concat);
}

/// What `operand` of a concatenation is a view of, if nothing else reads it,
/// and an op computes it; else null.
static Value joinedValue(Value operand) {
  Value value = operand;
  for (Value viewed = value; viewed;
       viewed = viewedOperand(value.getDefiningOp())) {
    value = viewed;
    if (!value.hasOneUse() || value.getDefiningOp<ResidualOp>())
      return {};
  }
  return isa_and_present<arith::ConstantOp, tensor::ExtractSliceOp>(
             value.getDefiningOp())
             ? Value()
             : value;
}

/// Finds the operands of `op` that are computed where they are joined: in the
/// rows of the result or, if all are matrices of one size whose columns are
/// joined, in memory from which one launch joins them.
void LaunchEmitter::findJoined(tensor::ConcatOp op) {
  constexpr int64_t kAlignment = 16;
  auto type = op.getResultType();
  const bool isOfRows =
      llvm::product_of(type.getShape().take_front(op.getDim())) == 1;
  if (type.getNumElements() == 0 ||
      (!isOfRows && !llvm::all_equal(op.getInputs().getTypes())))
    return;
  SmallVector<std::pair<Value, int64_t>> found;
  int64_t offset = 0;
  for (Value operand : op.getInputs()) {
    // Zeros are filled in later.
    if (matchPattern(operand, m_PosZeroFloat()))
      return;
    Value value = joinedValue(operand);
    if (value && !isa<BlockArgument>(value) && !amaxPlaces.contains(value) &&
        !residualNames.contains(value) && offset % kAlignment == 0)
      found.emplace_back(value, offset);
    else if (!isOfRows)
      return;
    offset += count(operand) * (type.getElementTypeBitWidth() / 8);
  }
  for (auto [value, first] : found)
    joinedPlaces.try_emplace(value, op, first);
}

Value LaunchEmitter::placeInJoined(Location loc, Value part) {
  auto found = joinedPlaces.find(part);
  if (found == joinedPlaces.end())
    return {};
  auto [op, offset] = found->second;
  const int64_t bytes = elementType(op).getIntOrFloatBitWidth() / 8;
  Value &whole = joined[op];
  if (!whole) {
    // The parts of columns are not the result yet.
    auto shape = op.getResultType().getShape();
    const bool isOfRows = llvm::product_of(shape.take_front(op.getDim())) == 1;
    const Value named = isOfRows ? op.getResult() : part;
    whole = alloc(op.getLoc(), baseName(op, named), causeOf(op, named),
                  count(op.getResult()) * bytes);
  }
  return slice(loc, whole, offset, count(part) * bytes);
}

void LaunchEmitter::bind(Value value, Buffers buffers) {
  bindings[value] = std::move(buffers);
}

FailureOr<Buffers> LaunchEmitter::lookup(Value value) {
  value = lookThroughViews(value);
  if (auto constant = value.getDefiningOp<arith::ConstantOp>();
      constant && !bindings.contains(value) &&
      failed(cast<KernelOpInterface>(*constant).emitLaunches(*this)))
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
                         /*offset=*/IntegerAttr(), /*of_result=*/IntegerAttr());
}

Value LaunchEmitter::slice(Location loc, Value buffer, int64_t offset,
                           int64_t bytes) {
  if (auto part = buffer.getDefiningOp<tert::SliceOp>())
    return slice(loc, part.getBuffer(), part.getOffset() + offset, bytes);
  return tert::SliceOp::create(builder, loc,
                               BufferType::get(builder.getContext(), bytes),
                               buffer, builder.getI64IntegerAttr(offset));
}

Buffers LaunchEmitter::takePlace(Value result) {
  auto found = places.find(result);
  if (found == places.end())
    return {};
  Buffers buffers = std::move(found->second);
  places.erase(found);
  return buffers;
}

Value LaunchEmitter::allocPart(Operation *op, Value result,
                               const tert::BufferLayout &part, StringRef name) {
  if (Value place = placeOf(op->getLoc(), result))
    return place;
  if (Value place = placeInJoined(op->getLoc(), result))
    return place;
  StringRef residual = getResidualName(result);
  std::string full = (residual.empty() ? name : residual).str();
  if (!residual.empty() && part.part != "value")
    full += "." + part.part.str();
  return alloc(op->getLoc(), full, causeOf(op, result), part.bytes);
}

Value LaunchEmitter::getNull(Location loc) {
  if (!null)
    null = tert::NullOp::create(builder, loc,
                                BufferType::get(builder.getContext(), 0));
  return null;
}

Value LaunchEmitter::placeOf(Location loc, Value amax) {
  auto found = amaxPlaces.find(amax);
  if (found == amaxPlaces.end())
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

LogicalResult te::refuseLaunch(Operation *op) {
  return withData(op->emitError(), {code::kNoKernel})
         << "the runtime has no kernel for '" << op->getName()
         << "'; expected layers to be replaced with casts and GEMMs, and "
            "elementwise ops to be formed into regions before";
}

LogicalResult LaunchEmitter::emit(Operation *op) {
  // The residuals separate the forward from the backward.
  inBackward |= isa<ResidualOp>(op);
  // Constants are filled at their first use, so that their buffers are not
  // alive before it.
  if (viewedOperand(op) || isa<arith::ConstantOp>(op))
    return success();
  for (Type type : op->getResultTypes())
    if (tert::getBufferLayouts(type).empty())
      return op->emitError()
             << "the runtime has no buffer for a result of type " << type;

  auto kernel = dyn_cast<KernelOpInterface>(op);
  if (!kernel)
    return refuseLaunch(op);
  return kernel.emitLaunches(*this);
}
