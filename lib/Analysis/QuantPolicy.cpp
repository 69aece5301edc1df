//===- QuantPolicy.cpp - what a recipe means for one GEMM -----------------===//
//
// Formats: numerics of per-tensor current scaling and of block scaling. What
// may be multiplied, and in which sizes, the support table says; here it is
// put in terms of the layer: a GEMM contracts one of M, N, K and keeps two.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Analysis/QuantPolicy.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::te;

StringRef mlir::te::stringifyGemm(Gemm gemm) {
  switch (gemm) {
  case Gemm::Fprop:
    return "fprop";
  case Gemm::Dgrad:
    return "dgrad";
  case Gemm::Wgrad:
    return "wgrad";
  }
  llvm_unreachable("all GEMMs are listed");
}

RecipeAttr QuantPolicy::recipeOf(Gemm gemm) const {
  if (recipe.getKind() != RecipeKind::Custom)
    return recipe;
  const RecipeOptions options = recipe.getOptions();
  Attribute own = gemm == Gemm::Fprop   ? options.fprop
                  : gemm == Gemm::Dgrad ? options.dgrad
                                        : options.wgrad;
  return own ? cast<RecipeAttr>(own)
             : RecipeAttr::getDefault(recipe.getContext(),
                                      RecipeKind::HighPrecision);
}

Gemm mlir::te::readerOf(TensorRole role, unsigned contract) {
  switch (role) {
  case TensorRole::X:
    return contract == 1 ? Gemm::Fprop : Gemm::Wgrad;
  case TensorRole::W:
    return contract == 1 ? Gemm::Fprop : Gemm::Dgrad;
  case TensorRole::Dy:
    return contract == 1 ? Gemm::Dgrad : Gemm::Wgrad;
  }
  llvm_unreachable("all roles are listed");
}

CastSource QuantPolicy::columnSource(TensorRole role) const {
  const RecipeOptions options = recipe.getOptions();
  return role == TensorRole::X   ? options.xColSource
         : role == TensorRole::W ? options.wColSource
                                 : options.gradColSource;
}

OperandMode QuantPolicy::operandMode(Gemm gemm) const {
  if (gemm != Gemm::Fprop)
    switch (recipe.getBackwardOverride()) {
    case BackwardOverride::None:
      break;
    case BackwardOverride::HighPrecision:
      return OperandMode::HighPrecision;
    case BackwardOverride::Dequantized:
      return recipeOf(Gemm::Fprop).isQuantized() ? OperandMode::Dequantized
                                                 : OperandMode::HighPrecision;
    }
  if (recipeOf(gemm).isQuantized())
    return OperandMode::Quantized;
  // Only operand b of a backward GEMM is a tensor of the forward.
  if (gemm != Gemm::Fprop && recipeOf(Gemm::Fprop).isQuantized() &&
      columnSource(operandRoles(gemm).second) == CastSource::RowwiseDequantized)
    return OperandMode::Dequantized;
  return OperandMode::HighPrecision;
}

std::pair<TensorRole, TensorRole> mlir::te::operandRoles(Gemm gemm,
                                                         bool transposed) {
  switch (gemm) {
  case Gemm::Fprop:
    return {TensorRole::X, TensorRole::W};
  case Gemm::Dgrad:
    return {TensorRole::Dy, TensorRole::W};
  case Gemm::Wgrad:
    if (transposed)
      return {TensorRole::X, TensorRole::Dy};
    return {TensorRole::Dy, TensorRole::X};
  }
  llvm_unreachable("all GEMMs are listed");
}

/// True when `selection` names `role`; gradients are in none.
static bool selects(TensorSelection selection, TensorRole role) {
  const bool all = selection == TensorSelection::All;
  return (role == TensorRole::W &&
          (all || selection == TensorSelection::Weights)) ||
         (role == TensorRole::X &&
          (all || selection == TensorSelection::Activations));
}

Type QuantPolicy::elementType(TensorRole role, Gemm gemm) const {
  RecipeAttr own = recipeOf(gemm);
  MLIRContext *context = recipe.getContext();
  if (own.getKind() == RecipeKind::NvFp4BlockScaling)
    return Float4E2M1FNType::get(context);
  if (role == TensorRole::Dy && own.getOptions().fp8Format == Fp8Format::Hybrid)
    return Float8E5M2Type::get(context);
  return Float8E4M3FNType::get(context);
}

Scheme QuantPolicy::scheme(TensorRole role, Gemm gemm) const {
  const RecipeOptions options = recipeOf(gemm).getOptions();
  const bool square = role == TensorRole::W && options.w2d;
  switch (recipeOf(gemm).getKind()) {
  case RecipeKind::HighPrecision:
  case RecipeKind::Custom:
    break;
  case RecipeKind::Float8CurrentScaling:
  case RecipeKind::DelayedScaling:
    return Scheme::PerTensor;
  case RecipeKind::Float8BlockScaling: {
    unsigned dim = role == TensorRole::X   ? options.xBlockDim
                   : role == TensorRole::W ? options.wBlockDim
                                           : options.gradBlockDim;
    return dim == 2 ? Scheme::Block128x128 : Scheme::Block1x128;
  }
  case RecipeKind::MxFp8BlockScaling:
    return square ? Scheme::Mx32x32 : Scheme::Mx1x32;
  case RecipeKind::NvFp4BlockScaling:
    return square ? Scheme::Nv16x16 : Scheme::Nv1x16;
  }
  llvm_unreachable("the GEMM quantises");
}

FourOverSix QuantPolicy::fourOverSix(TensorRole role, Gemm gemm) const {
  const RecipeOptions options = recipeOf(gemm).getOptions();
  return selects(options.fourOverSix, role) ? options.fourOverSixError
                                            : FourOverSix::Off;
}

bool QuantPolicy::stochasticRounding(TensorRole role, Gemm gemm) const {
  RecipeAttr own = recipeOf(gemm);
  return role == TensorRole::Dy &&
         own.getKind() == RecipeKind::NvFp4BlockScaling &&
         own.getOptions().stochasticRounding;
}

ScaleVariant QuantPolicy::variant(TensorRole role, Gemm gemm) const {
  const RecipeOptions options = recipeOf(gemm).getOptions();
  if (recipeOf(gemm).getKind() != RecipeKind::NvFp4BlockScaling)
    return options.pow2Scales ? ScaleVariant::Pow2 : ScaleVariant::None;
  ScaleVariant variant = ScaleVariant::None;
  // The transform runs along M, which only wgrad contracts.
  if (gemm == Gemm::Wgrad && options.hadamard)
    variant = variant | ScaleVariant::Hadamard;
  if (role == TensorRole::X && gemm == Gemm::Fprop &&
      options.rowScaledActivation)
    variant = variant | ScaleVariant::RowScaled;
  if (fourOverSix(role, gemm) != FourOverSix::Off &&
      selects(options.fourOverSixScaleMax256, role))
    variant = variant | ScaleVariant::ScaleMax256;
  return variant;
}

ScaledType QuantPolicy::castType(TensorRole role, Gemm gemm,
                                 ArrayRef<int64_t> shape,
                                 unsigned contract) const {
  return ScaledType::get(recipe.getContext(), shape, elementType(role, gemm),
                         scheme(role, gemm), variant(role, gemm), contract);
}

/// The schemes of the operands of `gemm`, as the support table counts them.
static std::pair<int32_t, int32_t>
schemesOf(const QuantPolicy &policy, Gemm gemm, bool transposed = false) {
  auto [a, b] = operandRoles(gemm, transposed);
  return {static_cast<int32_t>(policy.scheme(a, gemm)),
          static_cast<int32_t>(policy.scheme(b, gemm))};
}

std::string QuantPolicy::refusal(Gemm gemm, ArrayRef<Type> operandTypes,
                                 Type resultType, bool bias,
                                 bool transposed) const {
  if (operandMode(gemm) != OperandMode::Quantized)
    return "";
  auto [a, b] = operandRoles(gemm, transposed);
  if (gemm != Gemm::Fprop && recipe.getOptions().rowScaledActivation)
    return support::refuseOverride(
        *support::recipeRow("nvfp4_block_scaling", "row_scaled_activation"),
        static_cast<int32_t>(recipe.getBackwardOverride()));
  if (bitEnumContainsAll(variant(a, gemm), ScaleVariant::Hadamard))
    for (Type type : operandTypes)
      if (!type.isBF16())
        return "expected 'bf16' operands where a recipe has 'hadamard', but "
               "got " +
               support::quoted(support::typeName(*getTypeNumber(type))) +
               ": the transform is rounded to bf16; the nearest supported is "
               "'hadamard = false'";
  auto [aScheme, bScheme] = schemesOf(*this, gemm, transposed);
  return support::refuseProduct({aScheme, *getTypeNumber(elementType(a, gemm)),
                                 bScheme, *getTypeNumber(elementType(b, gemm)),
                                 getTypeNumber(resultType).value_or(-1),
                                 fastAccumulation(gemm), bias});
}

std::string QuantPolicy::targetRefusal(Gemm gemm, support::Target target,
                                       bool emulate, bool transposed) const {
  if (operandMode(gemm) != OperandMode::Quantized)
    return "";
  auto [a, b] = schemesOf(*this, gemm, transposed);
  if (!support::productRow(a, b).exists())
    return "";
  return support::refuseTarget(
      a, b, target,
      {.pow2 = recipeOf(gemm).getOptions().pow2Scales, .emulate = emulate});
}

std::string QuantPolicy::groupsRefusal(Gemm gemm, support::Target target,
                                       bool emulate, Type operandType,
                                       Type resultType) const {
  const int32_t result = getTypeNumber(resultType).value_or(-1);
  if (operandMode(gemm) != OperandMode::Quantized)
    return support::refusePlainGroups(
        target, getTypeNumber(operandType).value_or(-1), result);
  auto [a, b] = schemesOf(*this, gemm);
  if (!support::productRow(a, b).exists())
    return "";
  return support::refuseGroups(a, b, target, result, {.emulate = emulate});
}

std::string QuantPolicy::alignmentRefusal(Gemm gemm, int64_t alignment) const {
  if (operandMode(gemm) != OperandMode::Quantized)
    return "";
  return support::refuseAlignment(schemesOf(*this, gemm).first, alignment);
}

std::string QuantPolicy::shardRefusal(Gemm gemm, unsigned contract,
                                      int64_t count) const {
  if (recipe.getKind() == RecipeKind::Custom)
    return "a custom recipe may cast the two usages of a weight in two ways";
  const Scheme cut = scheme(TensorRole::W, gemm);
  const bool hasColumns = cut == Scheme::Nv1x16 && contract == 0;
  if (cut == Scheme::Block1x128 || hasColumns)
    return "a flat shard cuts blocks of scheme '" + stringifyScheme(cut).str() +
           "'" + (hasColumns ? " that lie down columns" : "");
  const bool isNv = cut == Scheme::Nv1x16 || cut == Scheme::Nv16x16;
  if (isNv && count % 2)
    return llvm::formatv("a flat shard of {0} elements, an odd number, cuts a "
                         "byte of two FP4 values",
                         count)
        .str();
  if (fourOverSix(TensorRole::W, gemm) != FourOverSix::Off)
    return "'four_over_six' compares the errors of all elements of a block, "
           "which a flat shard cuts";
  return "";
}

bool QuantPolicy::fastAccumulation(Gemm gemm) const {
  const RecipeOptions options = recipeOf(gemm).getOptions();
  auto [a, b] = schemesOf(*this, gemm);
  // Block schemes scale every slice of the contracted axis.
  if (!support::productRow(a, b).fastAccumulation)
    return false;
  return gemm == Gemm::Fprop   ? !options.splitFprop
         : gemm == Gemm::Dgrad ? !options.splitDgrad
                               : !options.splitWgrad;
}

SmallVector<SizeRule> QuantPolicy::sizeRules(Gemm gemm, bool transposed) const {
  if (operandMode(gemm) != OperandMode::Quantized)
    return {};
  // Axes as (contracted, outer of a, outer of b); see the GEMM table of
  // te-insert-casts.
  StringRef axes = gemm == Gemm::Fprop   ? "KMN"
                   : gemm == Gemm::Dgrad ? "NMK"
                   : transposed          ? "MKN"
                                         : "MNK";
  auto [a, b] = schemesOf(*this, gemm, transposed);
  const support::ProductRow &row = support::productRow(a, b);
  SmallVector<SizeRule> rules = {{axes[0], row.k, gemm, true},
                                 {axes[1], row.m, gemm, false},
                                 {axes[2], row.n, gemm, false}};
  llvm::erase_if(rules, [](SizeRule rule) { return rule.multiple == 1; });
  return rules;
}

std::string QuantPolicy::reason(Gemm gemm) const {
  bool overridden = gemm != Gemm::Fprop &&
                    recipe.getBackwardOverride() != BackwardOverride::None;
  if (overridden)
    return ("override '" +
            stringifyBackwardOverride(recipe.getBackwardOverride()) + "'")
        .str();
  std::string text =
      ("recipe '" + stringifyRecipeKind(recipe.getKind()) + "'").str();
  if (recipe.getKind() == RecipeKind::Custom)
    text += (", " + stringifyGemm(gemm) + " '" +
             stringifyRecipeKind(recipeOf(gemm).getKind()) + "'")
                .str();
  return text;
}
