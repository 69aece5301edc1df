// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts),te-report-precision{strict quiet})' --verify-diagnostics
// RUN: not te-opt %s --pass-pipeline='builtin.module(te-report-precision{format=yaml})' 2>&1 | FileCheck %s
// CHECK: expected option 'format' of 'te-report-precision' to be 'text' or 'json', but got 'yaml'

// This GEMM is in high precision without a request; the other two are not.
func.func @strict(%x: tensor<32x24xbf16>, %w: tensor<64x24xbf16> {te.name = "w"}) -> (tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<64x24xbf16>)
    attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  // expected-error @below {{fprop of 'w' runs in high precision: fallback: expected K to be a multiple of 16, but got 24}}
  %y = te.linear %x, %w : tensor<32x24xbf16>, tensor<64x24xbf16> -> tensor<32x64xbf16>
  %z = te.linear %x, %w {te.recipe = #te.recipe<high_precision>} : tensor<32x24xbf16>, tensor<64x24xbf16> -> tensor<32x64xbf16>
  %dw = te.linear_wgrad %z, %x {te.recipe = #te.recipe<float8_block_scaling, {backward_override = high_precision}>} : tensor<32x64xbf16>, tensor<32x24xbf16> -> tensor<64x24xbf16>
  return %y, %z, %dw : tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<64x24xbf16>
}
