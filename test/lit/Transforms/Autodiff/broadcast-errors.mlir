// RUN: te-opt %s --te-differentiate --verify-diagnostics

// The gradient of a broadcast along other dimensions is a sum that no kernel computes.
func.func @f(%c: tensor<4xf32>, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %r:2 = te.vjp @repeat(%c) cotangents(%dy) wrt [0] : (tensor<4xf32>), (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  return %r#0, %r#1 : tensor<4x8xf32>, tensor<4xf32>
}
func.func private @repeat(%c: tensor<4xf32>) -> tensor<4x8xf32> {
  %empty = tensor.empty() : tensor<4x8xf32>
  // expected-error @below {{expected a broadcast that is differentiated to add leading dimensions to at least one, but got dimensions = [1] of 'tensor<4xf32>'}}
  %y = linalg.broadcast ins(%c : tensor<4xf32>) outs(%empty : tensor<4x8xf32>) dimensions = [1]
  return %y : tensor<4x8xf32>
}
