// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts{strict}))' --verify-diagnostics --split-input-file

// With strict, a GEMM with a quantised recipe and types that it does not support is an error. Sizes are padded.
func.func @strict_refuses_a_fallback(%x: tensor<32x24xf16>, %w: tensor<64x24xf16> {te.name = "w"}, %b: tensor<64xf16>) -> tensor<32x64xf16>
    attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  // expected-error @below {{fprop of 'w' cannot run as recipe 'float8_block_scaling' says: expected the result of 'block_1x128' and 'block_128x128' with a 'bias' to be 'f32' or 'bf16', but got 'f16'}}
  %y = te.linear %x, %w bias %b : tensor<64xf16> : tensor<32x24xf16>, tensor<64x24xf16> -> tensor<32x64xf16>
  return %y : tensor<32x64xf16>
}

// -----

// High precision that the recipe requests is not an error.
func.func @strict_accepts_an_override(%x: tensor<24x32xbf16>, %dy: tensor<24x64xbf16>) -> tensor<64x32xbf16>
    attributes {te.recipe = #te.recipe<float8_block_scaling, {backward_override = high_precision}>} {
  %dw = te.linear_wgrad %dy, %x : tensor<24x64xbf16>, tensor<24x32xbf16> -> tensor<64x32xbf16>
  return %dw : tensor<64x32xbf16>
}

// -----

func.func @strict_refuses_a_backward_fallback(%x: tensor<256x64xbf16> {te.name = "x"}, %dy: tensor<256x32xbf16>, %sizes: tensor<2xi32>) -> tensor<2x32x64xbf16>
    attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  // expected-error @below {{wgrad of 'x' cannot run as recipe 'float8_block_scaling' says: expected 'alignment' to be a multiple of 128 for 'block_1x128', but got 16}}
  %dw = te.grouped_linear_wgrad %dy, %x, %sizes {alignment = 16 : i64} : tensor<256x32xbf16>, tensor<256x64xbf16>, tensor<2xi32> -> tensor<2x32x64xbf16>
  return %dw : tensor<2x32x64xbf16>
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

// -----

func.func @delayed_scaling_in_a_branch(%c: i1, %x: tensor<32x32xbf16>, %w: tensor<32x32xbf16>) -> tensor<32x32xbf16>
    attributes {te.recipe = #te.recipe<delayed_scaling>} {
  %z = scf.if %c -> tensor<32x32xbf16> {
    // expected-error @below {{expected a layer with recipe 'delayed_scaling' to be in the one block of its function}}
    %y = te.linear %x, %w : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
    scf.yield %y : tensor<32x32xbf16>
  } else {
    scf.yield %x : tensor<32x32xbf16>
  }
  return %z : tensor<32x32xbf16>
}

// -----

// Random bits are states, too.
func.func @fp4_in_a_branch(%c: i1, %x: tensor<32x32xbf16>, %w: tensor<32x32xbf16>) -> tensor<32x32xbf16>
    attributes {te.recipe = #te.recipe<nvfp4_block_scaling>} {
  %z = scf.if %c -> tensor<32x32xbf16> {
    // expected-error @below {{expected a layer with recipe 'nvfp4_block_scaling' to be in the one block of its function}}
    %y = te.linear %x, %w : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
    scf.yield %y : tensor<32x32xbf16>
  } else {
    scf.yield %x : tensor<32x32xbf16>
  }
  return %z : tensor<32x32xbf16>
}

// -----

// Casts without a state may be anywhere, and high precision casts nothing.
func.func @blocks_in_a_branch(%c: i1, %x: tensor<32x32xbf16>, %w: tensor<32x32xbf16>) -> tensor<32x32xbf16>
    attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  %z = scf.if %c -> tensor<32x32xbf16> {
    %y = te.linear %x, %w : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
    scf.yield %y : tensor<32x32xbf16>
  } else {
    %y = te.linear %x, %w {te.recipe = #te.recipe<high_precision>} : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
    scf.yield %y : tensor<32x32xbf16>
  }
  return %z : tensor<32x32xbf16>
}
