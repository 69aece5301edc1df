// One layer of a Llama-style decoder with a loss: two sequences of 128 tokens, 4 heads of 64 that share 2 key-value heads.
// `cos` and `sin` are the tables of the rotary embedding, a row for each position.
func.func @layer(
    %x: tensor<256x256xbf16> {te.name = "x"}, %targets: tensor<256xi32> {te.name = "targets"},
    %cos: tensor<128x32xf32> {te.name = "cos"}, %sin: tensor<128x32xf32> {te.name = "sin"},
    %g1: tensor<256xbf16> {te.name = "attention_norm"}, %g2: tensor<256xbf16> {te.name = "ffn_norm"},
    %wq: tensor<256x256xbf16> {te.name = "wq", te.weight}, %wk: tensor<128x256xbf16> {te.name = "wk", te.weight},
    %wv: tensor<128x256xbf16> {te.name = "wv", te.weight}, %wo: tensor<256x256xbf16> {te.name = "wo", te.weight},
    %w1: tensor<1024x256xbf16> {te.name = "gate_up", te.weight}, %w2: tensor<256x512xbf16> {te.name = "down", te.weight},
    %head: tensor<384x256xbf16> {te.name = "head", te.weight})
    -> (tensor<f32> {te.name = "loss"}, tensor<256x256xbf16> {te.name = "y"}) {
  %n1 = te.rms_norm %x, %g1 {epsilon = 1.0e-5 : f32} : tensor<256x256xbf16>, tensor<256xbf16>
  %q0 = te.linear %n1, %wq : tensor<256x256xbf16>, tensor<256x256xbf16> -> tensor<256x256xbf16>
  %k0 = te.linear %n1, %wk : tensor<256x256xbf16>, tensor<128x256xbf16> -> tensor<256x128xbf16>
  %v = te.linear %n1, %wv : tensor<256x256xbf16>, tensor<128x256xbf16> -> tensor<256x128xbf16>
  %q = te.rope %q0, %cos, %sin {heads = 4 : i64} : tensor<256x256xbf16>, tensor<128x32xf32>
  %k = te.rope %k0, %cos, %sin {heads = 2 : i64} : tensor<256x128xbf16>, tensor<128x32xf32>
  %a = te.attention %q, %k, %v {heads = 4 : i64, kv_heads = 2 : i64, sequence = 128 : i64, causal}
    : tensor<256x256xbf16>, tensor<256x128xbf16>
  %o = te.linear %a, %wo : tensor<256x256xbf16>, tensor<256x256xbf16> -> tensor<256x256xbf16>
  %r = arith.addf %x, %o : tensor<256x256xbf16>

  %n2 = te.rms_norm %r, %g2 {epsilon = 1.0e-5 : f32} : tensor<256x256xbf16>, tensor<256xbf16>
  %h = te.linear %n2, %w1 : tensor<256x256xbf16>, tensor<1024x256xbf16> -> tensor<256x1024xbf16>
  %s = te.activation <swiglu> %h : tensor<256x1024xbf16> -> tensor<256x512xbf16>
  %d = te.linear %s, %w2 : tensor<256x512xbf16>, tensor<256x512xbf16> -> tensor<256x256xbf16>
  %y = arith.addf %r, %d : tensor<256x256xbf16>

  %logits = te.linear %y, %head : tensor<256x256xbf16>, tensor<384x256xbf16> -> tensor<256x384xbf16>
  %loss = te.cross_entropy %logits, %targets : tensor<256x384xbf16>, tensor<256xi32>
  return %loss, %y : tensor<f32>, tensor<256x256xbf16>
}
