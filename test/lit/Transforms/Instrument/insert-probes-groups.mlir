// A cast that is gathered as bytes is probed before the gather. A cast of a flat shard is not a matrix, so it is not probed.

// RUN: te-opt %s --te-training-pipeline="vjp=layer recipe=float8_current_scaling compile-to=fuse probes=*" | FileCheck %s
// RUN: te-opt %s --te-training-pipeline="vjp=layer recipe=mxfp8_block_scaling target=reference probes=*" | FileCheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @layer
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<128x256xbf16> {te.name = "w"
// CHECK-SAME: te.name = "probe.w.w"
// CHECK-NOT: te.name = "probe.flat.w"
// CHECK: %[[Q:.*]] = te.quantize %[[W]] scale %{{.*}} : tensor<128x256xbf16> -> !te.scaled<128x256xf8E4M3FN, per_tensor, contract = 1>
// CHECK-NEXT: te.tensor_stats %[[W]] cast %[[Q]]
// CHECK: te.all_gather %[[Q]] group 0 axis 0

// LOWER: llvm.func @te_module_step
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
  func.func @layer(%x: tensor<128x256xbf16> {te.name = "x", te.sharding = [#te.shard<axis = 0, group = 0>]},
                   %w: tensor<128x256xbf16> {te.name = "w", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]},
                   %flat: tensor<32768xbf16> {te.name = "flat", te.weight, te.sharding = [#te.shard<axis = 0, group = 0>]})
      -> (tensor<128x256xbf16> {te.name = "y"}) {
    %all = te.all_gather %w group 0 axis 0 : tensor<128x256xbf16> -> tensor<256x256xbf16>
    %h = te.linear %x, %all : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
    %run = te.all_gather %flat group 0 axis 0 : tensor<32768xbf16> -> tensor<65536xbf16>
    %whole = tensor.expand_shape %run [[0, 1]] output_shape [256, 256] : tensor<65536xbf16> into tensor<256x256xbf16>
    %y = te.linear %h, %whole : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
    return %y : tensor<128x256xbf16>
  }
}
