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

namespace {
/// A keyword of the type, and the schemes it belongs to.
struct VariantKeyword {
  ScaleVariant variant;
  std::initializer_list<Scheme> schemes;
};
} // namespace

/// In the order of printing.
static ArrayRef<VariantKeyword> variantKeywords() {
  static const VariantKeyword keywords[] = {
      {ScaleVariant::Pow2,
       {Scheme::PerTensor, Scheme::Block1x128, Scheme::Block128x128}},
      {ScaleVariant::Hadamard, {Scheme::Nv1x16}},
      {ScaleVariant::RowScaled, {Scheme::Nv1x16}},
      {ScaleVariant::ScaleMax256, {Scheme::Nv1x16, Scheme::Nv16x16}},
      {ScaleVariant::Swizzled,
       {Scheme::Mx1x32, Scheme::Mx32x32, Scheme::Nv1x16, Scheme::Nv16x16}}};
  return keywords;
}

// 256x512xf8E4M3FN, scheme[, keyword]*, contract = N
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
    InFlightDiagnostic error = parser.emitError(schemeLoc);
    error << "expected a scheme (";
    for (uint32_t i = 0; i <= getMaxEnumValForScheme(); ++i)
      error << (i ? ", '" : "'") << stringifyScheme(Scheme(i)) << "'";
    error << "), but got '" << word << "'";
    return {};
  }
  if (parser.parseComma())
    return {};
  ScaleVariant variant = ScaleVariant::None;
  for (const VariantKeyword &keyword : variantKeywords())
    if (succeeded(parser.parseOptionalKeyword(
            stringifyScaleVariant(keyword.variant)))) {
      variant = variant | keyword.variant;
      if (parser.parseComma())
        return {};
    }
  if (parser.parseKeyword("contract") || parser.parseEqual() ||
      parser.parseInteger(contract) || parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    shape, elementType, *scheme, variant, contract);
}

void ScaledType::print(AsmPrinter &printer) const {
  printer << "<";
  for (int64_t size : getShape())
    printer << size << "x";
  printer << getElementType() << ", " << stringifyScheme(getScheme());
  for (const VariantKeyword &keyword : variantKeywords())
    if (is(keyword.variant))
      printer << ", " << stringifyScaleVariant(keyword.variant);
  printer << ", contract = " << getContract() << ">";
}

LogicalResult ScaledType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<int64_t> shape, Type elementType,
                                 Scheme scheme, ScaleVariant variant,
                                 unsigned contract) {
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
  // scaled-c4
  auto has = [&](ScaleVariant each) {
    return bitEnumContainsAll(variant, each);
  };
  for (const VariantKeyword &keyword : variantKeywords())
    if (has(keyword.variant) && !llvm::is_contained(keyword.schemes, scheme))
      return emitError() << "expected no '"
                         << stringifyScaleVariant(keyword.variant)
                         << "' with scheme '" << stringifyScheme(scheme) << "'";
  if (has(ScaleVariant::RowScaled) &&
      (contract != 1 || has(ScaleVariant::Hadamard)))
    return emitError() << "expected 'row_scaled' only with 'contract = 1' and "
                          "without 'hadamard'";
  // scaled-c5
  for (auto [name, size] :
       {std::pair("the rows", shape[0]), std::pair("the columns", shape[1])})
    if (refusal = support::refuseSize(
            name, size,
            support::schemeRow(static_cast<int32_t>(scheme)).multiple);
        !refusal.empty())
      return emitError() << refusal;
  return success();
}

SmallVector<int64_t> ScaledType::getDataShape() const {
  if (isMx())
    return {getRows(), getCols()};
  return {getOuter(), isNv() ? getContraction() / 2 : getContraction()};
}

static int64_t product(ArrayRef<int64_t> sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
}

int64_t ScaledType::getDataBytes() const { return product(getDataShape()); }

SmallVector<int64_t> ScaledType::getScaleShape() const {
  auto up = [](int64_t size, int64_t multiple) {
    return static_cast<int64_t>(llvm::alignTo(size, multiple));
  };
  auto blocks = [](int64_t size) {
    return static_cast<int64_t>(llvm::divideCeil(size, 128));
  };
  int64_t outer = getOuter(), contraction = getContraction();
  switch (getScheme()) {
  case Scheme::PerTensor:
    return {1};
  case Scheme::Block1x128:
    return {blocks(contraction), up(outer, 4)};
  case Scheme::Block128x128:
    return {blocks(outer), up(blocks(contraction), 4)};
  case Scheme::Mx1x32:
  case Scheme::Mx32x32:
    if (getContract() == 1)
      return {up(getRows(), 128), up(getCols() / 32, 4)};
    return {up(getRows() / 32, 4), up(getCols(), 128)};
  case Scheme::Nv1x16:
  case Scheme::Nv16x16:
    return {up(outer, 128), up(contraction / 16, 4)};
  }
  llvm_unreachable("every scheme is handled above");
}

Type ScaledType::getScaleType() const {
  if (isMx())
    return Float8E8M0FNUType::get(getContext());
  if (isNv())
    return Float8E4M3FNType::get(getContext());
  return Float32Type::get(getContext());
}

int64_t ScaledType::getScaleBytes() const {
  return product(getScaleShape()) * (isMx() || isNv() ? 1 : 4);
}

bool ScaledType::isTransposeExact() const {
  return support::refuseTranspose(static_cast<int32_t>(getScheme())).empty();
}

ScaledType ScaledType::getTransposedUsage() const {
  return get(getContext(), getShape(), getElementType(), getScheme(),
             getVariant(), 1 - getContract());
}

ScaledType ScaledType::getSwizzled() const {
  return get(getContext(), getShape(), getElementType(), getScheme(),
             getVariant() | ScaleVariant::Swizzled, getContract());
}
