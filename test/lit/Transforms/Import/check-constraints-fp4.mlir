// RUN: te-opt %s --te-check-constraints=target=reference --verify-diagnostics --split-input-file

// Row-scaled activations need an override for the backward, and the Hadamard transform reads bf16. Neither restricts the forward.
module attributes {te.recipe = #te.recipe<nvfp4_block_scaling, {hadamard = false, stochastic_rounding = false, row_scaled_activation = true}>} {
  func.func private @layer(%x: tensor<32x32xbf16> {te.name = "x"}, %w: tensor<32x32xbf16> {te.name = "w"}) -> tensor<32x32xbf16> {
    // expected-error @below {{expected 'backward_override' of 'nvfp4_block_scaling' with 'row_scaled_activation' to be 'high_precision' or 'dequantized', but got 'none': the amax of a row means nothing along the axis that a backward product contracts; asked for by the dgrad, wgrad of layer 'w'}}
    %y = te.linear %x, %w : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
    %f = te.linear %x, %w {te.recipe = #te.recipe<high_precision>} : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
    return %y : tensor<32x32xbf16>
  }
  func.func @step(%x: tensor<32x32xbf16>, %w: tensor<32x32xbf16>, %dy: tensor<32x32xbf16>) -> (tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xbf16>) {
    %r:3 = te.vjp @layer(%x, %w) cotangents(%dy) wrt [0, 1]
      : (tensor<32x32xbf16>, tensor<32x32xbf16>), (tensor<32x32xbf16>) -> (tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xbf16>)
    return %r#0, %r#1, %r#2 : tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xbf16>
  }
  func.func @inference(%x: tensor<32x32xbf16>, %w: tensor<32x32xbf16>) -> tensor<32x32xbf16> {
    %y = te.linear %x, %w : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
    return %y : tensor<32x32xbf16>
  }
}

// -----

module attributes {te.recipe = #te.recipe<nvfp4_block_scaling>} {
  func.func @transform(%x: tensor<32x32xf32> {te.name = "x"}, %w: tensor<32x32xf32>, %dy: tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>) {
    %y = te.linear %x, %w : tensor<32x32xf32>, tensor<32x32xf32> -> tensor<32x32xf32>
    // expected-error @below {{expected 'bf16' operands where a recipe has 'hadamard', but got 'f32': the transform is rounded to bf16; the nearest supported is 'hadamard = false'; asked for by the wgrad of layer 'x'}}
    %dw = te.linear_wgrad %dy, %x : tensor<32x32xf32>, tensor<32x32xf32> -> tensor<32x32xf32>
    return %y, %dw : tensor<32x32xf32>, tensor<32x32xf32>
  }
}
