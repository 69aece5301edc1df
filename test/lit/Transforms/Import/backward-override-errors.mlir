// RUN: te-opt %s --te-assign-recipe --split-input-file --verify-diagnostics

// Delayed scaling supports no override, at any level.
module attributes {te.recipe = #te.recipe<delayed_scaling>} {
  // expected-error @below {{expected 'backward_override' of 'delayed_scaling' to be 'none', but got 'high_precision'}}
  func.func @function(%x: tensor<32x64xbf16>) attributes {te.backward_override = "high_precision"} {
    return
  }
}

// -----

module attributes {te.recipe = #te.recipe<delayed_scaling>} {
  func.func @op(%x: tensor<32x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<32x64xbf16> {
    // expected-error @below {{expected 'backward_override' of 'delayed_scaling' to be 'none', but got 'dequantized'}}
    %y = te.linear %x, %w {te.backward_override = "dequantized"} : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
    return %y : tensor<32x64xbf16>
  }
}

// -----

func.func @nothing_to_override(%x: tensor<32x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<32x64xbf16> {
  // expected-error @below {{expected a quantised recipe for 'te.backward_override', but got 'high_precision', whose backward is high precision already}}
  %y = te.linear %x, %w {te.backward_override = "dequantized"} : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  return %y : tensor<32x64xbf16>
}

// -----

// expected-error @below {{expected 'te.backward_override' to be one of "none", "high_precision", "dequantized", but got "bf16"}}
func.func @unknown_mode() attributes {te.backward_override = "bf16"} {
  return
}
