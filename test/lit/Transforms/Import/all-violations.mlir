// One run reports ops that cannot be imported and layers that cannot be
// quantised. Each error is at the user's line, without the printed op.
// RUN: not te-opt %s --te-training-pipeline 2>&1 | FileCheck %s --implicit-check-not=note:
// RUN: not te-run %s --entry=f 2>&1 | FileCheck %s --implicit-check-not=note:
// RUN: not te-opt %s --te-training-pipeline --mlir-print-op-on-diagnostic=true 2>&1 | FileCheck %s --check-prefix=OP

// CHECK-DAG: all-violations.mlir:[[#@LINE+9]]:{{[0-9]+}}: error: expected the result of 'block_1x128' and 'block_128x128' with a 'bias' to be 'f32' or 'bf16', but got 'f16'; asked for by the fprop of layer 'v'
// CHECK-DAG: all-violations.mlir:[[#@LINE+9]]:{{[0-9]+}}: error: expected a te op, elementwise arith or math, a reshape, slice or concat of tensor, a broadcast, transpose or reduce of linalg, or a constant, but got 'tensor.cast'
// CHECK-DAG: all-violations.mlir:[[#@LINE+10]]:{{[0-9]+}}: error: the runtime has no kernel for 'math.atan'
// OP: note: see current operation
module attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  func.func @f(%x: tensor<100x64xbf16> {te.name = "x"}, %w: tensor<64x64xbf16> {te.name = "w"},
               %h: tensor<64x64xf16> {te.name = "h"}, %v: tensor<64x64xf16> {te.name = "v"}, %b: tensor<64xf16>) -> tensor<100x64xbf16> {
    %y = te.linear %x, %w : tensor<100x64xbf16>, tensor<64x64xbf16> -> tensor<100x64xbf16>
    // No kernel has an f16 bias.
    %u = te.linear %h, %v bias %b : tensor<64xf16> : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf16>
    %d = tensor.cast %y : tensor<100x64xbf16> to tensor<?x64xbf16>
    // Only elementwise ops that the runtime has are supported.
    %z = math.atan %y : tensor<100x64xbf16>
    return %z : tensor<100x64xbf16>
  }
}
