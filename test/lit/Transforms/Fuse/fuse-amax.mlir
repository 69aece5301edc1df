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

// The other results and attributes stay.
// CHECK-LABEL: func.func @rms_norm
// CHECK-NEXT: %[[Y:.*]], %[[RSIGMA:.*]], %[[AMAX:.*]] = te.rms_norm %{{.*}} {epsilon = 1.250000e-01 : f32, zero_centered_gamma = true} : {{.*}} rsigma tensor<32xf32> amax tensor<f32>
// CHECK-NEXT: return %[[Y]], %[[RSIGMA]], %[[AMAX]]
func.func @rms_norm(%x: tensor<32x64xbf16>, %g: tensor<64xbf16>) -> (tensor<32x64xbf16>, tensor<32xf32>, tensor<f32>) {
  %y, %r = te.rms_norm %x, %g {epsilon = 0.125 : f32, zero_centered_gamma = true} : tensor<32x64xbf16>, tensor<64xbf16> rsigma tensor<32xf32>
  %a = te.amax %y : tensor<32x64xbf16>
  return %y, %r, %a : tensor<32x64xbf16>, tensor<32xf32>, tensor<f32>
}

// Only the normalised rows have their amax taken by the op.
// CHECK-LABEL: func.func @other_results_keep_theirs
// CHECK: te.rms_norm
// CHECK-NEXT: te.amax
func.func @other_results_keep_theirs(%x: tensor<32x64xbf16>, %g: tensor<64xbf16>) -> tensor<f32> {
  %y, %r = te.rms_norm %x, %g : tensor<32x64xbf16>, tensor<64xbf16> rsigma tensor<32xf32>
  %a = te.amax %r : tensor<32xf32>
  return %a : tensor<f32>
}

// One amax serves all.
// CHECK-LABEL: func.func @reuses_an_amax
// CHECK-NEXT: %{{.*}}, %[[AMAX:.*]] = te.activation
// CHECK-NEXT: return %[[AMAX]], %[[AMAX]]
func.func @reuses_an_amax(%x: tensor<32x64xbf16>) -> (tensor<f32>, tensor<f32>) {
  %y = te.activation <silu> %x : tensor<32x64xbf16> -> tensor<32x64xbf16>
  %a = te.amax %y : tensor<32x64xbf16>
  %b = te.amax %y : tensor<32x64xbf16>
  return %a, %b : tensor<f32>, tensor<f32>
}

// Nothing else computes an amax on the way.
// CHECK-LABEL: func.func @arguments_and_products_keep_theirs
// CHECK-COUNT-2: te.amax
func.func @arguments_and_products_keep_theirs(%x: tensor<32x64xbf16>, %w: tensor<32x64xbf16>) -> (tensor<f32>, tensor<f32>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<32x64xbf16>, tensor<32x64xbf16> -> tensor<32x32xbf16>
  %a = te.amax %x : tensor<32x64xbf16>
  %b = te.amax %y : tensor<32x32xbf16>
  return %a, %b : tensor<f32>, tensor<f32>
}
