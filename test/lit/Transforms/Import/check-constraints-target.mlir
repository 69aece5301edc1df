// GEMMs that the target does not support are reported before
// anything is compiled, at every layer that needs them.
// RUN: te-opt %s --te-check-constraints=target=sm_100 --verify-diagnostics
// RUN: te-opt %s --te-check-constraints=target=sm_90
// RUN: te-opt %s --te-check-constraints=target=reference
// RUN: not te-opt %s --te-training-pipeline="target=sm_100" -o %t.mlir 2>&1 | FileCheck %s
// CHECK-COUNT-2: error: expected a product that 'sm_100' has

// On sm_100, the scales of blocks have to be powers of two.
module attributes {te.recipe = #te.recipe<float8_block_scaling, {pow2_scales = false}>} {
  func.func private @layers(%x: tensor<64x64xbf16> {te.name = "x"}, %w: tensor<64x64xbf16> {te.name = "w"}, %v: tensor<64x64xbf16> {te.name = "v"}) -> tensor<64x64xbf16> {
    // expected-error @below {{expected a product that 'sm_100' has, but got 'block_1x128' and 'block_128x128': sm_100 has no mode for f32 block scales and can only rewrite powers of two as MXFP8; the nearest supported is 'pow2_scales = true'; asked for by the fprop of layer 'w' under the recipe 'float8_block_scaling'}}
    // expected-error @below {{but got 'block_1x128' and 'block_1x128': sm_100 has no mode for f32 block scales and can only rewrite powers of two as MXFP8; the nearest supported is 'pow2_scales = true'; asked for by the wgrad of layer 'w'}}
    %h = te.linear %x, %w : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
    // expected-error @below {{asked for by the fprop, dgrad of layer 'v' under}}
    // expected-error @below {{asked for by the wgrad of layer 'v' under}}
    %y = te.linear %h, %v : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
    // Scales that are powers of two are supported, and so are layers that are not quantised.
    %p = te.linear %y, %v {te.recipe = #te.recipe<float8_block_scaling>} : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
    %q = te.linear %p, %v {te.recipe = #te.recipe<high_precision>} : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
    return %q : tensor<64x64xbf16>
  }
  func.func @step(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>, %v: tensor<64x64xbf16>, %dy: tensor<64x64xbf16>) -> (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>) {
    %r:3 = te.vjp @layers(%x, %w, %v) cotangents(%dy) wrt [1, 2]
      : (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>), (tensor<64x64xbf16>) -> (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
    return %r#0, %r#1, %r#2 : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>
  }
}
