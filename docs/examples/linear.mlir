// A linear layer with a bias, as a module of its own. No size is a multiple of 128: the last blocks of every recipe are short.
func.func @linear(%x: tensor<160x192xbf16> {te.name = "x"}, %w: tensor<224x192xbf16> {te.name = "w", te.weight},
                  %b: tensor<224xbf16> {te.name = "b", te.weight}) -> (tensor<160x224xbf16> {te.name = "y"}) {
  %y = te.linear %x, %w bias %b : tensor<224xbf16> : tensor<160x192xbf16>, tensor<224x192xbf16> -> tensor<160x224xbf16>
  return %y : tensor<160x224xbf16>
}
