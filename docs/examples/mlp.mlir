module attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  func.func @mlp(%x: tensor<256x512xbf16> {te.name = "x"}, %g: tensor<512xbf16> {te.name = "gamma"},
                 %w1: tensor<4096x512xbf16> {te.name = "w1", te.weight}, %w2: tensor<512x2048xbf16> {te.name = "w2", te.weight})
      -> (tensor<256x512xbf16> {te.name = "y"}) {
    %n = te.rms_norm %x, %g {epsilon = 1.0e-5 : f32} : tensor<256x512xbf16>, tensor<512xbf16>
    %h = te.linear %n, %w1 : tensor<256x512xbf16>, tensor<4096x512xbf16> -> tensor<256x4096xbf16>
    %a = te.activation <swiglu> %h : tensor<256x4096xbf16> -> tensor<256x2048xbf16>
    %o = te.linear %a, %w2 : tensor<256x2048xbf16>, tensor<512x2048xbf16> -> tensor<256x512xbf16>
    %y = arith.addf %x, %o : tensor<256x512xbf16>
    return %y : tensor<256x512xbf16>
  }
}
