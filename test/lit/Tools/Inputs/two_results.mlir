func.func @step(%x: tensor<64xf32> {te.name = "x", te.init = 3.0 : f32})
    -> (tensor<64xf32> {te.name = "y"}, tensor<64xf32> {te.name = "z"}) {
  %y = arith.addf %x, %x : tensor<64xf32>
  %z = arith.mulf %y, %y : tensor<64xf32>
  return %y, %z : tensor<64xf32>, tensor<64xf32>
}
