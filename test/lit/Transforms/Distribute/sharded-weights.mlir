// A sharded weight is cast before it is gathered, with an amax over the group if the recipe has one. It is
// gathered again in the backward. Its gradient is summed and scattered, in f32 for an f32 master weight.
// RUN: te-opt %s --te-training-pipeline="vjp=layer compile-to=quantize recipe=float8_current_scaling" | FileCheck %s --check-prefixes=CHECK,CURRENT
// RUN: te-opt %s --te-training-pipeline="vjp=layer compile-to=quantize recipe=float8_block_scaling" | FileCheck %s --check-prefixes=CHECK,BLOCK
// RUN: te-opt %s --te-training-pipeline="vjp=layer compile-to=quantize recipe=high_precision" | FileCheck %s --check-prefixes=CHECK,HIGH
// RUN: te-opt %s --te-training-pipeline="vjp=master compile-to=quantize recipe=float8_current_scaling" | FileCheck %s --check-prefix=MASTER
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=quantize recipe=high_precision" | FileCheck %s --check-prefix=FLAT
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=quantize recipe=float8_block_scaling" | FileCheck %s --check-prefix=FLAT8
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=quantize recipe=delayed_scaling" | FileCheck %s --check-prefix=DELAYED
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=quantize recipe=float8_block_scaling cache-weights=true" | FileCheck %s --check-prefix=KEPT
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=quantize recipe=float8_block_scaling backward-override=dequantized" | FileCheck %s --check-prefix=OVERRIDE
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=schedule recipe=float8_block_scaling" | FileCheck %s --check-prefix=LAUNCH
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=schedule recipe=float8_current_scaling" | FileCheck %s --check-prefix=ROWS
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=fuse recipe=float8_block_scaling report=precision" -o /dev/null | FileCheck %s --check-prefix=BYTES
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=fuse recipe=high_precision report=precision" -o /dev/null | FileCheck %s --check-prefix=BYTES16
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=quantize target=reference recipe=mxfp8_block_scaling" | FileCheck %s --check-prefix=MX
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=schedule target=reference recipe=mxfp8_block_scaling" | FileCheck %s --check-prefix=MXLAUNCH
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=fuse target=reference recipe=mxfp8_block_scaling report=precision" -o /dev/null | FileCheck %s --check-prefix=MXBYTES
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=quantize target=reference recipe=mxfp8_block_scaling remat=everything" | FileCheck %s --check-prefix=MXREMAT
// RUN: te-opt %s --te-training-pipeline="vjp=turned compile-to=quantize recipe=float8_block_scaling" --remarks-filter='.*' 2>&1 >/dev/null | FileCheck %s --check-prefix=TURNED
// RUN: te-opt %s --te-training-pipeline="vjp=uneven compile-to=schedule recipe=float8_current_scaling" | FileCheck %s --check-prefix=UNEVEN

// CHECK-LABEL: func.func @layer
// CURRENT: %[[AMAX:.*]] = te.amax %arg1
// CURRENT: te.amax_reduce %[[AMAX]] group 0
// CURRENT: te.all_gather %{{.*}} group 0 axis 0 : !te.scaled<128x256xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<256x256xf8E4M3FN, per_tensor, contract = 1>
// BLOCK-NOT: te.amax
// BLOCK: te.all_gather %{{.*}} group 0 axis 0 : !te.scaled<128x256xf8E4M3FN, block_128x128, pow2, contract = 1>
// HIGH: te.all_gather %arg1
// The shard is saved, not the gathered weight.
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

// A flat shard is gathered in high precision, and again in the backward. The GEMM's result is f32 here, too.
// FLAT-LABEL: func.func @flat
// FLAT: %[[ROUNDED:.*]] = arith.truncf %arg1
// FLAT: te.all_gather %[[ROUNDED]] group 0 axis 0 : tensor<20000xbf16> -> tensor<32768xbf16>
// FLAT: te.residual %[[ROUNDED]] "w"
// FLAT: te.all_gather %{{.*}} group 0 axis 0 : tensor<20000xbf16> -> tensor<32768xbf16>
// FLAT: te.matmul {{.*}} -> tensor<128x256xf32>
// FLAT: te.reduce_scatter %{{.*}} group 0 axis 0 : tensor<32768xf32> -> tensor<20000xf32>

// In 8 bits: the amax of a block that is cut is reduced over the ranks that have a part of it. The cast is saved, gathered again and transposed.
// FLAT8-LABEL: func.func @flat
// FLAT8: %[[W:.*]] = arith.truncf %arg1
// FLAT8: %[[PART:.*]] = te.partial_amax %[[W]] group 0 of [128, 256] blocks [128, 128] : tensor<20000xbf16> -> tensor<1x2xf32>
// FLAT8: %[[AMAX:.*]] = te.amax_reduce %[[PART]] group 0
// FLAT8: %[[Q:.*]] = te.quantize_shard %[[W]] amax %[[AMAX]] group 0 : tensor<20000xbf16> -> !te.scaled<128x256xf8E4M3FN, block_128x128, pow2, contract = 1, shard = 20000>
// FLAT8: te.all_gather %[[Q]] group 0 axis 0
// FLAT8: %[[HELD:.*]] = te.residual %[[Q]] "w"
// FLAT8: %[[AGAIN:.*]] = te.all_gather %[[HELD]] group 0 axis 0
// FLAT8: te.transpose %[[AGAIN]]

// All ranks have one scale, which is computed from all amaxes.
// DELAYED-LABEL: func.func @flat
// DELAYED: te.quantize_shard %{{.*}} scale %{{.*}} : tensor<20000xbf16> -> !te.scaled<128x256xf8E4M3FN, per_tensor, contract = 1, shard = 20000>
// DELAYED: te.all_gather {{.*}} shard = 20000>
// DELAYED: te.amax_reduce

// The flag of micro-batches keeps the cached shard, but the reduction always runs.
// KEPT-LABEL: func.func @flat
// KEPT: te.partial_amax %{{.*}} unless %[[SKIP:[^ ]*]] group 0
// KEPT: te.amax_reduce
// KEPT: te.quantize_shard %{{.*}} amax %{{.*}} group 0 into %{{.*}} unless %[[SKIP]]

// OVERRIDE-LABEL: func.func @flat
// OVERRIDE: %[[WHOLE:.*]] = te.all_gather %{{.*}} shard = 20000> -> !te.scaled<128x256x
// OVERRIDE: te.residual
// OVERRIDE: %[[AGAIN:.*]] = te.all_gather %{{.*}} shard = 20000> -> !te.scaled<128x256x
// OVERRIDE: te.dequantize %[[AGAIN]]

// LAUNCH-LABEL: func.func @flat
// LAUNCH: tert.launch "partial_amax" {block_cols = 128 : i64, block_rows = 128 : i64, cols = 256 : i64, count = 20000 : i64, rank_of = 0 : i32, ranks = 2 : i32, rows = 128 : i64, start = 0 : i64, type = 1 : i32}
// LAUNCH: tert.launch "all_reduce_max" {count = 2 : i64
// LAUNCH: tert.launch "quantize_shard" {{.*}}count = 20000 : i64
// LAUNCH: tert.launch "all_gather" {bytes = 20000 : i64

// With one scale, a run is cast as rows whose length is a power of two. 20,000 is a multiple of 32 but not of 64, so it is cast as one row.
// ROWS-LABEL: func.func @flat
// ROWS: tert.launch "quantize_tensor" {{.*}}cols = 20000 : i64, fp8_type = 3 : i32, from_amax = 1 : i32, matrices = 1 : i64, pow2_scales = 0 : i32, rows = 1 : i64
// ROWS-LABEL: func.func @even_flat
// ROWS: tert.launch "quantize_tensor" {{.*}}cols = 4096 : i64, fp8_type = 3 : i32, from_amax = 1 : i32, matrices = 1 : i64, pow2_scales = 0 : i32, rows = 4 : i64

// Both gathers have half the bytes of bf16.
// BYTES: amax_reduce dp 1 1 8
// BYTES: all_gather dp 2 2 40000
// BYTES16: all_gather dp 2 2 80000

// Columns cannot be computed from rows: each usage is a cast of the shard, with the amaxes of its own blocks.
// MX-LABEL: func.func @flat
// MX: %[[W:.*]] = arith.truncf %arg1
// MX: %[[PART:.*]] = te.partial_amax %[[W]] group 0 of [128, 256] blocks [1, 32] : tensor<20000xbf16> -> tensor<128x8xf32>
// MX: %[[AMAX:.*]] = te.amax_reduce %[[PART]] group 0
// MX: %[[Q:.*]] = te.quantize_shard %[[W]] amax %[[AMAX]] group 0 : tensor<20000xbf16> -> !te.scaled<128x256xf8E4M3FN, mx_1x32, contract = 1, shard = 20000>
// MX: te.all_gather %[[Q]] group 0 axis 0
// MX: %[[COLS:.*]] = te.partial_amax %[[W]] group 0 of [128, 256] blocks [32, 1] : tensor<20000xbf16> -> tensor<4x256xf32>
// MX: %[[MOST:.*]] = te.amax_reduce %[[COLS]] group 0
// MX: %[[P:.*]] = te.quantize_shard %[[W]] amax %[[MOST]] group 0 : tensor<20000xbf16> -> !te.scaled<128x256xf8E4M3FN, mx_1x32, contract = 0, shard = 20000>
// MX: %[[HELD:.*]] = te.residual %[[P]] "w"
// MX: te.all_gather %[[HELD]] group 0 axis 0 : {{.*}} -> !te.scaled<128x256xf8E4M3FN, mx_1x32, contract = 0>

// MXLAUNCH-LABEL: func.func @flat
// MXLAUNCH-DAG: tert.launch "partial_amax" {block_cols = 32 : i64, block_rows = 1 : i64
// MXLAUNCH-DAG: tert.launch "partial_amax" {block_cols = 1 : i64, block_rows = 32 : i64
// MXLAUNCH-DAG: tert.launch "quantize_shard" {{.*}}axis = 1 : i32{{.*}}scheme = 3 : i32
// MXLAUNCH-DAG: tert.launch "quantize_shard" {{.*}}axis = 0 : i32{{.*}}scheme = 3 : i32

// Both usages share a reduction.
// MXBYTES: amax_reduce dp 1 2 8192
// MXBYTES: all_gather dp 2 2 40000

// The amaxes of blocks of 32 elements have an eighth of the bytes of the whole cast, so saving them has a cost.
// MXREMAT-LABEL: func.func @flat
// MXREMAT: te.partial_amax %{{.*}} blocks [1, 32]
// MXREMAT-NOT: blocks [32, 1]
// MXREMAT: %[[HELD:.*]] = te.residual %arg1 "w
// MXREMAT: %[[AMAX:.*]] = te.partial_amax %{{.*}} blocks [32, 1]
// MXREMAT: te.amax_reduce %[[AMAX]]

// TURNED: gather-precision{{.*}}Function=turned | Reason="the weight is stored as [K, N]", Remark="'w' is gathered in high precision"

// 160 rows are divided into shards of 96, of which the second has 64. The gradient has zeros after the end.
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
  func.func @turned(%x: tensor<128x256xbf16> {te.name = "x", te.sharding = [#te.shard<axis = 0, group = 0>]},
                    %w: tensor<128x256xbf16> {te.name = "w", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]})
      -> (tensor<128x256xbf16> {te.name = "y"}) {
    %all = te.all_gather %w group 0 axis 0 : tensor<128x256xbf16> -> tensor<256x256xbf16>
    %y = te.linear %x, %all {transposed_weight} : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
    return %y : tensor<128x256xbf16>
  }

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
  func.func @even_flat(%x: tensor<128x256xbf16> {te.name = "x", te.sharding = [#te.shard<axis = 0, group = 0>]},
                       %w: tensor<16384xbf16> {te.name = "w", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]})
      -> (tensor<128x128xbf16> {te.name = "y"}) {
    %flat = te.all_gather %w group 0 axis 0 : tensor<16384xbf16> -> tensor<32768xbf16>
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
