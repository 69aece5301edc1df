// The gradient of a shard is accumulated over micro-batches: f32 results of GEMMs are summed over the ranks, without rounding.
// RUN: te-opt %s --te-training-pipeline="vjp=layer compile-to=quantize recipe=float8_current_scaling main-grad=true" | FileCheck %s

// CHECK-LABEL: func.func @layer
// CHECK: %[[DW:.*]] = te.scaled_matmul {{.*}} -> tensor<256x256xf32>
// CHECK: %[[SUM:.*]] = te.reduce_scatter %[[DW]] group 0 axis 0 : tensor<256x256xf32> -> tensor<128x256xf32>
// CHECK: arith.addf %{{.*}}, %[[SUM]] : tensor<128x256xf32>
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
  func.func @layer(%x: tensor<128x256xbf16> {te.name = "x", te.sharding = [#te.shard<axis = 0, group = 0>]},
                   %w: tensor<128x256xbf16> {te.name = "w", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]})
      -> (tensor<128x256xbf16> {te.name = "y"}) {
    %all = te.all_gather %w group 0 axis 0 : tensor<128x256xbf16> -> tensor<256x256xbf16>
    %y = te.linear %x, %all : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
    return %y : tensor<128x256xbf16>
  }
}
