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

    | option | recipes | default | meaning |
    |---|---|---|---|
    | `fp8_format` | delayed, current, block, mxfp8 | hybrid, hybrid, e4m3, e4m3 | element types of forward and gradients |
    | `pow2_scales` | current, block | false, true | scales rounded down to powers of two |
    | `amax_epsilon` | current, block | 0.0 | lower bound of amax in a scale |
    | `backward_override` | all quantised | none | precision of the backward GEMMs; delayed scaling takes only none |
    | `x_block_dim` `w_block_dim` `grad_block_dim` | block | 1, 2, 1 | 1: 1x128, 2: 128x128 blocks |
    | `split_fprop` `split_dgrad` `split_wgrad` | current, block | false, true, true; block true | full-precision accumulation of that GEMM |
    | `margin` | delayed | 0 | scales leave 2^margin of room |
    | `amax_history_len` | delayed | 1024 | steps a scale looks back at |
    | `amax_compute_algo` | delayed | max | `max` or `most_recent` of the history |
    | `w_2d` | mxfp8, nvfp4 | false, true | square blocks for weights |
    | `hadamard` | nvfp4 | true | the operands of wgrad are Hadamard transformed |
    | `stochastic_rounding` | nvfp4 | true | gradients are rounded stochastically |
    | `row_scaled_activation` | nvfp4 | false | one amax for each row of x; a backward needs an override |
    | `four_over_six` | nvfp4 | none | tensors whose blocks may scale to 4: `weights`, `activations`, `all` |
    | `four_over_six_scale_max_256` | nvfp4 | all | of those, the ones with block scales up to 256 |
    | `four_over_six_error` | nvfp4 | mae | `mae` or `mse` |
    | `fprop` `dgrad` `wgrad` | custom | high_precision | the recipe of that GEMM |
    | `x_col_source` `w_col_source` `grad_col_source` | custom | original | what the second cast of a tensor reads: `original` or `rowwise_dequantized` |

    A custom recipe so chooses format by role and direction: fprop reads the
    rows of x and w, dgrad the rows of dy and the columns of w, wgrad the columns
    of dy and x, and both operands of a GEMM follow one recipe. GEMMs of one
    delayed recipe, options included, share the states of a tensor.

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
    5. (recipe-c5) `backward_override` is one that the recipe, or every recipe of a custom one, takes ([what runs where](support.md)).
    6. (recipe-c6) `margin` is from -100 to 100, `amax_history_len` at least 1.
    7. (recipe-c7) `row_scaled_activation` needs no `hadamard` and no `stochastic_rounding`; `four_over_six` of activations needs no `hadamard`; `four_over_six_error` is not off.
    8. (recipe-c8) the recipes of a custom recipe's GEMMs are recipes, none custom or with an own override; only that of fprop has `row_scaled_activation`.
    9. (recipe-c9) what `delayed_scaling` casts for a second direction reads the original tensor.
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
    /// This recipe with another backward override; null, with an error, where
    /// the recipe does not take it.
    RecipeAttr withBackwardOverride(
        ::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError,
        BackwardOverride mode) const;
    BackwardOverride getBackwardOverride() const {
      return getOptions().backwardOverride;
    }
    bool isQuantized() const {
      return getKind() != RecipeKind::HighPrecision;
    }
    /// The recipe in force at `op`: the innermost `te.recipe` of the op and its
    /// ancestors, else `high_precision`.
    static RecipeAttr lookup(::mlir::Operation *op);
  }];
}

def TE_GroupAttr : AttrDef<TE_Dialect, "Group"> {
  let mnemonic = "group";
  let summary = "a group of ranks that work together";
  let description = [{
    An entry of `te.groups` of a module. Ops name the group by its `id`, the host
    program binds a communicator to that id, reports use `name`. `axis` is the
    axis of the mesh of ranks along which the group runs, `size` how many ranks
    it has. Ranks are numbered over the axes in the order in which they are
    first named, the last axis fastest.

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
    an equal part of `axis`, in the order of the ranks. Groups that split one
    axis do so in the order in which they are named. Types are those of the part.

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
    `column`: each rank has rows of `w` and makes columns of `y`. `row`: each
    rank has columns of `w` and of `x`, and `y` is the sum over the ranks. With
    `sequence` the side that all ranks share, `x` of `column` and `y` of `row`,
    is split along its rows. `te-insert-collectives` turns it into collectives.

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
