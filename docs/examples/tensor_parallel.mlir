// One rank's part of an MLP over two ranks: the first weight is split by rows,
// the second by columns, and tokens are split between the layers (sequence
// parallelism). 128 of 256 tokens, 1024 of 2048 hidden features.
module attributes {te.recipe = #te.recipe<float8_current_scaling>,
                   te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  func.func @mlp(%x: tensor<128x512xbf16> {te.name = "x", te.sharding = [#te.shard<axis = 0, group = 0>]},
                 %g: tensor<512xbf16> {te.name = "gamma"},
                 %w1: tensor<1024x512xbf16> {te.name = "w1", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]},
                 %w2: tensor<512x1024xbf16> {te.name = "w2", te.weight, te.sharding = [#te.shard<axis = 1, group = 0>]})
      -> (tensor<128x512xbf16> {te.name = "y", te.sharding = [#te.shard<axis = 0, group = 0>]}) {
    %n = te.rms_norm %x, %g {epsilon = 1.0e-5 : f32} : tensor<128x512xbf16>, tensor<512xbf16>
    %h = te.linear %n, %w1 parallel <column, group = 0, sequence>
      : tensor<128x512xbf16>, tensor<1024x512xbf16> -> tensor<256x1024xbf16>
    %a = te.activation <silu> %h : tensor<256x1024xbf16> -> tensor<256x1024xbf16>
    %o = te.linear %a, %w2 parallel <row, group = 0, sequence>
      : tensor<256x1024xbf16>, tensor<512x1024xbf16> -> tensor<128x512xbf16>
    %y = arith.addf %x, %o : tensor<128x512xbf16>
    return %y : tensor<128x512xbf16>
  }
}
