//===- TETypes.cpp - the scaled type --------------------------------------===//

#include "TEVerifiers.h"

#include "TEDialect/IR/Support.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::te;

#define GET_TYPEDEF_CLASSES
#include "TEDialect/IR/TETypes.cpp.inc"

void TEDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "TEDialect/IR/TETypes.cpp.inc"
      >();
}

std::optional<int32_t> te::getTypeNumber(Type elementType) {
  std::string name;
  llvm::raw_string_ostream(name) << elementType;
  for (const support::TypeName &row : support::kTypeNames)
    if (name == row.name)
      return row.type;
  return std::nullopt;
}

float te::maxFinite(Type fp8) { return isa<Float8E5M2Type>(fp8) ? 57344 : 448; }

// 256x512xf8E4M3FN, scheme[, pow2], contract = N
Type ScaledType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  Type elementType;
  std::string word;
  unsigned contract = 0;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() ||
      parser.parseDimensionList(shape, /*allowDynamic=*/false) ||
      parser.parseType(elementType) || parser.parseComma())
    return {};
  SMLoc schemeLoc = parser.getCurrentLocation();
  if (parser.parseKeywordOrString(&word))
    return {};
  std::optional<Scheme> scheme = symbolizeScheme(word);
  if (!scheme) {
    parser.emitError(schemeLoc)
        << "expected a scheme ('per_tensor', 'block_1x128' or "
           "'block_128x128'), but got '"
        << word << "'";
    return {};
  }
  if (parser.parseComma())
    return {};
  bool pow2 = succeeded(parser.parseOptionalKeyword("pow2"));
  if (pow2 && parser.parseComma())
    return {};
  if (parser.parseKeyword("contract") || parser.parseEqual() ||
      parser.parseInteger(contract) || parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    shape, elementType, *scheme, pow2, contract);
}

void ScaledType::print(AsmPrinter &printer) const {
  printer << "<";
  for (int64_t size : getShape())
    printer << size << "x";
  printer << getElementType() << ", " << stringifyScheme(getScheme());
  if (getPow2())
    printer << ", pow2";
  printer << ", contract = " << getContract() << ">";
}

LogicalResult ScaledType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<int64_t> shape, Type elementType,
                                 Scheme scheme, bool, unsigned contract) {
  // scaled-c1
  if (shape.size() != 2)
    return emitError() << "expected a scaled type of rank 2, but got rank "
                       << shape.size();
  // scaled-c2
  std::string name;
  llvm::raw_string_ostream(name) << elementType;
  std::string refusal =
      support::refuseType(static_cast<int32_t>(scheme),
                          getTypeNumber(elementType).value_or(-1), name);
  if (!refusal.empty())
    return emitError() << refusal;
  // scaled-c3
  if (contract > 1)
    return emitError() << "expected 'contract' to be 0 or 1, but got "
                       << contract;
  return success();
}

SmallVector<int64_t> ScaledType::getScaleShape() const {
  int64_t outer = getOuter(), contraction = getContraction();
  switch (getScheme()) {
  case Scheme::PerTensor:
    return {1};
  case Scheme::Block1x128:
    return {static_cast<int64_t>(llvm::divideCeil(contraction, 128)),
            static_cast<int64_t>(llvm::alignTo(outer, 4))};
  case Scheme::Block128x128:
    return {static_cast<int64_t>(llvm::divideCeil(outer, 128)),
            static_cast<int64_t>(
                llvm::alignTo(llvm::divideCeil(contraction, 128), 4))};
  }
  llvm_unreachable("every scheme is handled above");
}

int64_t ScaledType::getScaleBytes() const {
  int64_t bytes = 4;
  for (int64_t size : getScaleShape())
    bytes *= size;
  return bytes;
}

bool ScaledType::isTransposeExact() const {
  return support::refuseTranspose(static_cast<int32_t>(getScheme())).empty();
}

ScaledType ScaledType::getTransposedUsage() const {
  return get(getContext(), getShape(), getElementType(), getScheme(), getPow2(),
             1 - getContract());
}
