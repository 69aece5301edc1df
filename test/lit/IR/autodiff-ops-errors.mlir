// Each function violates one constraint, whose label the error contains.
// RUN: te-opt %s --split-input-file --verify-diagnostics

func.func @vjp_c1(%x: tensor<4xf32>) {
  // expected-error @below {{expected '@nobody' to be a function of this module}}
  %y, %dx = te.vjp @nobody(%x) cotangents(%x) wrt [0] : (tensor<4xf32>), (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func private @f(tensor<4xf32>) -> tensor<4xf32>
func.func @vjp_c1_types(%x: tensor<8xf32>) {
  // expected-error @below {{expected arguments number 0 to be 'tensor<4xf32>', but got 'tensor<8xf32>'}}
  %y, %dx = te.vjp @f(%x) cotangents(%x) wrt [0] : (tensor<8xf32>), (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func private @f(tensor<4xf32>) -> tensor<4xi32>
func.func @vjp_c2(%x: tensor<4xf32>) {
  // expected-error @below {{expected '@f' to return floating-point tensors, but got 'tensor<4xi32>'}}
  %y, %dx = te.vjp @f(%x) cotangents(%x) wrt [0] : (tensor<4xf32>), (tensor<4xf32>) -> (tensor<4xi32>, tensor<4xf32>)
  return
}

// -----

func.func private @f(tensor<4xi32>) -> tensor<4xf32>
func.func @vjp_c3(%x: tensor<4xi32>, %d: tensor<4xf32>) {
  // expected-error @below {{expected 'wrt' to name floating-point arguments, but argument 0 is 'tensor<4xi32>'}}
  %y, %dx = te.vjp @f(%x) cotangents(%d) wrt [0] : (tensor<4xi32>), (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi32>)
  return
}

// -----

func.func private @f(tensor<4xf32>) -> tensor<4xf32>
func.func @vjp_c4(%x: tensor<4xf32>) {
  // expected-error @below {{expected 2 results, but got 1}}
  %y = te.vjp @f(%x) cotangents(%x) wrt [0] : (tensor<4xf32>), (tensor<4xf32>) -> (tensor<4xf32>)
  return
}

// -----

func.func @residual_c1(%x: tensor<4xf32>) {
  // expected-error @below {{expected 'name' not to be empty}}
  %r = te.residual %x "" : tensor<4xf32>
  return
}
