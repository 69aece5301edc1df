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
  I32EnumAttrCase<"Block128x128", 2, "block_128x128">,
  // One E8M0 scale for 32 elements along the contraction axis.
  I32EnumAttrCase<"Mx1x32", 3, "mx_1x32">,
  // One E8M0 scale for a square of 32 by 32 elements.
  I32EnumAttrCase<"Mx32x32", 4, "mx_32x32">,
  // One E4M3 scale for 16 elements along the contraction axis, and one f32
  // amax for the tensor.
  I32EnumAttrCase<"Nv1x16", 5, "nv_1x16">,
  // One E4M3 scale for a square of 16 by 16 elements, and one f32 amax.
  I32EnumAttrCase<"Nv16x16", 6, "nv_16x16">
]>;

// The keywords of a scaled type after its scheme, in the order of printing.
def TE_ScaleVariant
    : I32BitEnumAttr<"ScaleVariant", "variant of a scheme", [
  I32BitEnumAttrCaseNone<"None", "none">,
  // Every scale is a power of two (per_tensor, block).
  I32BitEnumAttrCaseBit<"Pow2", 0, "pow2">,
  // Elements are those of a Hadamard transform along the contraction axis.
  I32BitEnumAttrCaseBit<"Hadamard", 1, "hadamard">,
  // One amax for each row instead of one for the tensor.
  I32BitEnumAttrCaseBit<"RowScaled", 2, "row_scaled">,
  // The largest block scale is 256 instead of 448.
  I32BitEnumAttrCaseBit<"ScaleMax256", 3, "scale_max_256">,
  // Block scales are in the order the tensor core of sm_100 reads.
  I32BitEnumAttrCaseBit<"Swizzled", 4, "swizzled">
]> {
  let cppNamespace = "::mlir::te";
  let genSpecializedAttr = 0;
}

// Values equal te_rt_activation. Gated kinds, from swiglu on, multiply the
// activated first half of the last dimension by the second half.
def TE_ActivationKind : TE_I32Enum<"ActivationKind", "activation function", [
  // x * (0.5 + 0.5 tanh(...)), the tanh form.
  I32EnumAttrCase<"Gelu", 0, "gelu">,
  // x * sigmoid(x).
  I32EnumAttrCase<"Silu", 1, "silu">,
  // max(x, 0).
  I32EnumAttrCase<"Relu", 2, "relu">,
  // x * sigmoid(1.702 x).
  I32EnumAttrCase<"Qgelu", 3, "qgelu">,
  // max(x, 0)².
  I32EnumAttrCase<"Srelu", 4, "srelu">,
  // x * Phi(x), the erf form: Phi is the normal distribution function.
  I32EnumAttrCase<"GeluErf", 5, "gelu_erf">,
  // silu(first half) * second half.
  I32EnumAttrCase<"Swiglu", 16, "swiglu">,
  // gelu(first half) * second half.
  I32EnumAttrCase<"Geglu", 17, "geglu">,
  // sigmoid(first half) * second half.
  I32EnumAttrCase<"Glu", 18, "glu">,
  // qgelu(first half) * second half.
  I32EnumAttrCase<"Qgeglu", 19, "qgeglu">,
  // relu(first half) * second half.
  I32EnumAttrCase<"Reglu", 20, "reglu">,
  // srelu(first half) * second half.
  I32EnumAttrCase<"Sreglu", 21, "sreglu">,
  // a sigmoid(alpha a) * (clamp(second half, -limit, limit) + offset), where
  // a = min(first half, limit).
  I32EnumAttrCase<"ClampedSwiglu", 22, "clamped_swiglu">,
  // gelu_erf(first half) * second half.
  I32EnumAttrCase<"GegluErf", 23, "geglu_erf">
]>;
def TE_ActivationKindAttr
    : EnumAttr<TE_Dialect, TE_ActivationKind, "activation"> {
  let assemblyFormat = "`<` $value `>`";
}

// Values equal the `interleaved` parameter of the runtime's rope.
def TE_RopeStyle
    : TE_I32Enum<"RopeStyle", "the elements of a head that form a pair", [
  // An element of the first half and one of the second half.
  I32EnumAttrCase<"Half", 0, "half">,
  // Two neighbours.
  I32EnumAttrCase<"Interleaved", 1, "interleaved">
]>;
def TE_RopeStyleAttr : EnumAttr<TE_Dialect, TE_RopeStyle, "rope_style"> {
  let assemblyFormat = "`<` $value `>`";
}

// Values equal te_rt_amax_algorithm.
def TE_AmaxAlgorithm
    : TE_I32Enum<"AmaxAlgorithm", "the amax of a history that determines the scale", [
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
  // Per-tensor FP8. A scale is computed from the tensor's own amax.
  I32EnumAttrCase<"Float8CurrentScaling", 1, "float8_current_scaling">,
  // FP8 with one scale per 1x128 or 128x128 block.
  I32EnumAttrCase<"Float8BlockScaling", 2, "float8_block_scaling">,
  // Per-tensor FP8. A scale is computed from the amaxes of earlier steps.
  I32EnumAttrCase<"DelayedScaling", 3, "delayed_scaling">,
  // FP8 with one E8M0 scale per 1x32 or 32x32 block.
  I32EnumAttrCase<"MxFp8BlockScaling", 4, "mxfp8_block_scaling">,
  // FP4 with one E4M3 scale per 1x16 or 16x16 block and one amax per tensor.
  I32EnumAttrCase<"NvFp4BlockScaling", 5, "nvfp4_block_scaling">,
  // A recipe for each GEMM.
  I32EnumAttrCase<"Custom", 6, "custom">
]>;

def TE_TensorSelection
    : TE_I32Enum<"TensorSelection", "tensors of the forward", [
  I32EnumAttrCase<"None", 0, "none">,
  I32EnumAttrCase<"Weights", 1, "weights">,
  I32EnumAttrCase<"Activations", 2, "activations">,
  I32EnumAttrCase<"All", 3, "all">
]>;

// Values equal the `four_over_six` parameter of the runtime's quantize_nvfp4.
def TE_FourOverSix
    : TE_I32Enum<"FourOverSix", "the rule by which FP4 blocks map their amax to 4 or 6", [
  // The amax of every block maps to 6.
  I32EnumAttrCase<"Off", 0, "off">,
  // It maps to 4 or 6, whichever has the smaller sum of absolute errors.
  I32EnumAttrCase<"Mae", 1, "mae">,
  // It maps to 4 or 6, whichever has the smaller sum of squared errors.
  I32EnumAttrCase<"Mse", 2, "mse">
]>;
def TE_FourOverSixAttr : EnumAttr<TE_Dialect, TE_FourOverSix, "four_over_six"> {
  let assemblyFormat = "`<` $value `>`";
}

def TE_CastSource : TE_I32Enum<"CastSource", "the source of a column cast", [
  // The tensor itself.
  I32EnumAttrCase<"Original", 0, "original">,
  // The tensor's row cast, dequantised.
  I32EnumAttrCase<"RowwiseDequantized", 1, "rowwise_dequantized">
]>;

def TE_BackwardOverride
    : TE_I32Enum<"BackwardOverride", "precision of the backward GEMMs", [
  // The recipe determines the precision.
  I32EnumAttrCase<"None", 0, "none">,
  // Backward GEMMs read the original operands.
  I32EnumAttrCase<"HighPrecision", 1, "high_precision">,
  // Backward GEMMs read the dequantised operands of the forward.
  I32EnumAttrCase<"Dequantized", 2, "dequantized">
]>;

def TE_Fp8Format : TE_I32Enum<"Fp8Format", "FP8 element types by direction", [
  // E4M3 everywhere.
  I32EnumAttrCase<"E4M3", 0, "e4m3">,
  // E4M3 forward, E5M2 for gradients.
  I32EnumAttrCase<"Hybrid", 1, "hybrid">
]>;

// How a linear layer is split over the ranks of a group.
def TE_ParallelMode : TE_I32Enum<"ParallelMode", "the axis of the weight that is split", [
  // Each rank has rows of the weight, and computes columns of the result.
  I32EnumAttrCase<"Column", 0, "column">,
  // Each rank has columns of the weight and of the input; results are summed.
  I32EnumAttrCase<"Row", 1, "row">
]>;

#endif // TEDIALECT_IR_TEENUMS_TD
