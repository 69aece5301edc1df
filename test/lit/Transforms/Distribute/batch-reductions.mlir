// The pass forms the fewest reductions without moving a reader.
// RUN: te-opt %s --te-batch-reductions | FileCheck %s
// RUN: te-opt %s --te-batch-reductions=most-bytes=520 | FileCheck %s --check-prefix=MOST
// RUN: te-opt %s --te-batch-reductions=most-bytes=519 | FileCheck %s --check-prefix=FEWER

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>, #te.group<id = 1, name = "dp", axis = "dp", size = 2>]} {

// Amaxes of arguments are measured before the first reader.
// CHECK-LABEL: func.func @arguments
// CHECK: %[[A:.*]] = te.amax %arg0
// CHECK-NEXT: %[[B:.*]] = te.amax %arg1
// CHECK-NEXT: %[[R:.*]]:2 = te.amax_reduce %[[A]], %[[B]] group 0
// CHECK-NEXT: te.compute_scale %[[R]]#0
// CHECK-NEXT: te.compute_scale %[[R]]#1
// CHECK-NOT: te.amax_reduce
func.func @arguments(%x: tensor<16x16xbf16>, %w: tensor<16x16xbf16>) -> (tensor<f32>, tensor<f32>) {
  %a = te.amax %x : tensor<16x16xbf16>
  %ra = te.amax_reduce %a group 0
  %sa = te.compute_scale %ra for f8E4M3FN
  %b = te.amax %w : tensor<16x16xbf16>
  %rb = te.amax_reduce %b group 0
  %sb = te.compute_scale %rb for f8E4M3FN
  return %sa, %sb : tensor<f32>, tensor<f32>
}

// Amaxes of rounded master weights are measured before the first reader. 2 times 256 bytes and 2
// amaxes of 4 bytes wait; if the limit is lower, amaxes that are read later are reduced later.
// CHECK-LABEL: func.func @masters
// CHECK: %[[V:.*]] = arith.truncf %arg0
// CHECK: %[[A:.*]] = te.partial_amax %[[V]]
// CHECK: %[[W:.*]] = arith.truncf %arg1
// CHECK: %[[B:.*]] = te.partial_amax %[[W]]
// CHECK-NEXT: %[[R:.*]]:2 = te.amax_reduce %[[A]], %[[B]] group 0
// CHECK-NEXT: te.quantize_shard %[[V]] amax %[[R]]#0
// CHECK-NEXT: te.quantize_shard %[[W]] amax %[[R]]#1
// CHECK-NOT: te.amax_reduce
// MOST-LABEL: func.func @masters
// MOST: te.amax_reduce %{{.*}}, %{{.*}} group 0
// MOST-NEXT: te.quantize
// MOST-NEXT: te.quantize
// FEWER-LABEL: func.func @masters
// FEWER: te.amax_reduce %{{[^,]*}} group 0
// FEWER: te.quantize
// FEWER: arith.truncf
// FEWER: te.amax_reduce %{{[^,]*}} group 0
// FEWER: te.quantize
func.func @masters(%v: tensor<128xf32>, %w: tensor<128xf32>)
    -> (!te.scaled<16x16xf4E2M1FN, nv_16x16, contract = 1, shard = 128>, !te.scaled<32x8xf8E4M3FN, block_128x128, contract = 1, shard = 128>) {
  %vr = arith.truncf %v : tensor<128xf32> to tensor<128xbf16>
  %a = te.partial_amax %vr group 0 of [16, 16] blocks [16, 16] : tensor<128xbf16> -> tensor<1x1xf32>
  %ra = te.amax_reduce %a group 0 : tensor<1x1xf32>
  %vq = te.quantize_shard %vr amax %ra group 0 : tensor<128xbf16> -> !te.scaled<16x16xf4E2M1FN, nv_16x16, contract = 1, shard = 128>
  %wr = arith.truncf %w : tensor<128xf32> to tensor<128xbf16>
  %b = te.partial_amax %wr group 0 of [32, 8] blocks [128, 128] : tensor<128xbf16> -> tensor<1x1xf32>
  %rb = te.amax_reduce %b group 0 : tensor<1x1xf32>
  %wq = te.quantize_shard %wr amax %rb group 0 : tensor<128xbf16> -> !te.scaled<32x8xf8E4M3FN, block_128x128, contract = 1, shard = 128>
  return %vq, %wq : !te.scaled<16x16xf4E2M1FN, nv_16x16, contract = 1, shard = 128>, !te.scaled<32x8xf8E4M3FN, block_128x128, contract = 1, shard = 128>
}

// The second amax depends on a result of the first reduction.
// CHECK-LABEL: func.func @chain
// CHECK-COUNT-2: te.amax_reduce %{{[^,]*}} group 0
func.func @chain(%x: tensor<16x16xbf16>) -> tensor<f32> {
  %a = te.amax %x : tensor<16x16xbf16>
  %ra = te.amax_reduce %a group 0
  %s = te.compute_scale %ra for f8E4M3FN
  %q = te.quantize %x scale %s : tensor<16x16xbf16> -> !te.scaled<16x16xf8E4M3FN, per_tensor, contract = 1>
  %d = te.dequantize %q : <16x16xf8E4M3FN, per_tensor, contract = 1> -> tensor<16x16xbf16>
  %b = te.amax %d : tensor<16x16xbf16>
  %rb = te.amax_reduce %b group 0
  return %rb : tensor<f32>
}

// An amax of a reduced amax does not move.
// CHECK-LABEL: func.func @twice
// CHECK-COUNT-2: te.amax_reduce %{{[^,]*}} group 0
func.func @twice(%a: tensor<f32>) -> tensor<f32> {
  %r = te.amax_reduce %a group 0
  %s = te.amax_reduce %r group 0
  return %s : tensor<f32>
}

// Reductions over two axes run one after the other, one for each axis.
// CHECK-LABEL: func.func @axes
// CHECK: %[[T:.*]]:2 = te.amax_reduce %arg0, %arg1 group 0
// CHECK-NEXT: %[[D:.*]]:2 = te.amax_reduce %[[T]]#0, %[[T]]#1 group 1
// CHECK-NEXT: te.compute_scale %[[D]]#0
// CHECK-NOT: te.amax_reduce
func.func @axes(%a: tensor<f32>, %b: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %at = te.amax_reduce %a group 0
  %ad = te.amax_reduce %at group 1
  %sa = te.compute_scale %ad for f8E4M3FN
  %bt = te.amax_reduce %b group 0
  %bd = te.amax_reduce %bt group 1
  %sb = te.compute_scale %bd for f8E4M3FN
  return %sa, %sb : tensor<f32>, tensor<f32>
}

// Both usages of an NVFP4 cast are reduced together, because the Hadamard transform moves before the first.
// CHECK-LABEL: func.func @both_usages
// CHECK: te.hadamard
// CHECK: te.amax_reduce %{{.*}}, %{{.*}} group 0
// CHECK-NOT: te.amax_reduce
func.func @both_usages(%x: tensor<16x16xbf16>) -> (tensor<f32>, tensor<f32>) {
  %a = te.amax %x : tensor<16x16xbf16>
  %ra = te.amax_reduce %a group 0
  %sa = te.compute_scale %ra for f8E4M3FN
  %h = te.hadamard %x : tensor<16x16xbf16>
  %b = te.amax %h : tensor<16x16xbf16>
  %rb = te.amax_reduce %b group 0
  return %sa, %rb : tensor<f32>, tensor<f32>
}

// An amax that two ops reduce is reduced once.
// CHECK-LABEL: func.func @same
// CHECK: %[[R:.*]] = te.amax_reduce %arg0 group 0
// CHECK-NEXT: return %[[R]], %[[R]]
func.func @same(%a: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %r = te.amax_reduce %a group 0
  %s = te.amax_reduce %a group 0
  return %r, %s : tensor<f32>, tensor<f32>
}

}
