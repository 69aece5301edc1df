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
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace mlir;
using namespace mlir::te;

#define GET_ATTRDEF_CLASSES
#include "TEDialect/IR/TEAttrs.cpp.inc"

void TEDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "TEDialect/IR/TEAttrs.cpp.inc"
      >();
}

namespace {
/// The parameters of a recipe while they are being collected.
struct RecipeOptions {
  RecipeKind kind;
  Fp8Format format;
  bool pow2;
  float epsilon = 0.0f;
  BackwardOverride override = BackwardOverride::None;
  unsigned xDim = 1, wDim = 2, gradDim = 1;
  bool splitFprop, splitDgrad, splitWgrad;

  explicit RecipeOptions(RecipeKind kind)
      : kind(kind),
        format(kind == RecipeKind::Float8BlockScaling ? Fp8Format::E4M3
                                                      : Fp8Format::Hybrid),
        pow2(kind == RecipeKind::Float8BlockScaling),
        splitFprop(kind == RecipeKind::Float8BlockScaling), splitDgrad(true),
        splitWgrad(true) {}

  explicit RecipeOptions(RecipeAttr recipe)
      : kind(recipe.getKind()), format(recipe.getFp8Format()),
        pow2(recipe.getPow2Scales()), epsilon(recipe.getAmaxEpsilon()),
        override(recipe.getBackwardOverride()), xDim(recipe.getXBlockDim()),
        wDim(recipe.getWBlockDim()), gradDim(recipe.getGradBlockDim()),
        splitFprop(recipe.getSplitFprop()), splitDgrad(recipe.getSplitDgrad()),
        splitWgrad(recipe.getSplitWgrad()) {}

  RecipeAttr get(MLIRContext *context) const {
    return RecipeAttr::get(context, kind, format, pow2,
                           llvm::bit_cast<uint32_t>(epsilon), override, xDim,
                           wDim, gradDim, splitFprop, splitDgrad, splitWgrad);
  }
  RecipeAttr getChecked(function_ref<InFlightDiagnostic()> emitError,
                        MLIRContext *context) const {
    return RecipeAttr::getChecked(emitError, context, kind, format, pow2,
                                  llvm::bit_cast<uint32_t>(epsilon), override,
                                  xDim, wDim, gradDim, splitFprop, splitDgrad,
                                  splitWgrad);
  }
};
} // namespace

/// Parses `true` or `false`.
static ParseResult parseBool(AsmParser &parser, bool &value) {
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

/// Parses one of the spellings of an enumeration.
template <typename Enum>
static ParseResult parseEnum(AsmParser &parser, Enum &value,
                             std::optional<Enum> symbolize(StringRef),
                             StringRef what, StringRef spellings) {
  StringRef word;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  std::optional<Enum> parsed = symbolize(word);
  if (!parsed)
    return parser.emitError(loc) << "expected " << what << " to be one of "
                                 << spellings << ", but got '" << word << "'";
  value = *parsed;
  return success();
}

static ParseResult parseOption(AsmParser &parser, RecipeOptions &options) {
  StringRef name;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&name) || parser.parseEqual())
    return failure();
  if (name == "fp8_format")
    return parseEnum<Fp8Format>(parser, options.format, symbolizeFp8Format,
                                "'fp8_format'", "'e4m3', 'hybrid'");
  if (name == "backward_override")
    return parseEnum<BackwardOverride>(
        parser, options.override, symbolizeBackwardOverride,
        "'backward_override'", "'none', 'high_precision', 'dequantized'");
  if (name == "amax_epsilon") {
    FloatAttr value;
    if (parser.parseAttribute(value, Float32Type::get(parser.getContext())))
      return failure();
    options.epsilon = value.getValue().convertToFloat();
    return success();
  }
  for (auto [option, value] : {std::pair{"pow2_scales", &options.pow2},
                               {"split_fprop", &options.splitFprop},
                               {"split_dgrad", &options.splitDgrad},
                               {"split_wgrad", &options.splitWgrad}})
    if (name == option)
      return parseBool(parser, *value);
  for (auto [option, value] : {std::pair{"x_block_dim", &options.xDim},
                               {"w_block_dim", &options.wDim},
                               {"grad_block_dim", &options.gradDim}})
    if (name == option)
      return parser.parseInteger(*value);
  return parser.emitError(loc)
         << "unknown recipe option '" << name
         << "'; known are fp8_format, pow2_scales, amax_epsilon, "
            "backward_override, x_block_dim, w_block_dim, grad_block_dim, "
            "split_fprop, split_dgrad, split_wgrad";
}

Attribute RecipeAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  RecipeKind kind;
  if (parser.parseLess() ||
      parseEnum<RecipeKind>(parser, kind, symbolizeRecipeKind, "the recipe",
                            "'high_precision', 'float8_current_scaling', "
                            "'float8_block_scaling'"))
    return {};
  RecipeOptions options(kind);
  if (succeeded(parser.parseOptionalComma()) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, [&] {
        return parseOption(parser, options);
      }))
    return {};
  if (parser.parseGreater())
    return {};
  return options.getChecked([&] { return parser.emitError(loc); },
                            parser.getContext());
}

void RecipeAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyRecipeKind(getKind());
  RecipeOptions defaults(getKind());
  SmallVector<std::string> options;
  auto add = [&](StringRef name, const Twine &value) {
    options.push_back((name + " = " + value).str());
  };
  auto boolean = [](bool value) { return value ? "true" : "false"; };
  if (getFp8Format() != defaults.format)
    add("fp8_format", stringifyFp8Format(getFp8Format()));
  if (getPow2Scales() != defaults.pow2)
    add("pow2_scales", boolean(getPow2Scales()));
  if (getAmaxEpsilon() != defaults.epsilon) {
    std::string text;
    llvm::raw_string_ostream os(text);
    os << llvm::format("%.9e", getAmaxEpsilon());
    add("amax_epsilon", text);
  }
  if (getBackwardOverride() != defaults.override)
    add("backward_override", stringifyBackwardOverride(getBackwardOverride()));
  if (getXBlockDim() != defaults.xDim)
    add("x_block_dim", Twine(getXBlockDim()));
  if (getWBlockDim() != defaults.wDim)
    add("w_block_dim", Twine(getWBlockDim()));
  if (getGradBlockDim() != defaults.gradDim)
    add("grad_block_dim", Twine(getGradBlockDim()));
  if (getSplitFprop() != defaults.splitFprop)
    add("split_fprop", boolean(getSplitFprop()));
  if (getSplitDgrad() != defaults.splitDgrad)
    add("split_dgrad", boolean(getSplitDgrad()));
  if (getSplitWgrad() != defaults.splitWgrad)
    add("split_wgrad", boolean(getSplitWgrad()));
  if (!options.empty())
    printer << ", {" << llvm::join(options, ", ") << "}";
  printer << ">";
}

LogicalResult RecipeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 RecipeKind kind, Fp8Format format, bool pow2,
                                 uint32_t epsilonBits,
                                 BackwardOverride override, unsigned xDim,
                                 unsigned wDim, unsigned gradDim,
                                 bool splitFprop, bool splitDgrad,
                                 bool splitWgrad) {
  const float epsilon = llvm::bit_cast<float>(epsilonBits);
  RecipeOptions defaults(kind);
  bool otherDims = xDim != defaults.xDim || wDim != defaults.wDim ||
                   gradDim != defaults.gradDim;
  bool otherSplit = splitFprop != defaults.splitFprop ||
                    splitDgrad != defaults.splitDgrad ||
                    splitWgrad != defaults.splitWgrad;
  // recipe-c1
  if (kind == RecipeKind::HighPrecision &&
      (format != defaults.format || pow2 || epsilon != 0.0f ||
       override != BackwardOverride::None || otherDims || otherSplit))
    return emitError() << "expected the recipe 'high_precision' to have no "
                          "options; its backward is high precision already";
  // Overrides are those of the support table.
  StringRef name = stringifyRecipeKind(kind);
  if (const support::RecipeRow *row =
          support::recipeRow({name.data(), name.size()}))
    if (std::string refusal =
            support::refuseOverride(*row, static_cast<int32_t>(override));
        !refusal.empty())
      return emitError() << refusal;
  // recipe-c2
  if (kind != RecipeKind::Float8BlockScaling && otherDims)
    return emitError()
           << "expected 'x_block_dim', 'w_block_dim' and 'grad_block_dim' only "
              "with 'float8_block_scaling', but got '"
           << stringifyRecipeKind(kind) << "'";
  for (unsigned dim : {xDim, wDim, gradDim})
    if (dim != 1 && dim != 2)
      return emitError() << "expected a block dimension to be 1 (1x128) or 2 "
                            "(128x128), but got "
                         << dim;
  if ((xDim == 2) + (wDim == 2) + (gradDim == 2) > 1)
    return emitError() << "expected at most one of 'x_block_dim', "
                          "'w_block_dim', 'grad_block_dim' to be 2: every pair "
                          "of them meets in one GEMM, and no GEMM takes two "
                          "128x128 operands";
  // recipe-c3
  if (kind == RecipeKind::Float8BlockScaling && otherSplit)
    return emitError() << "expected 'float8_block_scaling' to accumulate split "
                          "in every GEMM; block scales have no fast mode";
  // recipe-c4
  if (!std::isfinite(epsilon) || epsilon < 0.0f)
    return emitError()
           << "expected 'amax_epsilon' to be finite and not negative, but got "
           << std::to_string(epsilon);
  return success();
}

RecipeAttr RecipeAttr::getDefault(MLIRContext *context, RecipeKind kind) {
  return RecipeOptions(kind).get(context);
}

RecipeAttr RecipeAttr::withBackwardOverride(BackwardOverride mode) const {
  RecipeOptions options(*this);
  options.override = mode;
  return options.get(getContext());
}

RecipeAttr RecipeAttr::lookup(Operation *op) {
  for (Operation *scope = op; scope; scope = scope->getParentOp())
    if (auto recipe = scope->getAttrOfType<RecipeAttr>(kRecipeAttr))
      return recipe;
  return getDefault(op->getContext(), RecipeKind::HighPrecision);
}
