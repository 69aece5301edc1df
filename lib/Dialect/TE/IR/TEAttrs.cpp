//===- TEAttrs.cpp - the recipe attribute ---------------------------------===//
//
// A recipe prints only the options that differ from its kind's defaults, so the
// printed form is stable when defaults of other kinds change.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/TE.h"

#include "TEDialect/IR/Support.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Format.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::te;

/// `, sequence`, or nothing.
static ParseResult parseSequence(AsmParser &parser, bool &sequence) {
  sequence = succeeded(parser.parseOptionalComma());
  return sequence ? parser.parseKeyword("sequence") : success();
}
static void printSequence(AsmPrinter &printer, bool sequence) {
  if (sequence)
    printer << ", sequence";
}

#define GET_ATTRDEF_CLASSES
#include "TEDialect/IR/TEAttrs.cpp.inc"

void TEDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "TEDialect/IR/TEAttrs.cpp.inc"
      >();
}

RecipeOptions::RecipeOptions(RecipeKind kind)
    : fp8Format(kind == RecipeKind::DelayedScaling ||
                        kind == RecipeKind::Float8CurrentScaling
                    ? Fp8Format::Hybrid
                    : Fp8Format::E4M3),
      pow2Scales(kind == RecipeKind::Float8BlockScaling),
      splitFprop(kind == RecipeKind::Float8BlockScaling),
      w2d(kind == RecipeKind::NvFp4BlockScaling) {}

//===----------------------------------------------------------------------===//
// Spelling of one option
//===----------------------------------------------------------------------===//

/// Parses `true` or `false`.
static ParseResult parseOption(AsmParser &parser, StringRef, bool &value) {
  StringRef word;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  if (word != "true" && word != "false")
    return parser.emitError(loc)
           << "expected 'true' or 'false', but got '" << word << "'";
  value = word == "true";
  return success();
}
// parseInteger would wrap a negative number.
static ParseResult parseOption(AsmParser &parser, StringRef what,
                               unsigned &value) {
  int64_t number;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseInteger(number))
    return failure();
  if (number < 0 || number > std::numeric_limits<unsigned>::max())
    return parser.emitError(loc)
           << "expected " << what << " to be from 0 to "
           << std::numeric_limits<unsigned>::max() << ", but got " << number;
  value = static_cast<unsigned>(number);
  return success();
}
static ParseResult parseOption(AsmParser &parser, StringRef, int &value) {
  return parser.parseInteger(value);
}
static ParseResult parseOption(AsmParser &parser, StringRef, float &value) {
  FloatAttr number;
  if (parser.parseAttribute(number, Float32Type::get(parser.getContext())))
    return failure();
  value = number.getValue().convertToFloat();
  return success();
}
static ParseResult parseOption(AsmParser &parser, StringRef, Attribute &value) {
  return parser.parseAttribute(value);
}

/// The enumerator of a number, nothing behind the last.
#define TE_OPTION_ENUM(name)                                                   \
  static std::optional<name> enumerator(name, uint32_t number) {               \
    return symbolize##name(number);                                            \
  }
TE_OPTION_ENUM(RecipeKind)
TE_OPTION_ENUM(Fp8Format)
TE_OPTION_ENUM(BackwardOverride)
TE_OPTION_ENUM(AmaxAlgorithm)
TE_OPTION_ENUM(TensorSelection)
TE_OPTION_ENUM(FourOverSix)
TE_OPTION_ENUM(CastSource)
#undef TE_OPTION_ENUM

/// The spellings of an enumeration, quoted.
template <typename Enum> static std::string spellings() {
  std::string text;
  for (uint32_t i = 0; std::optional<Enum> value = enumerator(Enum(), i); ++i)
    text += (i ? ", '" : "'") + stringifyEnum(*value).str() + "'";
  return text;
}
template <typename Enum>
static std::enable_if_t<std::is_enum_v<Enum>, ParseResult>
parseOption(AsmParser &parser, StringRef what, Enum &value) {
  StringRef word;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  std::optional<Enum> parsed = symbolizeEnum<Enum>(word);
  if (!parsed)
    return parser.emitError(loc)
           << "expected " << what << " to be one of " << spellings<Enum>()
           << ", but got '" << word << "'";
  value = *parsed;
  return success();
}

static void printOption(raw_ostream &os, bool value) {
  os << (value ? "true" : "false");
}
static void printOption(raw_ostream &os, unsigned value) { os << value; }
static void printOption(raw_ostream &os, int value) { os << value; }
static void printOption(raw_ostream &os, float value) {
  os << llvm::format("%.9e", value);
}
static void printOption(raw_ostream &os, Attribute value) { os << value; }
template <typename Enum>
static std::enable_if_t<std::is_enum_v<Enum>> printOption(raw_ostream &os,
                                                          Enum value) {
  os << stringifyEnum(value);
}

//===----------------------------------------------------------------------===//
// The attribute
//===----------------------------------------------------------------------===//

static ParseResult parseNamedOption(AsmParser &parser, RecipeOptions &options,
                                    llvm::StringSet<> &given) {
  StringRef name;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&name) || parser.parseEqual())
    return failure();
  if (!given.insert(name).second)
    return parser.emitError(loc)
           << "expected every recipe option once, but got '" << name
           << "' twice";
  std::optional<ParseResult> result;
  std::string known;
  forEachRecipeOption(options, [&](StringRef option, auto &value,
                                   std::initializer_list<RecipeKind>) {
    known += (known.empty() ? "" : ", ") + option.str();
    if (option == name)
      result = parseOption(parser, ("'" + option + "'").str(), value);
  });
  if (result)
    return *result;
  return parser.emitError(loc)
         << "unknown recipe option '" << name << "'; known are " << known;
}

Attribute RecipeAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  RecipeKind kind;
  if (parser.parseLess() || parseOption(parser, "the recipe", kind))
    return {};
  RecipeOptions options(kind);
  llvm::StringSet<> given;
  if (succeeded(parser.parseOptionalComma()) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, [&] {
        return parseNamedOption(parser, options, given);
      }))
    return {};
  if (parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    kind, options);
}

void RecipeAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyRecipeKind(getKind());
  auto defaults = recipeOptionBits(RecipeOptions(getKind()));
  SmallVector<std::string> written;
  const RecipeOptions options = getOptions();
  unsigned index = 0;
  forEachRecipeOption(options, [&](StringRef name, const auto &value,
                                   std::initializer_list<RecipeKind>) {
    if (recipeOptionBits(value) == defaults[index++])
      return;
    std::string text;
    llvm::raw_string_ostream os(text);
    os << name << " = ";
    printOption(os, value);
    written.push_back(text);
  });
  if (!written.empty())
    printer << ", {" << llvm::join(written, ", ") << "}";
  printer << ">";
}

/// `kind`, or the kinds that a custom recipe has for its GEMMs.
static SmallVector<RecipeKind, 3> kindsOf(RecipeKind kind,
                                          const RecipeOptions &options) {
  if (kind != RecipeKind::Custom)
    return {kind};
  SmallVector<RecipeKind, 3> kinds;
  for (Attribute recipe : {options.fprop, options.dgrad, options.wgrad})
    if (auto own = dyn_cast_if_present<RecipeAttr>(recipe))
      kinds.push_back(own.getKind());
  return kinds;
}

/// The rules of a custom recipe: recipe-c8, recipe-c9.
static LogicalResult verifyCustom(function_ref<InFlightDiagnostic()> emitError,
                                  const RecipeOptions &options) {
  for (auto [gemm, recipe] :
       {std::pair("fprop", options.fprop), std::pair("dgrad", options.dgrad),
        std::pair("wgrad", options.wgrad)}) {
    if (!recipe)
      continue;
    auto own = dyn_cast<RecipeAttr>(recipe);
    if (!own || own.getKind() == RecipeKind::Custom ||
        own.getBackwardOverride() != BackwardOverride::None)
      return emitError() << "expected '" << gemm
                         << "' to be a recipe other than 'custom', without "
                            "'backward_override', but got "
                         << recipe;
    const RecipeOptions its = own.getOptions();
    if (its.rowScaledActivation && StringRef(gemm) != "fprop")
      return emitError() << "expected 'row_scaled_activation' only in 'fprop', "
                            "whose x has the rows, but got it in '"
                         << gemm << "'";
  }
  // The states of a tensor follow the amaxes of the tensor itself.
  for (auto [source, name, gemm, recipe] :
       {std::tuple(options.wColSource, "w_col_source", "dgrad", options.dgrad),
        std::tuple(options.xColSource, "x_col_source", "wgrad", options.wgrad),
        std::tuple(options.gradColSource, "grad_col_source", "wgrad",
                   options.wgrad)}) {
    auto own = dyn_cast_if_present<RecipeAttr>(recipe);
    if (source == CastSource::RowwiseDequantized && own &&
        own.getKind() == RecipeKind::DelayedScaling)
      return emitError() << "expected '" << name << "' to be 'original' where '"
                         << gemm
                         << "' is 'delayed_scaling', whose scales follow the "
                            "tensor itself, but got 'rowwise_dequantized'";
  }
  // A wgrad in high precision multiplies the gradient itself.
  auto isQuantized = [](Attribute recipe) {
    auto own = dyn_cast_if_present<RecipeAttr>(recipe);
    return own && own.isQuantized();
  };
  if (options.gradColSource == CastSource::RowwiseDequantized &&
      isQuantized(options.dgrad) && !isQuantized(options.wgrad))
    return emitError() << "expected 'grad_col_source' to be 'original' where "
                          "'wgrad' is 'high_precision', which multiplies the "
                          "gradient itself, but got 'rowwise_dequantized'";
  return success();
}

LogicalResult RecipeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 RecipeKind kind, RecipeOptions options) {
  // recipe-c1
  auto defaults = recipeOptionBits(RecipeOptions(kind));
  std::string foreign;
  unsigned index = 0;
  forEachRecipeOption(options, [&](StringRef name, const auto &value,
                                   std::initializer_list<RecipeKind> kinds) {
    if (recipeOptionBits(value) != defaults[index++] &&
        !llvm::is_contained(kinds, kind) && foreign.empty()) {
      foreign = "expected option '" + name.str() + "' only with ";
      for (RecipeKind each : kinds)
        foreign += (each == *kinds.begin() ? "'" : ", '") +
                   stringifyRecipeKind(each).str() + "'";
      foreign += ", but got '" + stringifyRecipeKind(kind).str() + "'";
    }
  });
  if (!foreign.empty())
    return emitError() << foreign;
  // recipe-c5
  for (RecipeKind each : kindsOf(kind, options)) {
    StringRef name = stringifyRecipeKind(each);
    const support::RecipeRow *row =
        support::recipeRow({name.data(), name.size()});
    std::string refusal =
        row ? support::refuseOverride(
                  *row, static_cast<int32_t>(options.backwardOverride))
            : "";
    if (!refusal.empty())
      return emitError() << refusal;
  }
  // recipe-c2
  const unsigned dims[] = {options.xBlockDim, options.wBlockDim,
                           options.gradBlockDim};
  for (unsigned dim : dims)
    if (dim != 1 && dim != 2)
      return emitError() << "expected a block dimension to be 1 (1x128) or 2 "
                            "(128x128), but got "
                         << dim;
  if (llvm::count(dims, 2u) > 1)
    return emitError() << "expected at most one of 'x_block_dim', "
                          "'w_block_dim', 'grad_block_dim' to be 2: every pair "
                          "of them meets in one GEMM, and no GEMM takes two "
                          "128x128 operands";
  // recipe-c3
  if (kind == RecipeKind::Float8BlockScaling &&
      !(options.splitFprop && options.splitDgrad && options.splitWgrad))
    return emitError() << "expected 'float8_block_scaling' to accumulate split "
                          "in every GEMM; block scales have no fast mode";
  // recipe-c4
  if (!std::isfinite(options.amaxEpsilon) || options.amaxEpsilon < 0.0f)
    return emitError()
           << "expected 'amax_epsilon' to be finite and not negative, but got "
           << std::to_string(options.amaxEpsilon);
  // recipe-c6
  if (options.margin < -100 || options.margin > 100)
    return emitError() << "expected 'margin' to be from -100 to 100, but got "
                       << options.margin;
  if (options.amaxHistoryLen < 1)
    return emitError()
           << "expected 'amax_history_len' to be one or more, but got 0";
  // recipe-c7
  if (options.rowScaledActivation &&
      (options.hadamard || options.stochasticRounding))
    return emitError() << "expected 'hadamard' and 'stochastic_rounding' to be "
                          "false with 'row_scaled_activation'";
  if (options.hadamard && (options.fourOverSix == TensorSelection::All ||
                           options.fourOverSix == TensorSelection::Activations))
    return emitError() << "expected 'hadamard' to be false with "
                          "'four_over_six' of activations, which it "
                          "transforms; 'weights' may have both";
  if (options.fourOverSixError == FourOverSix::Off)
    return emitError() << "expected 'four_over_six_error' to be 'mae' or "
                          "'mse', but got 'off'";
  // recipe-c8, recipe-c9
  return verifyCustom(emitError, options);
}

RecipeAttr RecipeAttr::getDefault(MLIRContext *context, RecipeKind kind) {
  return get(context, kind, RecipeOptions(kind));
}

RecipeAttr
RecipeAttr::withBackwardOverride(function_ref<InFlightDiagnostic()> emitError,
                                 BackwardOverride mode) const {
  RecipeOptions options = getOptions();
  options.backwardOverride = mode;
  return getChecked(emitError, getContext(), getKind(), options);
}

RecipeAttr RecipeAttr::lookup(Operation *op) {
  for (Operation *scope = op; scope; scope = scope->getParentOp())
    if (auto recipe = scope->getAttrOfType<RecipeAttr>(kRecipeAttr))
      return recipe;
  return getDefault(op->getContext(), RecipeKind::HighPrecision);
}
