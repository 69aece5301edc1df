//===- TEOptimizerOps.cpp - syntax and verifiers of parameter updates -----===//
//
// The updates read `%param, %grad ... : type(param), type(grad)`. States have
// the parameter's shape and are f32, unless te.adamw names the type of its
// first moment.
//
//===----------------------------------------------------------------------===//

#include "TEVerifiers.h"

#include "TEDialect/Support/KernelRows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

#include <array>

using namespace mlir;
using namespace mlir::te;

/// f32 with the shape of `type`.
static RankedTensorType stateType(Type type) {
  return RankedTensorType::get(shapeOf(type),
                               Float32Type::get(type.getContext()));
}

/// Parses `keyword %value` if there is one.
static ParseResult
parseOptional(OpAsmParser &parser, StringRef keyword,
              SmallVectorImpl<OpAsmParser::UnresolvedOperand> &value) {
  if (failed(parser.parseOptionalKeyword(keyword)))
    return success();
  return parser.parseOperand(value.emplace_back());
}

static void printOptional(OpAsmPrinter &printer, StringRef keyword,
                          Value value) {
  if (value)
    printer << " " << keyword << " " << value;
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

/// Prints the attributes of `op` that differ from their defaults.
template <typename UpdateOp>
static void printAttributes(OpAsmPrinter &printer, UpdateOp op) {
  typename UpdateOp::Properties defaults;
  UpdateOp::populateDefaultProperties(op->getName(), defaults);
  auto values = cast<DictionaryAttr>(
      UpdateOp::getPropertiesAsAttr(op.getContext(), defaults));
  SmallVector<StringRef> elided = {"operandSegmentSizes"};
  for (NamedAttribute value : values)
    if (op->getAttr(value.getName()) == value.getValue())
      elided.push_back(value.getName());
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

/// The type of the second moment: f8E5M2 beside an f8E4M3FN, whose range is too
/// small for squares, and that of the first one otherwise.
static Type secondMomentType(Type first) {
  auto tensor = dyn_cast<RankedTensorType>(first);
  if (!tensor || !isa<Float8E4M3FNType>(tensor.getElementType()))
    return first;
  return tensor.clone(Float8E5M2Type::get(first.getContext()));
}

/// The type of the scales of 8-bit moments of a parameter. Null if there is no
/// number of its elements.
static RankedTensorType scalesType(Type param) {
  int64_t count = 1;
  for (int64_t size : shapeOf(param))
    if (ShapedType::isDynamic(size) || llvm::MulOverflow(count, size, count))
      return nullptr;
  const int64_t blocks =
      llvm::divideCeil(count, te_table::kernel_rows::kMomentBlock);
  return RankedTensorType::get({2, blocks},
                               Float32Type::get(param.getContext()));
}

static InFlightDiagnostic noScales(InFlightDiagnostic diagnostic, Type param) {
  return std::move(diagnostic)
         << "expected a parameter with 8-bit moments to have a static shape of "
            "less than 2^63 elements, but got "
         << param;
}

// %p, %g, %m, %v [scales %s] lr %lr step %t [grad_scale %s] [unless %skip]
//   {...} : type(p), type(g) [, type(m)]
ParseResult AdamWOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::UnresolvedOperand> tensors, scales, gradScale, skip;
  OpAsmParser::UnresolvedOperand lr, step;
  Type param, grad;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseOperandList(tensors, 4) ||
      parseOptional(parser, "scales", scales) || parser.parseKeyword("lr") ||
      parser.parseOperand(lr) || parser.parseKeyword("step") ||
      parser.parseOperand(step) ||
      parseOptional(parser, "grad_scale", gradScale) ||
      parseOptional(parser, "unless", skip) ||
      parseTypes(parser, result, param, grad))
    return failure();
  Type m = stateType(param);
  if (succeeded(parser.parseOptionalComma()) && parser.parseType(m))
    return failure();
  Type v = secondMomentType(m);
  Type scalar = RankedTensorType::get({}, parser.getBuilder().getF32Type());
  result.addTypes({param, m, v});
  if (parser.resolveOperands(tensors, {param, grad, m, v}, loc,
                             result.operands))
    return failure();
  if (!scales.empty()) {
    RankedTensorType type = scalesType(param);
    if (!type)
      return noScales(parser.emitError(loc), param);
    result.addTypes(type);
    if (parser.resolveOperands(scales, type, result.operands))
      return failure();
  }
  result.getOrAddProperties<AdamWOp::Properties>().setOperandSegmentSizes(
      {1, 1, 1, 1, static_cast<int32_t>(scales.size()), 1, 1,
       static_cast<int32_t>(gradScale.size()),
       static_cast<int32_t>(skip.size())});
  return failure(parser.resolveOperands({lr, step}, {scalar, scalar}, loc,
                                        result.operands) ||
                 parser.resolveOperands(gradScale, scalar, result.operands) ||
                 parser.resolveOperands(skip, scalar, result.operands));
}

void AdamWOp::print(OpAsmPrinter &printer) {
  printer << " " << getParam() << ", " << getGrad() << ", " << getM() << ", "
          << getV();
  printOptional(printer, "scales", getScales());
  printer << " lr " << getLr() << " step " << getStep();
  printOptional(printer, "grad_scale", getGradScale());
  printOptional(printer, "unless", getSkip());
  printAttributes(printer, *this);
  printer << " : " << getParam().getType() << ", " << getGrad().getType();
  if (getM().getType() != stateType(getParam().getType()))
    printer << ", " << getM().getType();
}

Value AdamWOp::getCached(unsigned index) {
  return std::array<Value, 4>{getParam(), getM(), getV(), getScales()}[index];
}

LogicalResult AdamWOp::verify() {
  // adamw-c1
  Type param = getParam().getType(), moment = getM().getType();
  if (getNewParam().getType() != param)
    return emitOpError() << "expected 'param' and its result to have one type, "
                            "but got "
                         << param << " and " << getNewParam().getType();
  if (failed(verifyShape(*this, "grad", getGrad().getType(), shapeOf(param))) ||
      failed(verifyShape(*this, "m", moment, shapeOf(param))))
    return failure();
  Type element = getElementTypeOrSelf(moment);
  const bool isFloat8 = isa<Float8E4M3FNType>(element);
  if (!element.isF32() && !element.isBF16() && !isFloat8)
    return emitOpError() << "expected a first moment in f32, bf16 or f8E4M3FN, "
                            "but got "
                         << moment;
  if (getNewM().getType() != moment)
    return emitOpError() << "expected the new first moment to be " << moment
                         << ", but got " << getNewM().getType();
  Type second = secondMomentType(moment);
  for (Value value : {getV(), getNewV()})
    if (value.getType() != second)
      return emitOpError() << "expected the second moment to be " << second
                           << ", but got " << value.getType();
  // adamw-c2
  if (isFloat8 && !scalesType(param))
    return noScales(emitOpError(), param);
  for (Value value : {getScales(), getNewScales()}) {
    if (static_cast<bool>(value) != isFloat8)
      return emitOpError() << "expected 'scales' and a result for the new ones "
                              "exactly if moments have 8 bits, but got moments "
                              "in "
                           << element;
    if (value && value.getType() != scalesType(param))
      return emitOpError() << "expected 'scales' to be " << scalesType(param)
                           << ", but got " << value.getType();
  }
  // adamw-c3
  if (failed(verifyFraction(*this, "beta1", getBeta1())) ||
      failed(verifyFraction(*this, "beta2", getBeta2())) ||
      failed(verifyNonNegative(*this, "epsilon", getEpsilon())))
    return failure();
  return verifyNonNegative(*this, "weight_decay", getWeightDecay());
}

// %p, %g [buffer %b] lr %lr [grad_scale %s] [unless %skip] {...}
//   : type(p), type(g)
ParseResult SgdOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::UnresolvedOperand> tensors, buffer, gradScale, skip;
  OpAsmParser::UnresolvedOperand lr;
  Type param, grad;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseOperandList(tensors, 2) ||
      parseOptional(parser, "buffer", buffer) || parser.parseKeyword("lr") ||
      parser.parseOperand(lr) ||
      parseOptional(parser, "grad_scale", gradScale) ||
      parseOptional(parser, "unless", skip) ||
      parseTypes(parser, result, param, grad))
    return failure();
  Type scalar = RankedTensorType::get({}, parser.getBuilder().getF32Type());
  result.addTypes(param);
  if (parser.resolveOperands(tensors, {param, grad}, loc, result.operands))
    return failure();
  if (!buffer.empty())
    result.addTypes(stateType(param));
  result.getOrAddProperties<SgdOp::Properties>().setOperandSegmentSizes(
      {1, 1, static_cast<int32_t>(buffer.size()), 1,
       static_cast<int32_t>(gradScale.size()),
       static_cast<int32_t>(skip.size())});
  return failure(
      parser.resolveOperands(buffer, stateType(param), result.operands) ||
      parser.resolveOperand(lr, scalar, result.operands) ||
      parser.resolveOperands(gradScale, scalar, result.operands) ||
      parser.resolveOperands(skip, scalar, result.operands));
}

void SgdOp::print(OpAsmPrinter &printer) {
  printer << " " << getParam() << ", " << getGrad();
  printOptional(printer, "buffer", getBuffer());
  printer << " lr " << getLr();
  printOptional(printer, "grad_scale", getGradScale());
  printOptional(printer, "unless", getSkip());
  printAttributes(printer, *this);
  printer << " : " << getParam().getType() << ", " << getGrad().getType();
}

LogicalResult SumOfSquaresOp::verify() {
  // sum_of_squares-c1
  return getX().empty()
             ? emitOpError() << "expected one or more tensors, but got none"
             : success();
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
    return emitOpError()
           << "expected 'nesterov' only with a 'momentum' above 0";
  return verifyNonNegative(*this, "weight_decay", getWeightDecay());
}

LogicalResult ClipFactorOp::verify() {
  // clip_factor-c1
  const double maxNorm = getMaxNorm().convertToDouble();
  if (maxNorm > 0.0)
    return success();
  return emitOpError() << "expected 'max_norm' to be above 0, but got "
                       << std::to_string(maxNorm);
}
