//===- TEAttrs.td - attributes of the te dialect --------------------------===//

#ifndef TEDIALECT_IR_TEATTRS_TD
#define TEDIALECT_IR_TEATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "TEDialect/IR/TEEnums.td"

def TE_RecipeAttr : AttrDef<TE_Dialect, "Recipe"> {
  let mnemonic = "recipe";
  let summary = "which tensors are quantised, and how";
  let description = [{
    Set as `te.recipe` on a module, a function or an op; the innermost wins.
    Only options that differ from the recipe's defaults need be written.

    | option | current | block | meaning |
    |---|---|---|---|
    | `fp8_format` | hybrid | e4m3 | element types of forward and gradients |
    | `pow2_scales` | false | true | scales rounded down to powers of two |
    | `amax_epsilon` | 0.0 | 0.0 | lower bound of amax in a scale |
    | `backward_override` | none | none | precision of the backward GEMMs |
    | `x_block_dim` `w_block_dim` `grad_block_dim` | - | 1, 2, 1 | 1: 1x128, 2: 128x128 blocks |
    | `split_fprop` `split_dgrad` `split_wgrad` | false, true, true | true | full-precision accumulation of that GEMM |

    Example:

    ```mlir
    #te.recipe<float8_block_scaling>
    #te.recipe<float8_current_scaling, {backward_override = dequantized, pow2_scales = true}>
    ```

    Constraints:
    1. (recipe-c1) `high_precision` takes no option but `backward_override = none`.
    2. (recipe-c2) block dimensions are 1 or 2, only for `float8_block_scaling`, and no GEMM may have two 128x128 operands.
    3. (recipe-c3) `float8_block_scaling` accumulates split in every GEMM.
    4. (recipe-c4) `amax_epsilon` is finite and not negative.
  }];
  let parameters = (ins
    "::mlir::te::RecipeKind":$kind,
    "::mlir::te::Fp8Format":$fp8Format,
    "bool":$pow2Scales,
    "uint32_t":$amaxEpsilonBits,
    "::mlir::te::BackwardOverride":$backwardOverride,
    "unsigned":$xBlockDim,
    "unsigned":$wBlockDim,
    "unsigned":$gradBlockDim,
    "bool":$splitFprop,
    "bool":$splitDgrad,
    "bool":$splitWgrad);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The recipe with every option at its default.
    static RecipeAttr getDefault(::mlir::MLIRContext *context,
                                 RecipeKind kind);
    /// This recipe with another backward override.
    RecipeAttr withBackwardOverride(BackwardOverride mode) const;
    /// Attribute parameters must hash, so the float is kept as its bits.
    float getAmaxEpsilon() const {
      return ::llvm::bit_cast<float>(getAmaxEpsilonBits());
    }
    bool isQuantized() const {
      return getKind() != RecipeKind::HighPrecision;
    }
    /// The recipe in force at `op`: the innermost `te.recipe` of the op and its
    /// ancestors, else `high_precision`.
    static RecipeAttr lookup(::mlir::Operation *op);
  }];
}

#endif // TEDIALECT_IR_TEATTRS_TD
