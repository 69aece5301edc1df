// GEMMs of groups that a target does not support are errors when the program is compiled, not when it is loaded.
// RUN: not te-opt %s --te-check-constraints=target=sm_100 2>&1 | FileCheck %s --check-prefix=SM100 --implicit-check-not=error:
// SM100: error: expected a product of groups that 'sm_100' has, but got 'block_1x128' and 'block_128x128': no kernel of sm_100 multiplies groups of rows; the nearest supported is 'target=sm_90', 'target=reference', or a te.linear for each group; asked for by the fprop of layer 'block' under the recipe 'float8_block_scaling'{{$}}
// SM100: error: {{.*}} but got 'block_128x128' and 'block_1x128': no kernel of sm_100
// SM100: error: {{.*}} but got 'mx_1x32' and 'mx_1x32': no kernel of sm_100
// SM100: error: {{.*}} but got 'per_tensor' and 'per_tensor': no kernel of sm_100
// RUN: te-opt %s --te-check-constraints=target=reference
// RUN: not te-opt %s --te-check-constraints="target=sm_90" 2>&1 | FileCheck %s --check-prefix=SM90 --implicit-check-not=error:
// SM90: error: expected a product of groups that 'sm_90' has, but got 'block_128x128' and 'block_1x128': {{.*}}; the nearest supported is 'block_1x128' by 'block_128x128'; asked for by the fprop of layer 'squares'
// SM90: error: expected a product of groups that 'sm_90' has, but got 'mx_1x32' and 'mx_1x32': {{.*}}; the nearest supported is the pipeline option 'emulate', or 'target=reference'; asked for by the fprop of layer 'mx'
// SM90: error: expected the result of groups of 'per_tensor' and 'per_tensor' on 'sm_90' to be 'f32' or 'bf16', but got 'f16'; asked for by the fprop of layer 'half'

func.func @groups(%x: tensor<256x128xbf16>, %s: tensor<2xi32>, %block: tensor<2x128x128xbf16> {te.name = "block"},
                  %squares: tensor<2x128x128xbf16> {te.name = "squares"}, %mx: tensor<2x128x128xbf16> {te.name = "mx"},
                  %h: tensor<256x128xf16>, %half: tensor<2x128x128xf16> {te.name = "half"}) {
  %0 = te.grouped_linear %x, %block, %s {alignment = 128 : i64, te.recipe = #te.recipe<float8_block_scaling>}
    : tensor<256x128xbf16>, tensor<2x128x128xbf16>, tensor<2xi32> -> tensor<256x128xbf16>
  %1 = te.grouped_linear %x, %squares, %s {alignment = 128 : i64, te.recipe = #te.recipe<float8_block_scaling, {x_block_dim = 2, w_block_dim = 1}>}
    : tensor<256x128xbf16>, tensor<2x128x128xbf16>, tensor<2xi32> -> tensor<256x128xbf16>
  %2 = te.grouped_linear %x, %mx, %s {alignment = 128 : i64, te.recipe = #te.recipe<mxfp8_block_scaling>}
    : tensor<256x128xbf16>, tensor<2x128x128xbf16>, tensor<2xi32> -> tensor<256x128xbf16>
  %3 = te.grouped_linear %h, %half, %s {alignment = 128 : i64, te.recipe = #te.recipe<float8_current_scaling>}
    : tensor<256x128xf16>, tensor<2x128x128xf16>, tensor<2xi32> -> tensor<256x128xf16>
  return
}
