// Four linear layers, one for each group of rows. A group has `sizes[g]` rows and starts at a multiple of 128.
func.func @grouped_linear(
    %x: tensor<512x64xbf16> {te.name = "x"}, %w: tensor<4x96x64xbf16> {te.name = "w", te.weight},
    %sizes: tensor<4xi32> {te.name = "sizes"}, %b: tensor<4x96xbf16> {te.name = "b", te.weight})
    -> (tensor<512x96xbf16> {te.name = "y"}) {
  %y = te.grouped_linear %x, %w, %sizes bias %b : tensor<4x96xbf16> {alignment = 128 : i64}
    : tensor<512x64xbf16>, tensor<4x96x64xbf16>, tensor<4xi32> -> tensor<512x96xbf16>
  return %y : tensor<512x96xbf16>
}
