// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-materialize-transposes{policy=on-demand rows-are-kept=true}))' | FileCheck %s

// Rows are transposed only if they were cast as the columns are.
// CHECK-LABEL: func.func @same_scale
// CHECK: te.transpose
// CHECK: return
func.func @same_scale(%w: tensor<64x64xbf16> {te.name = "w", te.weight}, %s: tensor<f32>) -> (!te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0>) {
  %row = te.quantize %w scale %s : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
  %col = te.quantize %w scale %s : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0>
  return %row, %col : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0>
}

// CHECK-LABEL: func.func @other_scale
// CHECK-NOT: te.transpose
// CHECK: return
func.func @other_scale(%w: tensor<64x64xbf16> {te.name = "w", te.weight}, %s: tensor<f32>, %t: tensor<f32>) -> (!te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0>) {
  %row = te.quantize %w scale %s : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
  %col = te.quantize %w scale %t : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0>
  return %row, %col : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0>
}

// CHECK-LABEL: func.func @rounded_rows
// CHECK-NOT: te.transpose
// CHECK: return
func.func @rounded_rows(%w: tensor<64x64xf32> {te.name = "w", te.weight}, %s: tensor<f32>) -> (!te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0>) {
  %row = te.quantize %w scale %s {rounded = bf16} : tensor<64x64xf32> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
  %col = te.quantize %w scale %s : tensor<64x64xf32> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0>
  return %row, %col : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0>
}

// CHECK-LABEL: func.func @other_format
// CHECK-NOT: te.transpose
// CHECK: return
func.func @other_format(%w: tensor<64x64xbf16> {te.name = "w", te.weight}, %s: tensor<f32>) -> (!te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<64x64xf8E5M2, per_tensor, contract = 0>) {
  %row = te.quantize %w scale %s : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
  %col = te.quantize %w scale %s : tensor<64x64xbf16> -> !te.scaled<64x64xf8E5M2, per_tensor, contract = 0>
  return %row, %col : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<64x64xf8E5M2, per_tensor, contract = 0>
}

// CHECK-LABEL: func.func @other_epsilon
// CHECK-NOT: te.transpose
// CHECK: return
func.func @other_epsilon(%w: tensor<64x64xbf16> {te.name = "w", te.weight}) -> (!te.scaled<64x64xf8E4M3FN, block_128x128, pow2, contract = 1>, !te.scaled<64x64xf8E4M3FN, block_128x128, pow2, contract = 0>) {
  %row = te.quantize %w : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, block_128x128, pow2, contract = 1>
  %col = te.quantize %w {amax_epsilon = 1.0e-3 : f32} : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, block_128x128, pow2, contract = 0>
  return %row, %col : !te.scaled<64x64xf8E4M3FN, block_128x128, pow2, contract = 1>, !te.scaled<64x64xf8E4M3FN, block_128x128, pow2, contract = 0>
}

// CHECK-LABEL: func.func @same_amax
// CHECK: te.transpose
// CHECK: return
func.func @same_amax(%w: tensor<64x64xbf16> {te.name = "w", te.weight}, %a: tensor<f32>) -> (!te.scaled<64x64xf4E2M1FN, nv_16x16, contract = 1>, !te.scaled<64x64xf4E2M1FN, nv_16x16, contract = 0>) {
  %row = te.quantize %w amax %a : tensor<64x64xbf16> -> !te.scaled<64x64xf4E2M1FN, nv_16x16, contract = 1>
  %col = te.quantize %w amax %a : tensor<64x64xbf16> -> !te.scaled<64x64xf4E2M1FN, nv_16x16, contract = 0>
  return %row, %col : !te.scaled<64x64xf4E2M1FN, nv_16x16, contract = 1>, !te.scaled<64x64xf4E2M1FN, nv_16x16, contract = 0>
}

// CHECK-LABEL: func.func @other_amax
// CHECK-NOT: te.transpose
// CHECK: return
func.func @other_amax(%w: tensor<64x64xbf16> {te.name = "w", te.weight}, %a: tensor<f32>, %b: tensor<f32>) -> (!te.scaled<64x64xf4E2M1FN, nv_16x16, contract = 1>, !te.scaled<64x64xf4E2M1FN, nv_16x16, contract = 0>) {
  %row = te.quantize %w amax %a : tensor<64x64xbf16> -> !te.scaled<64x64xf4E2M1FN, nv_16x16, contract = 1>
  %col = te.quantize %w amax %b : tensor<64x64xbf16> -> !te.scaled<64x64xf4E2M1FN, nv_16x16, contract = 0>
  return %row, %col : !te.scaled<64x64xf4E2M1FN, nv_16x16, contract = 1>, !te.scaled<64x64xf4E2M1FN, nv_16x16, contract = 0>
}

// CHECK-LABEL: func.func @other_rounding
// CHECK-NOT: te.transpose
// CHECK: return
func.func @other_rounding(%w: tensor<64x64xbf16> {te.name = "w", te.weight}, %a: tensor<f32>, %r: tensor<2xi32>) -> (!te.scaled<64x64xf4E2M1FN, nv_16x16, contract = 1>, !te.scaled<64x64xf4E2M1FN, nv_16x16, contract = 0>) {
  %row = te.quantize %w amax %a rng %r : tensor<64x64xbf16> -> !te.scaled<64x64xf4E2M1FN, nv_16x16, contract = 1>
  %col = te.quantize %w amax %a : tensor<64x64xbf16> -> !te.scaled<64x64xf4E2M1FN, nv_16x16, contract = 0>
  return %row, %col : !te.scaled<64x64xf4E2M1FN, nv_16x16, contract = 1>, !te.scaled<64x64xf4E2M1FN, nv_16x16, contract = 0>
}

// CHECK-LABEL: func.func @other_block_scales
// CHECK-NOT: te.transpose
// CHECK: return
func.func @other_block_scales(%w: tensor<64x64xbf16> {te.name = "w", te.weight}, %a: tensor<f32>) -> (!te.scaled<64x64xf4E2M1FN, nv_16x16, scale_max_256, contract = 1>, !te.scaled<64x64xf4E2M1FN, nv_16x16, scale_max_256, contract = 0>) {
  %row = te.quantize %w amax %a : tensor<64x64xbf16> -> !te.scaled<64x64xf4E2M1FN, nv_16x16, scale_max_256, contract = 1>
  %col = te.quantize %w amax %a {four_over_six = #te.four_over_six<mae>} : tensor<64x64xbf16> -> !te.scaled<64x64xf4E2M1FN, nv_16x16, scale_max_256, contract = 0>
  return %row, %col : !te.scaled<64x64xf4E2M1FN, nv_16x16, scale_max_256, contract = 1>, !te.scaled<64x64xf4E2M1FN, nv_16x16, scale_max_256, contract = 0>
}

// A cast that measures is needed anyway.
// CHECK-LABEL: func.func @measures
// CHECK-NOT: te.transpose
// CHECK: return
func.func @measures(%w: tensor<64x64xbf16> {te.name = "w", te.weight}, %s: tensor<f32>) -> (!te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0>, tensor<f32>) {
  %row = te.quantize %w scale %s : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
  %col, %amax = te.quantize %w scale %s : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0> amax tensor<f32>
  return %row, %col, %amax : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0>, tensor<f32>
}

// CHECK-LABEL: func.func @columns_in_branch
// CHECK-NOT: te.transpose
// CHECK: return
func.func @columns_in_branch(%c: i1, %w: tensor<64x64xbf16> {te.name = "w", te.weight}, %s: tensor<f32>, %x: tensor<64x64xbf16>) -> (tensor<64x64xbf16>, !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>) {
  %y = scf.if %c -> tensor<64x64xbf16> {
    %col = te.quantize %w scale %s : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0>
    %d = te.dequantize %col : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0> -> tensor<64x64xbf16>
    scf.yield %d : tensor<64x64xbf16>
  } else {
    scf.yield %x : tensor<64x64xbf16>
  }
  %row = te.quantize %w scale %s : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
  return %y, %row : tensor<64x64xbf16>, !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
}

// CHECK-LABEL: func.func @rows_in_branch
// CHECK-NOT: te.transpose
// CHECK: return
func.func @rows_in_branch(%c: i1, %w: tensor<64x64xbf16> {te.name = "w", te.weight}, %s: tensor<f32>, %x: tensor<64x64xbf16>) -> (tensor<64x64xbf16>, !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0>) {
  %y = scf.if %c -> tensor<64x64xbf16> {
    %row = te.quantize %w scale %s : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
    %d = te.dequantize %row : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1> -> tensor<64x64xbf16>
    scf.yield %d : tensor<64x64xbf16>
  } else {
    scf.yield %x : tensor<64x64xbf16>
  }
  %col = te.quantize %w scale %s : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0>
  return %y, %col : tensor<64x64xbf16>, !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0>
}
