// RUN: te-opt %s --te-emulate-products --mlir-print-local-scope | FileCheck %s

!x = !te.scaled<32x64xf8E4M3FN, mx_1x32, contract = 1>
!w = !te.scaled<96x64xf8E4M3FN, mx_32x32, contract = 1>

// CHECK-LABEL: func @bf16(
// CHECK: %[[A:.*]] = te.dequantize %{{.*}} -> tensor<32x64xbf16>
// CHECK: %[[B:.*]] = te.dequantize %{{.*}} -> tensor<96x64xbf16>
// CHECK: te.matmul %[[A]], %[[B]] bias %{{.*}} : tensor<32x64xbf16>
// CHECK-NOT: te.scaled_matmul
func.func @bf16(%x: !x, %w: !w, %b: tensor<96xbf16>) -> tensor<32x96xbf16> {
  %y = te.scaled_matmul %x, %w bias %b : tensor<96xbf16> fast_accumulation = false
    : !x, !w -> tensor<32x96xbf16>
  return %y : tensor<32x96xbf16>
}

// The sum is f32 and is rounded once.
// CHECK-LABEL: func @f16(
// CHECK: %[[SUM:.*]] = te.matmul %{{.*}} -> tensor<32x96xf32>
// CHECK: arith.truncf %[[SUM]] : tensor<32x96xf32> to tensor<32x96xf16>
func.func @f16(%x: !x, %w: !w) -> tensor<32x96xf16> {
  %y = te.scaled_matmul %x, %w fast_accumulation = false : !x, !w -> tensor<32x96xf16>
  return %y : tensor<32x96xf16>
}

// A GEMM with a bias needs operands of the result's type.
// CHECK-LABEL: func @f32_bias(
// CHECK-DAG: te.dequantize %{{.*}} -> tensor<32x64xf32>
// CHECK-DAG: arith.extf %{{.*}} : tensor<96xbf16> to tensor<96xf32>
// CHECK: te.matmul %{{.*}} bias %{{.*}} -> tensor<32x96xf32>
func.func @f32_bias(%x: !x, %w: !w, %b: tensor<96xbf16>) -> tensor<32x96xf32> {
  %y = te.scaled_matmul %x, %w bias %b : tensor<96xbf16> fast_accumulation = false
    : !x, !w -> tensor<32x96xf32>
  return %y : tensor<32x96xf32>
}

// Every target has a GEMM for FP8 with f32 scales.
!q = !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>
// CHECK-LABEL: func @per_tensor(
// CHECK: te.scaled_matmul
func.func @per_tensor(%a: !q, %b: !q) -> tensor<32x32xbf16> {
  %y = te.scaled_matmul %a, %b fast_accumulation = true : !q, !q -> tensor<32x32xbf16>
  return %y : tensor<32x32xbf16>
}

// The amaxes become a factor of the sum.
!n = !te.scaled<32x64xf4E2M1FN, nv_1x16, contract = 1>
!r = !te.scaled<32x64xf4E2M1FN, nv_1x16, row_scaled, contract = 1>
// CHECK-LABEL: func @nv(
// CHECK: %[[ALPHA:.*]] = te.nvfp4_alpha
// CHECK: te.dequantize %{{.*}} {without_amax} {{.*}} -> tensor<32x64xbf16>
// CHECK: te.matmul %{{.*}} alpha %[[ALPHA]]
func.func @nv(%a: !n, %b: !n) -> tensor<32x32xbf16> {
  %y = te.scaled_matmul %a, %b fast_accumulation = false : !n, !n -> tensor<32x32xbf16>
  return %y : tensor<32x32xbf16>
}

// A factor of each row cannot be one.
// CHECK-LABEL: func @row_scaled(
// CHECK-NOT: te.nvfp4_alpha
// CHECK: te.matmul {{.*}} tensor<32x64xf32>, tensor<32x64xf32> -> tensor<32x32xf32>
// CHECK: arith.truncf
func.func @row_scaled(%a: !r, %b: !n) -> tensor<32x32xbf16> {
  %y = te.scaled_matmul %a, %b fast_accumulation = false : !r, !n -> tensor<32x32xbf16>
  return %y : tensor<32x32xbf16>
}

!ga = !te.scaled<256x64xf8E4M3FN, mx_1x32, contract = 1, groups = 2>
!gb = !te.scaled<2x32x64xf8E4M3FN, mx_1x32, contract = 1>

// A bias of groups is added in the type of the sum, which is wide if the result is.
// CHECK-LABEL: func.func @groups_with_bias(
// CHECK: te.dequantize %arg0 {{.*}} -> tensor<256x64xbf16>
// CHECK: te.grouped_matmul {{.*}} bias %arg3 : tensor<2x32xbf16> {{.*}} -> tensor<256x32xbf16>
func.func @groups_with_bias(%a: !ga, %b: !gb, %sizes: tensor<2xi32>, %bias: tensor<2x32xbf16>) -> tensor<256x32xbf16> {
  %y = te.grouped_scaled_matmul %a, %b, %sizes bias %bias : tensor<2x32xbf16> fast_accumulation = false {alignment = 128 : i64} : !ga, !gb, tensor<2xi32> -> tensor<256x32xbf16>
  return %y : tensor<256x32xbf16>
}

// CHECK-LABEL: func.func @wide_groups_with_bias(
// CHECK: %[[BIAS:.*]] = arith.extf %arg3 : tensor<2x32xbf16> to tensor<2x32xf32>
// CHECK: te.dequantize %arg0 {{.*}} -> tensor<256x64xf32>
// CHECK: te.grouped_matmul {{.*}} bias %[[BIAS]] : tensor<2x32xf32> {{.*}} -> tensor<256x32xf32>
func.func @wide_groups_with_bias(%a: !ga, %b: !gb, %sizes: tensor<2xi32>, %bias: tensor<2x32xbf16>) -> tensor<256x32xf32> {
  %y = te.grouped_scaled_matmul %a, %b, %sizes bias %bias : tensor<2x32xbf16> fast_accumulation = false {alignment = 128 : i64} : !ga, !gb, tensor<2xi32> -> tensor<256x32xf32>
  return %y : tensor<256x32xf32>
}
