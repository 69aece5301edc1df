// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts),te-report-precision{strict quiet})' --verify-diagnostics
// RUN: not te-opt %s --pass-pipeline='builtin.module(te-report-precision{format=yaml})' 2>&1 | FileCheck %s
// CHECK: expected option 'format' of 'te-report-precision' to be 'text' or 'json', but got 'yaml'

// This GEMM is in high precision without a request; the other two are not.
func.func @strict(%x: tensor<32x24xf16>, %w: tensor<64x24xf16> {te.name = "w"}, %b: tensor<64xf16>) -> (tensor<32x64xf16>, tensor<32x64xf16>, tensor<64x24xf16>)
    attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  // expected-error @below {{fprop of 'w' runs in high precision: fallback: expected the result of 'block_1x128' and 'block_128x128' with a 'bias' to be 'f32' or 'bf16', but got 'f16'}}
  %y = te.linear %x, %w bias %b : tensor<64xf16> : tensor<32x24xf16>, tensor<64x24xf16> -> tensor<32x64xf16>
  %z = te.linear %x, %w {te.recipe = #te.recipe<high_precision>} : tensor<32x24xf16>, tensor<64x24xf16> -> tensor<32x64xf16>
  %dw = te.linear_wgrad %z, %x {te.recipe = #te.recipe<float8_block_scaling, {backward_override = high_precision}>} : tensor<32x64xf16>, tensor<32x24xf16> -> tensor<64x24xf16>
  return %y, %z, %dw : tensor<32x64xf16>, tensor<32x64xf16>, tensor<64x24xf16>
}
