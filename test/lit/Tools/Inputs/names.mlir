func.func @arguments(%x: tensor<4xf32> {te.name = "x"}, %s: tensor<4xf32> {te.name = "x.steps"})
    -> (tensor<4xf32> {te.name = "y"}) {
  %y = arith.addf %x, %s : tensor<4xf32>
  return %y : tensor<4xf32>
}

func.func @results(%x: tensor<f32> {te.name = "x"})
    -> (tensor<f32> {te.name = "y.steps"}, tensor<f32> {te.name = "y"}) {
  %y = arith.addf %x, %x : tensor<f32>
  %z = arith.mulf %x, %x : tensor<f32>
  return %y, %z : tensor<f32>, tensor<f32>
}

func.func @large(%x: tensor<137438953472xf32> {te.name = "x"})
    -> (tensor<137438953472xf32> {te.name = "y"}) {
  %y = arith.addf %x, %x : tensor<137438953472xf32>
  return %y : tensor<137438953472xf32>
}
