// The fewest reductions that leave every reader where it is.
// RUN: te-opt %s --te-batch-reductions | FileCheck %s

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>, #te.group<id = 1, name = "dp", axis = "dp", size = 2>]} {

// Amaxes of arguments are taken where the first is read.
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

// The second amax is of what the first decides.
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

// An amax of an amax of the group stays where it is.
// CHECK-LABEL: func.func @twice
// CHECK-COUNT-2: te.amax_reduce %{{[^,]*}} group 0
func.func @twice(%a: tensor<f32>) -> tensor<f32> {
  %r = te.amax_reduce %a group 0
  %s = te.amax_reduce %r group 0
  return %s : tensor<f32>
}

// Over two axes, one after the other: one reduction for each.
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

// Both usages of an NVFP4 cast: the rotated tensor is made before the first.
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

// One amax that two ops reduce is reduced once.
// CHECK-LABEL: func.func @same
// CHECK: %[[R:.*]] = te.amax_reduce %arg0 group 0
// CHECK-NEXT: return %[[R]], %[[R]]
func.func @same(%a: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %r = te.amax_reduce %a group 0
  %s = te.amax_reduce %a group 0
  return %r, %s : tensor<f32>, tensor<f32>
}

}
