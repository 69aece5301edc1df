// A norm and two linear layers with an activation between them, without the residual connection around them.
func.func @layernorm_mlp(
    %x: tensor<96x128xbf16> {te.name = "x"}, %g: tensor<128xbf16> {te.name = "gamma"}, %b: tensor<128xbf16> {te.name = "beta"},
    %w1: tensor<320x128xbf16> {te.name = "fc1", te.weight}, %b1: tensor<320xbf16> {te.name = "b1", te.weight},
    %w2: tensor<128x160xbf16> {te.name = "fc2", te.weight}, %b2: tensor<128xbf16> {te.name = "b2", te.weight})
    -> (tensor<96x128xbf16> {te.name = "y"}) {
  %n = te.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f32} : tensor<96x128xbf16>, tensor<128xbf16>
  %h = te.linear %n, %w1 bias %b1 : tensor<320xbf16> : tensor<96x128xbf16>, tensor<320x128xbf16> -> tensor<96x320xbf16>
  %a = te.activation <swiglu> %h : tensor<96x320xbf16> -> tensor<96x160xbf16>
  %y = te.linear %a, %w2 bias %b2 : tensor<128xbf16> : tensor<96x160xbf16>, tensor<128x160xbf16> -> tensor<96x128xbf16>
  return %y : tensor<96x128xbf16>
}
