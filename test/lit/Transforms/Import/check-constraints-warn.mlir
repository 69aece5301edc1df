// RUN: te-opt %s --te-check-constraints=warn-only --verify-diagnostics

// With warn-only, the step passes the check, and its GEMM will run in high precision. Sizes are not restricted.
func.func @warns(%x: tensor<250x33xf16> {te.name = "x"}, %w: tensor<3x33xf16> {te.name = "w"}, %b: tensor<3xf16>) -> tensor<250x3xf16>
    attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  // expected-warning @below {{expected the result of 'block_1x128' and 'block_128x128' with a 'bias' to be 'f32' or 'bf16', but got 'f16'; asked for by the fprop of layer 'w'}}
  %y = te.linear %x, %w bias %b : tensor<3xf16> : tensor<250x33xf16>, tensor<3x33xf16> -> tensor<250x3xf16>
  return %y : tensor<250x3xf16>
}
