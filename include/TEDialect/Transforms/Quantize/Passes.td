//===- Passes.td - casts and transposes as the recipe says ----------------===//

#ifndef TEDIALECT_TRANSFORMS_QUANTIZE_PASSES
#define TEDIALECT_TRANSFORMS_QUANTIZE_PASSES

include "mlir/Pass/PassBase.td"

def InsertCastsPass : Pass<"te-insert-casts", "func::FuncOp"> {
  let summary = "replace linear layers by casts and matrix products";
  let description = [{
    Rewrites `te.linear`, `te.linear_dgrad` and `te.linear_wgrad` into
    `te.quantize` + `te.scaled_matmul`, or `te.matmul`, as the recipe in force
    at each op says (`te.quantize_shard` of a gathered flat shard, and
    `te.grouped_quantize` + `te.grouped_scaled_matmul` of groups). Runs after `te-differentiate`, so that the backward's casts
    of forward tensors can be made in the forward and what is held is exactly
    what the backward override needs:

    | `backward_override` | dgrad | wgrad | held for x, w |
    |---|---|---|---|
    | `none` | row(dy), col(w) | col(dy), col(x) | col(x), col(w) |
    | `high_precision` | dy, w | dy, x | x, w |
    | `dequantized` | dy, dequantize(row(w)) | dy, dequantize(row(x)) | row(x), row(w) |

    ("row": made for axis 1; "col": for axis 0.) A GEMM whose sizes the
    quantised kernels do not take becomes `te.matmul` with a remark, or an
    error with `strict`. Casts are created at every use; `cse` merges them and
    `te-pair-cast-layouts` joins the two usages of one tensor. Each GEMM's
    location records what it came from, for `te-report-precision`.

    Where the `target` contracts 8-bit operands along any axis (sm_100), a
    per-tensor operand has no columns: products contract its rows' other axis
    (`contract` of te.scaled_matmul), and the rows are what is held. Left as they
    are: groups, rows of a size that no product can be stored by, and custom
    recipes whose casts of one tensor differ.

    Under `delayed_scaling` the scales are states of the step: each tensor that
    is cast adds the arguments `<layer>.<x|w|dy>.amax_history` and `....scale`
    behind the others, with `te.init`, and results of the same names, which a
    `te.delayed_scaling_update` at the end makes from the `te.amax` of the
    tensor. So a function that calls another, or asks for its derivative, is an
    error: the import and autodiff phases inline and differentiate both.

    With `calibrate` nothing is cast: every GEMM that would be quantised is a
    `te.matmul` of the tensors themselves. The states of `delayed_scaling` are
    there under the same names and move as they would have, so what a
    calibration leaves is what a quantised step starts from.

    ```mlir
    // #te.recipe<float8_block_scaling>: te.linear %x, %w becomes
    %xq = te.quantize %x : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 1>
    %wq = te.quantize %w : tensor<1024x512xbf16> -> !te.scaled<1024x512xf8E4M3FN, block_128x128, pow2, contract = 1>
    %y = te.scaled_matmul %xq, %wq fast_accumulation = false
      : !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 1>,
        !te.scaled<1024x512xf8E4M3FN, block_128x128, pow2, contract = 1> -> tensor<256x1024xbf16>
    ```
  }];
  let options = [
    Option<"strict", "strict", "bool", "false",
           "fail where a quantised recipe ends in a high-precision GEMM without an override">,
    Option<"calibrate", "calibrate", "bool", "false",
           "measure what would be cast, and compute in high precision">,
    Option<"target", "target", "std::string", "\"sm_90\"",
           "machine whose products are made: sm_90, sm_100 or reference">
  ];
  let dependentDialects = ["::mlir::te::TEDialect", "::mlir::arith::ArithDialect"];
  let statistics = [
    Statistic<"numQuantized", "num-quantized", "GEMMs on quantised operands">,
    Statistic<"numHighPrecision", "num-high-precision", "GEMMs left in high precision">,
    Statistic<"numCalibrated", "num-calibrated", "GEMMs whose operands are only measured">
  ];
}

def CastBeforeExchangePass
    : Pass<"te-cast-before-exchange", "func::FuncOp"> {
  let summary = "exchange casts of a tensor in place of the tensor";
  let description = [{
    A te.all_to_all of a tensor whose only readers are casts becomes the casts of
    what is sent, and an exchange of each, where that gives the same bits and
    moves fewer bytes. No bit changes:

    * Blocks of elements have to end with the rows that travel together: casts of
      rows always do, those of columns where the rows of each rank for one expert are
      a multiple of 128 (`block_1x128`), 32 or 16, square ones as well.
    * A scale or amax of the whole tensor, or of one group, is of rows of all ranks,
      which the sender does not have: such casts, and stochastic ones, whose random
      bits belong to a place, stay behind the exchange.
    * Rows between groups are zeros in a cast, so the sizes of the groups have to be
      a constant that leaves none.

    A row-wise cast to 8 bits is half the bytes of bf16, but a layer whose gradient
    of the weight reads a second, column-wise cast would have to exchange both,
    which together are more than the tensor. So it depends on what a backward reads:

    | step | x | dy |
    |---|---|---|
    | inference, or weights without gradients | casts | casts |
    | `backward_override = dequantized` | casts: the backward reads them, too | bf16 |
    | custom recipe with `x_col_source` (`grad_col_source`) `rowwise_dequantized` | casts | casts |
    | no override | bf16: both casts are read | bf16 |
    | `backward_override = high_precision` | bf16: it is read itself | bf16 |

    What is summed by token after the second exchange is read by no cast, and stays
    as it is. A remark names each exchange, what it was decided by, and the bytes of
    both ways. Runs after `te-insert-casts` and `cse`, which leave one cast of each
    kind.

    ```mlir
    // %y of te.all_to_all %x, read by te.quantize alone, becomes
    %xq = te.quantize %x : tensor<512x128xbf16> -> !te.scaled<512x128xf8E4M3FN, block_1x128, pow2, contract = 1>
    %yq = te.all_to_all %xq group 0 split 0 concat 1
      : !te.scaled<512x128xf8E4M3FN, block_1x128, pow2, contract = 1> -> !te.scaled<512x128xf8E4M3FN, block_1x128, pow2, contract = 1, groups = 4>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect", "::mlir::tensor::TensorDialect"];
  let statistics = [
    Statistic<"numMoved", "num-moved", "exchanges of casts">,
    Statistic<"bytesSaved", "bytes-saved", "bytes of a rank that are exchanged no more">
  ];
}

def PairCastLayoutsPass : Pass<"te-pair-cast-layouts", "func::FuncOp"> {
  let summary = "make both usages of a tensor in one cast";
  let description = [{
    `te.quantize` or `te.grouped_quantize` ops of one block with the same source,
    scale and format are usages of one tensor: they become one op with two results
    at the place of the first, which reads the source once. Runs after `cse`, which merges equal
    usages, and after `te-materialize-transposes`, which removes some.

    ```mlir
    %row, %col = te.quantize %x : tensor<256x512xbf16>
      -> !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 1>,
         !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 0>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numPairs", "num-pairs", "casts that now make two usages">
  ];
}

def ExposeCastsPass : Pass<"te-expose-casts", "func::FuncOp"> {
  let summary = "return the casts of the forward by name";
  let description = [{
    For looking at quantised values, and for `te-run --compare`: each forward
    product of a linear layer returns its operands as two more results of the
    function, `cast.<layer>.x` and `cast.<layer>.w`. Where layers share a name the
    second is `cast.<layer>.1`, and so on, in program order. No arithmetic
    changes; the values live until the end of the step.

    Runs after the casts are paired and before products are emulated or given
    swizzled scales, while each has its casts as operands. Calls were inlined
    before, so nobody calls the function.

    ```mlir
    // of a layer called "up"
    return %y, %xq, %wq : tensor<256x1024xbf16>,
      !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 1>,
      !te.scaled<1024x512xf8E4M3FN, block_128x128, pow2, contract = 1>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [Statistic<"numExposed", "num-exposed", "casts that became results">];
}

def InsertSkipFlagsPass : Pass<"te-insert-skip-flags", "func::FuncOp"> {
  let summary = "keep the casts of weights over micro-batches";
  let description = [{
    A step that runs once for each micro-batch needs the casts of its weights
    once. Every `te.quantize` and `te.quantize_shard` of a weight becomes a cached
    one: its usages are states of the step, the arguments and results `<weight>.row` and
    `<weight>.col`, and it casts unless the argument `skip_weight_update`
    (`tensor<f32>`, 0.0 where a run gives none) is exactly 1.0. The flag is read
    on the device, so one captured step serves the first micro-batch and all
    later ones, and no cast can be left out. A value that is computed from
    weights alone is cast as the first of them. What measures a weight, or each
    matrix of a stack, is skipped with it: under delayed scaling its amax is 0
    then, and its history and scale stay. States start as NaN, so a first step
    that skips shows.

    With `transposes`, te.transpose of a weight is kept in the same way, as
    `<weight>.col`; without, it is made anew in every step, and no memory holds
    it in between.

    ```mlir
    func.func @step(%x: tensor<256x512xbf16>, %w: tensor<1024x512xbf16> {te.name = "w", te.weight},
        %skip: tensor<f32> {te.init = 0.0 : f32, te.name = "skip_weight_update"},
        %cached: !te.scaled<1024x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.init = 0x7FC00000 : f32, te.name = "w.row"})
        -> !te.scaled<1024x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.name = "w.row"} {
      %wq = te.quantize %w into %cached unless %skip
        : tensor<1024x512xbf16> -> !te.scaled<1024x512xf8E4M3FN, block_128x128, pow2, contract = 1>
      return %wq : !te.scaled<1024x512xf8E4M3FN, block_128x128, pow2, contract = 1>
    }
    ```
  }];
  let options = [
    Option<"transposes", "transposes", "bool", "false",
           "keep transposes of weights too">
  ];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numCached", "num-cached", "Number of casts and transposes that are kept">
  ];
}

def EmulateProductsPass : Pass<"te-emulate-products", "func::FuncOp"> {
  let summary = "run products of MXFP8 and NVFP4 in high precision";
  let description = [{
    For targets without MXFP8 or NVFP4 products: each te.scaled_matmul of such
    operands becomes a te.matmul of what they dequantise to, in bf16, which
    holds every MXFP8 value of 2^-133 and more exactly, and every FP4 value times
    its block's scale; the amaxes of NVFP4 become the product's alpha. Where a
    bias meets an f32 result, or rows have their own amax, the product is one of
    f32 operands. Casts stay as they are, so
    only the order of the sum differs from the native product. The precision
    report says `emulated`.

    Runs after the casts are paired; leaves no product of mx or nv operands.

    ```mlir
    // %y = te.scaled_matmul %a, %b fast_accumulation = false : ...mx_1x32...
    %da = te.dequantize %a : !te.scaled<32x64xf8E4M3FN, mx_1x32, contract = 1> -> tensor<32x64xbf16>
    %db = te.dequantize %b : !te.scaled<96x64xf8E4M3FN, mx_1x32, contract = 1> -> tensor<96x64xbf16>
    %y = te.matmul %da, %db contract = [1, 1] : tensor<32x64xbf16>, tensor<96x64xbf16> -> tensor<32x96xbf16>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect", "::mlir::arith::ArithDialect"];
  let statistics = [Statistic<"numEmulated", "emulated", "Products emulated">];
}

def SwizzleScalesPass : Pass<"te-swizzle-scales", "func::FuncOp"> {
  let summary = "give products scales in the order of the tensor core";
  let description = [{
    For sm_100, whose tensor core reads the scales of MXFP8 and NVFP4 operands
    in tiles of 128 by 4: inserts a te.swizzle_scales for each such operand of a
    te.scaled_matmul, right before it.

    Runs last of the quantise phase; leaves no product of plain mx or nv values.

    ```mlir
    %s = te.swizzle_scales %a : !te.scaled<128x128xf8E4M3FN, mx_1x32, contract = 1> -> !te.scaled<128x128xf8E4M3FN, mx_1x32, swizzled, contract = 1>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [Statistic<"numSwizzled", "swizzled", "Operands swizzled">];
}

#endif // TEDIALECT_TRANSFORMS_QUANTIZE_PASSES
