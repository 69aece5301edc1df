// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-materialize-transposes{rows-are-kept=true}))' | FileCheck %s

// The columns of a weight with square blocks are computed from its rows, which are cast with the same amax.
// CHECK-LABEL: func.func @square
// CHECK: %[[ROW:.*]] = te.quantize %{{.*}} amax %arg1 {four_over_six = #te.four_over_six<mae>} : {{.*}}nv_16x16, contract = 1>
// CHECK-NEXT: %[[COL:.*]] = te.transpose %[[ROW]]
// CHECK-NEXT: te.dequantize %[[COL]]
func.func @square(%w: tensor<32x64xbf16> {te.weight}, %amax: tensor<f32>) -> (tensor<32x64xbf16>, tensor<32x64xbf16>) {
  %r = te.quantize %w amax %amax {four_over_six = #te.four_over_six<mae>} : tensor<32x64xbf16> -> !te.scaled<32x64xf4E2M1FN, nv_16x16, contract = 1>
  %q = te.quantize %w amax %amax {four_over_six = #te.four_over_six<mae>} : tensor<32x64xbf16> -> !te.scaled<32x64xf4E2M1FN, nv_16x16, contract = 0>
  %x = te.dequantize %q : !te.scaled<32x64xf4E2M1FN, nv_16x16, contract = 0> -> tensor<32x64xbf16>
  %y = te.dequantize %r : !te.scaled<32x64xf4E2M1FN, nv_16x16, contract = 1> -> tensor<32x64xbf16>
  return %x, %y : tensor<32x64xbf16>, tensor<32x64xbf16>
}

// If nothing reads the rows, casting the columns moves the fewest bytes.
// CHECK-LABEL: func.func @columns_only
// CHECK-NOT: te.transpose
func.func @columns_only(%w: tensor<32x64xbf16> {te.weight}, %amax: tensor<f32>) -> tensor<32x64xbf16> {
  %q = te.quantize %w amax %amax : tensor<32x64xbf16> -> !te.scaled<32x64xf4E2M1FN, nv_16x16, contract = 0>
  %x = te.dequantize %q : !te.scaled<32x64xf4E2M1FN, nv_16x16, contract = 0> -> tensor<32x64xbf16>
  return %x : tensor<32x64xbf16>
}

// Columns that are rounded stochastically have their own random bits.
// CHECK-LABEL: func.func @stochastic
// CHECK-NOT: te.transpose
func.func @stochastic(%w: tensor<32x64xbf16> {te.weight}, %amax: tensor<f32>, %state: tensor<2xi32>) -> tensor<32x64xbf16> {
  %q = te.quantize %w amax %amax rng %state : tensor<32x64xbf16> -> !te.scaled<32x64xf4E2M1FN, nv_16x16, contract = 0>
  %x = te.dequantize %q : !te.scaled<32x64xf4E2M1FN, nv_16x16, contract = 0> -> tensor<32x64xbf16>
  return %x : tensor<32x64xbf16>
}
