func.func @step(%x: tensor<512x0xbf16>, %w: tensor<0x96x0xbf16>, %sizes: tensor<0xi32>)
    -> (tensor<512x96xbf16>, tensor<512x96xbf16>) {
  %y = te.grouped_linear %x, %w, %sizes {alignment = 128 : i64, te.recipe = #te.recipe<float8_current_scaling>}
    : tensor<512x0xbf16>, tensor<0x96x0xbf16>, tensor<0xi32> -> tensor<512x96xbf16>
  %z = te.grouped_linear %x, %w, %sizes {alignment = 128 : i64}
    : tensor<512x0xbf16>, tensor<0x96x0xbf16>, tensor<0xi32> -> tensor<512x96xbf16>
  return %y, %z : tensor<512x96xbf16>, tensor<512x96xbf16>
}
