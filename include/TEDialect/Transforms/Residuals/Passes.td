//===- Passes.td - what a step saves, and where it sums gradients ---------===//

#ifndef TEDIALECT_TRANSFORMS_RESIDUALS_PASSES
#define TEDIALECT_TRANSFORMS_RESIDUALS_PASSES

include "mlir/Pass/PassBase.td"

def AccumulateMainGradsPass
    : Pass<"te-accumulate-main-grads", "func::FuncOp"> {
  let summary = "accumulate gradients of weights in f32 states over micro-batches";
  let description = [{
    A result `grad.<weight>` of an argument with `te.weight` becomes an f32
    state (an argument and a result) of that name, to which the step adds its
    gradient:

    * If the argument `skip_weight_update` (`tensor<f32>`, 0.0 if it is not
      given) is exactly 1.0, the gradient is added to the value of the state;
      otherwise, it overwrites the state. The cached casts use the same flag. It
      is read on the device, so one captured step serves the first micro-batch
      and all later ones. A caller that adds in every micro-batch passes 1.0,
      and a state of zeros at first.
    * A wgrad, of one matrix or of groups, adds in the epilogue of its GEMM,
      whose result is then f32 and never rounded to the type of the weight. If
      `arith.addf` sums several gradients, because a weight has several uses or
      a step several `te.vjp`s, they are added to the state one after another.
    * The gradient of a table is added to the rows of tokens, after each sum of rows
      was rounded to the type of the table. Other rows are not touched.
    * Any other gradient (of a norm) is widened and added.
    * The gradient of a weight with `te.overwrite_main_grad` is written in every
      micro-batch, regardless of the flag. The old value of the state is not
      read, and no zeros are written first.

    Updates (te.adamw, te.sgd) and te.sum_of_squares that read the gradient which
    the step returns read the sum instead. An update of the weight by another
    value is an error, because it would be the gradient of one micro-batch.

    To overwrite, the pass inserts a te.zero_unless before the first addition; a
    sum of nothing but -0 becomes +0. A grouped GEMM takes the flag itself: in
    the first micro-batch it neither writes zeros nor reads the old value. For
    other GEMMs, te.zero_unless is one launch. It returns at once in later
    micro-batches; in the first one, zeros are written and read again, because
    libraries do not support a `beta` in device memory together with scales that
    the host does not know.

    A program without such a result is an error. It is also an error if
    `grad.<weight>` does not have the shape of the weight, or if a GEMM computes
    the gradient of an argument that is not marked `te.weight`. The pass runs
    before `te-insert-casts`, which may replace the GEMM of a gradient with
    several ops.

    ```mlir
    // of te.linear_wgrad %dy, %x : ... -> tensor<1024x512xbf16>
    %sum = te.zero_unless %state, %skip : tensor<1024x512xf32>
    %dw = te.linear_wgrad %dy, %x accumulate %sum : tensor<1024x512xf32>
      : tensor<256x1024xbf16>, tensor<256x512xbf16> -> tensor<1024x512xf32>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect", "::mlir::arith::ArithDialect"];
  let statistics = [
    Statistic<"numInProducts", "num-in-products", "gradients added by the op that makes them">,
    Statistic<"numAdded", "num-added", "gradients added by an addition">,
    Statistic<"numUpdates", "num-updates", "updates and norms that read the sum">
  ];
}

def ChunkRowsPass : Pass<"te-chunk-rows", "func::FuncOp"> {
  let summary = "compute what reduces the rows of logits over a few rows at a time";
  let description = [{
    The logits of a `te.linear` are a matrix. If the program only computes numbers
    for each of its rows (a log probability, an entropy, `logsumexp`), and the
    gradients of the layer by rows, the pass copies these ops for every
    chunk of as many rows as fit into `budget` bytes of logits. Chunks follow one another,
    so that neither the logits nor their gradient are ever stored as a whole. It does
    so if all logits have more bytes than `budget`.

    Between the layer and the reductions, there may be elementwise ops, softmax,
    reshapes that keep the columns, slices and concatenations of columns, constants, and
    values that are broadcast from numbers for rows or columns. Reductions are
    `linalg.reduce` over the columns.

    Ops that need numbers of all rows, such as a mean over tokens, end a stage. What
    reads their results is a later stage, and so is the backward. Each stage computes
    its logits again, from the input of the layer, which is saved. Numbers for rows
    that an earlier stage computed are read, and not computed again.

    Each row has the bits that it has without the pass in high precision, and with
    scales of blocks. The gradient of the weight, and that of the bias, is the sum
    of those of the chunks in f32, or in the state of `main-grad`. Each chunk is cast by
    itself: under current scaling, and with NVFP4, its scales come from its own amax, and
    under delayed scaling the gradient of the logits of each chunk has a state.

    The pass declines, with a remark, if another op reads the logits: a result of the
    program, `te.cross_entropy` (see `te-chunk-logits`), or a layer that is split over
    ranks. It runs before `te-insert-casts`, while each GEMM is one op, and after
    `te-accumulate-main-grads`. It can be skipped.

    ```mlir
    %x0 = tensor.extract_slice %x[0, 0] [1024, 512] [1, 1] : tensor<2048x512xbf16> to tensor<1024x512xbf16>
    %logits0 = te.linear %x0, %w : tensor<1024x512xbf16>, tensor<128000x512xbf16> -> tensor<1024x128000xbf16>
    %max0 = linalg.reduce ins(%logits0 : ...) outs(%low : tensor<1024xbf16>) dimensions = [1] ...
    %max = tensor.concat dim(0) %max0, %max1 : (tensor<1024xbf16>, tensor<1024xbf16>) -> tensor<2048xbf16>
    ```
  }];
  let options = [
    Option<"budget", "budget", "int64_t", "268435456",
           "The most bytes of logits at a time, if 128 rows fit; 0 stores all of them">
  ];
  let dependentDialects = ["::mlir::te::TEDialect", "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"];
  let statistics = [
    Statistic<"numChunked", "num-chunked", "layers computed over a few rows at a time">
  ];
}

def MaterializeTransposesPass
    : Pass<"te-materialize-transposes", "func::FuncOp"> {
  let summary = "decide when the column usage of a weight is computed";
  let description = [{
    A weight's column usage, which dgrad contracts, can be computed from its row
    usage bit for bit if its scheme is per-tensor, 128x128, or another one that
    [the support table](support.md) names. If a column cast has a row cast
    beside it, `policy` decides how the columns are computed. The results have
    the same bits with every policy:

    | `policy` | columns are computed | in memory | bytes moved for `n` uses of `b` bytes |
    |---|---|---|---|
    | `on-demand` | by a `te.transpose` right before each use | during the use | `2 n b` |
    | `cached` | by a `te.transpose` before the first use | until the last use | `2 b` |
    | `eager` | by the cast of the forward | from there to the last use | `b` |
    | `budget` | in any of these ways, for each gap between uses | as long as they fit | depends on the choice |

    Columns with one use whose rows have none after the forward replace the rows
    in what is saved. Keeping them takes no memory, so `on-demand` and `budget`
    leave them to the cast of the forward, too. With `rows-are-kept` they do not:
    the rows then stay in memory in any case, as with `te-insert-skip-flags`.

    A step of one micro-batch uses a weight's columns once. A step of several
    (more than one `te.vjp` over the same weights, whose casts `cse` merges)
    uses them once for each.

    `budget` has one limit, `transpose-budget`, for all memory that is saved for
    a backward: residuals and columns. Residuals come first: `te-rematerialize`
    runs with the same limit and recomputes residuals that do not fit. Columns
    use the rest: they are kept over gaps if all of them together never exceed
    it. The columns that save most bytes moved, for each byte of memory and each
    op that they are kept over, come first. This is a rule and not a search. A
    column costs two bytes moved for each of its own, and most values that are
    recomputed cost more. But if a small residual leaves no room for a large
    column, recomputing the residual could move fewer bytes. Remarks say how
    much memory was left, and what was decided for each weight.

    Both usages of an activation are always cast at once. The pass runs after
    `te-insert-casts` and `cse`, and before `te-pair-cast-layouts`. No `cse` may
    run later, because it would merge the transposes again.

    A weight is a function argument marked `te.weight`, or a precision cast of
    one. A usage is stored contiguously along its contraction axis on every
    target; for targets that read 8-bit operands in any layout,
    `te-insert-casts` creates no per-tensor columns.

    ```mlir
    // on-demand: the backward part of a layer
    %saved = te.residual %row "w1" : !te.scaled<1024x512xf8E4M3FN, block_128x128, pow2, contract = 1>
    %col = te.transpose %saved : !te.scaled<1024x512xf8E4M3FN, block_128x128, pow2, contract = 1>
      -> !te.scaled<1024x512xf8E4M3FN, block_128x128, pow2, contract = 0>
    ```
  }];
  let options = [
    Option<"policy", "policy", "std::string", "\"on-demand\"",
           "on-demand, cached, budget or eager">,
    Option<"transposeBudget", "transpose-budget", "int64_t", "-1",
           "most bytes saved in residuals and columns of weights, with policy budget">,
    Option<"rowsAreKept", "rows-are-kept", "bool", "false",
           "casts of weights stay in memory from step to step">,
    Option<"target", "target", "std::string", "\"sm_90\"",
           "sm_90, sm_100 or reference">
  ];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numTransposes", "num-transposes", "transposes created">
  ];
}

def RematerializePass : Pass<"te-rematerialize", "ModuleOp"> {
  let summary = "recompute forward values instead of saving them";
  let description = [{
    If the policy says so, a value that a `te.residual` saves is recomputed
    instead: the ops that compute it are repeated, each directly before its
    first reader in the backward, from values that are saved or always
    available. Repeated ops read function arguments and saved values through a
    `te.residual`, so that `cse` cannot merge them with the original ops. They
    read scalars directly: a cast that is repeated has the scale, the amax, the
    random state and the stream of the original cast, and does not record an
    amax again. No policy changes a bit of any result.

    | `policy` | recomputed |
    |---|---|
    | `nothing` | nothing |
    | `everything` | everything except arguments and layer inputs; GEMMs too |
    | `ops:<name>,...` | the results of ops with these mnemonics and of layers with these names |
    | `budget:<bytes>` | the values that free the most bytes for their cost, until at most `<bytes>` are saved; an error if `everything` saves more |

    A layer input is a value that at some point of the forward is the only one
    alive and that two ops read, such as the input of a residual block. `linear`
    names the GEMMs of the forward with the casts they read. A layer has the
    name that the precision report gives it, or its mnemonic and number as in
    the names of residuals. A cast is repeated together with the op whose result
    it casts. The cost of an op is the bytes it moves, plus one byte for every
    256 operations of a GEMM. The results of an op are saved, and a remark says
    so, if its operands would take as many bytes. A name without an op or a
    layer is an error.

    The pass runs after `te-materialize-transposes`, which decides what is
    saved, and before `te-pair-cast-layouts`, so that if only the backward reads
    the columns of a cast, each usage is computed where it is read. It records
    its decisions in `tert.remat`, for the memory report.

    ```mlir
    // policy = "ops:rms_norm": the backward recomputes %n instead of reading a residual
    %n = te.rms_norm %x, %gamma : tensor<256x512xbf16>, tensor<512xbf16>
    %x_saved = te.residual %x "x" : tensor<256x512xbf16>
    %gamma_saved = te.residual %gamma "gamma" : tensor<512xbf16>
    %again = te.rms_norm %x_saved, %gamma_saved : tensor<256x512xbf16>, tensor<512xbf16>
    ```
  }];
  let options = [
    Option<"policy", "policy", "std::string", "\"nothing\"",
           "nothing, everything, ops:<names> or budget:<bytes>">
  ];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numGivenUp", "num-given-up", "ops whose results are no longer saved">,
    Statistic<"numRepeated", "num-repeated", "ops repeated in the backward">
  ];
}

#endif // TEDIALECT_TRANSFORMS_RESIDUALS_PASSES
