// One rank's part of a training step whose weights, gradients and moments are
// split by rows over two ranks, each with tokens of its own: 256 of 512 rows of
// an f32 master weight are kept, and gathered in 8 bits where the layer reads it.
module attributes {te.recipe = #te.recipe<float8_current_scaling>,
                   te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
  func.func private @loss(%x: tensor<64x256xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]},
                          %w: tensor<256x256xf32> {te.name = "w", te.sharding = [#te.shard<axis = 0, group = 0>]},
                          %target: tensor<64x512xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]}) -> tensor<64x512xbf16> {
    %rounded = arith.truncf %w : tensor<256x256xf32> to tensor<256x256xbf16>
    %all = te.all_gather %rounded group 0 axis 0 : tensor<256x256xbf16> -> tensor<512x256xbf16>
    %y = te.linear %x, %all : tensor<64x256xbf16>, tensor<512x256xbf16> -> tensor<64x512xbf16>
    %e = arith.subf %y, %target : tensor<64x512xbf16>
    return %e : tensor<64x512xbf16>
  }
  func.func @step(%x: tensor<64x256xbf16> {te.name = "x", te.sharding = [#te.shard<axis = 0, group = 0>]},
                  %w: tensor<256x256xf32> {te.name = "w", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]},
                  %m: tensor<256x256xf32> {te.name = "m", te.init = 0.0 : f32, te.sharding = [#te.shard<axis = 0, group = 0>]},
                  %v: tensor<256x256xf32> {te.name = "v", te.init = 0.0 : f32, te.sharding = [#te.shard<axis = 0, group = 0>]},
                  %target: tensor<64x512xbf16> {te.name = "target", te.sharding = [#te.shard<axis = 0, group = 0>]})
      -> (tensor<256x256xf32> {te.name = "w"}, tensor<256x256xf32> {te.name = "m"}, tensor<256x256xf32> {te.name = "v"},
          tensor<f32> {te.name = "largest_error"}) {
    %lr = arith.constant dense<0.01> : tensor<f32>
    %one = arith.constant dense<1.0> : tensor<f32>
    %e0 = func.call @loss(%x, %w, %target) : (tensor<64x256xbf16>, tensor<256x256xf32>, tensor<64x512xbf16>) -> tensor<64x512xbf16>
    %e, %dw = te.vjp @loss(%x, %w, %target) cotangents(%e0) wrt [1]
      : (tensor<64x256xbf16>, tensor<256x256xf32>, tensor<64x512xbf16>), (tensor<64x512xbf16>) -> (tensor<64x512xbf16>, tensor<256x256xf32>)
    %p1, %m1, %v1 = te.adamw %w, %dw, %m, %v lr %lr step %one {weight_decay = 0.0 : f32} : tensor<256x256xf32>, tensor<256x256xf32>
    %own = te.amax %e : tensor<64x512xbf16>
    %largest = te.amax_reduce %own group 0
    return %p1, %m1, %v1, %largest : tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<f32>
  }
}
