// RUN: te-opt %s --split-input-file --te-accumulate-main-grads --verify-diagnostics

// expected-error @below {{expected a result 'grad.<weight>' for 'main-grad', but 'forward' has none}}
func.func @forward(%x: tensor<32x64xbf16>, %w: tensor<128x64xbf16> {te.name = "w", te.weight}) -> (tensor<32x128xbf16> {te.name = "grad.x"}) {
  %y = te.linear %x, %w : tensor<32x64xbf16>, tensor<128x64xbf16> -> tensor<32x128xbf16>
  return %y : tensor<32x128xbf16>
}

// -----

// expected-error @below {{expected result 'grad.w' to be a floating-point tensor of the weight's shape, 'tensor<128x64xbf16>', but got 'tensor<64x128xbf16>'}}
func.func @shape(%w: tensor<128x64xbf16> {te.name = "w", te.weight}, %d: tensor<64x128xbf16>) -> (tensor<64x128xbf16> {te.name = "grad.w"}) {
  return %d : tensor<64x128xbf16>
}

// -----

// expected-error @below {{expected no argument 'grad.w', which 'main-grad' adds, but there is one}}
func.func @taken(%w: tensor<128x64xbf16> {te.name = "w", te.weight}, %d: tensor<128x64xbf16> {te.name = "grad.w"}) -> (tensor<128x64xbf16> {te.name = "grad.w"}) {
  return %d : tensor<128x64xbf16>
}

// -----

// expected-error @below {{expected argument 'skip_weight_update' to be 'tensor<f32>', but got 'tensor<1xf32>'}}
func.func @flag(%w: tensor<8xbf16> {te.name = "w", te.weight}, %d: tensor<8xbf16>, %skip: tensor<1xf32> {te.name = "skip_weight_update"}) -> (tensor<8xbf16> {te.name = "grad.w"}) {
  return %d : tensor<8xbf16>
}
