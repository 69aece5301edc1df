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

// -----

func.func private @f(tensor<4xf32>) -> tensor<4xf32>
func.func @vjp_c2_cotangents(%x: tensor<4xf32>, %d: tensor<8xf32>) {
  // expected-error @below {{expected cotangents number 0 to be 'tensor<4xf32>', but got 'tensor<8xf32>'}}
  %y, %dx = te.vjp @f(%x) cotangents(%d) wrt [0] : (tensor<4xf32>), (tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func private @f(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
func.func @vjp_c3_order(%x: tensor<4xf32>) {
  // expected-error @below {{expected 'wrt' to be increasing argument numbers below 2, but got 0}}
  %y, %da, %db = te.vjp @f(%x, %x) cotangents(%x) wrt [1, 0] : (tensor<4xf32>, tensor<4xf32>), (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func private @f(tensor<4xf32>) -> tensor<4xf32>
func.func @vjp_c3_range(%x: tensor<4xf32>) {
  // expected-error @below {{expected 'wrt' to be increasing argument numbers below 1, but got 1}}
  %y, %dx = te.vjp @f(%x) cotangents(%x) wrt [1] : (tensor<4xf32>), (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func private @f(tensor<4xf32>) -> tensor<4xf32>
func.func @vjp_c4_type(%x: tensor<4xf32>) {
  // expected-error @below {{expected results number 1 to be 'tensor<4xf32>', but got 'tensor<8xf32>'}}
  %y, %dx = te.vjp @f(%x) cotangents(%x) wrt [0] : (tensor<4xf32>), (tensor<4xf32>) -> (tensor<4xf32>, tensor<8xf32>)
  return
}
