//===- QuantPolicy.cpp - what a recipe means for one GEMM -----------------===//
//
// Formats: numerics of per-tensor current scaling and of block scaling. What
// may be multiplied, and in which sizes, the support table says; here it is
// put in terms of the layer: a GEMM contracts one of M, N, K and keeps two.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Transforms/Quantize/QuantPolicy.h"

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

OperandMode QuantPolicy::operandMode(Gemm gemm) const {
  if (!recipe.isQuantized())
    return OperandMode::HighPrecision;
  if (gemm == Gemm::Fprop)
    return OperandMode::Quantized;
  switch (recipe.getBackwardOverride()) {
  case BackwardOverride::None:
    return OperandMode::Quantized;
  case BackwardOverride::HighPrecision:
    return OperandMode::HighPrecision;
  case BackwardOverride::Dequantized:
    return OperandMode::Dequantized;
  }
  llvm_unreachable("all overrides are listed");
}

std::pair<TensorRole, TensorRole> mlir::te::operandRoles(Gemm gemm) {
  switch (gemm) {
  case Gemm::Fprop:
    return {TensorRole::X, TensorRole::W};
  case Gemm::Dgrad:
    return {TensorRole::Dy, TensorRole::W};
  case Gemm::Wgrad:
    return {TensorRole::Dy, TensorRole::X};
  }
  llvm_unreachable("all GEMMs are listed");
}

Type QuantPolicy::elementType(TensorRole role) const {
  MLIRContext *context = recipe.getContext();
  bool wide =
      role == TensorRole::Dy && recipe.getFp8Format() == Fp8Format::Hybrid;
  return wide ? Type(Float8E5M2Type::get(context))
              : Type(Float8E4M3FNType::get(context));
}

Scheme QuantPolicy::scheme(TensorRole role) const {
  if (usesTensorScale())
    return Scheme::PerTensor;
  unsigned dim = role == TensorRole::X   ? recipe.getXBlockDim()
                 : role == TensorRole::W ? recipe.getWBlockDim()
                                         : recipe.getGradBlockDim();
  return dim == 2 ? Scheme::Block128x128 : Scheme::Block1x128;
}

ScaledType QuantPolicy::castType(TensorRole role, ArrayRef<int64_t> shape,
                                 unsigned contract) const {
  return ScaledType::get(recipe.getContext(), shape, elementType(role),
                         scheme(role), recipe.getPow2Scales(), contract);
}

/// The schemes of the operands of `gemm`, as the support table counts them.
static std::pair<int32_t, int32_t> schemesOf(const QuantPolicy &policy,
                                             Gemm gemm) {
  auto [a, b] = operandRoles(gemm);
  return {static_cast<int32_t>(policy.scheme(a)),
          static_cast<int32_t>(policy.scheme(b))};
}

std::string QuantPolicy::refusal(Gemm gemm, Type resultType, bool bias) const {
  if (operandMode(gemm) != OperandMode::Quantized)
    return "";
  auto [a, b] = operandRoles(gemm);
  auto [aScheme, bScheme] = schemesOf(*this, gemm);
  return support::refuseProduct({aScheme, *getTypeNumber(elementType(a)),
                                 bScheme, *getTypeNumber(elementType(b)),
                                 getTypeNumber(resultType).value_or(-1),
                                 fastAccumulation(gemm), bias});
}

std::string QuantPolicy::targetRefusal(Gemm gemm, support::Target target,
                                       bool emulate) const {
  if (operandMode(gemm) != OperandMode::Quantized)
    return "";
  auto [a, b] = schemesOf(*this, gemm);
  if (!support::productRow(a, b).exists())
    return "";
  return support::refuseTarget(
      a, b, target, {.pow2 = recipe.getPow2Scales(), .emulate = emulate});
}

bool QuantPolicy::fastAccumulation(Gemm gemm) const {
  switch (gemm) {
  case Gemm::Fprop:
    return !recipe.getSplitFprop();
  case Gemm::Dgrad:
    return !recipe.getSplitDgrad();
  case Gemm::Wgrad:
    return !recipe.getSplitWgrad();
  }
  llvm_unreachable("all GEMMs are listed");
}

SmallVector<SizeRule> QuantPolicy::sizeRules(Gemm gemm) const {
  if (operandMode(gemm) != OperandMode::Quantized)
    return {};
  // Axes as (contracted, outer of a, outer of b); see the GEMM table of
  // te-insert-casts.
  StringRef axes = gemm == Gemm::Fprop   ? "KMN"
                   : gemm == Gemm::Dgrad ? "NMK"
                                         : "MNK";
  auto [a, b] = schemesOf(*this, gemm);
  const support::ProductRow &row = support::productRow(a, b);
  SmallVector<SizeRule> rules = {{axes[0], row.k, gemm, true},
                                 {axes[1], row.m, gemm, false},
                                 {axes[2], row.n, gemm, false}};
  llvm::erase_if(rules, [](SizeRule rule) { return rule.multiple == 1; });
  return rules;
}

std::optional<SizeRule> QuantPolicy::violation(Gemm gemm,
                                               LinearSizes sizes) const {
  for (SizeRule rule : sizeRules(gemm))
    if (!rule.holds(sizes))
      return rule;
  return std::nullopt;
}

std::string QuantPolicy::reason(Gemm gemm) const {
  bool overridden = gemm != Gemm::Fprop &&
                    recipe.getBackwardOverride() != BackwardOverride::None;
  if (overridden)
    return ("override '" +
            stringifyBackwardOverride(recipe.getBackwardOverride()) + "'")
        .str();
  return ("recipe '" + stringifyRecipeKind(recipe.getKind()) + "'").str();
}
