//===- Passes.td - casts folded into their producers ----------------------===//

#ifndef TEDIALECT_TRANSFORMS_FUSE_PASSES
#define TEDIALECT_TRANSFORMS_FUSE_PASSES

include "mlir/Pass/PassBase.td"

def FuseAmaxPass : Pass<"te-fuse-amax", "func::FuncOp"> {
  let summary = "take an amax from an op that has the tensor";
  let description = [{
    `te.amax` of the result of `te.rms_norm`, `te.layer_norm`, `te.activation` or
    `te.rope`, or of the gradient of their input, becomes the amax result of the op
    that computes the tensor. Of any other tensor it becomes the amax that a
    per-tensor `te.quantize` of it measures, if that cast comes before every reader
    of the amax. This is the case with delayed scaling, but not if the scale is
    computed from the amax itself. The fusion saves reading the tensor a second
    time. It is bit-identical: the result is defined as the amax of the rounded
    values. The pass runs after the quantise phase, which inserts the `te.amax`, and
    can be skipped.

    ```mlir
    %y, %amax = te.activation <silu> %x : tensor<256x512xbf16> -> tensor<256x512xbf16> amax tensor<f32>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numFused", "num-fused", "amaxes taken from another op">
  ];
}

def FuseActivationQuantizePass
    : Pass<"te-fuse-activation-quantize", "func::FuncOp"> {
  let summary = "quantise an activation without storing it";
  let description = [{
    A `te.activation` or `te.activation_backward` whose result is read by one
    `te.quantize` and by nothing else becomes `te.activation_quantize` or
    `te.activation_backward_quantize`, if the cast has 1x128 blocks or a scale that
    is known before, as under delayed scaling. The fusion is bit-identical: the
    fused op rounds the activated value to the element type of its input before it
    quantises. It declines, with a remark, if the result has other uses (a residual
    under a backward override, a bias gradient) or if its own amax is read, from
    which current scaling computes the scale. It runs after
    `te-pair-cast-layouts`, and can be skipped.

    ```mlir
    %row, %col = te.activation_quantize <swiglu> %x : tensor<256x1024xbf16>
      -> !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 1>,
         !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 0>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numFused", "num-fused", "activations fused with their cast">
  ];
}

def FuseResidualAddPass : Pass<"te-fuse-residual-add", "func::FuncOp"> {
  let summary = "add a residual in the epilogue of a block-scaled matmul";
  let description = [{
    `arith.addf` of the result of a block-scaled `te.scaled_matmul` and another
    tensor becomes the matmul's `accumulate` operand, which saves writing and
    reading the matrix product. The fusion is bit-identical: a block-scaled matmul
    rounds the matrix product to the result's type before it adds. It declines,
    with a remark, for per-tensor operands (whose matrix product is not rounded
    before the addition) and if the matrix product has other uses. It runs in the fuse phase, and can be
    skipped.

    ```mlir
    %y = te.scaled_matmul %a, %w accumulate %x : tensor<256x512xbf16> fast_accumulation = false
      : !te.scaled<256x1024xf8E4M3FN, block_1x128, pow2, contract = 1>,
        !te.scaled<512x1024xf8E4M3FN, block_128x128, pow2, contract = 1> -> tensor<256x512xbf16>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numFused", "num-fused", "additions moved into a matmul">
  ];
}

def FuseNormAddPass : Pass<"te-fuse-norm-add", "func::FuncOp"> {
  let summary = "add in the norm that reads or makes a summand";
  let description = [{
    An `arith.addf` that adds to what a `te.rms_norm` or `te.layer_norm` gives becomes
    the `base` of the norm. One whose sum such a norm normalises becomes its `addend`;
    the norm also gives the sum. One that adds to the input's gradient of a norm
    becomes the `addend` of that gradient. The
    fusion saves a launch, and reading or writing the tensor again. It is
    bit-identical: norm, sum and gradient are rounded as before. It declines, with a
    remark, if the sum is read before the fused op, if the norm or the gradient has
    other readers, or if the other
    summand is computed after statistics or gradients of the norm are read. It runs after
    `te-fuse-residual-add`, which adds in a GEMM, and can be skipped.

    ```mlir
    %y, %sum = te.rms_norm %x, %gamma plus %residual : tensor<256x512xbf16>
      : tensor<256x512xbf16>, tensor<512xbf16> sum tensor<256x512xbf16>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numFused", "num-fused", "additions moved into a norm">
  ];
}

def FuseRoundingPass : Pass<"te-fuse-rounding", "func::FuncOp"> {
  let summary = "round master weights in their casts";
  let description = [{
    One or two casts of an f32 argument that is rounded to bf16 read the argument and
    round it themselves (`rounded`), if nothing else reads the rounded tensor and the
    casts are of f8E4M3FN, `per_tensor` or `block_128x128`. The rounded tensor is then
    not stored: a cast reads 4 bytes an element, instead of 4 and 2 that are read and 2
    that are written. Cached casts, and te.amax of their operand, always do so if nothing
    else reads the rounded tensor: later micro-batches then do not read the argument at
    all. The fusion is bit-identical. It declines, with a remark, if anything else reads
    the rounded tensor (a GEMM of an override, the te.amax that current scaling computes
    the scale from, a check of debugging), or if the argument may be updated before a
    cast. It runs after te-fuse-amax, and can be skipped.

    ```mlir
    %q = te.quantize %w {rounded = bf16} : tensor<256x512xf32>
      -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [Statistic<"numFused", "num-fused", "tensors rounded in their casts">];
}

def FusePaddingPass : Pass<"te-fuse-padding", "func::FuncOp"> {
  let summary = "let losses read padded logits in place";
  let description = [{
    The result of a GEMM with padded columns is cut to the classes of a
    te.cross_entropy, and the gradient of these logits is padded again for its casts
    and GEMMs. Both are copies, between rows at other alignments. The pass gives the
    loss and its gradient the padded logits and the number of classes
    (`vocabulary`), so that the padding is neither read nor copied, and the gradient
    is 0 there. It does so for all first columns of a matrix that are at least seven
    eighths of it.

    It runs before te-fuse-amax, and can be skipped; no bit changes.

    ```mlir
    %loss = te.cross_entropy %padded, %targets {vocabulary = 50257 : i64} : tensor<8192x50272xbf16>, tensor<8192xi32>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect", "::mlir::tensor::TensorDialect"];
  let statistics = [Statistic<"numFused", "num-fused", "losses that read padded logits">];
}

def ChunkLogitsPass : Pass<"te-chunk-logits", "func::FuncOp"> {
  let summary = "compute a head and its loss over a few rows at a time";
  let description = [{
    Moves the GEMM whose result only a `te.cross_entropy` reads, the loss, and the
    part of their backward that has a row of logits for each token into a
    `te.by_rows`, so that only some rows of logits are stored at a time. It does so
    if the logits have more bytes than `budget`, and takes as many rows as fit.

    The part of the backward is the gradient of the logits, its casts, and the dgrad.
    It moves to the forward, where the cotangent of the loss is not known. There it
    is taken as 1; the gradient of the rows and the cast that the wgrad reads are
    multiplied by the cotangent in the backward (`te.rescale`). The wgrad stays one
    GEMM over all rows. Logits are neither saved nor computed again.

    The gradient of the bias of the head is added up over all rows in the order that
    it has without the pass, and multiplied by the cotangent as well.

    Results have the bits that they have without the pass if the cotangent is 1 or
    another power of two, except that current scaling computes the scale of the
    gradient of the logits from a bound of its amax, `te.cross_entropy_weight`, because the
    amax is not known before the last row. The pass declines, with a remark, if anything
    else reads the logits or their gradient (a result of the program, a wgrad in high
    precision), if the cast is not of `per_tensor` or `block_1x128`, if scales are
    reduced over ranks, and for f16 unless the cotangent is 1. It runs after
    te-fuse-amax, which finds the amaxes that casts measure, and before
    te-fuse-residual-add. It can be skipped.

    ```mlir
    %loss, %dx, %dlogits = te.by_rows (%x, %targets) with (%w, %weight, %w_columns) rows 1024 : ...
    ```
  }];
  let options = [
    Option<"budget", "budget", "int64_t", "268435456",
           "The most bytes of logits at a time, if 128 rows fit; 0 stores all of them">,
    Option<"target", "target", "std::string", "\"sm_90\"",
           "sm_90, sm_100 or reference">
  ];
  let dependentDialects = ["::mlir::te::TEDialect", "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"];
  let statistics = [
    Statistic<"numChunked", "num-chunked", "losses computed over a few rows at a time">
  ];
}

#endif // TEDIALECT_TRANSFORMS_FUSE_PASSES
