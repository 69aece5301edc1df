// RUN: te-opt %s --canonicalize | FileCheck %s

// An update reads a gradient that was only widened to f32 in its original type, which is exact. Other readers keep the widened value.
// CHECK-LABEL: @widened
// CHECK-SAME: %[[P:[^:]*]]: tensor<8x4xf32>, %[[G:[^:]*]]: tensor<8x4xbf16>
// CHECK: %[[WIDE:.*]] = arith.extf %[[G]]
// CHECK: te.adamw %[[P]], %[[G]], {{.*}} : tensor<8x4xf32>, tensor<8x4xbf16>
// CHECK: return %{{.*}}, %[[WIDE]]
func.func @widened(%p: tensor<8x4xf32>, %g: tensor<8x4xbf16>, %m: tensor<8x4xf32>, %v: tensor<8x4xf32>, %lr: tensor<f32>, %t: tensor<f32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %wide = arith.extf %g : tensor<8x4xbf16> to tensor<8x4xf32>
  %p1, %m1, %v1 = te.adamw %p, %wide, %m, %v lr %lr step %t : tensor<8x4xf32>, tensor<8x4xf32>
  return %p1, %wide : tensor<8x4xf32>, tensor<8x4xf32>
}

// CHECK-LABEL: @widened_of_sgd
// CHECK-NOT: arith.extf
// CHECK: te.sgd %{{.*}}, %arg1 buffer %{{.*}} lr %{{.*}} {momentum = {{.*}} : f32} : tensor<8xf32>, tensor<8xf16>
func.func @widened_of_sgd(%p: tensor<8xf32>, %g: tensor<8xf16>, %b: tensor<8xf32>, %lr: tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %wide = arith.extf %g : tensor<8xf16> to tensor<8xf32>
  %p1, %b1 = te.sgd %p, %wide buffer %b lr %lr {momentum = 0.9 : f32} : tensor<8xf32>, tensor<8xf32>
  return %p1, %b1 : tensor<8xf32>, tensor<8xf32>
}

// Rounding in between, or an 8-bit type, prevents this.
// CHECK-LABEL: @rounded
// CHECK: te.sgd %{{.*}}, %[[G:.*]] lr %{{.*}} : tensor<8xf32>, tensor<8xbf16>
// CHECK: %[[WIDE:.*]] = arith.extf %{{.*}} : tensor<8xf8E4M3FN> to tensor<8xf32>
// CHECK: te.sgd %{{.*}}, %[[WIDE]] lr %{{.*}} : tensor<8xf32>, tensor<8xf32>
func.func @rounded(%p: tensor<8xf32>, %g: tensor<8xf32>, %q: tensor<8xf8E4M3FN>, %lr: tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %narrow = arith.truncf %g : tensor<8xf32> to tensor<8xbf16>
  %p1 = te.sgd %p, %narrow lr %lr : tensor<8xf32>, tensor<8xbf16>
  %wide = arith.extf %q : tensor<8xf8E4M3FN> to tensor<8xf32>
  %p2 = te.sgd %p, %wide lr %lr : tensor<8xf32>, tensor<8xf32>
  return %p1, %p2 : tensor<8xf32>, tensor<8xf32>
}

// A factor multiplies in f32, so that the gradient may be read in its original type.
// CHECK-LABEL: @widened_and_scaled
// CHECK-NOT: arith.extf
// CHECK: te.adamw %{{.*}}, %arg1, {{.*}} grad_scale %{{.*}} : tensor<8xf32>, tensor<8xbf16>
func.func @widened_and_scaled(%p: tensor<8xf32>, %g: tensor<8xbf16>, %m: tensor<8xf32>, %lr: tensor<f32>, %t: tensor<f32>, %s: tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %wide = arith.extf %g : tensor<8xbf16> to tensor<8xf32>
  %p1, %m1, %v1 = te.adamw %p, %wide, %m, %m lr %lr step %t grad_scale %s : tensor<8xf32>, tensor<8xf32>
  %sum = te.sgd %p1, %m1 lr %lr grad_scale %s : tensor<8xf32>, tensor<8xf32>
  return %sum, %v1 : tensor<8xf32>, tensor<8xf32>
}
