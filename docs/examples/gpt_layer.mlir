// One layer of a GPT-style decoder: two sequences of 64 tokens, 4 heads of 32; layer norms, biases and gelu.
func.func @gpt_layer(
    %x: tensor<128x128xbf16> {te.name = "x"},
    %g1: tensor<128xbf16> {te.name = "gamma1"}, %e1: tensor<128xbf16> {te.name = "beta1"},
    %wq: tensor<128x128xbf16> {te.name = "wq", te.weight}, %bq: tensor<128xbf16> {te.name = "bq", te.weight},
    %wk: tensor<128x128xbf16> {te.name = "wk", te.weight}, %bk: tensor<128xbf16> {te.name = "bk", te.weight},
    %wv: tensor<128x128xbf16> {te.name = "wv", te.weight}, %bv: tensor<128xbf16> {te.name = "bv", te.weight},
    %wo: tensor<128x128xbf16> {te.name = "wo", te.weight}, %bo: tensor<128xbf16> {te.name = "bo", te.weight},
    %g2: tensor<128xbf16> {te.name = "gamma2"}, %e2: tensor<128xbf16> {te.name = "beta2"},
    %w1: tensor<512x128xbf16> {te.name = "fc1", te.weight}, %b1: tensor<512xbf16> {te.name = "b1", te.weight},
    %w2: tensor<128x512xbf16> {te.name = "fc2", te.weight}, %b2: tensor<128xbf16> {te.name = "b2", te.weight})
    -> (tensor<128x128xbf16> {te.name = "y"}) {
  %n1 = te.layer_norm %x, %g1, %e1 {epsilon = 1.0e-5 : f32} : tensor<128x128xbf16>, tensor<128xbf16>
  %q = te.linear %n1, %wq bias %bq : tensor<128xbf16> : tensor<128x128xbf16>, tensor<128x128xbf16> -> tensor<128x128xbf16>
  %k = te.linear %n1, %wk bias %bk : tensor<128xbf16> : tensor<128x128xbf16>, tensor<128x128xbf16> -> tensor<128x128xbf16>
  %v = te.linear %n1, %wv bias %bv : tensor<128xbf16> : tensor<128x128xbf16>, tensor<128x128xbf16> -> tensor<128x128xbf16>
  %a = te.attention %q, %k, %v {heads = 4 : i64, kv_heads = 4 : i64, sequence = 64 : i64, causal}
    : tensor<128x128xbf16>, tensor<128x128xbf16>
  %o = te.linear %a, %wo bias %bo : tensor<128xbf16> : tensor<128x128xbf16>, tensor<128x128xbf16> -> tensor<128x128xbf16>
  %r = arith.addf %x, %o : tensor<128x128xbf16>

  %n2 = te.layer_norm %r, %g2, %e2 {epsilon = 1.0e-5 : f32} : tensor<128x128xbf16>, tensor<128xbf16>
  %h = te.linear %n2, %w1 bias %b1 : tensor<512xbf16> : tensor<128x128xbf16>, tensor<512x128xbf16> -> tensor<128x512xbf16>
  %s = te.activation <gelu> %h : tensor<128x512xbf16> -> tensor<128x512xbf16>
  %d = te.linear %s, %w2 bias %b2 : tensor<128xbf16> : tensor<128x512xbf16>, tensor<128x512xbf16> -> tensor<128x128xbf16>
  %y = arith.addf %r, %d : tensor<128x128xbf16>
  return %y : tensor<128x128xbf16>
}
