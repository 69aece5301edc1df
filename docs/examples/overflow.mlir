// `x` squares itself at every step; from 10 it leaves f32 in the sixth.
func.func @square(%x: tensor<4x8xf32> {te.name = "x", te.init = 10.0 : f32}) -> (tensor<4x8xf32> {te.name = "x"}) {
  %xx = arith.mulf %x, %x : tensor<4x8xf32>
  return %xx : tensor<4x8xf32>
}
