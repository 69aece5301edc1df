// The MLP block of a Llama-8B layer: 8192 tokens, hidden 4096, ffn 14336.
// Gate and up projections are one weight; the recipe is chosen by the
// pipeline, the backward by `vjp=mlp`.
func.func @mlp(%x: tensor<8192x4096xbf16> {te.name = "x"},
               %gamma: tensor<4096xbf16> {te.name = "gamma"},
               %w1: tensor<28672x4096xbf16> {te.name = "w1", te.weight},
               %w2: tensor<4096x14336xbf16> {te.name = "w2", te.weight})
    -> (tensor<8192x4096xbf16> {te.name = "y"}) {
  %n = te.rms_norm %x, %gamma {epsilon = 1.0e-5 : f32} : tensor<8192x4096xbf16>, tensor<4096xbf16>
  %h = te.linear %n, %w1 : tensor<8192x4096xbf16>, tensor<28672x4096xbf16> -> tensor<8192x28672xbf16>
  %a = te.activation <swiglu> %h : tensor<8192x28672xbf16> -> tensor<8192x14336xbf16>
  %o = te.linear %a, %w2 : tensor<8192x14336xbf16>, tensor<4096x14336xbf16> -> tensor<8192x4096xbf16>
  %y = arith.addf %x, %o : tensor<8192x4096xbf16>
  return %y : tensor<8192x4096xbf16>
}
