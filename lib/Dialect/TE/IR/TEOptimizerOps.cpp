//===- TEOptimizerOps.cpp - syntax and verifiers of parameter updates -----===//
//
// Both ops read `%param, %grad ... : type(param), type(grad)`; states are f32
// of the parameter's shape, so their types are not written.
//
//===----------------------------------------------------------------------===//

#include "TEVerifiers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::te;

/// f32 with the shape of `type`.
static RankedTensorType stateType(Type type) {
  return RankedTensorType::get(shapeOf(type),
                               Float32Type::get(type.getContext()));
}

/// Parses attributes, then `: type(param), type(grad)`.
static ParseResult parseTypes(OpAsmParser &parser, OperationState &result,
                              Type &param, Type &grad) {
  if (parser.parseOptionalAttrDict(result.attributes) || parser.parseColon())
    return failure();
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseType(param) || parser.parseComma() || parser.parseType(grad))
    return failure();
  if (!isa<RankedTensorType>(param) || !isa<RankedTensorType>(grad))
    return parser.emitError(loc) << "expected two ranked tensor types, but got "
                                 << param << " and " << grad;
  return success();
}

/// Prints the attributes of `op` that differ from `defaults`.
static void printAttributes(OpAsmPrinter &printer, Operation *op,
                            ArrayRef<std::pair<StringRef, float>> defaults) {
  SmallVector<StringRef> elided;
  for (auto [name, value] : defaults)
    if (auto attribute = op->getAttrOfType<FloatAttr>(name))
      if (attribute.getValue().convertToFloat() == value)
        elided.push_back(name);
  printer.printOptionalAttrDict(op->getAttrs(), elided);
}

static LogicalResult verifyFraction(Operation *op, StringRef name,
                                    APFloat value) {
  double number = value.convertToDouble();
  if (number >= 0.0 && number < 1.0)
    return success();
  return op->emitOpError() << "expected '" << name
                           << "' to be in [0, 1), but got "
                           << std::to_string(number);
}

/// Reads a gradient as it was before it was widened.
template <typename UpdateOp>
static LogicalResult readNarrowGradient(UpdateOp op) {
  auto widening = op.getGrad().template getDefiningOp<arith::ExtFOp>();
  if (!widening)
    return failure();
  Type narrow = getElementTypeOrSelf(widening.getIn());
  if (!narrow.isBF16() && !narrow.isF16())
    return failure();
  op.getGradMutable().assign(widening.getIn());
  return success();
}

LogicalResult AdamWOp::fold(FoldAdaptor, SmallVectorImpl<OpFoldResult> &) {
  return readNarrowGradient(*this);
}

LogicalResult SgdOp::fold(FoldAdaptor, SmallVectorImpl<OpFoldResult> &) {
  return readNarrowGradient(*this);
}

// %p, %g, %m, %v lr %lr step %t {...} : type(p), type(g)
ParseResult AdamWOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::UnresolvedOperand> tensors;
  OpAsmParser::UnresolvedOperand lr, step;
  Type param, grad;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseOperandList(tensors, 4) || parser.parseKeyword("lr") ||
      parser.parseOperand(lr) || parser.parseKeyword("step") ||
      parser.parseOperand(step) || parseTypes(parser, result, param, grad))
    return failure();
  Type state = stateType(param);
  Type scalar = RankedTensorType::get({}, parser.getBuilder().getF32Type());
  result.addTypes({param, state, state});
  return failure(parser.resolveOperands(tensors, {param, grad, state, state},
                                        loc, result.operands) ||
                 parser.resolveOperands({lr, step}, {scalar, scalar}, loc,
                                        result.operands));
}

void AdamWOp::print(OpAsmPrinter &printer) {
  printer << " " << getParam() << ", " << getGrad() << ", " << getM() << ", "
          << getV() << " lr " << getLr() << " step " << getStep();
  printAttributes(printer, *this,
                  {{"beta1", 0.9f},
                   {"beta2", 0.999f},
                   {"epsilon", 1.0e-8f},
                   {"weight_decay", 0.01f}});
  printer << " : " << getParam().getType() << ", " << getGrad().getType();
}

LogicalResult AdamWOp::verify() {
  // adamw-c1
  Type param = getParam().getType(), state = stateType(param);
  if (getNewParam().getType() != param)
    return emitOpError() << "expected 'param' and its result to have one type, "
                            "but got "
                         << param << " and " << getNewParam().getType();
  if (failed(verifyShape(*this, "grad", getGrad().getType(), shapeOf(param))))
    return failure();
  for (Value value : {getM(), getV(), getNewM(), getNewV()})
    if (value.getType() != state)
      return emitOpError() << "expected the moments to be " << state
                           << ", but got " << value.getType();
  // adamw-c2
  if (failed(verifyFraction(*this, "beta1", getBeta1())) ||
      failed(verifyFraction(*this, "beta2", getBeta2())) ||
      failed(verifyNonNegative(*this, "epsilon", getEpsilon())))
    return failure();
  return verifyNonNegative(*this, "weight_decay", getWeightDecay());
}

// %p, %g [buffer %b] lr %lr {...} : type(p), type(g)
ParseResult SgdOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::UnresolvedOperand> tensors;
  OpAsmParser::UnresolvedOperand buffer, lr;
  Type param, grad;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseOperandList(tensors, 2))
    return failure();
  bool hasBuffer = succeeded(parser.parseOptionalKeyword("buffer"));
  if ((hasBuffer && parser.parseOperand(buffer)) || parser.parseKeyword("lr") ||
      parser.parseOperand(lr) || parseTypes(parser, result, param, grad))
    return failure();
  Type scalar = RankedTensorType::get({}, parser.getBuilder().getF32Type());
  result.addTypes(param);
  if (parser.resolveOperands(tensors, {param, grad}, loc, result.operands))
    return failure();
  if (hasBuffer) {
    result.addTypes(stateType(param));
    if (parser.resolveOperand(buffer, stateType(param), result.operands))
      return failure();
  }
  return parser.resolveOperand(lr, scalar, result.operands);
}

void SgdOp::print(OpAsmPrinter &printer) {
  printer << " " << getParam() << ", " << getGrad();
  if (getBuffer())
    printer << " buffer " << getBuffer();
  printer << " lr " << getLr();
  printAttributes(printer, *this, {{"momentum", 0.0f}, {"weight_decay", 0.0f}});
  printer << " : " << getParam().getType() << ", " << getGrad().getType();
}

LogicalResult SgdOp::verify() {
  // sgd-c1
  Type param = getParam().getType(), state = stateType(param);
  if (getNewParam().getType() != param)
    return emitOpError() << "expected 'param' and its result to have one type, "
                            "but got "
                         << param << " and " << getNewParam().getType();
  if (failed(verifyShape(*this, "grad", getGrad().getType(), shapeOf(param))))
    return failure();
  if (static_cast<bool>(getBuffer()) != static_cast<bool>(getNewBuffer()))
    return emitOpError() << "expected a new buffer exactly when 'buffer' is "
                            "given";
  for (Value value : {getBuffer(), getNewBuffer()})
    if (value && value.getType() != state)
      return emitOpError() << "expected the momentum buffer to be " << state
                           << ", but got " << value.getType();
  // sgd-c2
  if (failed(verifyFraction(*this, "momentum", getMomentum())))
    return failure();
  if (!getBuffer() && !getMomentum().isZero())
    return emitOpError() << "expected 'momentum' only with a 'buffer' operand "
                            "to carry it";
  if (getNesterov() && getMomentum().isZero())
    return emitOpError() << "expected 'nesterov' only with a 'momentum' above 0";
  return verifyNonNegative(*this, "weight_decay", getWeightDecay());
}
