// A weight that is sharded over the ranks is cast before it is gathered, with one amax over the group where there is one; gathered
// again in the backward; and its gradient is summed and scattered, in f32 for an f32 master.
// RUN: te-opt %s --te-training-pipeline="vjp=layer compile-to=quantize recipe=float8_current_scaling" | FileCheck %s --check-prefixes=CHECK,CURRENT
// RUN: te-opt %s --te-training-pipeline="vjp=layer compile-to=quantize recipe=float8_block_scaling" | FileCheck %s --check-prefixes=CHECK,BLOCK
// RUN: te-opt %s --te-training-pipeline="vjp=layer compile-to=quantize recipe=high_precision" | FileCheck %s --check-prefixes=CHECK,HIGH
// RUN: te-opt %s --te-training-pipeline="vjp=master compile-to=quantize recipe=float8_current_scaling" | FileCheck %s --check-prefix=MASTER
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=quantize recipe=high_precision" | FileCheck %s --check-prefix=FLAT
// RUN: te-opt %s --te-training-pipeline="vjp=uneven compile-to=schedule recipe=float8_current_scaling" | FileCheck %s --check-prefix=UNEVEN

// CHECK-LABEL: func.func @layer
// CURRENT: %[[AMAX:.*]] = te.amax %arg1
// CURRENT: te.amax_reduce %[[AMAX]] group 0
// CURRENT: te.all_gather %{{.*}} group 0 axis 0 : !te.scaled<128x256xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<256x256xf8E4M3FN, per_tensor, contract = 1>
// BLOCK-NOT: te.amax
// BLOCK: te.all_gather %{{.*}} group 0 axis 0 : !te.scaled<128x256xf8E4M3FN, block_128x128, pow2, contract = 1>
// HIGH: te.all_gather %arg1
// A shard is held, not what was gathered.
// CURRENT: %[[HELD:.*]] = te.residual %{{.*}} : !te.scaled<128x256xf8E4M3FN, per_tensor, contract = 1>
// CURRENT: %[[AGAIN:.*]] = te.all_gather %[[HELD]]
// CURRENT: te.transpose %[[AGAIN]]
// BLOCK: te.residual %{{.*}} : !te.scaled<128x256x
// BLOCK: te.all_gather %{{.*}} : !te.scaled<128x256x
// HIGH: %[[HELD:.*]] = te.residual %arg1
// HIGH: te.all_gather %[[HELD]]
// CHECK: te.reduce_scatter %{{.*}} group 0 axis 0 : tensor<256x256xbf16> -> tensor<128x256xbf16>

// MASTER-LABEL: func.func @master
// MASTER: %[[ROUNDED:.*]] = arith.truncf %arg1
// MASTER: te.quantize %[[ROUNDED]]
// MASTER: %[[DW:.*]] = te.scaled_matmul {{.*}} -> tensor<256x256xf32>
// MASTER: te.reduce_scatter %[[DW]] group 0 axis 0 : tensor<256x256xf32> -> tensor<128x256xf32>
// MASTER-NOT: arith.extf

// Flat: gathered as it is, and again in the backward; the product is of f32 here, too.
// FLAT-LABEL: func.func @flat
// FLAT: %[[ROUNDED:.*]] = arith.truncf %arg1
// FLAT: te.all_gather %[[ROUNDED]] group 0 axis 0 : tensor<20000xbf16> -> tensor<32768xbf16>
// FLAT: te.residual %[[ROUNDED]] "w"
// FLAT: te.all_gather %{{.*}} group 0 axis 0 : tensor<20000xbf16> -> tensor<32768xbf16>
// FLAT: te.matmul {{.*}} -> tensor<128x256xf32>
// FLAT: te.reduce_scatter %{{.*}} group 0 axis 0 : tensor<32768xf32> -> tensor<20000xf32>

// 160 rows in shards of 96: 96 and 64. The gradient has zeros behind its end.
// UNEVEN-LABEL: func.func @uneven
// UNEVEN: tert.launch "all_gather" {bytes = 24576 : i64
// UNEVEN: tert.launch "copy_strided" {bytes = 24576 : i64, parts = 1 : i64
// UNEVEN: tert.slice %{{.*}} offset 24576
// UNEVEN: tert.launch "copy_strided" {bytes = 16384 : i64, parts = 1 : i64
// UNEVEN: tert.launch "fill" {count = 24576 : i64
// UNEVEN: tert.launch "copy_strided" {bytes = 49152 : i64
// UNEVEN: tert.launch "copy_strided" {bytes = 32768 : i64
// UNEVEN: tert.launch "reduce_scatter_sum" {count = 24576 : i64
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
  func.func @layer(%x: tensor<128x256xbf16> {te.name = "x", te.sharding = [#te.shard<axis = 0, group = 0>]},
                   %w: tensor<128x256xbf16> {te.name = "w", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]})
      -> (tensor<128x256xbf16> {te.name = "y"}) {
    %all = te.all_gather %w group 0 axis 0 : tensor<128x256xbf16> -> tensor<256x256xbf16>
    %y = te.linear %x, %all : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
    return %y : tensor<128x256xbf16>
  }
  func.func @master(%x: tensor<128x256xbf16> {te.name = "x", te.sharding = [#te.shard<axis = 0, group = 0>]},
                    %w: tensor<128x256xf32> {te.name = "w", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]})
      -> (tensor<128x256xbf16> {te.name = "y"}) {
    %rounded = arith.truncf %w : tensor<128x256xf32> to tensor<128x256xbf16>
    %all = te.all_gather %rounded group 0 axis 0 : tensor<128x256xbf16> -> tensor<256x256xbf16>
    %y = te.linear %x, %all : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
    return %y : tensor<128x256xbf16>
  }
  func.func @flat(%x: tensor<128x256xbf16> {te.name = "x", te.sharding = [#te.shard<axis = 0, group = 0>]},
                  %w: tensor<20000xf32> {te.name = "w", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]})
      -> (tensor<128x128xbf16> {te.name = "y"}) {
    %rounded = arith.truncf %w : tensor<20000xf32> to tensor<20000xbf16>
    %flat = te.all_gather %rounded group 0 axis 0 : tensor<20000xbf16> -> tensor<32768xbf16>
    %all = tensor.expand_shape %flat [[0, 1]] output_shape [128, 256] : tensor<32768xbf16> into tensor<128x256xbf16>
    %y = te.linear %x, %all : tensor<128x256xbf16>, tensor<128x256xbf16> -> tensor<128x128xbf16>
    return %y : tensor<128x128xbf16>
  }
  func.func @uneven(%x: tensor<128x256xbf16> {te.name = "x", te.sharding = [#te.shard<axis = 0, group = 0>]},
                    %w: tensor<96x256xbf16> {te.name = "w", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]})
      -> (tensor<128x160xbf16> {te.name = "y"}) {
    %all = te.all_gather %w group 0 axis 0 : tensor<96x256xbf16> -> tensor<160x256xbf16>
    %y = te.linear %x, %all : tensor<128x256xbf16>, tensor<160x256xbf16> -> tensor<128x160xbf16>
    return %y : tensor<128x160xbf16>
  }
}
