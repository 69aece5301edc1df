// RUN: te-opt %s --te-differentiate --split-input-file --verify-diagnostics

// Every op without a derivative that a gradient
// passes through is reported. Other ops are not.

func.func @f(%x: tensor<4xf32>, %k: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{'math.atan' has no derivative}}
  %s = math.atan %x : tensor<4xf32>
  // expected-error @below {{'math.copysign' has no derivative}}
  %m = math.copysign %s, %k : tensor<4xf32>
  %unrelated = math.atan %k : tensor<4xf32>
  %y = arith.addf %m, %unrelated : tensor<4xf32>
  %unused = math.atan %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @step(%x: tensor<4xf32>, %k: tensor<4xf32>, %dy: tensor<4xf32>) -> tensor<4xf32> {
  // expected-note @below {{differentiated here}}
  %y, %dx = te.vjp @f(%x, %k) cotangents(%dy) wrt [0] : (tensor<4xf32>, tensor<4xf32>), (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %dx : tensor<4xf32>
}

// -----

// A derivative of a derivative is not supported.

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected a differentiated function to hold no 'te.vjp', but '@g' does; derivatives of derivatives are not supported}}
  %y, %dx = te.vjp @f(%x) cotangents(%x) wrt [0] : (tensor<4xf32>), (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %dx : tensor<4xf32>
}
func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-note @below {{differentiated here}}
  %y, %dx = te.vjp @g(%x) cotangents(%x) wrt [0] : (tensor<4xf32>), (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %dx : tensor<4xf32>
}

// -----

func.func private @f(tensor<4xf32>) -> tensor<4xf32>
func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected '@f' to have a body of one block}}
  %y, %dx = te.vjp @f(%x) cotangents(%x) wrt [0] : (tensor<4xf32>), (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %dx : tensor<4xf32>
}

// -----

// rsigma is a result for the backward, which has no derivative.

func.func @f(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4xf32> {
  // expected-error @below {{'te.rms_norm' has no derivative through its result 'rsigma'}}
  %y, %rsigma = te.rms_norm %x, %g : tensor<4x8xf32>, tensor<8xf32> rsigma tensor<4xf32>
  return %rsigma : tensor<4xf32>
}
func.func @step(%x: tensor<4x8xf32>, %g: tensor<8xf32>, %dy: tensor<4xf32>) -> tensor<4x8xf32> {
  %y, %dx = te.vjp @f(%x, %g) cotangents(%dy) wrt [0] : (tensor<4x8xf32>, tensor<8xf32>), (tensor<4xf32>) -> (tensor<4xf32>, tensor<4x8xf32>)
  return %dx : tensor<4x8xf32>
}

// -----

func.func @f(%x: tensor<4x8xf32>, %t: tensor<4xi32>) -> tensor<4xf32> {
  // expected-error @below {{'te.cross_entropy' has no derivative through its result 'lse'}}
  %loss, %lse = te.cross_entropy %x, %t : tensor<4x8xf32>, tensor<4xi32> lse tensor<4xf32>
  return %lse : tensor<4xf32>
}
func.func @step(%x: tensor<4x8xf32>, %t: tensor<4xi32>, %dy: tensor<4xf32>) -> tensor<4x8xf32> {
  %y, %dx = te.vjp @f(%x, %t) cotangents(%dy) wrt [0] : (tensor<4x8xf32>, tensor<4xi32>), (tensor<4xf32>) -> (tensor<4xf32>, tensor<4x8xf32>)
  return %dx : tensor<4x8xf32>
}

// -----

func.func @rope(%x: tensor<4x8xf32>, %cos: tensor<4x2xf32>) -> tensor<f32> {
  // expected-error @below {{'te.rope' has no derivative through its result 'amax'}}
  %y, %amax = te.rope %x, %cos, %cos {heads = 2 : i64} : tensor<4x8xf32>, tensor<4x2xf32> amax tensor<f32>
  return %amax : tensor<f32>
}
func.func @step(%x: tensor<4x8xf32>, %cos: tensor<4x2xf32>, %damax: tensor<f32>) -> tensor<4x8xf32> {
  %y, %dx = te.vjp @rope(%x, %cos) cotangents(%damax) wrt [0] : (tensor<4x8xf32>, tensor<4x2xf32>), (tensor<f32>) -> (tensor<f32>, tensor<4x8xf32>)
  return %dx : tensor<4x8xf32>
}

// -----

func.func @attention(%q: tensor<4x8xf32>) -> tensor<8xf32> {
  // expected-error @below {{'te.attention' has no derivative through its result 'lse'}}
  %o, %lse = te.attention %q, %q, %q {heads = 2 : i64, kv_heads = 2 : i64, sequence = 4 : i64} : tensor<4x8xf32>, tensor<4x8xf32> lse tensor<8xf32>
  return %lse : tensor<8xf32>
}
func.func @step(%q: tensor<4x8xf32>, %dlse: tensor<8xf32>) -> tensor<4x8xf32> {
  %y, %dq = te.vjp @attention(%q) cotangents(%dlse) wrt [0] : (tensor<4x8xf32>), (tensor<8xf32>) -> (tensor<8xf32>, tensor<4x8xf32>)
  return %dq : tensor<4x8xf32>
}
