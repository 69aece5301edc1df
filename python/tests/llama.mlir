// What test_torch_import.py's Llama is, by hand: one layer of 2 sequences of 32 tokens.
func.func @llama(
    %ids: tensor<64xi32> {te.name = "ids"},
    %table: tensor<64x64xbf16> {te.name = "embed.weight", te.weight},
    %g1: tensor<64xbf16> {te.name = "norm1.weight", te.weight},
    %wq: tensor<64x64xbf16> {te.name = "q.weight", te.weight},
    %cos: tensor<32x8xf32> {te.name = "cos"}, %sin: tensor<32x8xf32> {te.name = "sin"},
    %wk: tensor<32x64xbf16> {te.name = "k.weight", te.weight},
    %wv: tensor<32x64xbf16> {te.name = "v.weight", te.weight},
    %wo: tensor<64x64xbf16> {te.name = "o.weight", te.weight},
    %g2: tensor<64xbf16> {te.name = "norm2.weight", te.weight},
    %wg: tensor<128x64xbf16> {te.name = "gate.weight", te.weight},
    %wu: tensor<128x64xbf16> {te.name = "up.weight", te.weight},
    %wd: tensor<64x128xbf16> {te.name = "down.weight", te.weight},
    %g3: tensor<64xbf16> {te.name = "norm.weight", te.weight},
    %head: tensor<64x64xbf16> {te.name = "head.weight", te.weight},
    %targets: tensor<64xi32> {te.name = "targets"}) -> (tensor<f32> {te.name = "loss"}) {
  %x = te.embedding %ids, %table : tensor<64xi32>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  %n1 = te.rms_norm %x, %g1 {epsilon = 1.0e-5 : f32} : tensor<64x64xbf16>, tensor<64xbf16>
  %q0 = te.linear %n1, %wq : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  %q = te.rope %q0, %cos, %sin {heads = 4 : i64} : tensor<64x64xbf16>, tensor<32x8xf32>
  %k0 = te.linear %n1, %wk : tensor<64x64xbf16>, tensor<32x64xbf16> -> tensor<64x32xbf16>
  %k = te.rope %k0, %cos, %sin {heads = 2 : i64} : tensor<64x32xbf16>, tensor<32x8xf32>
  %v = te.linear %n1, %wv : tensor<64x64xbf16>, tensor<32x64xbf16> -> tensor<64x32xbf16>
  %a = te.attention %q, %k, %v {heads = 4 : i64, kv_heads = 2 : i64, sequence = 32 : i64, causal}
    : tensor<64x64xbf16>, tensor<64x32xbf16>
  %o = te.linear %a, %wo : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  %r = arith.addf %x, %o : tensor<64x64xbf16>
  %n2 = te.rms_norm %r, %g2 {epsilon = 1.0e-5 : f32} : tensor<64x64xbf16>, tensor<64xbf16>
  %g = te.linear %n2, %wg : tensor<64x64xbf16>, tensor<128x64xbf16> -> tensor<64x128xbf16>
  %u = te.linear %n2, %wu : tensor<64x64xbf16>, tensor<128x64xbf16> -> tensor<64x128xbf16>
  %h = te.activation <swiglu> %g, %u : tensor<64x128xbf16>, tensor<64x128xbf16> -> tensor<64x128xbf16>
  %d = te.linear %h, %wd : tensor<64x128xbf16>, tensor<64x128xbf16> -> tensor<64x64xbf16>
  %y = arith.addf %r, %d : tensor<64x64xbf16>
  %n3 = te.rms_norm %y, %g3 {epsilon = 1.0e-5 : f32} : tensor<64x64xbf16>, tensor<64xbf16>
  %logits = te.linear %n3, %head : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  %loss = te.cross_entropy %logits, %targets : tensor<64x64xbf16>, tensor<64xi32>
  return %loss : tensor<f32>
}
