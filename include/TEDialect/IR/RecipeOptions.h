//===- RecipeOptions.h - the options of a recipe, in one list -------------===//
//
// `forEachRecipeOption` names every option once, with the recipes that have
// it. Parsing, printing, hashing, comparing and the check that an option
// belongs to its recipe all walk that list.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_IR_RECIPEOPTIONS_H
#define TEDIALECT_IR_RECIPEOPTIONS_H

#include "TEDialect/IR/TEEnums.h.inc"

#include "mlir/IR/Attributes.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/bit.h"

#include <initializer_list>

namespace mlir::te {

/// What a recipe says beside its kind.
struct RecipeOptions {
  Fp8Format fp8Format = Fp8Format::E4M3;
  bool pow2Scales = false;
  float amaxEpsilon = 0.0f;
  BackwardOverride backwardOverride = BackwardOverride::None;
  unsigned xBlockDim = 1, wBlockDim = 2, gradBlockDim = 1;
  bool splitFprop = false, splitDgrad = true, splitWgrad = true;
  int margin = 0;
  unsigned amaxHistoryLen = 1024;
  AmaxAlgorithm amaxComputeAlgo = AmaxAlgorithm::Max;
  bool w2d = false;
  bool hadamard = true, stochasticRounding = true;
  bool rowScaledActivation = false;
  TensorSelection fourOverSix = TensorSelection::None;
  TensorSelection fourOverSixScaleMax256 = TensorSelection::All;
  FourOverSix fourOverSixError = FourOverSix::Mae;
  /// Recipes of the GEMMs of a custom recipe, each a RecipeAttr.
  Attribute fprop, dgrad, wgrad;
  CastSource xColSource = CastSource::Original;
  CastSource wColSource = CastSource::Original;
  CastSource gradColSource = CastSource::Original;

  RecipeOptions() = default;
  /// The defaults of `kind`.
  explicit RecipeOptions(RecipeKind kind);
};

/// Calls `visit(name, field, kinds)` for every option of `options`, a
/// RecipeOptions or const RecipeOptions.
template <typename Options, typename Visitor>
void forEachRecipeOption(Options &options, Visitor visit) {
  using Kinds = std::initializer_list<RecipeKind>;
  constexpr auto current = RecipeKind::Float8CurrentScaling;
  constexpr auto block = RecipeKind::Float8BlockScaling;
  constexpr auto delayed = RecipeKind::DelayedScaling;
  constexpr auto mx = RecipeKind::MxFp8BlockScaling;
  constexpr auto nv = RecipeKind::NvFp4BlockScaling;
  constexpr auto custom = RecipeKind::Custom;
  visit("fp8_format", options.fp8Format, Kinds{delayed, current, block, mx});
  visit("pow2_scales", options.pow2Scales, Kinds{current, block});
  visit("amax_epsilon", options.amaxEpsilon, Kinds{current, block});
  visit("backward_override", options.backwardOverride,
        Kinds{delayed, current, block, mx, nv, custom});
  visit("x_block_dim", options.xBlockDim, Kinds{block});
  visit("w_block_dim", options.wBlockDim, Kinds{block});
  visit("grad_block_dim", options.gradBlockDim, Kinds{block});
  visit("split_fprop", options.splitFprop, Kinds{current, block});
  visit("split_dgrad", options.splitDgrad, Kinds{current, block});
  visit("split_wgrad", options.splitWgrad, Kinds{current, block});
  visit("margin", options.margin, Kinds{delayed});
  visit("amax_history_len", options.amaxHistoryLen, Kinds{delayed});
  visit("amax_compute_algo", options.amaxComputeAlgo, Kinds{delayed});
  visit("w_2d", options.w2d, Kinds{mx, nv});
  visit("hadamard", options.hadamard, Kinds{nv});
  visit("stochastic_rounding", options.stochasticRounding, Kinds{nv});
  visit("row_scaled_activation", options.rowScaledActivation, Kinds{nv});
  visit("four_over_six", options.fourOverSix, Kinds{nv});
  visit("four_over_six_scale_max_256", options.fourOverSixScaleMax256,
        Kinds{nv});
  visit("four_over_six_error", options.fourOverSixError, Kinds{nv});
  visit("fprop", options.fprop, Kinds{custom});
  visit("dgrad", options.dgrad, Kinds{custom});
  visit("wgrad", options.wgrad, Kinds{custom});
  visit("x_col_source", options.xColSource, Kinds{custom});
  visit("w_col_source", options.wColSource, Kinds{custom});
  visit("grad_col_source", options.gradColSource, Kinds{custom});
}

/// The bits of an option, which compare and hash exactly (-0.0 is not 0.0).
template <typename Option> uint64_t recipeOptionBits(Option option) {
  if constexpr (std::is_same_v<Option, float>)
    return llvm::bit_cast<uint32_t>(option);
  else if constexpr (std::is_same_v<Option, Attribute>)
    return reinterpret_cast<uintptr_t>(option.getAsOpaquePointer());
  else
    return static_cast<uint64_t>(option);
}

/// Every option in the order of the list.
inline llvm::SmallVector<uint64_t, 32>
recipeOptionBits(const RecipeOptions &options) {
  llvm::SmallVector<uint64_t, 32> bits;
  forEachRecipeOption(options, [&](llvm::StringRef, const auto &option,
                                   std::initializer_list<RecipeKind>) {
    bits.push_back(recipeOptionBits(option));
  });
  return bits;
}

inline bool operator==(const RecipeOptions &a, const RecipeOptions &b) {
  return recipeOptionBits(a) == recipeOptionBits(b);
}

inline llvm::hash_code hash_value(const RecipeOptions &options) {
  return llvm::hash_combine_range(recipeOptionBits(options));
}

} // namespace mlir::te

#endif // TEDIALECT_IR_RECIPEOPTIONS_H
