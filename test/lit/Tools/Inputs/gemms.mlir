// Four GEMMs: those of 'a' and 'c' are alike, that of 'd' has fewer than 2^27 multiplications.
module attributes {te.recipe = #te.recipe<high_precision>} {
  func.func @step(%x: tensor<512x512xbf16> {te.name = "x"}, %z: tensor<1024x512xbf16> {te.name = "z"},
                  %s: tensor<64x512xbf16> {te.name = "s"}, %w: tensor<512x512xbf16> {te.name = "w", te.weight},
                  %v: tensor<512x512xbf16> {te.name = "v", te.weight})
      -> (tensor<512x512xbf16> {te.name = "a"}, tensor<1024x512xbf16> {te.name = "b"},
          tensor<512x512xbf16> {te.name = "c"}, tensor<64x512xbf16> {te.name = "d"}) {
    %a = te.linear %x, %w : tensor<512x512xbf16>, tensor<512x512xbf16> -> tensor<512x512xbf16>
    %b = te.linear %z, %w : tensor<1024x512xbf16>, tensor<512x512xbf16> -> tensor<1024x512xbf16>
    %c = te.linear %x, %v : tensor<512x512xbf16>, tensor<512x512xbf16> -> tensor<512x512xbf16>
    %d = te.linear %s, %v : tensor<64x512xbf16>, tensor<512x512xbf16> -> tensor<64x512xbf16>
    return %a, %b, %c, %d : tensor<512x512xbf16>, tensor<1024x512xbf16>, tensor<512x512xbf16>, tensor<64x512xbf16>
  }
}
