module attributes {te.recipe = #te.recipe<high_precision>} {
  func.func @linear(%x: tensor<16x32xf32> {te.name = "x"}, %w: tensor<16x32xf32> {te.name = "w", te.weight})
      -> (tensor<16x16xf32> {te.name = "y"}) {
    %y = te.linear %x, %w : tensor<16x32xf32>, tensor<16x32xf32> -> tensor<16x16xf32>
    return %y : tensor<16x16xf32>
  }

  // Each step adds -lr to the state `p`; `lr` is 1 by default and may differ in each step.
  func.func @descend(%p: tensor<4xf32> {te.name = "p"}, %g: tensor<4xf32> {te.name = "g"},
                     %lr: tensor<f32> {te.name = "lr"})
      -> (tensor<4xf32> {te.name = "p"}, tensor<f32> {te.name = "rate"}) {
    %next = te.sgd %p, %g lr %lr : tensor<4xf32>, tensor<4xf32>
    %rate = arith.addf %lr, %lr : tensor<f32>
    return %next, %rate : tensor<4xf32>, tensor<f32>
  }
}
