func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %z, %x : tensor<4xf32>
  %z = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
