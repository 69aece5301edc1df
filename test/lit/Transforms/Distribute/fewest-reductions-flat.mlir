// The amaxes of the blocks of all flat master weights are available at the start of a step, after
// these are rounded, so there is one reduction. MX schemes have amaxes of rows and of columns.
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=fuse recipe=float8_block_scaling report=precision" -o /dev/null 2>&1 | FileCheck %s --check-prefix=FLAT
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=fuse target=reference recipe=nvfp4_block_scaling report=precision" -o /dev/null 2>&1 | FileCheck %s --check-prefix=FLAT4
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=fuse target=reference recipe=mxfp8_block_scaling report=precision" -o /dev/null 2>&1 | FileCheck %s --check-prefix=FLATMX
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=fuse recipe=float8_current_scaling report=precision" -o /dev/null 2>&1 | FileCheck %s --check-prefix=CURRENT
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=schedule recipe=float8_block_scaling" | FileCheck %s --check-prefix=LAUNCHES
// FLAT: amax_reduce dp 1 4 64
// FLAT-NEXT: all_gather dp 8 8
// CURRENT: amax_reduce dp 1 4 16
// FLAT4: amax_reduce dp 1 4 4096
// FLATMX: amax_reduce dp 1 8 65536
// LAUNCHES-LABEL: func.func @flat
// LAUNCHES: tert.launch "all_reduce_max" {count = 16 : i64
// LAUNCHES-NOT: all_reduce_max
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
  func.func @flat(%x: tensor<128x256xbf16> {te.name = "x", te.sharding = [#te.shard<axis = 0, group = 0>]},
                  %w1: tensor<32768xf32> {te.name = "w1", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]},
                  %w2: tensor<32768xf32> {te.name = "w2", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]},
                  %w3: tensor<32768xf32> {te.name = "w3", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]},
                  %w4: tensor<32768xf32> {te.name = "w4", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]})
      -> (tensor<128x256xbf16> {te.name = "y"}) {
    %r1 = arith.truncf %w1 : tensor<32768xf32> to tensor<32768xbf16>
    %f1 = te.all_gather %r1 group 0 axis 0 : tensor<32768xbf16> -> tensor<65536xbf16>
    %g1 = tensor.expand_shape %f1 [[0, 1]] output_shape [256, 256] : tensor<65536xbf16> into tensor<256x256xbf16>
    %y1 = te.linear %x, %g1 : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
    %r2 = arith.truncf %w2 : tensor<32768xf32> to tensor<32768xbf16>
    %f2 = te.all_gather %r2 group 0 axis 0 : tensor<32768xbf16> -> tensor<65536xbf16>
    %g2 = tensor.expand_shape %f2 [[0, 1]] output_shape [256, 256] : tensor<65536xbf16> into tensor<256x256xbf16>
    %y2 = te.linear %y1, %g2 : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
    %r3 = arith.truncf %w3 : tensor<32768xf32> to tensor<32768xbf16>
    %f3 = te.all_gather %r3 group 0 axis 0 : tensor<32768xbf16> -> tensor<65536xbf16>
    %g3 = tensor.expand_shape %f3 [[0, 1]] output_shape [256, 256] : tensor<65536xbf16> into tensor<256x256xbf16>
    %y3 = te.linear %y2, %g3 : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
    %r4 = arith.truncf %w4 : tensor<32768xf32> to tensor<32768xbf16>
    %f4 = te.all_gather %r4 group 0 axis 0 : tensor<32768xbf16> -> tensor<65536xbf16>
    %g4 = tensor.expand_shape %f4 [[0, 1]] output_shape [256, 256] : tensor<65536xbf16> into tensor<256x256xbf16>
    %y4 = te.linear %y3, %g4 : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
    return %y4 : tensor<128x256xbf16>
  }
}
