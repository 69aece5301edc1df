// RUN: te-opt %s --te-insert-skip-flags --verify-diagnostics

// expected-error @below {{expected argument 'skip_weight_update' to be 'tensor<f32>', but got 'tensor<1xi32>'}}
func.func @wrong_flag(%w: tensor<256x512xbf16> {te.weight}, %skip: tensor<1xi32> {te.name = "skip_weight_update"})
    -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {
  %q = te.quantize %w : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  return %q : !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
}
