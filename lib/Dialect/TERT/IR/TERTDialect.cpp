//===- TERTDialect.cpp - the tert dialect ---------------------------------===//
//
// Registration and verifiers. What a launch may look like is read from the
// kernel table; nothing about a kernel is repeated here.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/TERT/ElementwiseOps.h"
#include "TEDialect/TERT/KernelTable.h"
#include "TEDialect/TERT/TERT.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/CheckedArithmetic.h"

using namespace mlir;
using namespace mlir::tert;

#include "TEDialect/TERT/TERTDialect.cpp.inc"
#include "TEDialect/TERT/TERTEnums.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "TEDialect/TERT/TERTTypes.cpp.inc"

#define GET_OP_CLASSES
#include "TEDialect/TERT/TERTOps.cpp.inc"

void TERTDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "TEDialect/TERT/TERTTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "TEDialect/TERT/TERTOps.cpp.inc"
      >();
}

LogicalResult BufferType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 int64_t bytes) {
  // buffer-c1
  if (bytes < 0)
    return emitError() << "expected 'bytes' not to be negative, but got "
                       << bytes;
  return success();
}

LogicalResult AllocOp::verify() {
  // alloc-c1
  if (getName().empty())
    return emitOpError("expected 'name' not to be empty");
  // alloc-c2
  if (std::optional<int64_t> offset = getOffset();
      offset && (*offset < 0 || *offset % kArenaAlignment != 0))
    return emitOpError() << "expected 'offset' to be a multiple of "
                         << kArenaAlignment << " that is not negative, but got "
                         << *offset;
  // alloc-c3
  if (std::optional<int64_t> result = getOfResult()) {
    Block &block = *(*this)->getBlock();
    if (*result < 0 || *result >= block.getNumArguments())
      return emitOpError() << "expected 'of_result' to be one of "
                           << block.getNumArguments() << " arguments, but got "
                           << *result;
    BlockArgument argument = block.getArgument(*result);
    if (argument.getType() != getBuffer().getType() || !argument.use_empty())
      return emitOpError() << "expected 'of_result' to be an argument of type "
                           << getBuffer().getType()
                           << " that no op uses, but argument " << *result
                           << " has type " << argument.getType() << " and "
                           << (argument.use_empty() ? "no" : "some") << " uses";
  }
  return success();
}

LogicalResult NullOp::verify() {
  // null-c1
  if (getBuffer().getType().getBytes() != 0)
    return emitOpError() << "expected type '!tert.buffer<0>', but got "
                         << getBuffer().getType();
  return success();
}

LogicalResult SliceOp::verify() {
  // slice-c1
  int64_t offset = getOffset(), bytes = getPart().getType().getBytes(),
          whole = getBuffer().getType().getBytes();
  if (offset < 0 || offset > whole || bytes > whole - offset)
    return emitOpError() << "expected " << bytes << " bytes from offset "
                         << offset << " to be in the buffer of " << whole;
  // slice-c2
  if (getBuffer().getDefiningOp<SliceOp>())
    return emitOpError() << "expected 'buffer' to be no slice itself";
  return success();
}

/// True when `attribute` is a constant of the parameter's type.
static bool hasParameterType(Attribute attribute, KernelParameter::Type type) {
  auto typed = dyn_cast<TypedAttr>(attribute);
  if (!typed)
    return false;
  switch (type) {
  case KernelParameter::I64:
    return isa<IntegerAttr>(attribute) && typed.getType().isSignlessInteger(64);
  case KernelParameter::I32:
    return isa<IntegerAttr>(attribute) && typed.getType().isSignlessInteger(32);
  case KernelParameter::F32:
    return isa<FloatAttr>(attribute) && typed.getType().isF32();
  }
  llvm_unreachable("every parameter type is handled above");
}

static StringRef stringify(KernelParameter::Type type) {
  constexpr StringLiteral names[] = {"i64", "i32", "f32"};
  return names[type];
}

static LogicalResult verifyParameters(LaunchOp op, const KernelInfo &kernel) {
  // launch-c2
  DictionaryAttr given = op.getParameters();
  for (const KernelParameter &parameter : kernel.parameters) {
    Attribute value = given.get(parameter.name);
    if (!value)
      return op.emitOpError() << "expected parameter '" << parameter.name
                              << "' of kernel '" << kernel.name << "'";
    if (!hasParameterType(value, parameter.type))
      return op.emitOpError()
             << "expected parameter '" << parameter.name << "' of kernel '"
             << kernel.name << "' to be of type " << stringify(parameter.type)
             << ", but got " << value;
  }
  for (NamedAttribute attribute : given)
    if (llvm::none_of(kernel.parameters, [&](const KernelParameter &parameter) {
          return parameter.name == attribute.getName().getValue();
        }))
      return op.emitOpError()
             << "kernel '" << kernel.name << "' has no parameter '"
             << attribute.getName().getValue() << "'";
  return success();
}

/// An op that code can be generated for: arithmetic on f32, choices between two
/// f32, conversions, and random factors.
static bool isScalarCode(Operation &op) {
  if (isa<DropoutOp>(op))
    return true;
  auto isFloat = [](Type type) {
    return type.isF32() || type.isBF16() || type.isF16();
  };
  auto isF32 = [](Type type) { return type.isF32(); };
  if (isa<arith::CmpFOp>(op))
    return llvm::all_of(op.getOperandTypes(), isF32);
  if (auto select = dyn_cast<arith::SelectOp>(op))
    return select.getCondition().getDefiningOp<arith::CmpFOp>() &&
           isF32(select.getType());
  if (op.getNumResults() != 1 || !isFloat(op.getResult(0).getType()) ||
      !llvm::all_of(op.getOperandTypes(), isFloat))
    return false;
  const StringRef name = op.getName().getStringRef();
  if (name == "arith.extf")
    return op.getResult(0).getType().isF32();
  if (name == "arith.truncf")
    return op.getOperand(0).getType().isF32() && !op.hasAttr("roundingmode");
  if (name != "arith.constant" && !isElementwiseOp(name))
    return false;
  return op.getResult(0).getType().isF32() &&
         llvm::all_of(op.getOperandTypes(), isF32);
}

/// The largest value of `expr` for dimensions from 0 to `last`; nothing if that
/// cannot be said.
static std::optional<int64_t> maximumOf(AffineExpr expr, int64_t last) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return constant.getValue();
  if (isa<AffineDimExpr>(expr))
    return last;
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return std::nullopt;
  std::optional<int64_t> left = maximumOf(binary.getLHS(), last),
                         right = maximumOf(binary.getRHS(), last);
  if (!left || !right || *left < 0 || *right < 0)
    return std::nullopt;
  if (expr.getKind() == AffineExprKind::Add)
    return llvm::checkedAdd(*left, *right);
  // The others have a constant on the right.
  if (!isa<AffineConstantExpr>(binary.getRHS()) || *right == 0)
    return std::nullopt;
  switch (expr.getKind()) {
  case AffineExprKind::Mul:
    return llvm::checkedMul(*left, *right);
  case AffineExprKind::FloorDiv:
    return *left / *right;
  case AffineExprKind::Mod:
    return std::min(*left, *right - 1);
  default:
    return std::nullopt;
  }
}

/// The body of generated code has an element of each buffer, of its size.
static LogicalResult verifyBody(LaunchOp op, const KernelInfo &kernel) {
  // launch-c7
  const bool isGenerated = kernel.name == "generated";
  if (op.getBody().empty() == isGenerated)
    return op.emitOpError() << "expected " << (isGenerated ? "a" : "no")
                            << " 'body' for kernel '" << kernel.name << "'";
  if (!isGenerated)
    return op.getMaps() ? op.emitOpError() << "expected no 'maps' for kernel '"
                                           << kernel.name << "'"
                        : success();
  Block &body = op.getBody().front();
  SmallVector<Value> buffers[2];
  for (auto [info, buffer] : llvm::zip_equal(kernel.buffers, op.getBuffers()))
    if (!buffer.getDefiningOp<NullOp>())
      buffers[info.isOutput].push_back(buffer);
  auto yield = body.empty() ? YieldOp() : dyn_cast<YieldOp>(body.back());
  if (!yield || buffers[0].size() != body.getNumArguments() ||
      buffers[1].size() != yield->getNumOperands())
    return op.emitOpError()
           << "expected a body that takes an element of each of "
           << buffers[0].size() << " inputs and yields one of each of "
           << buffers[1].size() << " outputs";
  for (Operation &each : body.without_terminator())
    if (!isScalarCode(each))
      return each.emitOpError()
             << "expected generated code to be arith and math ops on f32, "
                "conversions between f32 and bf16 or f16, and tert.dropout, "
                "but got '"
             << each.getName() << "'";
  const int64_t count =
      cast<IntegerAttr>(op.getParameters().get("count")).getInt();
  auto verifySize = [&](Type element, Value buffer,
                        int64_t expected) -> LogicalResult {
    const int64_t bytes = cast<BufferType>(buffer.getType()).getBytes();
    if ((element.isF32() || element.isBF16() || element.isF16() ||
         element.isInteger(32)) &&
        count >= 0 && expected == bytes * 8 / element.getIntOrFloatBitWidth())
      return success();
    return op.emitOpError()
           << "expected a buffer of " << expected << " elements of type "
           << element << ", but got one of " << bytes << " bytes";
  };
  // launch-c8
  SmallVector<AffineMap> maps(buffers[0].size());
  if (std::optional<ArrayAttr> given = op.getMaps()) {
    maps = llvm::map_to_vector(given->getAsValueRange<AffineMapAttr>(),
                               [](AffineMap map) { return map; });
    if (maps.size() != buffers[0].size() ||
        llvm::any_of(maps, [](AffineMap map) {
          return map.getNumInputs() != 1 || map.getNumResults() != 1;
        }))
      return op.emitOpError() << "expected 'maps' to be a map of one dimension "
                                 "to one result for each of "
                              << buffers[0].size() << " inputs";
  }
  for (auto [argument, buffer, map] :
       llvm::zip_equal(body.getArguments(), buffers[0], maps)) {
    int64_t size = count;
    if (map) {
      const std::optional<int64_t> last =
          maximumOf(map.getResult(0), std::max<int64_t>(count - 1, 0));
      if (!last || *last == std::numeric_limits<int64_t>::max())
        return op.emitOpError()
               << "expected 'maps' of sums, products, floordiv and mod that "
                  "stay within 64 bits, but got "
               << AffineMapAttr::get(map);
      // Nothing is read, whatever the size.
      if (count == 0)
        continue;
      size = *last + 1;
    }
    if (failed(verifySize(argument.getType(), buffer, size)))
      return failure();
  }
  for (auto [value, buffer] : llvm::zip_equal(yield->getOperands(), buffers[1]))
    if (failed(verifySize(value.getType(), buffer, count)))
      return failure();
  return success();
}

bool LaunchOp::mayShare(unsigned input, unsigned output) {
  if (!lookupKernel(getKernel())->mayShare(input, output))
    return false;
  // An element that is not in the same place may be read again after the write.
  std::optional<ArrayAttr> maps = getMaps();
  if (!maps)
    return true;
  const size_t place =
      llvm::count_if(getBuffers().take_front(input), [](Value buffer) {
        return !buffer.getDefiningOp<NullOp>();
      });
  return place < maps->size() &&
         cast<AffineMapAttr>((*maps)[place]).getValue().isIdentity();
}

LogicalResult LaunchOp::verify() {
  // launch-c1
  const KernelInfo *kernel = lookupKernel(getKernel());
  if (!kernel)
    return emitOpError() << "the runtime has no kernel '" << getKernel() << "'";
  if (failed(verifyParameters(*this, *kernel)))
    return failure();

  // launch-c6
  if (getSide() && !kernel->isCollective())
    return emitOpError() << "expected a launch that is 'side' to be a "
                            "collective, but kernel '"
                         << kernel->name << "' is none";

  // launch-c3
  if (getBuffers().size() != kernel->buffers.size())
    return emitOpError() << "expected " << kernel->buffers.size()
                         << " buffers for kernel '" << kernel->name
                         << "', but got " << getBuffers().size();
  for (auto [index, buffer] : llvm::enumerate(getBuffers())) {
    const KernelBuffer &info = kernel->buffers[index];
    // launch-c4
    if (buffer.getDefiningOp<NullOp>()) {
      if (!info.isOptional)
        return emitOpError() << "buffer '" << info.name << "' of kernel '"
                             << kernel->name << "' is not optional";
      continue;
    }
    if (!info.isOutput)
      continue;
    // launch-c5
    for (auto [other, otherBuffer] : llvm::enumerate(getBuffers()))
      if (other != index && otherBuffer == buffer &&
          (kernel->buffers[other].isOutput || !mayShare(other, index)))
        return emitOpError() << "kernel '" << kernel->name << "' cannot write '"
                             << info.name << "' into the buffer of '"
                             << kernel->buffers[other].name << "'";
  }
  return verifyBody(*this, *kernel);
}

void LaunchOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  const KernelInfo *kernel = lookupKernel(getKernel());
  for (OpOperand &operand : getBuffersMutable()) {
    // An unknown kernel does not verify; until it is caught, assume the worst.
    bool isKnown =
        kernel && operand.getOperandNumber() < kernel->buffers.size();
    bool isOutput =
        isKnown && kernel->buffers[operand.getOperandNumber()].isOutput;
    if (!isKnown || isOutput)
      effects.emplace_back(MemoryEffects::Write::get(), &operand);
    if (!isKnown || !isOutput)
      effects.emplace_back(MemoryEffects::Read::get(), &operand);
  }
}
