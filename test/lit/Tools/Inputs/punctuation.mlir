func.func @f(%a: tensor<4xf32> {te.name = "a.b"}, %b: tensor<4xf32> {te.name = "a_b"}) -> (tensor<4xf32> {te.name = "y"}) {
  %y = arith.addf %a, %b : tensor<4xf32>
  return %y : tensor<4xf32>
}
