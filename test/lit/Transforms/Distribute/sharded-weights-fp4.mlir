// A flat shard of a weight is cast to FP4 before it is gathered. There is an amax for each block, and one reduction for both levels of scales.
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=quantize target=reference recipe=nvfp4_block_scaling" | FileCheck %s --check-prefix=NV
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=schedule target=reference recipe=nvfp4_block_scaling" | FileCheck %s --check-prefix=NVLAUNCH
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=fuse target=reference recipe=nvfp4_block_scaling report=precision" -o /dev/null | FileCheck %s --check-prefix=NVBYTES
// RUN: te-opt %s --te-training-pipeline="vjp=flat compile-to=quantize target=reference recipe=nvfp4_block_scaling cache-weights=true" | FileCheck %s --check-prefix=NVKEPT
// RUN: te-opt %s --te-training-pipeline="vjp=flat_1d compile-to=quantize target=reference recipe=nvfp4_block_scaling" | FileCheck %s --check-prefix=NV1D
// RUN: te-opt %s --te-training-pipeline="vjp=flat_1d compile-to=quantize target=reference recipe=nvfp4_block_scaling" --remarks-filter='.*' 2>&1 >/dev/null | FileCheck %s --check-prefix=REFUSED

// Two values in a byte are a quarter of the bytes of bf16, with one amax for 256 elements. Columns are computed from rows.
// NV-LABEL: func.func @flat
// NV: %[[W:.*]] = arith.truncf %arg1
// NV: %[[PART:.*]] = te.partial_amax %[[W]] group 0 of [128, 256] blocks [16, 16] : tensor<20000xbf16> -> tensor<8x16xf32>
// NV: %[[AMAX:.*]] = te.amax_reduce %[[PART]] group 0
// NV: %[[Q:.*]] = te.quantize_shard %[[W]] amax %[[AMAX]] group 0 : tensor<20000xbf16> -> !te.scaled<128x256xf4E2M1FN, nv_16x16, contract = 1, shard = 20000>
// NV: te.all_gather %[[Q]] group 0 axis 0
// NV: %[[HELD:.*]] = te.residual %[[Q]] "w"
// NV: %[[AGAIN:.*]] = te.all_gather %[[HELD]] group 0 axis 0
// NV: te.transpose %[[AGAIN]]

// NVLAUNCH-LABEL: func.func @flat
// NVLAUNCH: tert.launch "partial_amax" {block_cols = 16 : i64, block_rows = 16 : i64
// NVLAUNCH: tert.launch "all_reduce_max" {count = 128 : i64
// NVLAUNCH: tert.launch "quantize_nvfp4_shard" {cols = 256 : i64, count = 20000 : i64, rank_of = 0 : i32, ranks = 2 : i32, rows = 128 : i64, scale_max = 448 : i32, scheme = 6 : i32, start = 0 : i64, type = 1 : i32}
// NVLAUNCH: tert.launch "all_gather" {bytes = 10000 : i64

// NVBYTES: amax_reduce dp 1 1 512
// NVBYTES: all_gather dp 2 2 20000

// NVKEPT-LABEL: func.func @flat
// NVKEPT: te.partial_amax %{{.*}} unless %[[SKIP:[^ ]*]] group 0
// NVKEPT: te.quantize_shard %{{.*}} amax %{{.*}} group 0 into %{{.*}} unless %[[SKIP]]

// With 1x16 blocks, rows are cast in the shard, and columns are cast from the gathered tensor.
// NV1D-LABEL: func.func @flat_1d
// NV1D: %[[W:.*]] = arith.truncf %arg1
// NV1D: %[[PART:.*]] = te.partial_amax %[[W]] group 0 of [128, 256] blocks [1, 16] : tensor<20000xbf16> -> tensor<128x16xf32>
// NV1D: te.amax_reduce %[[PART]] group 0
// NV1D: te.quantize_shard %[[W]] {{.*}} -> !te.scaled<128x256xf4E2M1FN, nv_1x16, contract = 1, shard = 20000>
// NV1D: te.all_gather %{{.*}} : tensor<20000xbf16> -> tensor<32768xbf16>
// NV1D: te.quantize %{{.*}} : tensor<128x256xbf16> -> !te.scaled<128x256xf4E2M1FN, nv_1x16, contract = 0>

// REFUSED-DAG: gather-precision{{.*}}Function=flat_1d | Reason="a flat shard cuts blocks of scheme 'nv_1x16' that lie down columns", Remark="'w' is gathered in high precision"
// REFUSED-DAG: gather-precision{{.*}}Function=odd_flat | Reason="a flat shard of 20001 elements, an odd number, cuts a byte of two FP4 values", Remark="'w' is gathered in high precision"
// REFUSED-DAG: gather-precision{{.*}}Function=flat_4over6 | Reason="'four_over_six' compares the errors of all elements of a block, which a flat shard cuts", Remark="'w' is gathered in high precision"
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
  func.func @flat(%x: tensor<128x256xbf16> {te.name = "x", te.sharding = [#te.shard<axis = 0, group = 0>]},
                  %w: tensor<20000xf32> {te.name = "w", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]})
      -> (tensor<128x128xbf16> {te.name = "y"}) {
    %rounded = arith.truncf %w : tensor<20000xf32> to tensor<20000xbf16>
    %flat = te.all_gather %rounded group 0 axis 0 : tensor<20000xbf16> -> tensor<32768xbf16>
    %all = tensor.expand_shape %flat [[0, 1]] output_shape [128, 256] : tensor<32768xbf16> into tensor<128x256xbf16>
    %y = te.linear %x, %all : tensor<128x256xbf16>, tensor<128x256xbf16> -> tensor<128x128xbf16>
    return %y : tensor<128x128xbf16>
  }
  func.func @odd_flat(%x: tensor<128x256xbf16> {te.name = "x", te.sharding = [#te.shard<axis = 0, group = 0>]},
    %w: tensor<20001xf32> {te.name = "w", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]})
      -> (tensor<128x128xbf16> {te.name = "y"}) {
    %rounded = arith.truncf %w : tensor<20001xf32> to tensor<20001xbf16>
    %flat = te.all_gather %rounded group 0 axis 0 : tensor<20001xbf16> -> tensor<32768xbf16>
    %all = tensor.expand_shape %flat [[0, 1]] output_shape [128, 256] : tensor<32768xbf16> into tensor<128x256xbf16>
    %y = te.linear %x, %all : tensor<128x256xbf16>, tensor<128x256xbf16> -> tensor<128x128xbf16>
    return %y : tensor<128x128xbf16>
  }
  func.func @flat_1d(%x: tensor<128x256xbf16> {te.name = "x", te.sharding = [#te.shard<axis = 0, group = 0>]},
    %w: tensor<20000xf32> {te.name = "w", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]})
      -> (tensor<128x128xbf16> {te.name = "y"}) {
    %rounded = arith.truncf %w : tensor<20000xf32> to tensor<20000xbf16>
    %flat = te.all_gather %rounded group 0 axis 0 : tensor<20000xbf16> -> tensor<32768xbf16>
    %all = tensor.expand_shape %flat [[0, 1]] output_shape [128, 256] : tensor<32768xbf16> into tensor<128x256xbf16>
    %y = te.linear %x, %all {te.recipe = #te.recipe<nvfp4_block_scaling, {w_2d = false}>} : tensor<128x256xbf16>, tensor<128x256xbf16> -> tensor<128x128xbf16>
    return %y : tensor<128x128xbf16>
  }
  func.func @flat_4over6(%x: tensor<128x256xbf16> {te.name = "x", te.sharding = [#te.shard<axis = 0, group = 0>]},
    %w: tensor<20000xf32> {te.name = "w", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]})
      -> (tensor<128x128xbf16> {te.name = "y"}) {
    %rounded = arith.truncf %w : tensor<20000xf32> to tensor<20000xbf16>
    %flat = te.all_gather %rounded group 0 axis 0 : tensor<20000xbf16> -> tensor<32768xbf16>
    %all = tensor.expand_shape %flat [[0, 1]] output_shape [128, 256] : tensor<32768xbf16> into tensor<128x256xbf16>
    %y = te.linear %x, %all {te.recipe = #te.recipe<nvfp4_block_scaling, {four_over_six = weights}>} : tensor<128x256xbf16>, tensor<128x256xbf16> -> tensor<128x128xbf16>
    return %y : tensor<128x128xbf16>
  }
}
