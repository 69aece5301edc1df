// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts{strict}))' --verify-diagnostics --split-input-file

// With strict, a GEMM with a quantised recipe and sizes that it does not support is an error.
func.func @strict_refuses_a_fallback(%x: tensor<32x24xbf16>, %w: tensor<64x24xbf16> {te.name = "w"}) -> tensor<32x64xbf16>
    attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  // expected-error @below {{fprop of 'w' cannot run as recipe 'float8_block_scaling' says: expected K to be a multiple of 16, but got 24}}
  %y = te.linear %x, %w : tensor<32x24xbf16>, tensor<64x24xbf16> -> tensor<32x64xbf16>
  return %y : tensor<32x64xbf16>
}

// -----

// High precision that the recipe requests is not an error.
func.func @strict_accepts_an_override(%x: tensor<24x32xbf16>, %dy: tensor<24x64xbf16>) -> tensor<64x32xbf16>
    attributes {te.recipe = #te.recipe<float8_block_scaling, {backward_override = high_precision}>} {
  %dw = te.linear_wgrad %dy, %x : tensor<24x64xbf16>, tensor<24x32xbf16> -> tensor<64x32xbf16>
  return %dw : tensor<64x32xbf16>
}

// -----

func.func @strict_refuses_a_backward_fallback(%x: tensor<24x32xbf16> {te.name = "x"}, %dy: tensor<24x64xbf16>) -> tensor<64x32xbf16>
    attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  // expected-error @below {{wgrad of 'x' cannot run as recipe 'float8_block_scaling' says: expected M to be a multiple of 16, but got 24}}
  %dw = te.linear_wgrad %dy, %x : tensor<24x64xbf16>, tensor<24x32xbf16> -> tensor<64x32xbf16>
  return %dw : tensor<64x32xbf16>
}

// -----

// There is no single place to update the state.
func.func @delayed_scaling_needs_one_block(%x: tensor<32x32xbf16>, %w: tensor<64x32xbf16>) -> tensor<32x64xbf16>
    attributes {te.recipe = #te.recipe<delayed_scaling>} {
  // expected-error @below {{expected a layer with recipe 'delayed_scaling' to be in the one block of its function}}
  %y = te.linear %x, %w : tensor<32x32xbf16>, tensor<64x32xbf16> -> tensor<32x64xbf16>
  return %y : tensor<32x64xbf16>
^unreachable:
  return %y : tensor<32x64xbf16>
}
