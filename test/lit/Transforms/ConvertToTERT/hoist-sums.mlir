// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-hoist-sums))' | FileCheck %s

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {

// Each of the two sums moves from the end to the producer of its last summand. The second stays after the first, which it reads.
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

// Two sums with the same last summand stay in order. The third sum reads both.
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

// An addition does not free a value that another op reads, or that the caller has.
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

// An update is the last use of its gradient, and is written in place. It moves to
// directly after the gradient, or after the last other reader of what it overwrites.
// CHECK-LABEL: @updates
// CHECK:      %[[GW:.*]] = te.matmul
// CHECK-NEXT: te.sgd %arg0, %[[GW]]
// CHECK-NEXT: %[[GU:.*]] = te.matmul
// CHECK-NEXT: te.activation <gelu> %arg1
// CHECK-NEXT: te.sgd %arg1, %[[GU]]
// CHECK-NEXT: te.activation <silu> %arg2
// CHECK-NEXT: return
func.func @updates(%w: tensor<32x32xbf16>, %u: tensor<32x32xbf16>, %x: tensor<32x32xbf16>, %lr: tensor<f32>) -> (tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xbf16>) {
  %gw = te.matmul %x, %x contract = [0, 0] : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  %gu = te.matmul %x, %x contract = [1, 1] : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  %y = te.activation <gelu> %u : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %z = te.activation <silu> %x : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %w1 = te.sgd %w, %gw lr %lr : tensor<32x32xbf16>, tensor<32x32xbf16>
  %u1 = te.sgd %u, %gu lr %lr : tensor<32x32xbf16>, tensor<32x32xbf16>
  return %w1, %u1, %y, %z : tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xbf16>
}

// A reader of a view of the overwritten value counts where the view is read.
// CHECK-LABEL: @updates_behind_readers_of_views
// CHECK: te.matmul %{{.*}}, %{{.*}} contract = [1, 1]
// CHECK-NEXT: te.sgd
// CHECK-NEXT: te.activation <silu>
func.func @updates_behind_readers_of_views(%w: tensor<32x32xbf16>, %x: tensor<32x32xbf16>, %u: tensor<8x128xbf16>, %lr: tensor<f32>) -> (tensor<32x32xbf16>, tensor<8x8xbf16>, tensor<32x32xbf16>) {
  %g = te.activation <relu> %x : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %kept = te.residual %w "w" : tensor<32x32xbf16>
  %flat = tensor.collapse_shape %kept [[0, 1]] : tensor<32x32xbf16> into tensor<1024xbf16>
  %wide = tensor.expand_shape %flat [[0, 1]] output_shape [8, 128] : tensor<1024xbf16> into tensor<8x128xbf16>
  %y = te.activation <gelu> %u : tensor<8x128xbf16> -> tensor<8x128xbf16>
  %d = te.matmul %y, %wide contract = [1, 1] : tensor<8x128xbf16>, tensor<8x128xbf16> -> tensor<8x8xbf16>
  %z = te.activation <silu> %x : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %w1 = te.sgd %w, %g lr %lr : tensor<32x32xbf16>, tensor<32x32xbf16>
  return %w1, %d, %z : tensor<32x32xbf16>, tensor<8x8xbf16>, tensor<32x32xbf16>
}

// A gradient that is a result, and a parameter that is returned unchanged, are alive until the end, so the update does not move.
// CHECK-LABEL: @updates_that_free_nothing
// CHECK: te.activation <gelu>
// CHECK-NEXT: te.sgd
// CHECK-NEXT: te.sgd
// CHECK-NEXT: return
func.func @updates_that_free_nothing(%w: tensor<32x32xbf16>, %u: tensor<32x32xbf16>, %x: tensor<32x32xbf16>, %lr: tensor<f32>) -> (tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xbf16>) {
  %gw = te.matmul %x, %x contract = [0, 0] : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  %gu = te.matmul %x, %x contract = [1, 1] : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  %y = te.activation <gelu> %x : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %w1 = te.sgd %w, %gw lr %lr : tensor<32x32xbf16>, tensor<32x32xbf16>
  %u1 = te.sgd %u, %gu lr %lr : tensor<32x32xbf16>, tensor<32x32xbf16>
  return %w1, %gw, %u1, %u, %y : tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xbf16>
}

// A reader of the old parameter below the update prevents a move. Two updates of one moment stay in order, too.
// CHECK-LABEL: @readers_below
// CHECK: te.matmul
// CHECK-NEXT: te.activation <gelu>
// CHECK-NEXT: %[[W:.*]] = te.sgd %arg0
// CHECK-NEXT: arith.subf %[[W]], %arg0
// CHECK-NEXT: arith.truncf %[[W]]
// CHECK-NEXT: te.matmul
// CHECK-NEXT: te.adamw %arg1, {{.*}}, %arg4, %arg4
// CHECK-NEXT: te.matmul
// CHECK-NEXT: te.adamw %arg2, {{.*}}, %arg4, %arg4
func.func @readers_below(%w: tensor<32x32xf32>, %u: tensor<32x32xf32>, %v: tensor<32x32xf32>, %x: tensor<32x32xbf16>, %zero: tensor<32x32xf32>, %lr: tensor<f32>, %t: tensor<f32>)
    -> (tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xbf16>, tensor<32x32xf32>) {
  %g = te.matmul %x, %x contract = [0, 0] : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  %y = te.activation <gelu> %x : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %w1 = te.sgd %w, %g lr %lr : tensor<32x32xf32>, tensor<32x32xbf16>
  %d = arith.subf %w1, %w : tensor<32x32xf32>
  %h = arith.truncf %w1 : tensor<32x32xf32> to tensor<32x32xbf16>
  %gu = te.matmul %h, %x contract = [0, 0] : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  %u1, %um, %uv = te.adamw %u, %gu, %zero, %zero lr %lr step %t : tensor<32x32xf32>, tensor<32x32xbf16>
  %gv = te.matmul %h, %y contract = [0, 0] : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  %v1, %vm, %vv = te.adamw %v, %gv, %zero, %zero lr %lr step %t : tensor<32x32xf32>, tensor<32x32xbf16>
  return %d, %u1, %v1, %h, %w1 : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xbf16>, tensor<32x32xf32>
}

// The update of a gradient that comes from a collective would wait for it, so it does not move.
// CHECK-LABEL: @update_behind_a_collective
// CHECK: te.all_reduce
// CHECK-NEXT: arith.addf
// CHECK-NEXT: te.activation <gelu>
// CHECK-NEXT: te.sgd
func.func @update_behind_a_collective(%w: tensor<32x32xbf16>, %x: tensor<32x32xbf16>, %lr: tensor<f32>) -> (tensor<32x32xbf16>, tensor<32x32xbf16>) {
  %g = te.matmul %x, %x contract = [0, 0] : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  %sum = te.all_reduce %g group 0 : tensor<32x32xbf16>
  %twice = arith.addf %sum, %sum : tensor<32x32xbf16>
  %y = te.activation <gelu> %x : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %w1 = te.sgd %w, %twice lr %lr : tensor<32x32xbf16>, tensor<32x32xbf16>
  return %w1, %y : tensor<32x32xbf16>, tensor<32x32xbf16>
}
}
