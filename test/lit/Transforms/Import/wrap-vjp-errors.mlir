// RUN: te-opt %s --te-wrap-vjp=entry=f --split-input-file --verify-diagnostics

// expected-error @below {{expected a function of the module to differentiate, but got 'f'; there is 'g', 'h'}}
module {
  func.func @g() {
    return
  }
  func.func @h() {
    return
  }
}

// -----

// expected-error @below {{expected a function of the module to differentiate, but got 'f'; there is none}}
module {}

// -----

// expected-error @below {{expected 'f' to have a body}}
func.func private @f(tensor<4xf32>) -> tensor<4xf32>

// -----

// expected-error @below {{expected 'f' to take a floating-point tensor to differentiate with respect to}}
func.func @f(%x: tensor<4xi32>) -> tensor<f32> {
  %y = arith.constant dense<0.0> : tensor<f32>
  return %y : tensor<f32>
}

// -----

// expected-error @below {{expected every result to be a floating-point tensor, but 'ids' is 'tensor<4xi32>'}}
func.func @f(%x: tensor<4xf32>, %i: tensor<4xi32>) -> (tensor<4xi32> {te.name = "ids"}) {
  return %i : tensor<4xi32>
}

// -----

// expected-error @below {{expected no result to be the next state of an argument, but 'w' is; differentiate the function without its update}}
func.func @f(%w: tensor<4xf32> {te.name = "w"}) -> (tensor<4xf32> {te.name = "w"}) {
  return %w : tensor<4xf32>
}

// -----

// expected-error @below {{expected every argument to be a tensor, but 'lr' is 'f32'}}
func.func @f(%x: tensor<4xf32>, %lr: f32 {te.name = "lr"}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

!q = !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>

// expected-error @below {{expected every argument to be a tensor, but 'q' is '!te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>'}}
func.func @f(%q: !q {te.name = "q"}, %x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
