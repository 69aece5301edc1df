func.func @layer(%x: tensor<64x32xbf16> {te.name = "x"}, %w: tensor<3x16x32xbf16> {te.name = "w", te.weight},
                 %sizes: tensor<3xi32> {te.name = "sizes"}) -> (tensor<64x16xbf16> {te.name = "y"}) {
  %y = te.grouped_linear %x, %w, %sizes {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<3x16x32xbf16>, tensor<3xi32> -> tensor<64x16xbf16>
  return %y : tensor<64x16xbf16>
}
