//===- TERTDialect.cpp - the tert dialect ---------------------------------===//
//
// Registration and verifiers. What a launch may look like is read from the
// kernel table; nothing about a kernel is repeated here.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/TERT/GeneratedBody.h"
#include "TEDialect/TERT/KernelTable.h"
#include "TEDialect/TERT/TERT.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

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
