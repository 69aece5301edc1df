// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts,cse))' --remarks-filter='.*' 2>&1 | FileCheck %s

// The remarks say for every GEMM what it becomes and why.
// CHECK-DAG: [Passed] gemm-precision{{.*}}Reason="recipe 'float8_current_scaling'", Remark="fprop of 'w' became te.scaled_matmul"
// CHECK-DAG: [Missed] gemm-precision{{.*}}Reason="fallback: expected the result of 'block_1x128' and 'block_128x128' with a 'bias' to be 'f32' or 'bf16', but got 'f16'", Remark="fprop of 'w' became te.matmul on the original operands"
// CHECK-DAG: [Analysis] gemm-precision{{.*}}Reason="override 'dequantized'", Remark="wgrad of 'w' became te.matmul on dequantised operands"

// The innermost recipe applies to an op.
// CHECK-LABEL: func.func @innermost_recipe_wins
// CHECK: te.matmul {{.*}} contract = [1, 1]
// CHECK: te.scaled_matmul {{.*}} fast_accumulation = true : {{.*}}per_tensor
func.func @innermost_recipe_wins(%x: tensor<32x64xbf16>, %w: tensor<64x64xbf16> {te.name = "w"}) -> tensor<32x64xbf16>
    attributes {te.recipe = #te.recipe<float8_current_scaling>} {
  %h = te.linear %x, %w {te.recipe = #te.recipe<high_precision>} : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  %y = te.linear %h, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  return %y : tensor<32x64xbf16>
}

// Options of per-tensor scaling become attributes of the scale, and those of block scaling of the cast.
// CHECK-LABEL: func.func @options_reach_the_scale
// CHECK: te.compute_scale %{{.*}} for f8E4M3FN {amax_epsilon = 1.250000e-01 : f32, pow2_scales = true}
// CHECK: te.quantize %{{[a-z0-9]+}} scale %{{[a-z0-9]+}} : {{.*}}per_tensor, pow2, contract = 1>
// CHECK: te.scaled_matmul {{.*}} fast_accumulation = false
func.func @options_reach_the_scale(%x: tensor<32x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<32x64xbf16>
    attributes {te.recipe = #te.recipe<float8_current_scaling, {pow2_scales = true, amax_epsilon = 0.125, split_fprop = true}>} {
  %y = te.linear %x, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  return %y : tensor<32x64xbf16>
}

// CHECK-LABEL: func.func @options_reach_the_block_cast
// CHECK: te.quantize %{{.*}} {amax_epsilon = 1.250000e-01 : f32} : {{.*}} -> !te.scaled<32x64xf8E4M3FN, block_128x128, contract = 1>
// CHECK: te.quantize %{{.*}} {amax_epsilon = 1.250000e-01 : f32} : {{.*}} -> !te.scaled<64x64xf8E4M3FN, block_1x128, contract = 1>
func.func @options_reach_the_block_cast(%x: tensor<32x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<32x64xbf16>
    attributes {te.recipe = #te.recipe<float8_block_scaling, {pow2_scales = false, amax_epsilon = 0.125, x_block_dim = 2, w_block_dim = 1}>} {
  %y = te.linear %x, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  return %y : tensor<32x64xbf16>
}

// Quantised GEMMs support a bf16 bias.
// CHECK-LABEL: func.func @f32_bias_is_rounded
// CHECK: %[[BIAS:.*]] = arith.truncf %{{.*}} : tensor<64xf32> to tensor<64xbf16>
// CHECK: te.scaled_matmul %{{.*}}, %{{.*}} bias %[[BIAS]] : tensor<64xbf16> {{.*}} -> tensor<32x64xf32>
func.func @f32_bias_is_rounded(%x: tensor<32x64xf32>, %w: tensor<64x64xf32>, %b: tensor<64xf32>) -> tensor<32x64xf32>
    attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  %y = te.linear %x, %w bias %b : tensor<64xf32> : tensor<32x64xf32>, tensor<64x64xf32> -> tensor<32x64xf32>
  return %y : tensor<32x64xf32>
}

// They do not support a bias with an f16 result.
// CHECK-LABEL: func.func @f16_with_bias_falls_back
// CHECK-NOT: te.quantize
// CHECK: te.matmul %{{.*}}, %{{.*}} bias
func.func @f16_with_bias_falls_back(%x: tensor<32x64xf16>, %w: tensor<64x64xf16>, %b: tensor<64xf16>) -> tensor<32x64xf16>
    attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  %y = te.linear %x, %w bias %b : tensor<64xf16> : tensor<32x64xf16>, tensor<64x64xf16> -> tensor<32x64xf16>
  return %y : tensor<32x64xf16>
}

// CHECK-LABEL: func.func @high_precision_keeps_its_bias
// CHECK: te.matmul %{{.*}}, %{{.*}} bias %{{.*}} : tensor<64xf32> contract = [1, 1]
func.func @high_precision_keeps_its_bias(%x: tensor<32x64xf32>, %w: tensor<64x64xf32>, %b: tensor<64xf32>) -> tensor<32x64xf32> {
  %y = te.linear %x, %w bias %b : tensor<64xf32> : tensor<32x64xf32>, tensor<64x64xf32> -> tensor<32x64xf32>
  return %y : tensor<32x64xf32>
}

// No kernel has an f16 bias.
// CHECK-LABEL: func.func @falls_back
// CHECK-NOT: te.quantize
// CHECK: te.matmul
func.func @falls_back(%x: tensor<32x24xf16>, %w: tensor<64x24xf16> {te.name = "w"}, %b: tensor<64xf16>) -> tensor<32x64xf16>
    attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  %y = te.linear %x, %w bias %b : tensor<64xf16> : tensor<32x24xf16>, tensor<64x24xf16> -> tensor<32x64xf16>
  return %y : tensor<32x64xf16>
}

// There is nothing to dequantise if the forward has no casts, so the backward reads the original tensors.
// CHECK-LABEL: func.func @dequantized_follows_the_forward
// CHECK-NOT: te.grouped_quantize
// CHECK-COUNT-2: te.grouped_matmul
// CHECK: te.grouped_wgrad
func.func @dequantized_follows_the_forward(%x: tensor<64x24xbf16>, %w: tensor<2x32x24xbf16>, %dy: tensor<64x32xbf16>, %sizes: tensor<2xi32>)
    -> (tensor<64x32xbf16>, tensor<64x24xbf16>, tensor<2x32x24xbf16>)
    attributes {te.recipe = #te.recipe<float8_block_scaling, {backward_override = dequantized}>} {
  %y = te.grouped_linear %x, %w, %sizes {alignment = 16 : i64} : tensor<64x24xbf16>, tensor<2x32x24xbf16>, tensor<2xi32> -> tensor<64x32xbf16>
  %dx = te.grouped_linear_dgrad %dy, %w, %sizes {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<2x32x24xbf16>, tensor<2xi32> -> tensor<64x24xbf16>
  %dw = te.grouped_linear_wgrad %dy, %x, %sizes {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<64x24xbf16>, tensor<2xi32> -> tensor<2x32x24xbf16>
  return %y, %dx, %dw : tensor<64x32xbf16>, tensor<64x24xbf16>, tensor<2x32x24xbf16>
}

// The cast of a weight to the activation type is also saved as a scaled
// value. Two layers that share an input share its casts and its residual.
// CHECK-LABEL: func.func @shared_input_and_rounded_weight
// CHECK: %[[W:.*]] = arith.truncf
// CHECK: %[[N:.*]] = te.rms_norm
// CHECK: te.quantize %[[N]] : {{.*}}contract = 1>
// CHECK: te.quantize %[[N]] : {{.*}}contract = 0>
// CHECK-NEXT: %[[HELD:.*]] = te.residual %{{.*}} "n" : !te.scaled<32x64xf8E4M3FN, block_1x128, pow2, contract = 0>
// CHECK-NEXT: %[[WC:.*]] = te.quantize %[[W]] : {{.*}}contract = 0>
// CHECK-NEXT: te.residual %[[WC]] "w"
// CHECK-NOT: te.residual
// CHECK: te.scaled_matmul %{{.*}}, %[[HELD]]
// CHECK: te.scaled_matmul %{{.*}}, %[[HELD]]
func.func @shared_input_and_rounded_weight(%x: tensor<32x64xbf16>, %g: tensor<64xbf16>, %wq: tensor<64x64xf32>, %wk: tensor<64x64xbf16>,
    %dq: tensor<32x64xbf16>, %dk: tensor<32x64xbf16>)
    -> (tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
    attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  %w = arith.truncf %wq : tensor<64x64xf32> to tensor<64x64xbf16>
  %n = te.rms_norm %x, %g : tensor<32x64xbf16>, tensor<64xbf16>
  %q = te.linear %n, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  %k = te.linear %n, %wk : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  %rn = te.residual %n "n" : tensor<32x64xbf16>
  %rw = te.residual %w "w" : tensor<64x64xbf16>
  %dn = te.linear_dgrad %dq, %rw : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  %dwq = te.linear_wgrad %dq, %rn : tensor<32x64xbf16>, tensor<32x64xbf16> -> tensor<64x64xbf16>
  %dwk = te.linear_wgrad %dk, %rn : tensor<32x64xbf16>, tensor<32x64xbf16> -> tensor<64x64xbf16>
  return %q, %k, %dn, %dwq, %dwk : tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>
}

// The remarks need a GEMM of each kind.
// CHECK-LABEL: func.func @dequantized_wgrad
// CHECK: te.dequantize
// CHECK-NEXT: te.matmul {{.*}} contract = [0, 0] {{.*}} -> tensor<64x64xf32>
func.func @dequantized_wgrad(%x: tensor<32x64xbf16>, %w: tensor<64x64xbf16> {te.name = "w"}, %dy: tensor<32x64xbf16>)
    -> (tensor<32x64xbf16>, tensor<64x64xf32>)
    attributes {te.recipe = #te.recipe<float8_current_scaling, {backward_override = dequantized}>} {
  %y = te.linear %x, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16> loc("w")
  %dw = te.linear_wgrad %dy, %x : tensor<32x64xbf16>, tensor<32x64xbf16> -> tensor<64x64xf32> loc("w")
  return %y, %dw : tensor<32x64xbf16>, tensor<64x64xf32>
}
