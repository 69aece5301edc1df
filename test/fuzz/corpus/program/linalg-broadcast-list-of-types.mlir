func.func @f(%x: tensor<2xf32>, %i: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %b = linalg.broadcast ins(%x : tensor<2xf32>) outs(%i : tensor<2x3xf32>) dimensions = [f32]
  return %b : tensor<2x3xf32>
}
