// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-fuse-activation-quantize))' --remarks-filter='.*' 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t

// REMARK-DAG: [Passed] activation-quantize{{.*}}Function=pair
// REMARK-DAG: [Passed] activation-quantize{{.*}}Function=backward
// REMARK-DAG: [Passed] activation-quantize{{.*}}Function=gated
// REMARK-DAG: [Passed] activation-quantize{{.*}}Function=gated_scales
// REMARK-DAG: [Missed] activation-quantize{{.*}}Function=gates_differ{{.*}}Reason="its two gradients are cast differently"
// REMARK-DAG: [Missed] activation-quantize{{.*}}Function=result_has_another_reader{{.*}}Reason="'te.residual' reads the result too"
// REMARK-DAG: [Passed] activation-quantize{{.*}}Function=given_scale
// REMARK-DAG: [Missed] activation-quantize{{.*}}Function=own_amax{{.*}}Reason="its scale is not known before"
// REMARK-DAG: [Missed] activation-quantize{{.*}}Function=mx{{.*}}Reason="its scheme is 'mx_1x32'"
// REMARK-DAG: [Missed] activation-quantize{{.*}}Function=amax_is_read{{.*}}Reason="its amax is read too"
// REMARK-DAG: [Missed] activation-quantize{{.*}}Function=cast_is_kept{{.*}}Reason="it is cached over micro-batches"

// CHECK-LABEL: func.func @pair
// CHECK-NEXT: %[[Q:.*]]:2 = te.activation_quantize <swiglu> %{{.*}} {amax_epsilon = 1.000000e-03 : f32} : tensor<32x256xbf16> -> !te.scaled<32x128xf8E4M3FN, block_1x128, pow2, contract = 1>, !te.scaled<32x128xf8E4M3FN, block_1x128, pow2, contract = 0>
// CHECK-NEXT: return %[[Q]]#0, %[[Q]]#1
func.func @pair(%x: tensor<32x256xbf16>) -> (!te.scaled<32x128xf8E4M3FN, block_1x128, pow2, contract = 1>, !te.scaled<32x128xf8E4M3FN, block_1x128, pow2, contract = 0>) {
  %y = te.activation <swiglu> %x : tensor<32x256xbf16> -> tensor<32x128xbf16>
  %q:2 = te.quantize %y {amax_epsilon = 1.0e-3 : f32} : tensor<32x128xbf16> -> !te.scaled<32x128xf8E4M3FN, block_1x128, pow2, contract = 1>, !te.scaled<32x128xf8E4M3FN, block_1x128, pow2, contract = 0>
  return %q#0, %q#1 : !te.scaled<32x128xf8E4M3FN, block_1x128, pow2, contract = 1>, !te.scaled<32x128xf8E4M3FN, block_1x128, pow2, contract = 0>
}

// CHECK-LABEL: func.func @backward
// CHECK-NEXT: %[[Q:.*]] = te.activation_backward_quantize <silu> %{{.*}}, %{{.*}} : tensor<32x128xbf16>, tensor<32x128xbf16> -> !te.scaled<32x128xf8E5M2, block_1x128, contract = 1>
// CHECK-NEXT: return %[[Q]]
func.func @backward(%dy: tensor<32x128xbf16>, %x: tensor<32x128xbf16>) -> !te.scaled<32x128xf8E5M2, block_1x128, contract = 1> {
  %dx = te.activation_backward <silu> %dy, %x : tensor<32x128xbf16>, tensor<32x128xbf16>
  %q = te.quantize %dx : tensor<32x128xbf16> -> !te.scaled<32x128xf8E5M2, block_1x128, contract = 1>
  return %q : !te.scaled<32x128xf8E5M2, block_1x128, contract = 1>
}

// Two halves in separate tensors have two gradients.
// CHECK-LABEL: func.func @gated
// CHECK-NEXT: te.activation_quantize <swiglu> %{{.*}}, %{{.*}} : tensor<32x128xbf16>, tensor<32x128xbf16> -> !te.scaled
// CHECK-NEXT: %[[D:.*]], %[[G:.*]]:2 = te.activation_backward_quantize <swiglu> %{{.*}}, %{{.*}}, %{{.*}} : tensor<32x128xbf16>, tensor<32x128xbf16>, tensor<32x128xbf16> -> !te.scaled<32x128xf8E5M2, block_1x128, contract = 1> gate !te.scaled<32x128xf8E5M2, block_1x128, contract = 0>, !te.scaled<32x128xf8E5M2, block_1x128, contract = 1>
// CHECK-NEXT: return %{{.*}}, %[[D]], %[[G]]#0, %[[G]]#1
func.func @gated(%dy: tensor<32x128xbf16>, %x: tensor<32x128xbf16>, %g: tensor<32x128xbf16>) -> (!te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>, !te.scaled<32x128xf8E5M2, block_1x128, contract = 1>, !te.scaled<32x128xf8E5M2, block_1x128, contract = 0>, !te.scaled<32x128xf8E5M2, block_1x128, contract = 1>) {
  %y = te.activation <swiglu> %x, %g : tensor<32x128xbf16>, tensor<32x128xbf16> -> tensor<32x128xbf16>
  %q = te.quantize %y : tensor<32x128xbf16> -> !te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>
  %dx, %dg = te.activation_backward <swiglu> %dy, %x, %g : tensor<32x128xbf16>, tensor<32x128xbf16>, tensor<32x128xbf16> gate tensor<32x128xbf16>
  %d = te.quantize %dx : tensor<32x128xbf16> -> !te.scaled<32x128xf8E5M2, block_1x128, contract = 1>
  %e:2 = te.quantize %dg : tensor<32x128xbf16> -> !te.scaled<32x128xf8E5M2, block_1x128, contract = 0>, !te.scaled<32x128xf8E5M2, block_1x128, contract = 1>
  return %q, %d, %e#0, %e#1 : !te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>, !te.scaled<32x128xf8E5M2, block_1x128, contract = 1>, !te.scaled<32x128xf8E5M2, block_1x128, contract = 0>, !te.scaled<32x128xf8E5M2, block_1x128, contract = 1>
}

// CHECK-LABEL: func.func @gated_scales
// CHECK-SAME: %[[S:[a-z0-9]*]]: tensor<f32>, %[[T:[a-z0-9]*]]: tensor<f32>)
// CHECK-NEXT: %{{.*}}, %{{.*}}, %[[A:.*]], %[[B:.*]] = te.activation_backward_quantize <swiglu> %{{.*}}, %{{.*}}, %{{.*}} scale %[[S]] gate_scale %[[T]] : {{.*}} amax tensor<f32> gate_amax tensor<f32>
// CHECK-NEXT: return %{{.*}}, %{{.*}}, %[[A]], %[[B]]
func.func @gated_scales(%dy: tensor<32x128xbf16>, %x: tensor<32x128xbf16>, %g: tensor<32x128xbf16>, %s: tensor<f32>, %t: tensor<f32>) -> (!te.scaled<32x128xf8E5M2, per_tensor, contract = 1>, !te.scaled<32x128xf8E5M2, per_tensor, contract = 1>, tensor<f32>, tensor<f32>) {
  %dx, %dg, %a = te.activation_backward <swiglu> %dy, %x, %g : tensor<32x128xbf16>, tensor<32x128xbf16>, tensor<32x128xbf16> gate tensor<32x128xbf16> amax tensor<f32>
  %d = te.quantize %dx scale %s : tensor<32x128xbf16> -> !te.scaled<32x128xf8E5M2, per_tensor, contract = 1>
  %e, %b = te.quantize %dg scale %t : tensor<32x128xbf16> -> !te.scaled<32x128xf8E5M2, per_tensor, contract = 1> amax tensor<f32>
  return %d, %e, %a, %b : !te.scaled<32x128xf8E5M2, per_tensor, contract = 1>, !te.scaled<32x128xf8E5M2, per_tensor, contract = 1>, tensor<f32>, tensor<f32>
}

// CHECK-LABEL: func.func @gates_differ
// CHECK-NOT: te.activation_backward_quantize
func.func @gates_differ(%dy: tensor<32x128xbf16>, %x: tensor<32x128xbf16>, %g: tensor<32x128xbf16>) -> (!te.scaled<32x128xf8E5M2, block_1x128, contract = 1>, !te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>) {
  %dx, %dg = te.activation_backward <swiglu> %dy, %x, %g : tensor<32x128xbf16>, tensor<32x128xbf16>, tensor<32x128xbf16> gate tensor<32x128xbf16>
  %d = te.quantize %dx : tensor<32x128xbf16> -> !te.scaled<32x128xf8E5M2, block_1x128, contract = 1>
  %e = te.quantize %dg : tensor<32x128xbf16> -> !te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>
  return %d, %e : !te.scaled<32x128xf8E5M2, block_1x128, contract = 1>, !te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>
}

// The high-precision result is saved, so it must be stored and is not fused.
// CHECK-LABEL: func.func @result_has_another_reader
// CHECK-NEXT: te.activation <silu>
// CHECK-NEXT: te.quantize
func.func @result_has_another_reader(%x: tensor<32x128xbf16>) -> (!te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>, tensor<32x128xbf16>) {
  %y = te.activation <silu> %x : tensor<32x128xbf16> -> tensor<32x128xbf16>
  %q = te.quantize %y : tensor<32x128xbf16> -> !te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>
  %r = te.residual %y "y" : tensor<32x128xbf16>
  return %q, %r : !te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>, tensor<32x128xbf16>
}

// The scale of delayed scaling is known before. The cast measures the amax, or
// the activation.
// CHECK-LABEL: func.func @given_scale
// CHECK-SAME: %[[DY:.*]]: tensor<32x128xbf16>, %[[X:.*]]: tensor<32x256xbf16>, %[[S:.*]]: tensor<f32>
// CHECK-NEXT: %[[Q:.*]], %[[A:.*]] = te.activation_quantize <swiglu> %[[X]] scale %[[S]] : tensor<32x256xbf16> -> !te.scaled<32x128xf8E4M3FN, per_tensor, contract = 1> amax tensor<f32>
// CHECK-NEXT: %[[D:.*]], %[[B:.*]] = te.activation_backward_quantize <swiglu> %[[DY]], %[[X]] scale %[[S]] : tensor<32x128xbf16>, tensor<32x256xbf16> -> !te.scaled<32x256xf8E5M2, per_tensor, contract = 1> amax tensor<f32>
// CHECK-NEXT: return %[[Q]], %[[A]], %[[D]], %[[B]]
func.func @given_scale(%dy: tensor<32x128xbf16>, %x: tensor<32x256xbf16>, %s: tensor<f32>)
    -> (!te.scaled<32x128xf8E4M3FN, per_tensor, contract = 1>, tensor<f32>, !te.scaled<32x256xf8E5M2, per_tensor, contract = 1>, tensor<f32>) {
  %y = te.activation <swiglu> %x : tensor<32x256xbf16> -> tensor<32x128xbf16>
  %q, %a = te.quantize %y scale %s : tensor<32x128xbf16> -> !te.scaled<32x128xf8E4M3FN, per_tensor, contract = 1> amax tensor<f32>
  %dx, %b = te.activation_backward <swiglu> %dy, %x : tensor<32x128xbf16>, tensor<32x256xbf16> amax tensor<f32>
  %d = te.quantize %dx scale %s : tensor<32x256xbf16> -> !te.scaled<32x256xf8E5M2, per_tensor, contract = 1>
  return %q, %a, %d, %b : !te.scaled<32x128xf8E4M3FN, per_tensor, contract = 1>, tensor<f32>, !te.scaled<32x256xf8E5M2, per_tensor, contract = 1>, tensor<f32>
}

// The scale of current scaling comes from the result's own amax.
// CHECK-LABEL: func.func @own_amax
// CHECK-NOT: te.activation_quantize
func.func @own_amax(%x: tensor<32x128xbf16>) -> !te.scaled<32x128xf8E4M3FN, per_tensor, contract = 1> {
  %y, %a = te.activation <silu> %x : tensor<32x128xbf16> -> tensor<32x128xbf16> amax tensor<f32>
  %s = te.compute_scale %a for f8E4M3FN : tensor<f32>
  %q = te.quantize %y scale %s : tensor<32x128xbf16> -> !te.scaled<32x128xf8E4M3FN, per_tensor, contract = 1>
  return %q : !te.scaled<32x128xf8E4M3FN, per_tensor, contract = 1>
}

// CHECK-LABEL: func.func @mx
// CHECK-NOT: te.activation_quantize
func.func @mx(%x: tensor<32x128xbf16>) -> !te.scaled<32x128xf8E4M3FN, mx_1x32, contract = 1> {
  %y = te.activation <silu> %x : tensor<32x128xbf16> -> tensor<32x128xbf16>
  %q = te.quantize %y : tensor<32x128xbf16> -> !te.scaled<32x128xf8E4M3FN, mx_1x32, contract = 1>
  return %q : !te.scaled<32x128xf8E4M3FN, mx_1x32, contract = 1>
}

// CHECK-LABEL: func.func @amax_is_read
// CHECK-NOT: te.activation_quantize
func.func @amax_is_read(%x: tensor<32x128xbf16>) -> (!te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>, tensor<f32>) {
  %y, %a = te.activation <silu> %x : tensor<32x128xbf16> -> tensor<32x128xbf16> amax tensor<f32>
  %q = te.quantize %y : tensor<32x128xbf16> -> !te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>
  return %q, %a : !te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>, tensor<f32>
}

// A cast of a weight: nothing is cast if the flag is set.
// CHECK-LABEL: func.func @cast_is_kept
// CHECK: te.quantize %{{.*}} into %{{.*}} unless %{{.*}}
func.func @cast_is_kept(%w: tensor<32x128xbf16>, %old: !te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>, %flag: tensor<f32>)
    -> !te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1> {
  %y = te.activation <silu> %w : tensor<32x128xbf16> -> tensor<32x128xbf16>
  %q = te.quantize %y into %old unless %flag : tensor<32x128xbf16> -> !te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>
  return %q : !te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>
}

// Without a cast there is no remark.
// CHECK-LABEL: func.func @plain
// CHECK-NEXT: te.activation <silu>
func.func @plain(%x: tensor<32x128xbf16>) -> tensor<32x128xbf16> {
  %y = te.activation <silu> %x : tensor<32x128xbf16> -> tensor<32x128xbf16>
  return %y : tensor<32x128xbf16>
}

// The parameters of the clamp are kept.
// CHECK-LABEL: func.func @clamped
// CHECK-NEXT: te.activation_quantize <clamped_swiglu> %{{.*}} {alpha = 2.000000e+00 : f32, limit = 5.000000e+00 : f32, offset = 0.000000e+00 : f32}
// CHECK-NEXT: te.activation_backward_quantize <clamped_swiglu> %{{.*}}, %{{.*}} {alpha = 2.000000e+00 : f32, limit = 5.000000e+00 : f32, offset = 0.000000e+00 : f32}
func.func @clamped(%dy: tensor<32x128xbf16>, %x: tensor<32x256xbf16>) -> (!te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>, !te.scaled<32x256xf8E4M3FN, block_1x128, contract = 1>) {
  %y = te.activation <clamped_swiglu> %x {limit = 5.0 : f32, alpha = 2.0 : f32, offset = 0.0 : f32} : tensor<32x256xbf16> -> tensor<32x128xbf16>
  %q = te.quantize %y : tensor<32x128xbf16> -> !te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>
  %dx = te.activation_backward <clamped_swiglu> %dy, %x {limit = 5.0 : f32, alpha = 2.0 : f32, offset = 0.0 : f32} : tensor<32x128xbf16>, tensor<32x256xbf16>
  %dq = te.quantize %dx : tensor<32x256xbf16> -> !te.scaled<32x256xf8E4M3FN, block_1x128, contract = 1>
  return %q, %dq : !te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>, !te.scaled<32x256xf8E4M3FN, block_1x128, contract = 1>
}

// One launch casts both gradients with one epsilon.
// CHECK-LABEL: func.func @other_epsilon
// CHECK-NOT: te.activation_backward_quantize
func.func @other_epsilon(%dy: tensor<32x128xbf16>, %x: tensor<32x128xbf16>, %g: tensor<32x128xbf16>)
    -> (!te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>, !te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>) {
  %dx, %dg = te.activation_backward <swiglu> %dy, %x, %g : tensor<32x128xbf16>, tensor<32x128xbf16>, tensor<32x128xbf16> gate tensor<32x128xbf16>
  %a = te.quantize %dx : tensor<32x128xbf16> -> !te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>
  %b = te.quantize %dg {amax_epsilon = 1.0e-3 : f32} : tensor<32x128xbf16> -> !te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>
  return %a, %b : !te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>, !te.scaled<32x128xf8E4M3FN, block_1x128, contract = 1>
}
