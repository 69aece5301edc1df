// RUN: te-opt %s --te-wrap-vjp=entry=f | FileCheck %s

// The new function has the name, attributes and visibility of the
// old one. Gradients are named after arguments, integer arguments
// have none, and unnamed values are called arg<N> and result<N>.

// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[IDS:[^ ]*]]: tensor<4xi32> {te.name = "ids"}, %[[W:[^ ]*]]: tensor<8x16xf32> {te.name = "w", te.weight},
// CHECK-SAME:    %[[B:[^ ]*]]: tensor<4x16xbf16>,
// CHECK-SAME:    %[[DY:[^ ]*]]: tensor<4x16xf32> {te.name = "grad.y"}, %[[DZ:[^ ]*]]: tensor<4x16xbf16> {te.name = "grad.result1"})
// CHECK-SAME:    -> (tensor<4x16xf32> {te.name = "y"}, tensor<4x16xbf16>, tensor<8x16xf32> {te.name = "grad.w"}, tensor<4x16xbf16> {te.name = "grad.arg2"})
// CHECK-SAME:    attributes {te.recipe = #te.recipe<float8_current_scaling>} {
// CHECK-NEXT:    %[[R:.*]]:4 = te.vjp @f_primal1(%[[IDS]], %[[W]], %[[B]]) cotangents(%[[DY]], %[[DZ]]) wrt [1, 2]
// CHECK-NEXT:    return %[[R]]#0, %[[R]]#1, %[[R]]#2, %[[R]]#3

// CHECK-LABEL: func.func private @f_primal1(
// CHECK-SAME:    attributes {te.recipe = #te.recipe<float8_current_scaling>} {
// CHECK-NEXT:    te.embedding
func.func @f(%ids: tensor<4xi32> {te.name = "ids"}, %w: tensor<8x16xf32> {te.name = "w", te.weight}, %b: tensor<4x16xbf16>)
    -> (tensor<4x16xf32> {te.name = "y"}, tensor<4x16xbf16>)
    attributes {te.recipe = #te.recipe<float8_current_scaling>} {
  %y = te.embedding %ids, %w : tensor<4xi32>, tensor<8x16xf32> -> tensor<4x16xf32>
  %z = arith.negf %b : tensor<4x16xbf16>
  return %y, %z : tensor<4x16xf32>, tensor<4x16xbf16>
}

// The name of the private function is already in use.
func.func @f_primal(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// Other callers call the original function, not its derivative.
// CHECK-LABEL: func.func @caller(
// CHECK-NEXT:    call @f_primal1(
func.func @caller(%ids: tensor<4xi32>, %w: tensor<8x16xf32>, %b: tensor<4x16xbf16>) -> tensor<4x16xf32> {
  %y, %z = call @f(%ids, %w, %b) : (tensor<4xi32>, tensor<8x16xf32>, tensor<4x16xbf16>) -> (tensor<4x16xf32>, tensor<4x16xbf16>)
  return %y : tensor<4x16xf32>
}
