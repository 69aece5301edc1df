// Delayed scaling: the scale of each tensor that is cast
// is a state, an argument and a result of the step.

// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts,cse))' --split-input-file | FileCheck %s
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts,cse,te-materialize-transposes,te-pair-cast-layouts,canonicalize,te-fuse-amax))' --split-input-file | FileCheck %s --check-prefix=FUSED

// Forward and backward: there are three slots. Both usages of x and of
// dy are cast with one state, and the residual does not add another.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<32x64xbf16> {te.name = "x"}
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<48x64xbf16> {te.name = "w", te.weight}
// CHECK-SAME: %[[DY:[a-z0-9]+]]: tensor<32x48xbf16> {te.name = "grad.y"}
// CHECK-SAME: %[[XH:[a-z0-9]+]]: tensor<16xf32> {te.init = 0.000000e+00 : f32, te.name = "w.x.amax_history", te.recipe_state}
// CHECK-SAME: %[[XS:[a-z0-9]+]]: tensor<f32> {te.init = 1.000000e+00 : f32, te.name = "w.x.scale", te.recipe_state}
// CHECK-SAME: %[[WH:[a-z0-9]+]]: tensor<16xf32> {te.init = 0.000000e+00 : f32, te.name = "w.w.amax_history", te.recipe_state}
// CHECK-SAME: %[[WS:[a-z0-9]+]]: tensor<f32> {te.init = 1.000000e+00 : f32, te.name = "w.w.scale", te.recipe_state}
// CHECK-SAME: %[[GH:[a-z0-9]+]]: tensor<16xf32> {te.init = 0.000000e+00 : f32, te.name = "w.dy.amax_history", te.recipe_state}
// CHECK-SAME: %[[GS:[a-z0-9]+]]: tensor<f32> {te.init = 1.000000e+00 : f32, te.name = "w.dy.scale", te.recipe_state}
// CHECK-SAME: -> (tensor<32x48xbf16> {te.name = "y"}, tensor<32x64xbf16>, tensor<48x64xbf16>,
// CHECK-SAME: tensor<16xf32> {te.name = "w.x.amax_history"}, tensor<f32> {te.name = "w.x.scale"},
// CHECK-SAME: tensor<16xf32> {te.name = "w.w.amax_history"}, tensor<f32> {te.name = "w.w.scale"},
// CHECK-SAME: tensor<16xf32> {te.name = "w.dy.amax_history"}, tensor<f32> {te.name = "w.dy.scale"})
// CHECK: %[[A:.*]] = te.activation
// CHECK-DAG: %[[XA:.*]] = te.amax %[[A]]
// CHECK-DAG: te.quantize %[[A]] scale %[[XS]] : {{.*}}f8E4M3FN, per_tensor, contract = 1>
// CHECK-DAG: %[[WA:.*]] = te.amax %[[W]]
// CHECK-DAG: te.quantize %[[W]] scale %[[WS]] : {{.*}}f8E4M3FN, per_tensor, contract = 1>
// CHECK: te.scaled_matmul {{.*}} fast_accumulation = true
// CHECK: te.quantize %[[A]] scale %[[XS]] : {{.*}}contract = 0>
// CHECK-NEXT: te.residual {{.*}} "linear.x" : !te.scaled
// CHECK: %[[GA:.*]] = te.amax %[[DY]]
// CHECK-NEXT: te.quantize %[[DY]] scale %[[GS]] : {{.*}}f8E5M2, per_tensor, contract = 1>
// CHECK: te.scaled_matmul {{.*}} fast_accumulation = false
// CHECK: te.quantize %[[DY]] scale %[[GS]] : {{.*}}f8E5M2, per_tensor, contract = 0>
// CHECK: te.scaled_matmul {{.*}} fast_accumulation = false
// CHECK-NOT: te.amax
// CHECK: %[[XH1:.*]], %[[XS1:.*]] = te.delayed_scaling_update %[[XA]], %[[XH]], %[[XS]] for f8E4M3FN {algorithm = #te.amax_algorithm<most_recent>, margin = 2 : i32}
// CHECK-NEXT: %[[WH1:.*]], %[[WS1:.*]] = te.delayed_scaling_update %[[WA]], %[[WH]], %[[WS]] for f8E4M3FN
// CHECK-NEXT: %[[GH1:.*]], %[[GS1:.*]] = te.delayed_scaling_update %[[GA]], %[[GH]], %[[GS]] for f8E5M2
// CHECK-NEXT: return %{{.*}}, %{{.*}}, %{{.*}}, %[[XH1]], %[[XS1]], %[[WH1]], %[[WS1]], %[[GH1]], %[[GS1]]

// After the fusions, an activation measures its result, and casts measure the other tensors.
// FUSED-LABEL: func.func @step
// FUSED-NOT: te.amax %
// FUSED: te.activation {{.*}} amax tensor<f32>
// FUSED: te.quantize {{.*}}32x64xf8E4M3FN, per_tensor, contract = 0>{{$}}
// FUSED: te.quantize {{.*}}48x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<48x64xf8E4M3FN, per_tensor, contract = 0> amax tensor<f32>
// FUSED: te.quantize {{.*}}32x48xf8E5M2, per_tensor, contract = 0> amax tensor<f32>
func.func @step(%x: tensor<32x64xbf16> {te.name = "x"}, %w: tensor<48x64xbf16> {te.name = "w", te.weight},
                %dy: tensor<32x48xbf16> {te.name = "grad.y"})
    -> (tensor<32x48xbf16> {te.name = "y"}, tensor<32x64xbf16>, tensor<48x64xbf16>)
    attributes {te.recipe = #te.recipe<delayed_scaling, {margin = 2, amax_history_len = 16, amax_compute_algo = most_recent}>} {
  %a = te.activation <silu> %x : tensor<32x64xbf16> -> tensor<32x64xbf16>
  %y = te.linear %a, %w : tensor<32x64xbf16>, tensor<48x64xbf16> -> tensor<32x48xbf16>
  %ra = te.residual %a "linear.x" : tensor<32x64xbf16>
  %dx = te.linear_dgrad %dy, %w : tensor<32x48xbf16>, tensor<48x64xbf16> -> tensor<32x64xbf16>
  %dw = te.linear_wgrad %dy, %ra : tensor<32x48xbf16>, tensor<32x64xbf16> -> tensor<48x64xbf16>
  return %y, %dx, %dw : tensor<32x48xbf16>, tensor<32x64xbf16>, tensor<48x64xbf16>
}

// -----

// Two layers read x: they share a slot, named after
// the first layer. Names in use are not used again.
// CHECK-LABEL: func.func @shared
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<f32> {te.init = 1.000000e+00 : f32, te.name = "q.x.1.scale", te.recipe_state}
// CHECK-SAME: te.name = "q.w.amax_history"
// CHECK-SAME: te.name = "q.w.scale"
// CHECK-SAME: te.name = "k.w.amax_history"
// CHECK-SAME: te.name = "k.w.scale"
// CHECK-NOT: te.name = "k.x
// CHECK-COUNT-3: te.amax
// CHECK-NOT: te.amax %
// CHECK-COUNT-3: te.delayed_scaling_update {{.*}} for f8E4M3FN : tensor<f32>, tensor<1024xf32>
// CHECK-NOT: te.delayed_scaling_update
func.func @shared(%x: tensor<32x64xbf16> {te.name = "q.x.scale"}, %q: tensor<48x64xbf16> {te.name = "q", te.weight},
                  %k: tensor<48x64xbf16> {te.name = "k", te.weight}) -> (tensor<32x48xbf16>, tensor<32x48xbf16>)
    attributes {te.recipe = #te.recipe<delayed_scaling>} {
  %a = te.linear %x, %q : tensor<32x64xbf16>, tensor<48x64xbf16> -> tensor<32x48xbf16>
  %b = te.linear %x, %k : tensor<32x64xbf16>, tensor<48x64xbf16> -> tensor<32x48xbf16>
  return %a, %b : tensor<32x48xbf16>, tensor<32x48xbf16>
}

// -----

// Tensors that are not quantised have no state.
// CHECK-LABEL: func.func @falls_back
// CHECK-NOT: te.init
// CHECK: te.matmul
func.func @falls_back(%x: tensor<32x64xf16>, %w: tensor<48x64xf16>, %b: tensor<48xf16>) -> tensor<32x48xf16>
    attributes {te.recipe = #te.recipe<delayed_scaling>} {
  %y = te.linear %x, %w bias %b : tensor<48xf16> : tensor<32x64xf16>, tensor<48x64xf16> -> tensor<32x48xf16>
  return %y : tensor<32x48xf16>
}

// -----

// Two micro-batches round one weight: its casts share a scale.
// CHECK-LABEL: func.func @micro_batches
// CHECK-SAME: te.name = "w.w.amax_history"
// CHECK-SAME: te.name = "w.w.scale"
// CHECK-NOT: te.name = "w.w_1
// CHECK-COUNT-3: te.delayed_scaling_update
// CHECK-NOT: te.delayed_scaling_update
func.func @micro_batches(%x0: tensor<32x64xbf16>, %x1: tensor<32x64xbf16>, %w: tensor<48x64xf32> {te.name = "w", te.weight})
    -> (tensor<32x48xbf16>, tensor<32x48xbf16>) attributes {te.recipe = #te.recipe<delayed_scaling>} {
  %w0 = arith.truncf %w : tensor<48x64xf32> to tensor<48x64xbf16>
  %y0 = te.linear %x0, %w0 : tensor<32x64xbf16>, tensor<48x64xbf16> -> tensor<32x48xbf16>
  %w1 = arith.truncf %w : tensor<48x64xf32> to tensor<48x64xbf16>
  %y1 = te.linear %x1, %w1 : tensor<32x64xbf16>, tensor<48x64xbf16> -> tensor<32x48xbf16>
  return %y0, %y1 : tensor<32x48xbf16>, tensor<32x48xbf16>
}
