// RUN: te-opt %s --te-check-constraints=warn-only --verify-diagnostics

// With warn-only, the step passes the check, and its GEMMs will run in high precision.
func.func @warns(%x: tensor<250x32xbf16> {te.name = "x"}, %w: tensor<64x32xbf16> {te.name = "w"}) -> tensor<250x64xbf16>
    attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  // expected-warning @below {{expected the rows of 'x' in layer 'w' to be a multiple of 8, but got 250; its fprop writes them under the recipe 'float8_block_scaling'; the smallest padded size is 256}}
  %y = te.linear %x, %w : tensor<250x32xbf16>, tensor<64x32xbf16> -> tensor<250x64xbf16>
  return %y : tensor<250x64xbf16>
}
