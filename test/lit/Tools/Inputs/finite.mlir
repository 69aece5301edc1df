// Each step replaces the state `x` with its square.
func.func @square(%x: tensor<4x8xf32> {te.name = "x"}) -> (tensor<4x8xf32> {te.name = "x"}, tensor<4x8xf32> {te.name = "y"}) {
  %xx = arith.mulf %x, %x : tensor<4x8xf32>
  %y = arith.subf %xx, %xx : tensor<4x8xf32>
  return %xx, %y : tensor<4x8xf32>, tensor<4x8xf32>
}

func.func @layer(%x: tensor<32x16xbf16> {te.name = "x"}, %w: tensor<16x16xbf16> {te.name = "w", te.weight})
    -> (tensor<32x16xbf16> {te.name = "y"}) attributes {te.recipe = #te.recipe<delayed_scaling>} {
  %y = te.linear %x, %w : tensor<32x16xbf16>, tensor<16x16xbf16> -> tensor<32x16xbf16>
  return %y : tensor<32x16xbf16>
}
