// With fresh-casts, casts of weights need no flag; all other checks apply.
// RUN: te-opt %s --split-input-file --te-verify-capture=fresh-casts=true --verify-diagnostics

func.func @unmarked(%x: tensor<32x64xbf16> {te.name = "x"}, %v: tensor<128x64xbf16> {te.name = "v"}) -> (tensor<32x128xbf16> {te.name = "y"}) {
  %y = te.linear %x, %v : tensor<32x64xbf16>, tensor<128x64xbf16> -> tensor<32x128xbf16>
  return %y : tensor<32x128xbf16>
}

// -----

func.func @marked(%x: tensor<32x64xbf16> {te.name = "x"}, %w: tensor<128x64xbf16> {te.name = "w", te.weight}) -> (tensor<32x128xbf16> {te.name = "y"}) {
  %y = te.linear %x, %w : tensor<32x64xbf16>, tensor<128x64xbf16> -> tensor<32x128xbf16>
  return %y : tensor<32x128xbf16>
}

// -----

func.func @constant_flag(%w: tensor<256x512xbf16> {te.name = "w", te.weight}, %old: !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.name = "w.row"})
    -> (!te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {te.name = "w.row"}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  // expected-error @below {{expected in a captured step a skip flag that is an argument of the step, which a replay can give another value, but got 'te.quantize'}}
  %q = te.quantize %w into %old unless %one : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  return %q : !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
}
