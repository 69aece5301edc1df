//===- Passes.td - what a step saves, and where it adds gradients up ------===//

#ifndef TEDIALECT_TRANSFORMS_RESIDUALS_PASSES
#define TEDIALECT_TRANSFORMS_RESIDUALS_PASSES

include "mlir/Pass/PassBase.td"

def AccumulateMainGradsPass
    : Pass<"te-accumulate-main-grads", "func::FuncOp"> {
  let summary = "add gradients of weights to f32 states, over micro-batches";
  let description = [{
    A result `grad.<weight>`, of an argument with `te.weight`, becomes a state in
    f32 of that name, as an argument too, to which the step adds its gradient:

    * Where the argument `skip_weight_update` (`tensor<f32>`, 0.0 where a run
      gives none) is exactly 1.0, what the state held is added to; anything else
      overwrites it. The flag is that of the cached casts, read on the device, so
      a step captured once serves the first micro-batch and all later ones, and
      both do the same of every op. A caller for whom every micro-batch adds
      gives 1.0, and a state of zeros at first.
    * A wgrad, of one matrix or of groups, adds in its product, which then is f32
      and is never rounded to the type of the weight. Gradients that `arith.addf`
      adds up, of several uses of a weight or several `te.vjp`s of a step, are
      added to the state one after another.
    * Any other gradient (of an embedding, or a norm) is widened and added.
    * The gradient of a weight with `te.overwrite_main_grad` is written in every
      micro-batch, whatever the flag says, and neither starts from zeros nor
      reads what the state held.

    Overwriting is a te.zero_unless before the first addition; a sum of -0 alone
    becomes +0. The products of groups take its flag themselves: a first
    micro-batch neither writes zeros nor reads what the state held. For other
    products it is one launch, which returns at once in later micro-batches, and
    in the first one costs writing zeros and reading them again: libraries take no
    `beta` that the device decides beside scales that the host does not know.

    A program without such a result is an error, as is one whose `grad.<weight>`
    has another shape than the weight, or whose product makes the gradient of an
    argument that is not marked `te.weight`. Runs before `te-insert-casts`, after which
    the product of a gradient may be several ops.

    ```mlir
    // of te.linear_wgrad %dy, %x : ... -> tensor<1024x512xbf16>
    %sum = te.zero_unless %state, %skip : tensor<1024x512xf32>
    %dw = te.linear_wgrad %dy, %x accumulate %sum : tensor<1024x512xf32>
      : tensor<256x1024xbf16>, tensor<256x512xbf16> -> tensor<1024x512xf32>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect", "::mlir::arith::ArithDialect"];
  let statistics = [
    Statistic<"numInProducts", "num-in-products", "gradients added by their product">,
    Statistic<"numAdded", "num-added", "gradients added by an addition">
  ];
}

def MaterializeTransposesPass
    : Pass<"te-materialize-transposes", "func::FuncOp"> {
  let summary = "decide when the second usage of a weight is made";
  let description = [{
    A weight's column usage (contracted by dgrad) can be derived from its row
    usage bit for bit when its scheme is per-tensor or 128x128, and others that
    [the support table](support.md) names. A column cast with a row cast beside
    it becomes what `policy` says; results are the same to the last bit:

    | `policy` | columns are made | held | bytes moved for `n` uses of `b` bytes |
    |---|---|---|---|
    | `on-demand` | by a `te.transpose` right before each use | during the use | `2 n b` |
    | `cached` | by a `te.transpose` before the first use | until the last use | `2 b` |
    | `eager` | by the cast of the forward | from there to the last use | `b` |
    | `budget` | any of these, by gap between uses | as long as it fits | what the choice comes to |

    A step of one micro-batch uses a weight's columns once; one of several
    (more than one `te.vjp` over the same weights, whose casts `cse` merges)
    once for each. `budget` has one limit, `transpose-budget`, for all that is
    held for a backward: residuals and columns. The step holds its residuals
    first, as far as they fit: `te-rematerialize` runs with the same limit, and
    gives up what is above it. What is left is for columns: they are kept over
    gaps where all together never take more, those first that save most bytes
    moved for each byte held and op it is held. That is a rule and no search: a
    column costs two bytes moved for each of its own, and most values that an op
    makes again cost more, but where a small residual stands in the way of a
    large column, giving it up could move less. Remarks say what was left, and
    what became of each weight.

    Activations always have both usages cast at once. Runs between
    `te-insert-casts` + `cse` and `te-pair-cast-layouts`; no later `cse` may
    run, which would merge the transposes again.

    A weight is a function argument marked `te.weight`, also through precision
    casts. Storage of a usage is contiguous along its contraction axis, on every
    target; where one reads 8-bit operands in any layout, `te-insert-casts` made
    no per-tensor columns.

    ```mlir
    // on-demand: the backward part of a layer
    %held = te.residual %row "w1" : !te.scaled<1024x512xf8E4M3FN, block_128x128, pow2, contract = 1>
    %col = te.transpose %held : !te.scaled<1024x512xf8E4M3FN, block_128x128, pow2, contract = 1>
      -> !te.scaled<1024x512xf8E4M3FN, block_128x128, pow2, contract = 0>
    ```
  }];
  let options = [
    Option<"policy", "policy", "std::string", "\"on-demand\"",
           "on-demand, cached, budget or eager">,
    Option<"transposeBudget", "transpose-budget", "int64_t", "-1",
           "most bytes held by residuals and columns of weights, with policy budget">,
    Option<"target", "target", "std::string", "\"sm_90\"",
           "sm_90, sm_100 or reference">
  ];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numTransposes", "num-transposes", "transposes made">
  ];
}

def RematerializePass : Pass<"te-rematerialize", "ModuleOp"> {
  let summary = "compute forward values again instead of holding them";
  let description = [{
    A value that a `te.residual` holds is given up where the policy says so: the
    ops it comes from are repeated, each right before its first reader in the
    backward, from values that are held or always there. Repeated ops read
    function arguments and held values through a `te.residual`, so that `cse`
    cannot merge them with the ops they repeat, and scalars as they are: a cast
    that is repeated has the scale, the amax, the random state and the stream of
    the first one and records no amax again. No policy changes a bit of any
    result.

    | `policy` | recomputed |
    |---|---|
    | `nothing` | nothing |
    | `everything` | all but arguments and layer inputs, matrix products too |
    | `ops:<name>,...` | what ops of these mnemonics, or layers of these names, make |
    | `budget:<bytes>` | what frees the most bytes for its cost, until at most `<bytes>` are held; an error where `everything` holds more |

    A layer input is a value that is alone alive at some point of the forward
    and that two ops read, as the input of a residual block is. `linear` names
    the matrix products of the forward with the casts they read; a layer has the
    name that the precision report gives it, or its mnemonic and number as in
    the names of residuals. Casts are repeated with what they cast. The cost of
    an op is the bytes it moves, and a byte for every 256 operations of a matrix
    product. An op is held, and a remark says so, where its operands would take
    as many bytes. A name that nothing has is an error.

    Runs after `te-materialize-transposes`, when what is held is final, and
    before `te-pair-cast-layouts`, so that a cast whose columns only the backward
    reads makes each usage where it is read. Leaves its decisions in
    `tert.remat`, for the memory report.

    ```mlir
    // policy = "ops:rms_norm": instead of a residual of %n
    %n = te.rms_norm %x, %gamma : tensor<256x512xbf16>, tensor<512xbf16>
    %x_held = te.residual %x "x" : tensor<256x512xbf16>
    %gamma_held = te.residual %gamma "gamma" : tensor<512xbf16>
    %again = te.rms_norm %x_held, %gamma_held : tensor<256x512xbf16>, tensor<512xbf16>
    ```
  }];
  let options = [
    Option<"policy", "policy", "std::string", "\"nothing\"",
           "nothing, everything, ops:<names> or budget:<bytes>">
  ];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numGivenUp", "num-given-up", "ops whose results are held no more">,
    Statistic<"numRepeated", "num-repeated", "ops repeated in the backward">
  ];
}

#endif // TEDIALECT_TRANSFORMS_RESIDUALS_PASSES
