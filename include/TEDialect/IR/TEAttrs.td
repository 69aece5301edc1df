//===- TEAttrs.td - attributes of the te dialect --------------------------===//

#ifndef TEDIALECT_IR_TEATTRS_TD
#define TEDIALECT_IR_TEATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "TEDialect/IR/TEEnums.td"

def TE_RecipeAttr : AttrDef<TE_Dialect, "Recipe"> {
  let mnemonic = "recipe";
  let summary = "which tensors are quantised, and how";
  let description = [{
    The attribute `te.recipe` of a module, a function or an op. The innermost one
    applies. Only options that differ from the recipe's defaults need to be
    written.

    | option | recipes | default | meaning |
    |---|---|---|---|
    | `fp8_format` | delayed, current, block, mxfp8 | hybrid, hybrid, e4m3, e4m3 | element types of forward and gradients |
    | `pow2_scales` | current, block | false, true | scales rounded down to powers of two |
    | `amax_epsilon` | current, block | 0.0 | lower bound of amax in a scale |
    | `backward_override` | all quantised | none | precision of the backward GEMMs; delayed scaling allows only none |
    | `x_block_dim` `w_block_dim` `grad_block_dim` | block | 1, 2, 1 | 1: 1x128, 2: 128x128 blocks |
    | `split_fprop` `split_dgrad` `split_wgrad` | current, block | false, true, true; block true | accumulation of that GEMM in full f32 precision |
    | `margin` | delayed | 0 | scales are divided by 2^margin |
    | `amax_history_len` | delayed | 1024 | number of steps whose amaxes determine a scale |
    | `amax_compute_algo` | delayed | max | `max` or `most_recent` of the history |
    | `w_2d` | mxfp8, nvfp4 | false, true | square blocks for weights |
    | `hadamard` | nvfp4 | true | Hadamard transform of the operands of wgrad |
    | `stochastic_rounding` | nvfp4 | true | gradients are rounded stochastically |
    | `row_scaled_activation` | nvfp4 | false | one amax for each row of x; a backward needs a `backward_override` |
    | `four_over_six` | nvfp4 | none | tensors whose blocks may map their amax to 4: `weights`, `activations`, `all` |
    | `four_over_six_scale_max_256` | nvfp4 | all | those of these tensors whose largest block scale is 256 |
    | `four_over_six_error` | nvfp4 | mae | error that a block minimises: `mae` or `mse` |
    | `fprop` `dgrad` `wgrad` | custom | high_precision | the recipe of that GEMM |
    | `x_col_source` `w_col_source` `grad_col_source` | custom | original | what the second cast of a tensor reads: `original` or `rowwise_dequantized` |

    A custom recipe chooses the recipe of each GEMM, which both of its operands
    follow. fprop reads the row casts of x and w, dgrad the row cast of dy and the
    column cast of w, and wgrad the column casts of dy and x. GEMMs that follow
    one delayed recipe with the same options share the states of a tensor.

    Example:

    ```mlir
    #te.recipe<float8_block_scaling>
    #te.recipe<float8_current_scaling, {backward_override = dequantized, pow2_scales = true}>
    #te.recipe<nvfp4_block_scaling, {stochastic_rounding = false}>
    #te.recipe<custom, {fprop = #te.recipe<mxfp8_block_scaling>, x_col_source = rowwise_dequantized}>
    ```

    Constraints:
    1. (recipe-c1) every option belongs to the recipe as the table says; `high_precision` takes none.
    2. (recipe-c2) block dimensions are 1 or 2, and no GEMM may have two 128x128 operands.
    3. (recipe-c3) `float8_block_scaling` accumulates split in every GEMM.
    4. (recipe-c4) `amax_epsilon` is finite and not negative.
    5. (recipe-c5) `backward_override` is one that the recipe, or every recipe of a custom one, supports ([what runs where](support.md)).
    6. (recipe-c6) `margin` is from -100 to 100, and `amax_history_len` is at least 1.
    7. (recipe-c7) `row_scaled_activation` excludes `hadamard` and `stochastic_rounding`; `four_over_six` of activations excludes `hadamard`; `four_over_six_error` is not off.
    8. (recipe-c8) the recipes of a custom recipe's GEMMs are not custom and have no `backward_override`; only that of fprop may have `row_scaled_activation`.
    9. (recipe-c9) the second cast of a tensor by `delayed_scaling` reads the original tensor; if dgrad is quantised and wgrad is not, wgrad reads the original gradient.
  }];
  let parameters = (ins
    "::mlir::te::RecipeKind":$kind,
    "::mlir::te::RecipeOptions":$options);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The recipe with every option at its default.
    static RecipeAttr getDefault(::mlir::MLIRContext *context,
                                 RecipeKind kind);
    /// This recipe with another backward override; null, with an error, if the
    /// recipe does not support it.
    RecipeAttr withBackwardOverride(
        ::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError,
        BackwardOverride mode) const;
    BackwardOverride getBackwardOverride() const {
      return getOptions().backwardOverride;
    }
    bool isQuantized() const {
      return getKind() != RecipeKind::HighPrecision;
    }
    /// The recipe that applies to `op`: the innermost `te.recipe` of the op and
    /// its ancestors, else `high_precision`.
    static RecipeAttr lookup(::mlir::Operation *op);
  }];
}

def TE_GroupAttr : AttrDef<TE_Dialect, "Group"> {
  let mnemonic = "group";
  let summary = "a group of ranks that run collectives together";
  let description = [{
    An entry of the module attribute `te.groups`. Ops refer to the group by its
    `id`, to which the host program binds a communicator. Reports use `name`.
    `axis` is the axis of the mesh of ranks along which the group extends, and
    `size` is its number of ranks. The axes of the mesh are in the order in which
    they are first named, and the number of a rank changes fastest along the
    last axis.

    Example:

    ```mlir
    #te.group<id = 0, name = "tp", axis = "tp", size = 4>
    ```

    Constraints:
    1. (group-c1) `id` is not negative, `size` is from 1 to 2^20.
    2. (group-c2) `name` and `axis` are not empty.
  }];
  let parameters = (ins "int64_t":$id, StringRefParameter<"for reports">:$name,
                        StringRefParameter<"of the mesh">:$axis,
                        "int64_t":$size);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def TE_ShardAttr : AttrDef<TE_Dialect, "Shard"> {
  let mnemonic = "shard";
  let summary = "an axis that is split over a group";
  let description = [{
    An entry of `te.sharding` of an argument or result: each rank of `group` has
    an equal part of `axis`, in the order of the ranks. If several groups split
    one axis, they split it in the order in which they are named. The type of the
    argument or result is that of the part.

    Example:

    ```mlir
    #te.shard<axis = 0, group = 0>
    ```

    Constraints:
    1. (shard-c1) `axis` and `group` are not negative.
  }];
  let parameters = (ins "int64_t":$axis, "int64_t":$group);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def TE_ParallelAttr : AttrDef<TE_Dialect, "Parallel"> {
  let mnemonic = "parallel";
  let summary = "how a linear layer is split over a group";
  let description = [{
    With `column`, each rank has rows of `w` and computes columns of `y`. With
    `row`, each rank has columns of `w` and of `x`, and `y` is the sum over the
    ranks. With `sequence`, the tensor that is otherwise equal on all ranks (`x`
    of `column`, `y` of `row`) is split along its rows. `te-insert-collectives`
    replaces the attribute with collectives.

    Example:

    ```mlir
    #te.parallel<column, group = 0, sequence>
    #te.parallel<row, group = 0>
    ```
  }];
  let parameters = (ins EnumParameter<TE_ParallelMode>:$mode, "int64_t":$group,
                        "bool":$sequence);
  let assemblyFormat =
      "`<` $mode `,` `group` `=` $group `` custom<Sequence>($sequence) `>`";
  let extraClassDeclaration = [{
    bool isColumn() const { return getMode() == ParallelMode::Column; }
    bool isRow() const { return getMode() == ParallelMode::Row; }
  }];
}

#endif // TEDIALECT_IR_TEATTRS_TD
