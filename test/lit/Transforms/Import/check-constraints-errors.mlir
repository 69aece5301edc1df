// RUN: te-opt %s --te-check-constraints --verify-diagnostics --split-input-file
// RUN: not te-opt %s --te-check-constraints=target=sm_80 2>&1 | FileCheck %s --check-prefix=TARGET
// TARGET: error: te-check-constraints: expected 'target' to be one of sm_90, sm_100, reference, but got 'sm_80'

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

// -----

// A layer of a private function has the name that its caller's argument has, as its states do.
module attributes {te.recipe = #te.recipe<float8_current_scaling>} {
  func.func private @loss(%x: tensor<32x32xf16>, %w: tensor<32x32xf16>, %b: tensor<32xf16> {te.name = "b"}) -> tensor<32x32xf16> {
    %y = func.call @layer(%x, %w, %b) : (tensor<32x32xf16>, tensor<32x32xf16>, tensor<32xf16>) -> tensor<32x32xf16>
    return %y : tensor<32x32xf16>
  }
  func.func private @layer(%x: tensor<32x32xf16>, %arg: tensor<32x32xf16> {te.name = "inner"}, %b: tensor<32xf16>) -> tensor<32x32xf16> {
    // expected-error @below {{asked for by the fprop of layer 'proj' under the recipe}}
    %y = te.linear %x, %arg bias %b : tensor<32xf16> : tensor<32x32xf16>, tensor<32x32xf16> -> tensor<32x32xf16>
    return %y : tensor<32x32xf16>
  }
  func.func @step(%x: tensor<32x32xf16> {te.name = "x"}, %w: tensor<32x32xf16> {te.name = "proj", te.weight}, %b: tensor<32xf16>) -> (tensor<32x32xf16>, tensor<32x32xf16>) {
    %y, %dw = te.vjp @loss(%x, %w, %b) cotangents(%x) wrt [1] : (tensor<32x32xf16>, tensor<32x32xf16>, tensor<32xf16>), (tensor<32x32xf16>) -> (tensor<32x32xf16>, tensor<32x32xf16>)
    return %y, %dw : tensor<32x32xf16>, tensor<32x32xf16>
  }
  // Nobody calls this one, and these call each other.
  func.func private @alone(%x: tensor<32x32xf16>, %w: tensor<32x32xf16>, %b: tensor<32xf16>) {
    // expected-error @below {{asked for by the fprop of layer 'arg1' under the recipe}}
    %y = te.linear %x, %w bias %b : tensor<32xf16> : tensor<32x32xf16>, tensor<32x32xf16> -> tensor<32x32xf16>
    return
  }
  func.func private @even(%x: tensor<32x32xf16>, %w: tensor<32x32xf16>, %b: tensor<32xf16>) {
    // expected-error @below {{asked for by the fprop of layer 'arg1' under the recipe}}
    %y = te.linear %x, %w bias %b : tensor<32xf16> : tensor<32x32xf16>, tensor<32x32xf16> -> tensor<32x32xf16>
    func.call @odd(%x, %w, %b) : (tensor<32x32xf16>, tensor<32x32xf16>, tensor<32xf16>) -> ()
    return
  }
  func.func private @odd(%x: tensor<32x32xf16>, %w: tensor<32x32xf16>, %b: tensor<32xf16>) {
    func.call @even(%x, %w, %b) : (tensor<32x32xf16>, tensor<32x32xf16>, tensor<32xf16>) -> ()
    return
  }
}
