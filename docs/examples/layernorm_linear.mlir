// A norm, with gamma around zero, in front of a linear layer: what starts attention, one product for q, k and v.
func.func @layernorm_linear(
    %x: tensor<96x128xbf16> {te.name = "x"}, %g: tensor<128xbf16> {te.name = "gamma"}, %b: tensor<128xbf16> {te.name = "beta"},
    %w: tensor<384x128xbf16> {te.name = "w", te.weight}, %bias: tensor<384xbf16> {te.name = "bias", te.weight})
    -> (tensor<96x384xbf16> {te.name = "y"}) {
  %n = te.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f32, zero_centered_gamma = true} : tensor<96x128xbf16>, tensor<128xbf16>
  %y = te.linear %n, %w bias %bias : tensor<384xbf16> : tensor<96x128xbf16>, tensor<384x128xbf16> -> tensor<96x384xbf16>
  return %y : tensor<96x384xbf16>
}
