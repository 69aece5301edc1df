func.func @f(%x: tensor<2x3xf32>, %i: tensor<2xf32>) -> tensor<2xf32> {
  %r = linalg.reduce { arith.addf } ins(%x : tensor<2x3xf32>) outs(%i : tensor<2xf32>) dimensions = 1]
  return %r : tensor<2xf32>
}
