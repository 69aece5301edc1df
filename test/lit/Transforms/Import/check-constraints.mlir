// RUN: te-opt %s --te-check-constraints --verify-diagnostics

// Sizes that only the backward does not support are valid without one. An override
// lifts the rules of the backward, because its GEMMs are in high precision.
module attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  func.func @inference(%x: tensor<40x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<40x64xbf16> {
    %y = te.linear %x, %w : tensor<40x64xbf16>, tensor<64x64xbf16> -> tensor<40x64xbf16>
    return %y : tensor<40x64xbf16>
  }
  func.func private @layer(%x: tensor<40x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<40x64xbf16>
      attributes {te.recipe = #te.recipe<float8_block_scaling, {backward_override = high_precision}>} {
    %y = te.linear %x, %w : tensor<40x64xbf16>, tensor<64x64xbf16> -> tensor<40x64xbf16>
    return %y : tensor<40x64xbf16>
  }
  func.func @overridden(%x: tensor<40x64xbf16>, %w: tensor<64x64xbf16>, %dy: tensor<40x64xbf16>) -> (tensor<40x64xbf16>, tensor<64x64xbf16>) {
    %r:2 = te.vjp @layer(%x, %w) cotangents(%dy) wrt [1]
      : (tensor<40x64xbf16>, tensor<64x64xbf16>), (tensor<40x64xbf16>) -> (tensor<40x64xbf16>, tensor<64x64xbf16>)
    return %r#0, %r#1 : tensor<40x64xbf16>, tensor<64x64xbf16>
  }
  func.func @high_precision_has_no_rules(%x: tensor<3x5xbf16>, %w: tensor<7x5xbf16>) -> tensor<3x7xbf16>
      attributes {te.recipe = #te.recipe<high_precision>} {
    %y = te.linear %x, %w : tensor<3x5xbf16>, tensor<7x5xbf16> -> tensor<3x7xbf16>
    return %y : tensor<3x7xbf16>
  }
}
