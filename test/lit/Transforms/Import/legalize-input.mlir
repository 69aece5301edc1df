// RUN: te-opt %s --te-legalize-input | FileCheck %s

// Calls are inlined, callees first, and private functions that were only called
// are erased. The layers of a function with its own recipe keep that recipe.

module attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  // CHECK-LABEL: func.func @step(
  // CHECK-SAME:    %[[X:[^ ]*]]: tensor<16x16xbf16>, %[[W:[^ ]*]]: tensor<16x16xbf16>)
  // CHECK-NEXT:    %[[A:.*]] = te.linear %[[X]], %[[W]] {te.recipe = #te.recipe<float8_current_scaling>}
  // CHECK-NEXT:    %[[B:.*]] = te.linear %[[A]], %[[W]] {te.recipe = #te.recipe<high_precision>}
  // CHECK-NEXT:    %[[C:.*]] = te.linear %[[B]], %[[W]] {te.recipe = #te.recipe<float8_current_scaling>}
  // CHECK-NEXT:    %[[D:.*]] = te.linear %[[C]], %[[W]] {te.recipe = #te.recipe<high_precision>}
  // CHECK-NEXT:    %[[E:.*]] = te.linear %[[D]], %[[W]] : tensor
  // CHECK-NEXT:    return %[[E]]
  func.func @step(%x: tensor<16x16xbf16>, %w: tensor<16x16xbf16>) -> tensor<16x16xbf16> {
    %a = call @two(%x, %w) : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
    %b = call @two(%a, %w) : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
    %c = call @plain(%b, %w) : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
    return %c : tensor<16x16xbf16>
  }
  // CHECK-NOT: @two
  func.func private @two(%x: tensor<16x16xbf16>, %w: tensor<16x16xbf16>) -> tensor<16x16xbf16>
      attributes {te.recipe = #te.recipe<float8_current_scaling>} {
    %a = te.linear %x, %w : tensor<16x16xbf16>, tensor<16x16xbf16> -> tensor<16x16xbf16>
    %b = call @inner(%a, %w) : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
    return %b : tensor<16x16xbf16>
  }
  // CHECK-NOT: @inner
  func.func private @inner(%x: tensor<16x16xbf16>, %w: tensor<16x16xbf16>) -> tensor<16x16xbf16>
      attributes {te.recipe = #te.recipe<high_precision>} {
    %a = te.linear %x, %w : tensor<16x16xbf16>, tensor<16x16xbf16> -> tensor<16x16xbf16>
    return %a : tensor<16x16xbf16>
  }
  // Moments of 8 bits are the only values of these types.
  // CHECK-LABEL: func.func @moments(
  // CHECK: te.adamw {{.*}} scales
  func.func @moments(%p: tensor<4xf32>, %m: tensor<4xf8E4M3FN>, %v: tensor<4xf8E5M2>, %s: tensor<2x1xf32>, %t: tensor<f32>)
      -> (tensor<4xf32>, tensor<4xf8E4M3FN>, tensor<4xf8E5M2>, tensor<2x1xf32>) {
    %p1, %m1, %v1, %s1 = te.adamw %p, %p, %m, %v scales %s lr %t step %t : tensor<4xf32>, tensor<4xf32>, tensor<4xf8E4M3FN>
    return %p1, %m1, %v1, %s1 : tensor<4xf32>, tensor<4xf8E4M3FN>, tensor<4xf8E5M2>, tensor<2x1xf32>
  }
  // A public callee is not erased.
  // CHECK-LABEL: func.func @plain(
  func.func @plain(%x: tensor<16x16xbf16>, %w: tensor<16x16xbf16>) -> tensor<16x16xbf16> {
    %a = te.linear %x, %w : tensor<16x16xbf16>, tensor<16x16xbf16> -> tensor<16x16xbf16>
    return %a : tensor<16x16xbf16>
  }

  // The private callee of a te.vjp is not erased, and calls in it are inlined.
  // CHECK-LABEL: func.func private @loss(
  // CHECK-NEXT:    te.linear {{.*}} {te.recipe = #te.recipe<high_precision>}
  func.func private @loss(%x: tensor<16x16xbf16>) -> tensor<16x16xbf16> {
    %a = call @inner(%x, %x) : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
    return %a : tensor<16x16xbf16>
  }
  // All supported ops, including states.
  // CHECK-LABEL: func.func @accepts(
  func.func @accepts(%x: tensor<16x16xbf16> {te.name = "x"}, %lr: tensor<f32> {te.name = "lr"}) -> (tensor<16x16xbf16> {te.name = "x"}) {
    %y, %dx = te.vjp @loss(%x) cotangents(%x) wrt [0]
      : (tensor<16x16xbf16>), (tensor<16x16xbf16>) -> (tensor<16x16xbf16>, tensor<16x16xbf16>)
    %half = arith.constant dense<0.5> : tensor<f32>
    %lr1 = arith.mulf %lr, %half : tensor<f32>
    %flat = tensor.collapse_shape %dx [[0, 1]] : tensor<16x16xbf16> into tensor<256xbf16>
    %e = math.exp %flat : tensor<256xbf16>
    %g = tensor.expand_shape %e [[0, 1]] output_shape [16, 16] : tensor<256xbf16> into tensor<16x16xbf16>
    %x1 = te.sgd %x, %g lr %lr1 : tensor<16x16xbf16>, tensor<16x16xbf16>
    return %x1 : tensor<16x16xbf16>
  }
}
