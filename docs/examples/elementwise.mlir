func.func @multiply_add(%a: tensor<64x32xbf16> {te.name = "a"}, %b: tensor<64x32xbf16> {te.name = "b"}, %c: tensor<64x32xbf16> {te.name = "c"})
    -> (tensor<64x32xbf16> {te.name = "y"}) {
  %product = arith.mulf %a, %b : tensor<64x32xbf16>
  %y = arith.addf %product, %c : tensor<64x32xbf16>
  return %y : tensor<64x32xbf16>
}
