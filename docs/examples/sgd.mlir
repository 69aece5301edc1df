// One step of linear regression. `w` is an argument and a result: the result is
// its next value.
module attributes {te.recipe = #te.recipe<float8_current_scaling>} {
  func.func private @loss(%x: tensor<64x32xbf16>, %w: tensor<16x32xbf16>, %target: tensor<64x16xbf16>) -> tensor<64x16xbf16> {
    %y = te.linear %x, %w : tensor<64x32xbf16>, tensor<16x32xbf16> -> tensor<64x16xbf16>
    %e = arith.subf %y, %target : tensor<64x16xbf16>
    return %e : tensor<64x16xbf16>
  }
  func.func @step(%x: tensor<64x32xbf16> {te.name = "x"}, %w: tensor<16x32xbf16> {te.name = "w", te.weight},
                  %target: tensor<64x16xbf16> {te.name = "target"})
      -> (tensor<16x32xbf16> {te.name = "w"}, tensor<f32> {te.name = "largest_error"}) {
    %lr = arith.constant dense<0.01> : tensor<f32>
    %e0 = func.call @loss(%x, %w, %target) : (tensor<64x32xbf16>, tensor<16x32xbf16>, tensor<64x16xbf16>) -> tensor<64x16xbf16>
    // The gradient of half the squared error is the error pulled back.
    %e, %dw = te.vjp @loss(%x, %w, %target) cotangents(%e0) wrt [1]
      : (tensor<64x32xbf16>, tensor<16x32xbf16>, tensor<64x16xbf16>), (tensor<64x16xbf16>) -> (tensor<64x16xbf16>, tensor<16x32xbf16>)
    %next = te.sgd %w, %dw lr %lr : tensor<16x32xbf16>, tensor<16x32xbf16>
    %largest = te.amax %e : tensor<64x16xbf16>
    return %next, %largest : tensor<16x32xbf16>, tensor<f32>
  }
}
