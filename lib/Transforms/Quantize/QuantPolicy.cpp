//===- QuantPolicy.cpp - what a recipe means for one GEMM -----------------===//
//
// Formats: numerics of per-tensor current scaling and of block scaling. Size
// rules are those of the quantised kernels (scaled_matmul-c6, c7), written in
// terms of the layer: a GEMM contracts one of M, N, K and keeps two.
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

ScaledType QuantPolicy::castType(TensorRole role, ArrayRef<int64_t> shape,
                                 unsigned contract) const {
  MLIRContext *context = recipe.getContext();
  bool wide =
      role == TensorRole::Dy && recipe.getFp8Format() == Fp8Format::Hybrid;
  Type element = wide ? Type(Float8E5M2Type::get(context))
                      : Type(Float8E4M3FNType::get(context));
  Scheme scheme = Scheme::PerTensor;
  if (!usesTensorScale()) {
    unsigned dim = role == TensorRole::X   ? recipe.getXBlockDim()
                   : role == TensorRole::W ? recipe.getWBlockDim()
                                           : recipe.getGradBlockDim();
    scheme = dim == 2 ? Scheme::Block128x128 : Scheme::Block1x128;
  }
  return ScaledType::get(context, shape, element, scheme,
                         recipe.getPow2Scales(), contract);
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
  int64_t outerB = usesTensorScale() ? 16 : 8;
  return {{axes[0], 16, gemm, true},
          {axes[1], 8, gemm, false},
          {axes[2], outerB, gemm, false}};
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
