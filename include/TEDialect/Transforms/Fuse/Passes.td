//===- Passes.td - casts folded into their producers ----------------------===//

#ifndef TEDIALECT_TRANSFORMS_FUSE_PASSES
#define TEDIALECT_TRANSFORMS_FUSE_PASSES

include "mlir/Pass/PassBase.td"

def FuseAmaxPass : Pass<"te-fuse-amax", "func::FuncOp"> {
  let summary = "take an amax from an op that has the tensor";
  let description = [{
    `te.amax` of the result of `te.rms_norm`, `te.layer_norm`, `te.activation`
    or `te.activation_backward` becomes that op's amax result; of any other
    tensor it becomes the amax that a per-tensor `te.quantize` of it measures,
    if that cast comes before every reader of the amax. This is the case with
    delayed scaling, but not if the scale is computed from the amax itself. The
    fusion saves reading the tensor a second time. It is bit-identical: the
    result is defined as the amax of the rounded values. The pass runs after the
    quantise phase, which inserts the `te.amax`, and can be skipped.

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
    1x128-block `te.quantize` and by nothing else becomes
    `te.activation_quantize` or `te.activation_backward_quantize`. The fusion is
    bit-identical: the fused op rounds the activated value to the element type of
    its input before it quantises. It declines, with a remark, if the result has
    other uses (a residual under a backward override, a bias gradient) or a
    per-tensor scale, which needs the amax of the whole tensor first. It runs
    after `te-pair-cast-layouts`, and can be skipped.

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
    An `arith.addf` whose sum a `te.rms_norm` or `te.layer_norm` normalises becomes
    the `addend` of the norm, which also gives the sum, and one that adds to the
    input's gradient of such a norm becomes the `addend` of that gradient. The
    fusion saves a launch, and reading or writing the tensor again. It is
    bit-identical: sum and gradient are rounded as before. It declines, with a
    remark, if the sum or the gradient is read before the fused op, or if the other
    summand is computed after the gradients of the norm are read. It runs after
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

#endif // TEDIALECT_TRANSFORMS_FUSE_PASSES
