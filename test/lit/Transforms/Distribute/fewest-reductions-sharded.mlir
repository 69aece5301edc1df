// The amaxes of all sharded weights are available at the start of a step, so there is one reduction, although weights are gathered twice.
// RUN: te-opt %s --te-training-pipeline="vjp=sharded compile-to=fuse recipe=float8_current_scaling report=precision" -o /dev/null 2>&1 | FileCheck %s
// RUN: te-opt %s --te-training-pipeline="vjp=sharded compile-to=fuse recipe=delayed_scaling report=precision" -o /dev/null 2>&1 | FileCheck %s --check-prefix=DELAYED
// RUN: te-opt %s --te-training-pipeline="vjp=sharded compile-to=fuse recipe=float8_block_scaling report=precision" -o /dev/null 2>&1 | FileCheck %s --check-prefix=BLOCK

// CHECK: collective group launches values
// CHECK-NEXT: amax_reduce dp 1 4 16
// CHECK-NEXT: all_gather dp 8 8
// CHECK-NEXT: reduce_scatter dp 4 4
// DELAYED: amax_reduce dp 1 12 48
// BLOCK: all_gather dp 8 8
// BLOCK-NOT: amax_reduce
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
  func.func @sharded(%x: tensor<128x256xbf16> {te.name = "x", te.sharding = [#te.shard<axis = 0, group = 0>]},
                     %w1: tensor<128x256xbf16> {te.name = "w1", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]},
                     %w2: tensor<128x256xbf16> {te.name = "w2", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]},
                     %w3: tensor<128x256xbf16> {te.name = "w3", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]},
                     %w4: tensor<128x256xbf16> {te.name = "w4", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]})
      -> (tensor<128x256xbf16> {te.name = "y"}) {
    %g1 = te.all_gather %w1 group 0 axis 0 : tensor<128x256xbf16> -> tensor<256x256xbf16>
    %a = te.linear %x, %g1 : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
    %g2 = te.all_gather %w2 group 0 axis 0 : tensor<128x256xbf16> -> tensor<256x256xbf16>
    %b = te.linear %a, %g2 : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
    %g3 = te.all_gather %w3 group 0 axis 0 : tensor<128x256xbf16> -> tensor<256x256xbf16>
    %c = te.linear %b, %g3 : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
    %g4 = te.all_gather %w4 group 0 axis 0 : tensor<128x256xbf16> -> tensor<256x256xbf16>
    %y = te.linear %c, %g4 : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
    return %y : tensor<128x256xbf16>
  }
}
