// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-fuse-amax))' | FileCheck %s

// CHECK-LABEL: func.func @activation
// CHECK-NEXT: %[[Y:.*]], %[[AMAX:.*]] = te.activation <silu> %{{.*}} amax tensor<f32>
// CHECK-NEXT: return %[[Y]], %[[AMAX]]
func.func @activation(%x: tensor<32x64xbf16>) -> (tensor<32x64xbf16>, tensor<f32>) {
  %y = te.activation <silu> %x : tensor<32x64xbf16> -> tensor<32x64xbf16>
  %a = te.amax %y : tensor<32x64xbf16>
  return %y, %a : tensor<32x64xbf16>, tensor<f32>
}

// CHECK-LABEL: func.func @activation_backward
// CHECK-NEXT: %[[DX:.*]], %[[AMAX:.*]] = te.activation_backward <swiglu> %{{.*}} amax tensor<f32>
// CHECK-NEXT: return %[[DX]], %[[AMAX]]
func.func @activation_backward(%dy: tensor<32x64xbf16>, %x: tensor<32x128xbf16>) -> (tensor<32x128xbf16>, tensor<f32>) {
  %dx = te.activation_backward <swiglu> %dy, %x : tensor<32x64xbf16>, tensor<32x128xbf16>
  %a = te.amax %dx : tensor<32x128xbf16>
  return %dx, %a : tensor<32x128xbf16>, tensor<f32>
}

// CHECK-LABEL: func.func @clamped_activation
// CHECK-NEXT: te.activation <clamped_swiglu> %{{.*}} {limit = 5.000000e+00 : f32} {{.*}} amax tensor<f32>
// CHECK-NEXT: te.activation_backward <clamped_swiglu> %{{.*}} {limit = 5.000000e+00 : f32} {{.*}} amax tensor<f32>
// CHECK-NEXT: return
func.func @clamped_activation(%dy: tensor<32x64xbf16>, %x: tensor<32x128xbf16>) -> (tensor<f32>, tensor<f32>) {
  %y = te.activation <clamped_swiglu> %x {limit = 5.0 : f32} : tensor<32x128xbf16> -> tensor<32x64xbf16>
  %dx = te.activation_backward <clamped_swiglu> %dy, %x {limit = 5.0 : f32} : tensor<32x64xbf16>, tensor<32x128xbf16>
  %a = te.amax %y : tensor<32x64xbf16>
  %b = te.amax %dx : tensor<32x128xbf16>
  return %a, %b : tensor<f32>, tensor<f32>
}

// Two halves in separate tensors: there is an amax of y, and one of each gradient.
// CHECK-LABEL: func.func @gated
// CHECK-NEXT: %[[Y:.*]], %[[A:.*]] = te.activation <swiglu> %{{.*}}, %{{.*}} amax tensor<f32>
// CHECK-NEXT: %[[DX:.*]], %[[DG:.*]], %[[B:.*]], %[[C:.*]] = te.activation_backward <swiglu> %{{.*}}, %{{.*}}, %{{.*}} gate tensor<32x64xbf16> amax tensor<f32> gate_amax tensor<f32>
// CHECK-NEXT: return %[[A]], %[[B]], %[[C]], %[[DX]], %[[DG]]
func.func @gated(%dy: tensor<32x64xbf16>, %x: tensor<32x64xbf16>, %g: tensor<32x64xbf16>)
    -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<32x64xbf16>, tensor<32x64xbf16>) {
  %y = te.activation <swiglu> %x, %g : tensor<32x64xbf16>, tensor<32x64xbf16> -> tensor<32x64xbf16>
  %dx, %dg = te.activation_backward <swiglu> %dy, %x, %g : tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<32x64xbf16> gate tensor<32x64xbf16>
  %a = te.amax %y : tensor<32x64xbf16>
  %c = te.amax %dg : tensor<32x64xbf16>
  %b = te.amax %dx : tensor<32x64xbf16>
  return %a, %b, %c, %dx, %dg : tensor<f32>, tensor<f32>, tensor<f32>, tensor<32x64xbf16>, tensor<32x64xbf16>
}

// A cast of the tensor with zeros behind it has its amax; with other elements, it does not.
// CHECK-LABEL: func.func @padded
// CHECK:         %{{.*}}, %[[AMAX:.*]] = te.quantize %{{.*}} amax tensor<f32>
// CHECK-NEXT:    return %{{.*}}, %[[AMAX]]
func.func @padded(%x: tensor<20x62xbf16>, %s: tensor<f32>) -> (!te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<f32>) {
  %right = arith.constant dense<0.0> : tensor<20x2xbf16>
  %below = arith.constant dense<0.0> : tensor<12x64xbf16>
  %a = te.amax %x : tensor<20x62xbf16>
  %y = tensor.concat dim(1) %x, %right : (tensor<20x62xbf16>, tensor<20x2xbf16>) -> tensor<20x64xbf16>
  %z = tensor.concat dim(0) %y, %below : (tensor<20x64xbf16>, tensor<12x64xbf16>) -> tensor<32x64xbf16>
  %q = te.quantize %z scale %s : tensor<32x64xbf16> -> !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>
  return %q, %a : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<f32>
}
// CHECK-LABEL: func.func @not_zeros
// CHECK:         te.amax
func.func @not_zeros(%x: tensor<20x64xbf16>, %s: tensor<f32>) -> (!te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<f32>) {
  %ones = arith.constant dense<1.0> : tensor<12x64xbf16>
  %a = te.amax %x : tensor<20x64xbf16>
  %z = tensor.concat dim(0) %x, %ones : (tensor<20x64xbf16>, tensor<12x64xbf16>) -> tensor<32x64xbf16>
  %q = te.quantize %z scale %s : tensor<32x64xbf16> -> !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>
  return %q, %a : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<f32>
}

// The other results and attributes do not change.
// CHECK-LABEL: func.func @rms_norm
// CHECK-NEXT: %[[Y:.*]], %[[RSIGMA:.*]], %[[AMAX:.*]] = te.rms_norm %{{.*}} {epsilon = 1.250000e-01 : f32, zero_centered_gamma = true} : {{.*}} rsigma tensor<32xf32> amax tensor<f32>
// CHECK-NEXT: return %[[Y]], %[[RSIGMA]], %[[AMAX]]
func.func @rms_norm(%x: tensor<32x64xbf16>, %g: tensor<64xbf16>) -> (tensor<32x64xbf16>, tensor<32xf32>, tensor<f32>) {
  %y, %r = te.rms_norm %x, %g {epsilon = 0.125 : f32, zero_centered_gamma = true} : tensor<32x64xbf16>, tensor<64xbf16> rsigma tensor<32xf32>
  %a = te.amax %y : tensor<32x64xbf16>
  return %y, %r, %a : tensor<32x64xbf16>, tensor<32xf32>, tensor<f32>
}

// CHECK-LABEL: func.func @layer_norm
// CHECK-NEXT: %[[Y:.*]], %[[MU:.*]], %[[RSIGMA:.*]], %[[AMAX:.*]] = te.layer_norm %{{.*}} {epsilon = 1.250000e-01 : f32, zero_centered_gamma = true} : {{.*}} mu tensor<32xf32> rsigma tensor<32xf32> amax tensor<f32>
// CHECK-NEXT: return %[[Y]], %[[MU]], %[[RSIGMA]], %[[AMAX]]
func.func @layer_norm(%x: tensor<32x64xbf16>, %g: tensor<64xbf16>, %b: tensor<64xbf16>) -> (tensor<32x64xbf16>, tensor<32xf32>, tensor<32xf32>, tensor<f32>) {
  %y, %m, %r = te.layer_norm %x, %g, %b {epsilon = 0.125 : f32, zero_centered_gamma = true} : tensor<32x64xbf16>, tensor<64xbf16> mu tensor<32xf32> rsigma tensor<32xf32>
  %a = te.amax %y : tensor<32x64xbf16>
  return %y, %m, %r, %a : tensor<32x64xbf16>, tensor<32xf32>, tensor<32xf32>, tensor<f32>
}

// The gradient of a norm computes the amax of dx, with what is added to it.
// CHECK-LABEL: func.func @rms_norm_backward
// CHECK-NEXT: %[[DX:.*]], %[[DG:.*]], %[[AMAX:.*]] = te.rms_norm_backward %arg0, %arg1, %arg2, %arg3 plus %arg4 : tensor<32x64xbf16> {zero_centered_gamma = true} : {{.*}} amax tensor<f32>
// CHECK-NEXT: return %[[DX]], %[[DG]], %[[AMAX]]
func.func @rms_norm_backward(%dy: tensor<32x64xbf16>, %x: tensor<32x64xbf16>, %g: tensor<64xbf16>, %r: tensor<32xf32>, %more: tensor<32x64xbf16>)
    -> (tensor<32x64xbf16>, tensor<64xbf16>, tensor<f32>) {
  %dx, %dg = te.rms_norm_backward %dy, %x, %g, %r plus %more : tensor<32x64xbf16> {zero_centered_gamma = true} : tensor<32x64xbf16>, tensor<64xbf16>, tensor<32xf32>
  %a = te.amax %dx : tensor<32x64xbf16>
  return %dx, %dg, %a : tensor<32x64xbf16>, tensor<64xbf16>, tensor<f32>
}

// CHECK-LABEL: func.func @layer_norm_backward
// CHECK-NEXT: %[[DX:.*]], %[[DG:.*]], %[[DB:.*]], %[[AMAX:.*]] = te.layer_norm_backward %arg0, %arg1, %arg2, %arg3, %arg3 : {{.*}} amax tensor<f32>
// CHECK-NEXT: return %[[DX]], %[[DG]], %[[DB]], %[[AMAX]]
func.func @layer_norm_backward(%dy: tensor<32x64xbf16>, %x: tensor<32x64xbf16>, %g: tensor<64xbf16>, %r: tensor<32xf32>)
    -> (tensor<32x64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<f32>) {
  %dx, %dg, %db = te.layer_norm_backward %dy, %x, %g, %r, %r : tensor<32x64xbf16>, tensor<64xbf16>, tensor<32xf32>
  %a = te.amax %dx : tensor<32x64xbf16>
  return %dx, %dg, %db, %a : tensor<32x64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<f32>
}

// CHECK-LABEL: func.func @rope
// CHECK-NEXT: %[[Y:.*]], %[[AMAX:.*]] = te.rope %arg0, %arg1, %arg1 positions %arg2 : tensor<32xi32> {heads = 2 : i64, inverse} : tensor<32x64xbf16>, tensor<16x8xf32> amax tensor<f32>
// CHECK-NEXT: return %[[Y]], %[[AMAX]]
func.func @rope(%x: tensor<32x64xbf16>, %cos: tensor<16x8xf32>, %p: tensor<32xi32>) -> (tensor<32x64xbf16>, tensor<f32>) {
  %y = te.rope %x, %cos, %cos positions %p : tensor<32xi32> {heads = 2 : i64, inverse} : tensor<32x64xbf16>, tensor<16x8xf32>
  %a = te.amax %y : tensor<32x64xbf16>
  return %y, %a : tensor<32x64xbf16>, tensor<f32>
}

// The gradients of parameters are sums over rows, of which there is no amax.
// CHECK-LABEL: func.func @gradients_of_parameters_keep_theirs
// CHECK-NEXT: te.layer_norm_backward {{.*}} : tensor<32x64xbf16>, tensor<64xbf16>, tensor<32xf32>{{$}}
// CHECK-COUNT-2: te.amax
func.func @gradients_of_parameters_keep_theirs(%dy: tensor<32x64xbf16>, %x: tensor<32x64xbf16>, %g: tensor<64xbf16>, %r: tensor<32xf32>)
    -> (tensor<f32>, tensor<f32>) {
  %dx, %dg, %db = te.layer_norm_backward %dy, %x, %g, %r, %r : tensor<32x64xbf16>, tensor<64xbf16>, tensor<32xf32>
  %a = te.amax %dg : tensor<64xbf16>
  %b = te.amax %db : tensor<64xbf16>
  return %a, %b : tensor<f32>, tensor<f32>
}

// The norm computes only the amax of its normalised rows.
// CHECK-LABEL: func.func @other_results_keep_theirs
// CHECK: te.rms_norm
// CHECK-NEXT: te.amax
func.func @other_results_keep_theirs(%x: tensor<32x64xbf16>, %g: tensor<64xbf16>) -> tensor<f32> {
  %y, %r = te.rms_norm %x, %g : tensor<32x64xbf16>, tensor<64xbf16> rsigma tensor<32xf32>
  %a = te.amax %r : tensor<32xf32>
  return %a : tensor<f32>
}

// Several te.amax of one tensor become one result.
// CHECK-LABEL: func.func @reuses_an_amax
// CHECK-NEXT: %{{.*}}, %[[AMAX:.*]] = te.activation
// CHECK-NEXT: return %[[AMAX]], %[[AMAX]]
func.func @reuses_an_amax(%x: tensor<32x64xbf16>) -> (tensor<f32>, tensor<f32>) {
  %y = te.activation <silu> %x : tensor<32x64xbf16> -> tensor<32x64xbf16>
  %a = te.amax %y : tensor<32x64xbf16>
  %b = te.amax %y : tensor<32x64xbf16>
  return %a, %b : tensor<f32>, tensor<f32>
}

// Other ops on rows do not compute an amax.
// CHECK-LABEL: func.func @arguments_and_products_keep_theirs
// CHECK-COUNT-2: te.amax
func.func @arguments_and_products_keep_theirs(%x: tensor<32x64xbf16>, %w: tensor<32x64xbf16>) -> (tensor<f32>, tensor<f32>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<32x64xbf16>, tensor<32x64xbf16> -> tensor<32x32xbf16>
  %a = te.amax %x : tensor<32x64xbf16>
  %b = te.amax %y : tensor<32x32xbf16>
  return %a, %b : tensor<f32>, tensor<f32>
}

// A cast also measures the amax of the tensor that it reads.
// CHECK-LABEL: func.func @cast
// CHECK-NEXT: %[[Q:.*]]:2, %[[AMAX:.*]] = te.quantize %{{.*}} scale %{{.*}} contract = 0> amax tensor<f32>
// CHECK-NEXT: return %[[Q]]#0, %[[Q]]#1, %[[AMAX]]
func.func @cast(%x: tensor<32x64xbf16>, %s: tensor<f32>)
    -> (!te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 0>, tensor<f32>) {
  %a = te.amax %x : tensor<32x64xbf16>
  %r, %c = te.quantize %x scale %s : tensor<32x64xbf16>
    -> !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 0>
  return %r, %c, %a : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>,
                      !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 0>, tensor<f32>
}

// This is not possible if the scale is computed from the amax.
// CHECK-LABEL: func.func @current_scale
// CHECK: te.amax
// CHECK-NOT: amax tensor<f32>
// CHECK: return
func.func @current_scale(%x: tensor<32x64xbf16>) -> !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1> {
  %a = te.amax %x : tensor<32x64xbf16>
  %s = te.compute_scale %a for f8E4M3FN
  %q = te.quantize %x scale %s : tensor<32x64xbf16> -> !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>
  return %q : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>
}

// The first of two casts measures the amax. Block casts cannot measure one.
// CHECK-LABEL: func.func @first_cast
// CHECK: te.quantize %{{.*}}block_1x128
// CHECK: %{{.*}}, %[[AMAX:.*]] = te.quantize %{{.*}}f8E4M3FN, per_tensor, contract = 1> amax tensor<f32>
// CHECK: te.quantize %{{.*}}f8E5M2, per_tensor, contract = 1>{{$}}
// CHECK: return %{{.*}}, %[[AMAX]]
func.func @first_cast(%x: tensor<32x64xbf16>, %s: tensor<f32>)
    -> (!te.scaled<32x64xf8E4M3FN, block_1x128, contract = 1>, !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>,
        !te.scaled<32x64xf8E5M2, per_tensor, contract = 1>, tensor<f32>) {
  %b = te.quantize %x : tensor<32x64xbf16> -> !te.scaled<32x64xf8E4M3FN, block_1x128, contract = 1>
  %q = te.quantize %x scale %s : tensor<32x64xbf16> -> !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>
  %p = te.quantize %x scale %s : tensor<32x64xbf16> -> !te.scaled<32x64xf8E5M2, per_tensor, contract = 1>
  %a = te.amax %x : tensor<32x64xbf16>
  return %b, %q, %p, %a : !te.scaled<32x64xf8E4M3FN, block_1x128, contract = 1>,
                          !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>,
                          !te.scaled<32x64xf8E5M2, per_tensor, contract = 1>, tensor<f32>
}

// The producer of a tensor takes precedence over its cast.
// CHECK-LABEL: func.func @producer_first
// CHECK-NEXT: te.activation {{.*}} amax tensor<f32>
// CHECK-NEXT: te.quantize {{.*}}contract = 1>{{$}}
func.func @producer_first(%x: tensor<32x64xbf16>, %s: tensor<f32>)
    -> (!te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<f32>) {
  %y = te.activation <silu> %x : tensor<32x64xbf16> -> tensor<32x64xbf16>
  %q = te.quantize %y scale %s : tensor<32x64xbf16> -> !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>
  %a = te.amax %y : tensor<32x64xbf16>
  return %q, %a : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<f32>
}

// A cast that is skipped in some steps measures nothing then.
// CHECK-LABEL: func.func @skipped_cast
// CHECK-NEXT: te.amax
// CHECK-NEXT: te.quantize %{{.*}} contract = 1>{{$}}
func.func @skipped_cast(%x: tensor<32x64xbf16>, %s: tensor<f32>, %skip: tensor<f32>, %into: !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>)
    -> (!te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<f32>) {
  %a = te.amax %x : tensor<32x64xbf16>
  %q = te.quantize %x scale %s into %into unless %skip : tensor<32x64xbf16> -> !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>
  return %q, %a : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<f32>
}

// A cast in another block may not run at all.
// CHECK-LABEL: func.func @cast_in_branch
// CHECK: te.amax
// CHECK-NOT: amax tensor<f32>
// CHECK: return
func.func @cast_in_branch(%c: i1, %x: tensor<32x64xbf16>, %s: tensor<f32>) -> (tensor<32x64xbf16>, tensor<f32>) {
  %a = te.amax %x : tensor<32x64xbf16>
  %y = scf.if %c -> tensor<32x64xbf16> {
    %q = te.quantize %x scale %s : tensor<32x64xbf16> -> !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>
    %d = te.dequantize %q : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1> -> tensor<32x64xbf16>
    scf.yield %d : tensor<32x64xbf16>
  } else {
    scf.yield %x : tensor<32x64xbf16>
  }
  return %y, %a : tensor<32x64xbf16>, tensor<f32>
}

// A cast of groups has a scale, and would have an amax, for each of them.
// CHECK-LABEL: func.func @cast_of_groups
// CHECK-NEXT: te.amax
// CHECK-NEXT: te.grouped_quantize
// CHECK-NOT: amax tensor
func.func @cast_of_groups(%x: tensor<32x64xbf16>, %s: tensor<2xf32>, %sizes: tensor<2xi32>)
    -> (!te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>, tensor<f32>) {
  %a = te.amax %x : tensor<32x64xbf16>
  %q = te.grouped_quantize %x scale %s sizes %sizes {alignment = 16 : i64} : tensor<32x64xbf16> -> !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>
  return %q, %a : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>, tensor<f32>
}

// An amax that a cast measures already is taken.
// CHECK-LABEL: func.func @measured_already
// CHECK-NEXT: %[[Q:.*]], %[[AMAX:.*]] = te.quantize
// CHECK-NEXT: return %[[Q]], %[[AMAX]], %[[AMAX]]
func.func @measured_already(%x: tensor<32x64xbf16>, %s: tensor<f32>) -> (!te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<f32>, tensor<f32>) {
  %q, %m = te.quantize %x scale %s : tensor<32x64xbf16> -> !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1> amax tensor<f32>
  %a = te.amax %x : tensor<32x64xbf16>
  return %q, %m, %a : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<f32>, tensor<f32>
}

// A producer measures in every step, also if the amax is not wanted.
// CHECK-LABEL: func.func @skipped_amax
// CHECK-NEXT: te.activation <silu> %arg0 : tensor<32x64xbf16> -> tensor<32x64xbf16>
// CHECK-NEXT: te.amax
func.func @skipped_amax(%x: tensor<32x64xbf16>, %skip: tensor<f32>) -> (tensor<32x64xbf16>, tensor<f32>) {
  %y = te.activation <silu> %x : tensor<32x64xbf16> -> tensor<32x64xbf16>
  %a = te.amax %y unless %skip : tensor<32x64xbf16>
  return %y, %a : tensor<32x64xbf16>, tensor<f32>
}

// A cast measures the amax of what it casts: rounded values, or those of x.
// CHECK-LABEL: func.func @rounded
// CHECK-NEXT: %[[A:.*]] = te.amax %arg0 : tensor<32x64xf32>
// CHECK-NEXT: %[[Q:.*]], %[[B:.*]] = te.quantize %arg0 scale %arg1 {rounded = bf16}
// CHECK-NEXT: return %[[Q]], %[[A]], %[[B]]
func.func @rounded(%w: tensor<32x64xf32>, %s: tensor<f32>) -> (!te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<f32>, tensor<f32>) {
  %a = te.amax %w : tensor<32x64xf32>
  %b = te.amax %w {rounded = bf16} : tensor<32x64xf32>
  %q = te.quantize %w scale %s {rounded = bf16} : tensor<32x64xf32> -> !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>
  return %q, %a, %b : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<f32>, tensor<f32>
}
