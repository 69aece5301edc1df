// RUN: te-opt %s --te-form-regions --split-input-file | FileCheck %s
// RUN: te-opt %s --te-form-regions --te-convert-to-tert --split-input-file | FileCheck %s --check-prefix=LAUNCH

// One launch; each value is rounded as before, and a value that others read is stored.
// CHECK-LABEL: func.func @chain
// CHECK: %[[R:.*]]:2 = linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<4x8xbf16>, tensor<4x8xbf16>) outs(
// CHECK-NEXT: ^bb0(%[[X:.*]]: bf16, %[[Y:.*]]: bf16, %{{.*}}: bf16, %{{.*}}: f32):
// CHECK: %[[WX:.*]] = arith.extf %[[X]] : bf16 to f32
// CHECK: %[[WY:.*]] = arith.extf %[[Y]] : bf16 to f32
// CHECK: %[[P:.*]] = arith.mulf %[[WX]], %[[WY]] : f32
// CHECK: %[[PN:.*]] = arith.truncf %[[P]] : f32 to bf16
// CHECK: %[[PW:.*]] = arith.extf %[[PN]] : bf16 to f32
// CHECK: %[[TWO:.*]] = arith.constant 2.000000e+00 : f32
// CHECK: %[[S:.*]] = arith.addf %[[PW]], %[[TWO]] : f32
// CHECK: %[[SN:.*]] = arith.truncf %[[S]] : f32 to bf16
// CHECK: %[[SW:.*]] = arith.extf %[[SN]] : bf16 to f32
// CHECK: %[[E:.*]] = math.exp %[[SW]] : f32
// CHECK: linalg.yield %[[SN]], %[[E]] : bf16, f32
// LAUNCH-LABEL: func.func @chain
// LAUNCH: tert.launch "generated" {count = 32 : i64, function = 0 : i64}(%arg0, %arg1, %[[NONE:.*]], %[[NONE]], %[[NONE]], %[[NONE]], %[[NONE]], %[[NONE]], %arg2, %arg3, %[[NONE]], %[[NONE]]) : {{.*}} {
// LAUNCH-NEXT: ^bb0(%{{.*}}: bf16, %{{.*}}: bf16):
// LAUNCH: tert.yield %{{.*}}, %{{.*}} : bf16, f32
func.func @chain(%x: tensor<4x8xbf16> {te.name = "x"}, %y: tensor<4x8xbf16> {te.name = "y"})
    -> (tensor<4x8xbf16> {te.name = "s"}, tensor<4x8xf32> {te.name = "e"}) {
  %two = arith.constant dense<2.0> : tensor<4x8xbf16>
  %p = arith.mulf %x, %y : tensor<4x8xbf16>
  %s = arith.addf %p, %two : tensor<4x8xbf16>
  %w = arith.extf %s : tensor<4x8xbf16> to tensor<4x8xf32>
  %e = math.exp %w : tensor<4x8xf32>
  return %s, %e : tensor<4x8xbf16>, tensor<4x8xf32>
}

// -----

// One op alone stays, as do ops of another shape, and one that is read before the other runs.
// CHECK-LABEL: func.func @apart
// CHECK-NOT: linalg.generic
func.func @apart(%x: tensor<4x8xf32> {te.name = "x"}, %w: tensor<8x8xf32> {te.name = "w"})
    -> (tensor<4x8xf32> {te.name = "a"}, tensor<32xf32> {te.name = "b"}) {
  %n = arith.negf %x : tensor<4x8xf32>
  %m = te.matmul %n, %w contract = [1, 1] : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %a = arith.addf %n, %m : tensor<4x8xf32>
  %flat = tensor.collapse_shape %a [[0, 1]] : tensor<4x8xf32> into tensor<32xf32>
  %b = math.tanh %flat : tensor<32xf32>
  return %a, %b : tensor<4x8xf32>, tensor<32xf32>
}

// -----

// A sum that frees memory before a launch stays before it; the others are one.
// CHECK-LABEL: func.func @frees
// CHECK: arith.addf
// CHECK: te.matmul
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} :
func.func @frees(%x: tensor<8x8xf32> {te.name = "x"}) -> (tensor<8x8xf32> {te.name = "y"}) {
  %a = te.matmul %x, %x contract = [1, 1] : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %b = te.matmul %a, %x contract = [1, 1] : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %sum = arith.addf %a, %b : tensor<8x8xf32>
  %c = te.matmul %x, %x contract = [1, 1] : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %d = arith.addf %sum, %c : tensor<8x8xf32>
  %y = arith.mulf %d, %d : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
