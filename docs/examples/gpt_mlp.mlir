module attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  func.func @gpt_mlp(%x: tensor<128x256xbf16> {te.name = "x"},
                     %g: tensor<256xbf16> {te.name = "gamma"}, %b: tensor<256xbf16> {te.name = "beta"},
                     %w1: tensor<1024x256xbf16> {te.name = "w1", te.weight}, %b1: tensor<1024xbf16> {te.name = "b1", te.weight},
                     %w2: tensor<256x1024xbf16> {te.name = "w2", te.weight}, %b2: tensor<256xbf16> {te.name = "b2", te.weight})
      -> (tensor<128x256xbf16> {te.name = "y"}) {
    %n = te.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f32} : tensor<128x256xbf16>, tensor<256xbf16>
    %h = te.linear %n, %w1 bias %b1 : tensor<1024xbf16> : tensor<128x256xbf16>, tensor<1024x256xbf16> -> tensor<128x1024xbf16>
    %a = te.activation <gelu> %h : tensor<128x1024xbf16> -> tensor<128x1024xbf16>
    %o = te.linear %a, %w2 bias %b2 : tensor<256xbf16> : tensor<128x1024xbf16>, tensor<256x1024xbf16> -> tensor<128x256xbf16>
    %y = arith.addf %x, %o : tensor<128x256xbf16>
    return %y : tensor<128x256xbf16>
  }
}
