//===- TEEnums.td - enumerations of the te dialect ------------------------===//

#ifndef TEDIALECT_IR_TEENUMS_TD
#define TEDIALECT_IR_TEENUMS_TD

include "mlir/IR/EnumAttr.td"
include "TEDialect/IR/TEDialect.td"

class TE_I32Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::te";
  let genSpecializedAttr = 0;
}

// Values equal te_rt_scheme.
def TE_Scheme : TE_I32Enum<"Scheme", "how a scaled value shares its scales", [
  // One f32 scale for the whole tensor.
  I32EnumAttrCase<"PerTensor", 0, "per_tensor">,
  // One f32 scale for 128 elements along the contraction axis.
  I32EnumAttrCase<"Block1x128", 1, "block_1x128">,
  // One f32 scale for a square of 128 by 128 elements.
  I32EnumAttrCase<"Block128x128", 2, "block_128x128">
]>;

// Values equal te_rt_activation.
def TE_ActivationKind : TE_I32Enum<"ActivationKind", "activation function", [
  // x * (0.5 + 0.5 tanh(...)), the tanh form.
  I32EnumAttrCase<"Gelu", 0, "gelu">,
  // x * sigmoid(x).
  I32EnumAttrCase<"Silu", 1, "silu">,
  // max(x, 0).
  I32EnumAttrCase<"Relu", 2, "relu">,
  // silu(first half) * second half of the last dimension.
  I32EnumAttrCase<"Swiglu", 16, "swiglu">
]>;
def TE_ActivationKindAttr
    : EnumAttr<TE_Dialect, TE_ActivationKind, "activation"> {
  let assemblyFormat = "`<` $value `>`";
}

// Values equal te_rt_amax_algorithm.
def TE_AmaxAlgorithm
    : TE_I32Enum<"AmaxAlgorithm", "what a history of amaxes counts for", [
  // Its largest amax.
  I32EnumAttrCase<"Max", 0, "max">,
  // Its newest amax.
  I32EnumAttrCase<"MostRecent", 1, "most_recent">
]>;
def TE_AmaxAlgorithmAttr
    : EnumAttr<TE_Dialect, TE_AmaxAlgorithm, "amax_algorithm"> {
  let assemblyFormat = "`<` $value `>`";
}

def TE_RecipeKind : TE_I32Enum<"RecipeKind", "quantisation recipe", [
  // No quantisation.
  I32EnumAttrCase<"HighPrecision", 0, "high_precision">,
  // Per-tensor FP8; every scale from the tensor's own amax.
  I32EnumAttrCase<"Float8CurrentScaling", 1, "float8_current_scaling">,
  // FP8 with one scale per 1x128 or 128x128 block.
  I32EnumAttrCase<"Float8BlockScaling", 2, "float8_block_scaling">
]>;

def TE_BackwardOverride
    : TE_I32Enum<"BackwardOverride", "precision of the backward GEMMs", [
  // Backward as the recipe says.
  I32EnumAttrCase<"None", 0, "none">,
  // Backward GEMMs on the original operands.
  I32EnumAttrCase<"HighPrecision", 1, "high_precision">,
  // Backward GEMMs on the dequantised operands of the forward.
  I32EnumAttrCase<"Dequantized", 2, "dequantized">
]>;

def TE_Fp8Format : TE_I32Enum<"Fp8Format", "FP8 element types by direction", [
  // E4M3 everywhere.
  I32EnumAttrCase<"E4M3", 0, "e4m3">,
  // E4M3 forward, E5M2 for gradients.
  I32EnumAttrCase<"Hybrid", 1, "hybrid">
]>;

#endif // TEDIALECT_IR_TEENUMS_TD
