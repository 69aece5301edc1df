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

// 256x512xf8E4M3FN, scheme[, keyword]*, contract = N[, groups = N | , shard =
// N]
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
      parser.parseInteger(contract))
    return {};
  int64_t groups = 0, shard = 0;
  if (succeeded(parser.parseOptionalComma())) {
    SMLoc numberLoc = parser.getCurrentLocation();
    const bool isShard = succeeded(parser.parseOptionalKeyword("shard"));
    int64_t &number = isShard ? shard : groups;
    if ((!isShard && parser.parseKeyword("groups")) || parser.parseEqual() ||
        parser.parseInteger(number))
      return {};
    // 0 stands for a value without, which is not written.
    if (number < 1) {
      // scaled-c6, scaled-c7
      parser.emitError(numberLoc)
          << "expected '" << (isShard ? "shard" : "groups")
          << "' to be one or more, but got " << number;
      return {};
    }
  }
  if (parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    shape, elementType, *scheme, variant, contract, groups,
                    shard);
}

void ScaledType::print(AsmPrinter &printer) const {
  printer << "<";
  for (int64_t size : getShape())
    printer << size << "x";
  printer << getElementType() << ", " << stringifyScheme(getScheme());
  for (const VariantKeyword &keyword : variantKeywords())
    if (is(keyword.variant))
      printer << ", " << stringifyScaleVariant(keyword.variant);
  printer << ", contract = " << getContract();
  if (isGrouped())
    printer << ", groups = " << getGroups();
  if (isShard())
    printer << ", shard = " << getShard();
  printer << ">";
}

LogicalResult ScaledType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<int64_t> shape, Type elementType,
                                 Scheme scheme, ScaleVariant variant,
                                 unsigned contract, int64_t groups,
                                 int64_t shard) {
  // scaled-c1
  if (shape.size() != 2 && shape.size() != 3)
    return emitError() << "expected a scaled type of rank 2, or 3 for the "
                          "weights of groups, but got rank "
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
  for (auto [name, size] : {std::pair("the rows", shape.drop_back().back()),
                            std::pair("the columns", shape.back())})
    if (refusal = support::refuseSize(
            name, size,
            support::schemeRow(static_cast<int32_t>(scheme)).multiple);
        !refusal.empty())
      return emitError() << refusal;
  // scaled-c6
  if (shape.size() == 3 && groups != 0)
    return emitError() << "expected 'groups' only with rank 2, but got "
                       << groups << " with rank 3";
  if (shape.size() == 3 && shape[0] < 1)
    return emitError() << "expected the first of three sizes to be one or "
                          "more, but got "
                       << shape[0];
  if ((shape.size() == 3 || groups != 0) && has(ScaleVariant::Swizzled))
    return emitError() << "expected no 'swizzled' with groups";
  // scaled-c7
  if (shard != 0 && has(ScaleVariant::Swizzled))
    return emitError() << "expected no 'swizzled' with 'shard'";
  if (shard == 0)
    return success();
  const bool isMx = scheme == Scheme::Mx1x32 || scheme == Scheme::Mx32x32;
  const bool isNv = scheme == Scheme::Nv1x16 || scheme == Scheme::Nv16x16;
  const bool isRows =
      contract == 1 &&
      (scheme == Scheme::PerTensor || scheme == Scheme::Block128x128 || isNv) &&
      !has(ScaleVariant::RowScaled) && !has(ScaleVariant::Hadamard);
  if (shape.size() != 2 || groups != 0 || (!isMx && !isRows))
    return emitError() << "expected 'shard' only with rank 2, no 'groups', and "
                          "'per_tensor', 'block_128x128' or an nv scheme with "
                          "'contract = 1' and neither 'row_scaled' nor "
                          "'hadamard', or an mx scheme, but got '"
                       << stringifyScheme(scheme)
                       << "' with 'contract = " << contract << "'";
  if (isNv && shard % 2)
    return emitError() << "expected 'shard' to be even, as FP4 packs two "
                          "elements a byte, but got "
                       << shard;
  if (shard > shape[0] * shape[1])
    return emitError() << "expected 'shard' to be at most the "
                       << shape[0] * shape[1] << " elements, but got " << shard;
  return success();
}

/// `shape` of each matrix of a stack.
static SmallVector<int64_t> stacked(ScaledType type,
                                    SmallVector<int64_t> shape) {
  if (type.isStacked())
    shape.insert(shape.begin(), type.getNumMatrices());
  return shape;
}

SmallVector<int64_t> ScaledType::getDataShape() const {
  if (isShard())
    return {isNv() ? getShard() / 2 : getShard()};
  if (isMx())
    return stacked(*this, {getRows(), getCols()});
  return stacked(
      *this, {getOuter(), isNv() ? getContraction() / 2 : getContraction()});
}

static int64_t product(ArrayRef<int64_t> sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
}

int64_t ScaledType::getDataBytes() const { return product(getDataShape()); }

/// Of one matrix.
static SmallVector<int64_t> matrixScaleShape(ScaledType type) {
  auto up = [](int64_t size, int64_t multiple) {
    return static_cast<int64_t>(llvm::alignTo(size, multiple));
  };
  auto blocks = [](int64_t size) {
    return static_cast<int64_t>(llvm::divideCeil(size, 128));
  };
  int64_t outer = type.getOuter(), contraction = type.getContraction();
  switch (type.getScheme()) {
  case Scheme::PerTensor:
    return {std::max<int64_t>(type.getGroups(), 1)};
  case Scheme::Block1x128:
    return {blocks(contraction), up(outer, 4)};
  case Scheme::Block128x128:
    return {blocks(outer), up(blocks(contraction), 4)};
  case Scheme::Mx1x32:
  case Scheme::Mx32x32:
    if (type.getContract() == 1)
      return {up(type.getRows(), 128), up(type.getCols() / 32, 4)};
    return {up(type.getRows() / 32, 4), up(type.getCols(), 128)};
  case Scheme::Nv1x16:
  case Scheme::Nv16x16:
    return {up(outer, 128), up(contraction / 16, 4)};
  }
  llvm_unreachable("every scheme is handled above");
}

SmallVector<int64_t> ScaledType::getScaleShape() const {
  return stacked(*this, matrixScaleShape(*this));
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

SmallVector<int64_t, 2> ScaledType::getBlockShape() const {
  switch (getScheme()) {
  case Scheme::Mx1x32:
    if (getContract() == 1)
      return {1, 32};
    return {32, 1};
  case Scheme::Mx32x32:
    return {32, 32};
  case Scheme::Nv1x16:
    return {1, 16};
  case Scheme::Nv16x16:
    return {16, 16};
  default:
    return {128, 128};
  }
}

SmallVector<int64_t, 2> ScaledType::getBlocks() const {
  SmallVector<int64_t, 2> block = getBlockShape();
  return {static_cast<int64_t>(llvm::divideCeil(getRows(), block[0])),
          static_cast<int64_t>(llvm::divideCeil(getCols(), block[1]))};
}

bool ScaledType::isTransposeExact() const {
  return !isGrouped() && !isShard() &&
         support::refuseTranspose(static_cast<int32_t>(getScheme())).empty();
}

ScaledType ScaledType::getTransposedUsage() const {
  return get(getContext(), getShape(), getElementType(), getScheme(),
             getVariant(), 1 - getContract(), getGroups());
}

ScaledType ScaledType::getShardOf(int64_t count) const {
  return get(getContext(), getShape(), getElementType(), getScheme(),
             getVariant(), getContract(), getGroups(), count);
}

ScaledType ScaledType::getInGroups(int64_t groups) const {
  return get(getContext(), getShape(), getElementType(), getScheme(),
             getVariant(), getContract(), groups);
}

ScaledType ScaledType::getAnyScales() const {
  return get(getContext(), getShape(), getElementType(), getScheme(),
             getVariant() & ~ScaleVariant::Pow2, getContract(), getGroups());
}

ScaledType ScaledType::getSwizzled() const {
  return get(getContext(), getShape(), getElementType(), getScheme(),
             getVariant() | ScaleVariant::Swizzled, getContract(), getGroups());
}
