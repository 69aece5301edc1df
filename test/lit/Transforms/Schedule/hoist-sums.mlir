// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-hoist-sums))' | FileCheck %s

// Two sums wait at the end; each moves to where its last summand is made, and the second after the first, which it reads.
// CHECK-LABEL: @sums_of_micro_batches
// CHECK:      %[[A:.*]] = te.activation <relu> %arg0
// CHECK-NEXT: %[[B:.*]] = te.activation <relu> %arg1
// CHECK-NEXT: %[[AB:.*]] = arith.addf %[[A]], %[[B]]
// CHECK-NEXT: %[[C:.*]] = te.activation <gelu> %arg0
// CHECK-NEXT: %[[ABC:.*]] = arith.addf %[[AB]], %[[C]]
// CHECK-NEXT: %[[OTHER:.*]] = te.activation <gelu> %arg1
// CHECK-NEXT: return %[[ABC]], %[[OTHER]]
func.func @sums_of_micro_batches(%x: tensor<32x32xbf16>, %y: tensor<32x32xbf16>) -> (tensor<32x32xbf16>, tensor<32x32xbf16>) {
  %a = te.activation <relu> %x : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %b = te.activation <relu> %y : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %c = te.activation <gelu> %x : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %other = te.activation <gelu> %y : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %ab = arith.addf %a, %b : tensor<32x32xbf16>
  %abc = arith.addf %ab, %c : tensor<32x32xbf16>
  return %abc, %other : tensor<32x32xbf16>, tensor<32x32xbf16>
}

// Two sums whose last summand is the same op stay in order, and the third reads both.
// CHECK-LABEL: @sums_at_one_place
// CHECK:      %[[D:.*]]:2 = te.quantize
// CHECK:      %[[C:.*]] = te.activation <silu>
// CHECK-NEXT: %[[S:.*]] = arith.addf %{{.*}}, %[[C]]
// CHECK-NEXT: %[[T:.*]] = arith.addf %{{.*}}, %[[S]]
// CHECK-NEXT: te.activation <gelu>
func.func @sums_at_one_place(%x: tensor<32x32xbf16>) -> (tensor<32x32xbf16>, tensor<32x32xbf16>) {
  %s = te.amax %x : tensor<32x32xbf16>
  %f = te.compute_scale %s for f8E4M3FN
  %d:2 = te.quantize %x scale %f : tensor<32x32xbf16> -> !te.scaled<32x32xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<32x32xf8E4M3FN, per_tensor, contract = 0>
  %a = te.dequantize %d#0 : !te.scaled<32x32xf8E4M3FN, per_tensor, contract = 1> -> tensor<32x32xbf16>
  %b = te.dequantize %d#1 : !te.scaled<32x32xf8E4M3FN, per_tensor, contract = 0> -> tensor<32x32xbf16>
  %c = te.activation <silu> %x : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %other = te.activation <gelu> %x : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %ac = arith.addf %a, %c : tensor<32x32xbf16>
  %abc = arith.addf %b, %ac : tensor<32x32xbf16>
  return %abc, %other : tensor<32x32xbf16>, tensor<32x32xbf16>
}

// What somebody else reads, or the caller keeps, is not freed by an addition.
// CHECK-LABEL: @stays_where_nothing_is_freed
// CHECK:      %[[A:.*]] = te.activation <relu>
// CHECK-NEXT: %[[B:.*]] = te.activation <gelu>
// CHECK-NEXT: %[[C:.*]] = te.activation <silu> %[[A]]
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[A]], %[[B]]
// CHECK-NEXT: %[[T:.*]] = arith.addf %arg0, %[[C]]
func.func @stays_where_nothing_is_freed(%x: tensor<32x32xbf16>) -> (tensor<32x32xbf16>, tensor<32x32xbf16>) {
  %a = te.activation <relu> %x : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %b = te.activation <gelu> %x : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %c = te.activation <silu> %a : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %s = arith.addf %a, %b : tensor<32x32xbf16>
  %t = arith.addf %x, %c : tensor<32x32xbf16>
  return %s, %t : tensor<32x32xbf16>, tensor<32x32xbf16>
}
