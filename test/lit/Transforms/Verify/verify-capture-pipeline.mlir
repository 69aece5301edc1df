// What the pipeline checks of a step with cached casts, of one that is captured without them, as by te-run --graph, and of others.
// RUN: te-opt %s --te-training-pipeline="recipe=float8_current_scaling compile-to=quantize" --split-input-file -o %t
// RUN: not te-opt %s --te-training-pipeline="recipe=float8_current_scaling compile-to=quantize capture=true" --split-input-file 2>&1 | FileCheck %s --check-prefix=CAPTURE
// CAPTURE-NOT: error:
// CAPTURE: error: expected in a captured step a skip flag that is an argument of the step, which a replay can give another value, but got 'te.quantize'
// CAPTURE-NOT: error:
// RUN: not te-opt %s --te-training-pipeline="recipe=float8_current_scaling compile-to=quantize cache-weights=true" --split-input-file 2>&1 | FileCheck %s --check-prefix=KEPT
// KEPT: error: expected in a captured step argument 'v', the weight of this GEMM, to have 'te.weight', but got 'te.scaled_matmul'
// KEPT: error: expected in a captured step a skip flag that is an argument of the step, which a replay can give another value, but got 'te.quantize'

func.func @unmarked(%x: tensor<32x64xbf16> {te.name = "x"}, %v: tensor<128x64xbf16> {te.name = "v"}) -> (tensor<32x128xbf16> {te.name = "y"}) {
  %y = te.linear %x, %v : tensor<32x64xbf16>, tensor<128x64xbf16> -> tensor<32x128xbf16>
  return %y : tensor<32x128xbf16>
}

// -----

func.func @constant_flag(%w: tensor<256x512xbf16> {te.name = "w", te.weight}, %old: !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.name = "w.row"})
    -> (!te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.name = "w.row"}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %q = te.quantize %w into %old unless %one : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  return %q : !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
}
