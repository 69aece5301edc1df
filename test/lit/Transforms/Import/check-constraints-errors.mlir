// RUN: te-opt %s --te-check-constraints --verify-diagnostics --split-input-file
// RUN: not te-opt %s --te-check-constraints=target=sm_80 2>&1 | FileCheck %s --check-prefix=TARGET
// TARGET: error: te-check-constraints: expected 'target' to be one of sm_90, sm_100, reference, but got 'sm_80'

// All violations of a step are reported at once. The first layer needs no dgrad,
// because x is not differentiated, so only wgrad restricts M and only fprop restricts
// N. The padding of N is that of the columns of w2, which have the same size.
module attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  func.func private @mlp(%x: tensor<250x24xbf16> {te.name = "x"}, %w1: tensor<36x24xbf16> {te.name = "w1"}, %w2: tensor<8x36xbf16> {te.name = "w2"}) -> tensor<250x8xbf16> {
    // expected-error @below {{expected the rows of 'x' in layer 'w1' to be a multiple of 16, but got 250; its wgrad contracts them under the recipe 'float8_block_scaling'; the smallest padded size is 256}}
    // expected-error @below {{expected the rows of 'w1' in layer 'w1' to be a multiple of 8, but got 36; its fprop writes them under the recipe 'float8_block_scaling'; the smallest padded size is 48}}
    // expected-error @below {{expected the columns of 'w1' in layer 'w1' to be a multiple of 16, but got 24; its fprop contracts them under the recipe 'float8_block_scaling'; the smallest padded size is 32}}
    %h = te.linear %x, %w1 : tensor<250x24xbf16>, tensor<36x24xbf16> -> tensor<250x36xbf16>
    %a = te.activation <silu> %h : tensor<250x36xbf16> -> tensor<250x36xbf16>
    // expected-error @below {{expected the rows of 'activation' in layer 'w2' to be a multiple of 16, but got 250}}
    // expected-error @below {{expected the rows of 'w2' in layer 'w2' to be a multiple of 16, but got 8; its dgrad contracts them}}
    // expected-error @below {{expected the columns of 'w2' in layer 'w2' to be a multiple of 16, but got 36}}
    %y = te.linear %a, %w2 : tensor<250x36xbf16>, tensor<8x36xbf16> -> tensor<250x8xbf16>
    return %y : tensor<250x8xbf16>
  }
  func.func @step(%x: tensor<250x24xbf16>, %w1: tensor<36x24xbf16>, %w2: tensor<8x36xbf16>, %dy: tensor<250x8xbf16>)
      -> (tensor<250x8xbf16>, tensor<36x24xbf16>, tensor<8x36xbf16>) {
    %r:3 = te.vjp @mlp(%x, %w1, %w2) cotangents(%dy) wrt [1, 2]
      : (tensor<250x24xbf16>, tensor<36x24xbf16>, tensor<8x36xbf16>), (tensor<250x8xbf16>) -> (tensor<250x8xbf16>, tensor<36x24xbf16>, tensor<8x36xbf16>)
    return %r#0, %r#1, %r#2 : tensor<250x8xbf16>, tensor<36x24xbf16>, tensor<8x36xbf16>
  }
}

// -----

// The columns of a weight [K, N] are N.
func.func @transposed_weight(%x: tensor<32x24xbf16> {te.name = "x"}, %w: tensor<24x36xbf16> {te.name = "w"}) -> tensor<32x36xbf16>
    attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  // expected-error @below {{expected the columns of 'w' in layer 'w' to be a multiple of 8, but got 36; its fprop writes them under the recipe 'float8_block_scaling'; the smallest padded size is 40}}
  // expected-error @below {{expected the rows of 'w' in layer 'w' to be a multiple of 16, but got 24; its fprop contracts them under the recipe 'float8_block_scaling'; the smallest padded size is 32}}
  %y = te.linear %x, %w {transposed_weight} : tensor<32x24xbf16>, tensor<24x36xbf16> -> tensor<32x36xbf16>
  return %y : tensor<32x36xbf16>
}
func.func @transposed_backward(%dy: tensor<32x36xbf16> {te.name = "dy"}, %x: tensor<32x24xbf16> {te.name = "x"}, %w: tensor<24x36xbf16> {te.name = "w"})
    -> (tensor<32x24xbf16>, tensor<24x36xbf16>) attributes {te.recipe = #te.recipe<float8_current_scaling>} {
  // expected-error @below {{expected the columns of 'w' in layer 'w' to be a multiple of 16, but got 36; its dgrad contracts them}}
  %dx = te.linear_dgrad %dy, %w {transposed_weight} : tensor<32x36xbf16>, tensor<24x36xbf16> -> tensor<32x24xbf16>
  // expected-error @below {{expected the columns of 'dy' in layer 'x' to be a multiple of 8, but got 36; its wgrad writes them}}
  %dw = te.linear_wgrad %dy, %x {transposed_weight} : tensor<32x36xbf16>, tensor<32x24xbf16> -> tensor<24x36xbf16>
  return %dx, %dw : tensor<32x24xbf16>, tensor<24x36xbf16>
}

// -----

// Backward ops are checked with their own GEMM.
func.func @backward(%dy: tensor<24x64xbf16> {te.name = "dy"}, %x: tensor<24x32xbf16> {te.name = "x"}) -> tensor<64x32xbf16>
    attributes {te.recipe = #te.recipe<float8_current_scaling>} {
  // expected-error @below {{expected the rows of 'x' in layer 'x' to be a multiple of 16, but got 24; its wgrad contracts them under the recipe 'float8_current_scaling'; the smallest padded size is 32}}
  %dw = te.linear_wgrad %dy, %x : tensor<24x64xbf16>, tensor<24x32xbf16> -> tensor<64x32xbf16>
  return %dw : tensor<64x32xbf16>
}

// -----

// No quantised GEMM has a bias with an f16 result; other biases are supported.
module attributes {te.recipe = #te.recipe<float8_current_scaling>} {
  func.func @bias(%x: tensor<32x32xf16>, %w: tensor<32x32xf16> {te.name = "w"}, %b: tensor<32xf16>,
                  %xb: tensor<32x32xbf16>, %wb: tensor<32x32xbf16>, %bb: tensor<32xbf16>) {
    // expected-error @below {{expected the result of 'per_tensor' and 'per_tensor' with a 'bias' to be 'f32' or 'bf16', but got 'f16'; asked for by the fprop of layer 'w' under the recipe 'float8_current_scaling'; 'te.recipe = #te.recipe<high_precision>' leaves the layer as it is}}
    %y = te.linear %x, %w bias %b : tensor<32xf16> : tensor<32x32xf16>, tensor<32x32xf16> -> tensor<32x32xf16>
    %z = te.linear %x, %w : tensor<32x32xf16>, tensor<32x32xf16> -> tensor<32x32xf16>
    %p = te.linear %x, %w bias %b : tensor<32xf16> {te.recipe = #te.recipe<high_precision>} : tensor<32x32xf16>, tensor<32x32xf16> -> tensor<32x32xf16>
    %q = te.linear %xb, %wb bias %bb : tensor<32xbf16> : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
    return
  }
}
