// RUN: te-opt %s --te-rematerialize=policy=everything | FileCheck %s
// RUN: te-opt %s --te-rematerialize=policy=ops:tanh1 | FileCheck %s --check-prefix=NUMBERED
// RUN: te-opt %s --te-rematerialize=policy=ops:math.tanh | FileCheck %s --check-prefix=NAMED

// What is not repeated: ops with regions, arguments and scalars.

// CHECK-LABEL: func.func @sums(
// CHECK:         linalg.reduce
// CHECK:         te.residual %{{.*}} "s"
// CHECK-NOT:     linalg.reduce
// CHECK:         return
func.func @sums(%x: tensor<32x64xf32>, %dy: tensor<32xf32>) -> (tensor<32xf32>, tensor<32xf32>) {
  %t = math.tanh %x : tensor<32x64xf32>
  %zero = arith.constant dense<0.0> : tensor<32xf32>
  %s = linalg.reduce { arith.addf } ins(%t : tensor<32x64xf32>) outs(%zero : tensor<32xf32>) dimensions = [1]
  %r = te.residual %s "s" : tensor<32xf32>
  %d = arith.mulf %dy, %r : tensor<32xf32>
  return %s, %d : tensor<32xf32>, tensor<32xf32>
}

// CHECK-LABEL: func.func @arguments(
// CHECK:         te.residual %arg0 "x"
// CHECK:         te.residual %{{.*}} "amax"
// CHECK-NOT:     te.amax
// CHECK:         return
func.func @arguments(%x: tensor<32x64xf32>, %dy: tensor<32x64xf32>) -> (tensor<32x64xf32>, tensor<f32>) {
  %t = math.tanh %x : tensor<32x64xf32>
  %a = te.amax %t : tensor<32x64xf32>
  %xr = te.residual %x "x" : tensor<32x64xf32>
  %ar = te.residual %a "amax" : tensor<f32>
  %d = arith.mulf %dy, %xr : tensor<32x64xf32>
  %e = arith.mulf %ar, %ar : tensor<f32>
  return %d, %e : tensor<32x64xf32>, tensor<f32>
}

// An op is named by its number, or by its full name.
// NUMBERED-LABEL: func.func @two(
// NUMBERED-DAG:   te.residual %{{.*}} "first"
// NUMBERED-NOT:   te.residual %{{.*}} "second"
// NUMBERED:       return
// NAMED-LABEL: func.func @two(
// NAMED-NOT:      "first"
// NAMED-NOT:      "second"
// NAMED:          return
func.func @two(%x: tensor<32x64xf32>, %y: tensor<32x64xf32>, %dy: tensor<32x64xf32>) -> (tensor<32x64xf32>, tensor<32x64xf32>) {
  %a = math.tanh %x : tensor<32x64xf32>
  %b = math.tanh %y : tensor<32x64xf32>
  %ar = te.residual %a "first" : tensor<32x64xf32>
  %br = te.residual %b "second" : tensor<32x64xf32>
  %d = arith.mulf %dy, %ar : tensor<32x64xf32>
  %e = arith.mulf %dy, %br : tensor<32x64xf32>
  return %d, %e : tensor<32x64xf32>, tensor<32x64xf32>
}
