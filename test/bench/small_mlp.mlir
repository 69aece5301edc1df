// llama_mlp.mlir at a size the reference backend runs in a moment.
func.func @mlp(%x: tensor<256x256xbf16> {te.name = "x"},
               %gamma: tensor<256xbf16> {te.name = "gamma"},
               %w1: tensor<1024x256xbf16> {te.name = "w1", te.weight},
               %w2: tensor<256x512xbf16> {te.name = "w2", te.weight})
    -> (tensor<256x256xbf16> {te.name = "y"}) {
  %n = te.rms_norm %x, %gamma {epsilon = 1.0e-5 : f32} : tensor<256x256xbf16>, tensor<256xbf16>
  %h = te.linear %n, %w1 : tensor<256x256xbf16>, tensor<1024x256xbf16> -> tensor<256x1024xbf16>
  %a = te.activation <swiglu> %h : tensor<256x1024xbf16> -> tensor<256x512xbf16>
  %o = te.linear %a, %w2 : tensor<256x512xbf16>, tensor<256x512xbf16> -> tensor<256x256xbf16>
  %y = arith.addf %x, %o : tensor<256x256xbf16>
  return %y : tensor<256x256xbf16>
}
