//===- Passes.td - casts and transposes as the recipe says ----------------===//

#ifndef TEDIALECT_TRANSFORMS_QUANTIZE_PASSES
#define TEDIALECT_TRANSFORMS_QUANTIZE_PASSES

include "mlir/Pass/PassBase.td"

def InsertCastsPass : Pass<"te-insert-casts", "func::FuncOp"> {
  let summary = "replace linear layers with casts and GEMMs";
  let description = [{
    Rewrites `te.linear`, `te.linear_dgrad` and `te.linear_wgrad` into
    `te.quantize` + `te.scaled_matmul`, or into `te.matmul`, as the recipe in
    force at each op requires. A gathered flat shard is cast by
    `te.quantize_shard`; layers of groups become `te.grouped_quantize` +
    `te.grouped_scaled_matmul`. The pass runs after `te-differentiate`, so that
    the backward's casts of forward tensors can run in the forward, and so
    that exactly what the backward override needs is saved:

    | `backward_override` | dgrad | wgrad | saved of x, w |
    |---|---|---|---|
    | `none` | row(dy), col(w) | col(dy), col(x) | col(x), col(w) |
    | `high_precision` | dy, w | dy, x | x, w |
    | `dequantized` | dy, dequantize(row(w)) | dy, dequantize(row(x)) | row(x), row(w) |

    "row" is a cast for axis 1 and "col" a cast for axis 0. If the quantised
    kernels need multiples of other sizes, the casts are those of the tensors
    with zeros at their ends (`tensor.concat`), and the result is cut
    (`tensor.extract_slice`). If they do not support the types of a GEMM, it
    becomes `te.matmul` with a remark, or an error with `strict`. A cast is created at every use; `cse`
    merges equal casts and `te-pair-cast-layouts` joins the two usages of one
    tensor. The location of each GEMM records the layer that it came from, for
    `te-report-precision`.

    If the `target` contracts 8-bit operands along any axis (sm_100), a
    per-tensor operand has no column usage: GEMMs contract the other axis of the
    row usage (`contract` of te.scaled_matmul), and the row usage is what is
    saved. This does not apply to groups, to tensors whose rows have a size that
    such a GEMM does not support, and to custom recipes whose casts of one
    tensor differ.

    Under `delayed_scaling` the scales are states of the step. For each tensor
    that is cast, the pass appends the arguments `<layer>.<x|w|dy>.amax_history`
    and `<layer>.<x|w|dy>.scale`, with `te.init`, and results of the same names,
    which a `te.delayed_scaling_update` at the end computes from the `te.amax`
    of the tensor. A function that calls another one, or that asks for its
    derivative, is therefore an error: the import phase inlines calls, and the
    autodiff phase expands derivatives.

    With `calibrate` nothing is cast: every GEMM that would be quantised becomes
    a `te.matmul` of the tensors themselves. The states of `delayed_scaling`
    have the same names and are updated in the same way, so that a quantised
    step can start from the states that a calibration returns.

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
           "fail if a quantised recipe results in a high-precision GEMM without an override">,
    Option<"calibrate", "calibrate", "bool", "false",
           "measure the tensors that would be cast, and compute in high precision">,
    Option<"target", "target", "std::string", "\"sm_90\"",
           "machine to choose GEMMs for: sm_90, sm_100 or reference">
  ];
  let dependentDialects = ["::mlir::te::TEDialect", "::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
  let statistics = [
    Statistic<"numQuantized", "num-quantized", "GEMMs on quantised operands">,
    Statistic<"numHighPrecision", "num-high-precision", "GEMMs left in high precision">,
    Statistic<"numCalibrated", "num-calibrated", "GEMMs whose operands are only measured">
  ];
}

def CastBeforeExchangePass
    : Pass<"te-cast-before-exchange", "func::FuncOp"> {
  let summary = "exchange casts of a tensor instead of the tensor";
  let description = [{
    If all readers of a te.all_to_all are casts, the pass casts the tensor
    before the exchange and exchanges each cast, if that gives the same bits and
    moves fewer bytes. The same bits require the following:

    * Blocks end with the rows that travel together. This is always so for casts
      of rows. For casts of columns, the rows of each rank for one expert must
      be a multiple of 128 (`block_1x128`) or 32 or 16, as for square blocks.
    * A scale or amax of the whole tensor or of one group covers rows of all
      ranks, which the sender does not have. Such casts stay after the exchange,
      and so do stochastic casts, whose random bits depend on the position of an
      element.
    * Rows between groups are zeros in a cast, so the sizes of the groups must
      be a constant that leaves no such rows.

    A row-wise cast to 8 bits has half the bytes of bf16. If the weight gradient
    of the layer reads a second, column-wise cast, both casts would be
    exchanged, which together have more bytes than the tensor. What the backward
    reads therefore decides:

    | step | x | dy |
    |---|---|---|
    | inference, or weights without gradients | casts | casts |
    | `backward_override = dequantized` | casts: the backward reads them too | bf16 |
    | custom recipe with `x_col_source` (`grad_col_source`) `rowwise_dequantized` | casts | casts |
    | no override | bf16: the backward reads both casts | bf16 |
    | `backward_override = high_precision` | bf16: the backward reads the tensor itself | bf16 |

    The tensor that is summed by token after the second exchange is not read by
    a cast, so that exchange does not change. A remark for each exchange gives
    the decision, its reason, and the bytes of both choices. The pass runs after
    `te-insert-casts` and `cse`, which leave one cast of each kind.

    ```mlir
    // te.all_to_all %x, whose result only te.quantize reads, becomes
    %xq = te.quantize %x : tensor<512x128xbf16> -> !te.scaled<512x128xf8E4M3FN, block_1x128, pow2, contract = 1>
    %yq = te.all_to_all %xq group 0 split 0 concat 1
      : !te.scaled<512x128xf8E4M3FN, block_1x128, pow2, contract = 1> -> !te.scaled<512x128xf8E4M3FN, block_1x128, pow2, contract = 1, groups = 4>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect", "::mlir::tensor::TensorDialect"];
  let statistics = [
    Statistic<"numMoved", "num-moved", "exchanges of casts">,
    Statistic<"bytesSaved", "bytes-saved", "bytes that a rank no longer exchanges">
  ];
}

def PairCastLayoutsPass : Pass<"te-pair-cast-layouts", "func::FuncOp"> {
  let summary = "compute both usages of a tensor in one cast";
  let description = [{
    `te.quantize` or `te.grouped_quantize` ops of one block with the same
    source, scale and format are usages of one tensor. They become one op with
    two results at the place of the first op, which reads the source once. The
    pass runs after `cse`, which merges equal usages, and after
    `te-materialize-transposes`, which removes some.

    ```mlir
    %row, %col = te.quantize %x : tensor<256x512xbf16>
      -> !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 1>,
         !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 0>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numPairs", "num-pairs", "casts that now have two usages">
  ];
}

def ExposeCastsPass : Pass<"te-expose-casts", "func::FuncOp"> {
  let summary = "return the casts of the forward by name";
  let description = [{
    This is for inspecting quantised values, and for `te-run --compare`. The
    function returns the operands of each forward GEMM of a linear layer as two
    more results, `cast.<layer>.x` and `cast.<layer>.w`. If several layers have
    one name, the second is `cast.<layer>.1`, and so on in program order. No
    arithmetic changes, but the casts stay alive until the end of the step.

    The pass runs after the casts are paired and before GEMMs are emulated or
    get swizzled scales, while the casts are still the operands of the GEMMs.
    Calls have been inlined by then, so the function has no callers.

    ```mlir
    // the end of a function with a layer called "up"
    return %y, %xq, %wq : tensor<256x1024xbf16>,
      !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 1>,
      !te.scaled<1024x512xf8E4M3FN, block_128x128, pow2, contract = 1>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [Statistic<"numExposed", "num-exposed", "casts that became results">];
}

def InsertSkipFlagsPass : Pass<"te-insert-skip-flags", "func::FuncOp"> {
  let summary = "cache the casts of weights over micro-batches";
  let description = [{
    A step that runs once for each micro-batch needs the casts of its weights
    only once. Every `te.quantize` and `te.quantize_shard` of a weight becomes
    cached: its usages become states of the step, the arguments and results
    `<weight>.row` and `<weight>.col`, and it casts unless the argument
    `skip_weight_update` (`tensor<f32>`, 0.0 if it is not given) is exactly 1.0.
    The flag is read on the device, so one captured step serves the first
    micro-batch and all later ones, and none of the casts can be left out. The
    cast of a value that is computed only from weights is named after the first
    of them. Ops that measure a weight, or each matrix of a stack, are skipped
    with its cast: under delayed scaling its amax is then 0, and its history and
    scale do not change. States start as NaN, so a first step that skips is
    noticed.

    With `transposes`, te.transpose of a weight is cached in the same way, as
    `<weight>.col`. Otherwise, the transpose is computed in every step and takes
    no memory between steps.

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
           "cache transposes of weights too">
  ];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numCached", "num-cached", "Number of casts and transposes that are cached">
  ];
}

def EmulateProductsPass : Pass<"te-emulate-products", "func::FuncOp"> {
  let summary = "run GEMMs of MXFP8 and NVFP4 operands in high precision";
  let description = [{
    For targets without MXFP8 or NVFP4 GEMMs, each te.scaled_matmul of such
    operands becomes a te.matmul of the dequantised operands in bf16. bf16
    represents every MXFP8 value of 2^-133 and more exactly, and every FP4 value
    times the scale of its block. The amaxes of NVFP4 become the alpha of the
    matmul. If the matmul has a bias and an f32 result, or rows with their own
    amaxes, its operands are dequantised to f32 instead. Casts do not change, so
    only the order of the sum differs from the native GEMM. The precision report
    says `emulated`.

    The pass runs after the casts are paired, and leaves no te.scaled_matmul of
    mx or nv operands.

    ```mlir
    // %y = te.scaled_matmul %a, %b fast_accumulation = false : ...mx_1x32...
    %da = te.dequantize %a : !te.scaled<32x64xf8E4M3FN, mx_1x32, contract = 1> -> tensor<32x64xbf16>
    %db = te.dequantize %b : !te.scaled<96x64xf8E4M3FN, mx_1x32, contract = 1> -> tensor<96x64xbf16>
    %y = te.matmul %da, %db contract = [1, 1] : tensor<32x64xbf16>, tensor<96x64xbf16> -> tensor<32x96xbf16>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect", "::mlir::arith::ArithDialect"];
  let statistics = [Statistic<"numEmulated", "emulated", "GEMMs emulated">];
}

def SwizzleScalesPass : Pass<"te-swizzle-scales", "func::FuncOp"> {
  let summary = "reorder scales of GEMM operands for the tensor core";
  let description = [{
    The tensor core of sm_100 reads the scales of MXFP8 and NVFP4 operands in
    tiles of 128 by 4. The pass inserts a te.swizzle_scales directly before each
    te.scaled_matmul for each of these operands.

    The pass is the last one of the quantise phase, and leaves no
    te.scaled_matmul of mx or nv operands that are not swizzled.

    ```mlir
    %s = te.swizzle_scales %a : !te.scaled<128x128xf8E4M3FN, mx_1x32, contract = 1> -> !te.scaled<128x128xf8E4M3FN, mx_1x32, swizzled, contract = 1>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [Statistic<"numSwizzled", "swizzled", "Operands swizzled">];
}

def AccumulateGradientsPass : Pass<"te-accumulate-gradients", "func::FuncOp"> {
  let summary = "add gradients of one value in the op that makes one of them";
  let description = [{
    Layers that share an input, such as those of queries, keys and values, each
    compute a gradient of it, and the gradients are added. The pass makes each
    addition of two dgrads the `accumulate` operand of the later one, which adds in
    f32 before it rounds: one rounding less, and no launch that only adds. GEMMs with
    scales of blocks round before they add; `te-fuse-residual-add` makes the same
    change for them, without another result.

    A table whose rows are also the weight of a head has two gradients. The pass
    makes the sum so far the `accumulate` operand of `te.embedding_backward`, which
    then reads and writes the rows of tokens only. This changes no bit, except that a
    row that no token names keeps a zero with a negative sign.

    The pass does not depend on `fuse`.

    ```mlir
    %q = te.scaled_matmul %dq, %wq ... : ... -> tensor<256x512xbf16>
    %dx = te.scaled_matmul %dk, %wk accumulate %q : tensor<256x512xbf16> ... : ... -> tensor<256x512xbf16>
    %dt = te.embedding_backward %ids, %dy accumulate %dw : tensor<1000x512xbf16>
      : tensor<256xi32>, tensor<256x512xbf16> -> tensor<1000x512xbf16>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numAccumulated", "num-accumulated", "additions moved into the op of a summand">
  ];
}

def AlignProductsPass : Pass<"te-align-products", "func::FuncOp"> {
  let summary = "pad large 16-bit matmuls to sizes that a GPU multiplies fast";
  let description = [{
    cuBLASLt multiplies bf16 and f16 matrices several times slower if a row of an
    operand or of the result is not a multiple of 16 bytes, such as logits of 50,257
    words. The pass adds zeros to the operands of each te.matmul of at least `least`
    multiplications, up to the next multiple of 8 of each such size, and cuts the
    result. Sums only get terms of 0. The padding is a copy of an operand, a weight
    or a sum of gradients as well, in each step, and a weight's copy is held until
    its last reader. The precision report names the padding.

    The pass runs on GPU targets, after the pass that decides which GEMMs are in
    high precision, and before te-fuse-padding, which lets losses read the padded
    logits in place.

    ```mlir
    %w0 = tensor.concat dim(0) %w, %zeros : (tensor<50257x1600xbf16>, tensor<7x1600xbf16>) -> tensor<50264x1600xbf16>
    %y0 = te.matmul %x, %w0 contract = [1, 1] : tensor<8192x1600xbf16>, tensor<50264x1600xbf16> -> tensor<8192x50264xbf16>
    %y = tensor.extract_slice %y0[0, 0] [8192, 50257] [1, 1] : tensor<8192x50264xbf16> to tensor<8192x50257xbf16>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect", "::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
  let options = [
    Option<"least", "least", "int64_t", "2147483648",
           "The least number of multiplications of a matmul that is padded">
  ];
  let statistics = [Statistic<"numAligned", "num-aligned", "matmuls padded">];
}

#endif // TEDIALECT_TRANSFORMS_QUANTIZE_PASSES
