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

// -----

// 'v' is not marked as a weight, so its gradient would be that of one micro-batch.
func.func @unmarked(%dy: tensor<32x128xbf16>, %x: tensor<32x64xbf16>, %w: tensor<128x64xbf16> {te.name = "w", te.weight}, %v: tensor<128x64xbf16> {te.name = "v"},
                    %d: tensor<128x64xbf16>) -> (tensor<128x64xbf16> {te.name = "grad.w"}, tensor<128x64xbf16> {te.name = "grad.v"}) {
  // expected-error @below {{expected argument 'v', whose gradient is that of a layer's weight, to have 'te.weight' for 'main-grad'}}
  %dv = te.linear_wgrad %dy, %x : tensor<32x128xbf16>, tensor<32x64xbf16> -> tensor<128x64xbf16>
  return %d, %dv : tensor<128x64xbf16>, tensor<128x64xbf16>
}

// -----

// expected-error @below {{expected 'te.overwrite_main_grad' on an argument with 'te.weight', but argument 0 does not have it}}
func.func @no_weight(%x: tensor<8xbf16> {te.name = "x", te.overwrite_main_grad}) -> (tensor<8xbf16> {te.name = "grad.x"}) {
  return %x : tensor<8xbf16>
}

// -----

// The update would be that of one micro-batch.
func.func @scaled(%w: tensor<8xf32> {te.name = "w", te.weight}, %d: tensor<8xf32>, %lr: tensor<f32>, %factor: tensor<8xf32>, %skip: tensor<f32>)
    -> (tensor<8xf32> {te.name = "grad.w"}, tensor<8xf32> {te.name = "w"}) {
  %scaled = arith.mulf %d, %factor : tensor<8xf32>
  // expected-error @below {{expected the update of 'w' to read the value of result 'grad.w', which 'main-grad' adds up over micro-batches, but got another one; multiply gradients by 'grad_scale' or by the cotangent of the loss}}
  %next = te.sgd %w, %scaled lr %lr unless %skip : tensor<8xf32>, tensor<8xf32>
  return %d, %next : tensor<8xf32>, tensor<8xf32>
}
