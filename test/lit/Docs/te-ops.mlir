// Parses, verifies and prints every example of the te dialect's reference
// pages. test/lint/doc_examples.py checks that the file has all of them.
// RUN: te-opt %s | te-opt | FileCheck %s
// RUN: te-opt %s --mlir-print-op-generic | te-opt | FileCheck %s
// RUN: te-opt %s --emit-bytecode | te-opt | FileCheck %s

// CHECK: module attributes {te.recipe = #te.recipe<float8_block_scaling>}
module attributes {te.recipe = #te.recipe<float8_block_scaling>} {

// CHECK-LABEL: @recipe
// CHECK-SAME: #te.recipe<float8_current_scaling, {pow2_scales = true, backward_override = dequantized}>
func.func @recipe() attributes {te.recipe =
#te.recipe<float8_current_scaling, {backward_override = dequantized, pow2_scales = true}>
} { return }

// CHECK-LABEL: @recipe_nvfp4
// CHECK-SAME: #te.recipe<nvfp4_block_scaling, {stochastic_rounding = false}>
func.func @recipe_nvfp4() attributes {te.recipe =
#te.recipe<nvfp4_block_scaling, {stochastic_rounding = false}>
} { return }

// CHECK-LABEL: @recipe_custom
// CHECK-SAME: #te.recipe<custom, {fprop = #te.recipe<mxfp8_block_scaling>, x_col_source = rowwise_dequantized}>
func.func @recipe_custom() attributes {te.recipe =
#te.recipe<custom, {fprop = #te.recipe<mxfp8_block_scaling>, x_col_source = rowwise_dequantized}>
} { return }

// CHECK-LABEL: @scaled_mx_nv
func.func @scaled_mx_nv(
  // CHECK-SAME: !te.scaled<256x512xf8E5M2, mx_1x32, swizzled, contract = 1>
  %a:
!te.scaled<256x512xf8E5M2, mx_1x32, swizzled, contract = 1>
  // CHECK-SAME: !te.scaled<256x512xf4E2M1FN, nv_1x16, hadamard, contract = 0>
  , %b:
!te.scaled<256x512xf4E2M1FN, nv_1x16, hadamard, contract = 0>
) { return }

// CHECK-LABEL: @scaled(
func.func @scaled(
  // CHECK-SAME: !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>
  %a:
!te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>
  // CHECK-SAME: !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 0>
  , %b:
!te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 0>
  // CHECK-SAME: !te.scaled<256x512xf8E5M2, mx_1x32, swizzled, contract = 1>
  , %c:
!te.scaled<256x512xf8E5M2, mx_1x32, swizzled, contract = 1>
  // CHECK-SAME: !te.scaled<256x512xf4E2M1FN, nv_1x16, hadamard, contract = 0>
  , %d:
!te.scaled<256x512xf4E2M1FN, nv_1x16, hadamard, contract = 0>
  // CHECK-SAME: !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1, groups = 4>
  , %e:
!te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1, groups = 4>
  // CHECK-SAME: !te.scaled<4x1024x512xf8E4M3FN, per_tensor, contract = 1>
  , %f:
!te.scaled<4x1024x512xf8E4M3FN, per_tensor, contract = 1>
) { return }

// CHECK-LABEL: @cached
func.func @cached(%w: tensor<256x512xbf16>, %cached: !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>, %skip: tensor<f32>)
    -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {
  // CHECK: te.quantize %{{.*}} into %{{.*}} unless %{{.*}} : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  %now = te.quantize %w into %cached unless %skip : tensor<256x512xbf16>
    -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  return %now : !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
}

// CHECK-LABEL: @rounded
func.func @rounded(%w: tensor<256x512xf32>) -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1> {
  // CHECK: te.quantize %{{.*}} {rounded = bf16} : tensor<256x512xf32>
  %q = te.quantize %w {rounded = bf16} : tensor<256x512xf32>
    -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  return %q : !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
}

// CHECK-LABEL: @amax
func.func @amax(%x: tensor<256x512xbf16>, %w: tensor<256x512xf32>) -> (tensor<f32>, tensor<f32>) {
  // CHECK: te.amax %{{.*}} : tensor<256x512xbf16>
  // CHECK: te.amax %{{.*}} {rounded = bf16} : tensor<256x512xf32>
  %amax = te.amax %x : tensor<256x512xbf16>
  %rounded = te.amax %w {rounded = bf16} : tensor<256x512xf32>
  return %amax, %rounded : tensor<f32>, tensor<f32>
}

// CHECK-LABEL: @compute_scale
func.func @compute_scale(%amax: tensor<f32>, %amaxes: tensor<4xf32>) -> tensor<f32> {
  // CHECK: te.compute_scale %{{.*}} for f8E4M3FN
  // CHECK: te.compute_scale %{{.*}} for f8E4M3FN : tensor<4xf32>
  %scale = te.compute_scale %amax for f8E4M3FN
  %scales = te.compute_scale %amaxes for f8E4M3FN : tensor<4xf32>
  return %scale : tensor<f32>
}

// CHECK-LABEL: @quantize
func.func @quantize(%x: tensor<256x512xbf16>) {
  // CHECK: %{{.*}}:2 = te.quantize %{{.*}} : tensor<256x512xbf16> ->
  %row, %col = te.quantize %x : tensor<256x512xbf16>
    -> !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 1>,
       !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 0>
  return
}

// CHECK-LABEL: @quantize_and_measure
func.func @quantize_and_measure(%x: tensor<256x512xbf16>, %scale: tensor<f32>) {
  // CHECK: te.quantize %{{.*}} scale %{{.*}} : tensor<256x512xbf16> -> !te.scaled<{{.*}}> amax tensor<f32>
  %q, %amax = te.quantize %x scale %scale : tensor<256x512xbf16>
    -> !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1> amax tensor<f32>
  return
}

// CHECK-LABEL: @quantize_fp4
func.func @quantize_fp4(%x: tensor<256x512xbf16>, %dy: tensor<256x512xbf16>, %state: tensor<2xi32>) {
  // CHECK: te.quantize %{{.*}} amax %{{.*}} rng %{{.*}} {stream = 3 : i32} : tensor<256x512xbf16> -> !te.scaled<256x512xf4E2M1FN, nv_1x16, contract = 1>
  %amax = te.amax %dy : tensor<256x512xbf16>
  %q = te.quantize %dy amax %amax rng %state {stream = 3 : i32} : tensor<256x512xbf16>
    -> !te.scaled<256x512xf4E2M1FN, nv_1x16, contract = 1>
  // CHECK: te.rng_advance %{{.*}}
  %next = te.rng_advance %state {count = 1 : i32}
  // CHECK: te.hadamard %{{.*}} : tensor<256x512xbf16>
  %y = te.hadamard %x : tensor<256x512xbf16>
  return
}

// CHECK-LABEL: @amax_rows
func.func @amax_rows(%x: tensor<256x512xbf16>) {
  // CHECK: te.amax_rows %{{.*}} : tensor<256x512xbf16> -> tensor<256xf32>
  %amax = te.amax_rows %x : tensor<256x512xbf16> -> tensor<256xf32>
  return
}

// CHECK-LABEL: @swizzle_scales
func.func @swizzle_scales(%q: !te.scaled<256x512xf8E4M3FN, mx_1x32, contract = 1>) {
  // CHECK: te.swizzle_scales
  %s = te.swizzle_scales %q
    : !te.scaled<256x512xf8E4M3FN, mx_1x32, contract = 1>
    -> !te.scaled<256x512xf8E4M3FN, mx_1x32, swizzled, contract = 1>
  return
}

// CHECK-LABEL: @nvfp4_alpha
func.func @nvfp4_alpha(%x: !te.scaled<256x512xf4E2M1FN, nv_1x16, contract = 1>,
                       %w: !te.scaled<128x512xf4E2M1FN, nv_16x16, contract = 1>) {
  // CHECK: te.nvfp4_alpha
  %alpha = te.nvfp4_alpha %x, %w
    : !te.scaled<256x512xf4E2M1FN, nv_1x16, contract = 1>,
      !te.scaled<128x512xf4E2M1FN, nv_16x16, contract = 1>
  return
}

// CHECK-LABEL: @delayed_scaling_update
func.func @delayed_scaling_update(%amax: tensor<f32>, %history: tensor<1024xf32>, %scale: tensor<f32>,
                                  %amaxes: tensor<3xf32>, %histories: tensor<16x3xf32>, %scales: tensor<3xf32>) {
  // CHECK: te.delayed_scaling_update %{{.*}}, %{{.*}}, %{{.*}} for f8E4M3FN : tensor<f32>, tensor<1024xf32>
  %next_history, %next_scale = te.delayed_scaling_update %amax, %history, %scale for f8E4M3FN
    : tensor<f32>, tensor<1024xf32>
  // CHECK: for f8E5M2 {algorithm = #te.amax_algorithm<most_recent>, margin = 2 : i32} : tensor<3xf32>, tensor<16x3xf32>
  %h, %s = te.delayed_scaling_update %amaxes, %histories, %scales for f8E5M2
    {algorithm = #te.amax_algorithm<most_recent>, margin = 2 : i32} : tensor<3xf32>, tensor<16x3xf32>
  return
}

// CHECK-LABEL: @dequantize
func.func @dequantize(%q: !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>) {
  // CHECK: te.dequantize
  %x = te.dequantize %q
    : !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1> -> tensor<256x512xbf16>
  return
}

// CHECK-LABEL: @transpose
func.func @transpose(%row: !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>) {
  // CHECK: te.transpose
  %col = te.transpose %row
    : !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>
    -> !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0>
  return
}

// CHECK-LABEL: @scaled_matmul
func.func @scaled_matmul(
    %x: !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>,
    %w: !te.scaled<1024x512xf8E4M3FN, per_tensor, contract = 1>,
    %dy: !te.scaled<256x1024xf8E5M2, per_tensor, contract = 1>,
    %bias: tensor<1024xbf16>, %c: tensor<256x1024xbf16>) {
  // CHECK: te.scaled_matmul %{{.*}}, %{{.*}} fast_accumulation = true :
  // CHECK: te.scaled_matmul %{{.*}}, %{{.*}} fast_accumulation = false contract = [1, 0]
  %y = te.scaled_matmul %x, %w fast_accumulation = true
    : !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>,
      !te.scaled<1024x512xf8E4M3FN, per_tensor, contract = 1> -> tensor<256x1024xbf16>
  %dx = te.scaled_matmul %dy, %w fast_accumulation = false contract = [1, 0]
    : !te.scaled<256x1024xf8E5M2, per_tensor, contract = 1>,
      !te.scaled<1024x512xf8E4M3FN, per_tensor, contract = 1> -> tensor<256x512xbf16>
  // CHECK: te.scaled_matmul %{{.*}}, %{{.*}} bias %{{.*}} : tensor<1024xbf16> accumulate %{{.*}} : tensor<256x1024xbf16> fast_accumulation = false
  %z = te.scaled_matmul %x, %w bias %bias : tensor<1024xbf16> accumulate %c : tensor<256x1024xbf16> fast_accumulation = false
    : !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>,
      !te.scaled<1024x512xf8E4M3FN, per_tensor, contract = 1> -> tensor<256x1024xbf16>
  return
}

// CHECK-LABEL: @matmul
func.func @matmul(%x: tensor<256x512xbf16>, %w: tensor<1024x512xbf16>) {
  // CHECK: te.matmul %{{.*}}, %{{.*}} contract = [1, 1]
  %y = te.matmul %x, %w contract = [1, 1]
    : tensor<256x512xbf16>, tensor<1024x512xbf16> -> tensor<256x1024xbf16>
  return
}

// CHECK-LABEL: @linear
func.func @linear(%x: tensor<256x512xbf16>, %w: tensor<1024x512xbf16>,
                  %b: tensor<1024xbf16>, %dy: tensor<256x1024xbf16>) {
  // CHECK: te.linear %{{.*}}, %{{.*}} : tensor<256x512xbf16>, tensor<1024x512xbf16> -> tensor<256x1024xbf16>
  %y = te.linear %x, %w : tensor<256x512xbf16>, tensor<1024x512xbf16> -> tensor<256x1024xbf16>
  // CHECK: te.linear %{{.*}}, %{{.*}} bias %{{.*}} : tensor<1024xbf16>
  %z = te.linear %x, %w bias %b : tensor<1024xbf16> : tensor<256x512xbf16>, tensor<1024x512xbf16> -> tensor<256x1024xbf16>
  // CHECK: te.linear_dgrad
  %dx = te.linear_dgrad %dy, %w : tensor<256x1024xbf16>, tensor<1024x512xbf16> -> tensor<256x512xbf16>
  // CHECK: te.linear_wgrad
  %dw = te.linear_wgrad %dy, %x : tensor<256x1024xbf16>, tensor<256x512xbf16> -> tensor<1024x512xbf16>
  // CHECK: te.bias_grad
  %db = te.bias_grad %dy : tensor<256x1024xbf16> -> tensor<1024xbf16>
  return
}

// CHECK-LABEL: @rms_norm
func.func @rms_norm(%x: tensor<256x512xbf16>, %gamma: tensor<512xbf16>,
                    %dy: tensor<256x512xbf16>) {
  // CHECK: te.rms_norm %{{.*}}, %{{.*}} : tensor<256x512xbf16>, tensor<512xbf16>
  %y = te.rms_norm %x, %gamma {epsilon = 1.0e-5 : f32} : tensor<256x512xbf16>, tensor<512xbf16>
  // CHECK: te.rms_norm %{{.*}} rsigma tensor<256xf32> amax tensor<f32>
  %z, %rsigma, %amax = te.rms_norm %x, %gamma : tensor<256x512xbf16>, tensor<512xbf16> rsigma tensor<256xf32> amax tensor<f32>
  // CHECK: te.rms_norm_backward
  %dx, %dgamma = te.rms_norm_backward %dy, %x, %gamma, %rsigma
    : tensor<256x512xbf16>, tensor<512xbf16>, tensor<256xf32>
  return
}

// CHECK-LABEL: @rms_norm_plus
func.func @rms_norm_plus(%x: tensor<256x512xbf16>, %gamma: tensor<512xbf16>, %residual: tensor<256x512xbf16>) {
  // CHECK: te.rms_norm %{{.*}}, %{{.*}} plus %{{.*}} : tensor<256x512xbf16> : tensor<256x512xbf16>, tensor<512xbf16> sum tensor<256x512xbf16>
  %y, %sum = te.rms_norm %x, %gamma plus %residual : tensor<256x512xbf16>
    : tensor<256x512xbf16>, tensor<512xbf16> sum tensor<256x512xbf16>
  return
}

// CHECK-LABEL: @norm_onto
func.func @norm_onto(%x: tensor<256x512xbf16>, %gamma: tensor<512xbf16>, %residual: tensor<256x512xbf16>) {
  // CHECK: te.rms_norm %{{.*}}, %{{.*}} onto %{{.*}} : tensor<256x512xbf16> : tensor<256x512xbf16>, tensor<512xbf16>
  %y = te.rms_norm %x, %gamma onto %residual : tensor<256x512xbf16> : tensor<256x512xbf16>, tensor<512xbf16>
  // CHECK: te.layer_norm %{{.*}}, %{{.*}}, %{{.*}} plus %{{.*}} : tensor<256x512xbf16> onto %{{.*}} : tensor<256x512xbf16> : tensor<256x512xbf16>, tensor<512xbf16> sum tensor<256x512xbf16>
  %z, %sum = te.layer_norm %x, %gamma, %gamma plus %y : tensor<256x512xbf16> onto %residual : tensor<256x512xbf16>
    : tensor<256x512xbf16>, tensor<512xbf16> sum tensor<256x512xbf16>
  return
}

// CHECK-LABEL: @rms_norm_backward_plus
func.func @rms_norm_backward_plus(%dy: tensor<256x512xbf16>, %x: tensor<256x512xbf16>, %gamma: tensor<512xbf16>,
                                  %rsigma: tensor<256xf32>, %residual: tensor<256x512xbf16>) {
  // CHECK: te.rms_norm_backward {{.*}} plus %{{.*}} : tensor<256x512xbf16>
  %dx, %dgamma = te.rms_norm_backward %dy, %x, %gamma, %rsigma plus %residual : tensor<256x512xbf16>
    : tensor<256x512xbf16>, tensor<512xbf16>, tensor<256xf32>
  // CHECK: te.rms_norm_backward {{.*}} tensor<256xf32> amax tensor<f32>
  %dz, %dgamma2, %amax = te.rms_norm_backward %dy, %x, %gamma, %rsigma
    : tensor<256x512xbf16>, tensor<512xbf16>, tensor<256xf32> amax tensor<f32>
  return
}

// CHECK-LABEL: @layer_norm
func.func @layer_norm(%x: tensor<256x512xbf16>, %gamma: tensor<512xbf16>, %beta: tensor<512xbf16>,
                      %dy: tensor<256x512xbf16>) {
  // CHECK: te.layer_norm %{{.*}}, %{{.*}}, %{{.*}} : tensor<256x512xbf16>, tensor<512xbf16>
  %y = te.layer_norm %x, %gamma, %beta {epsilon = 1.0e-5 : f32} : tensor<256x512xbf16>, tensor<512xbf16>
  // CHECK: te.layer_norm %{{.*}} mu tensor<256xf32> rsigma tensor<256xf32> amax tensor<f32>
  %z, %mu, %rsigma, %amax = te.layer_norm %x, %gamma, %beta : tensor<256x512xbf16>, tensor<512xbf16>
    mu tensor<256xf32> rsigma tensor<256xf32> amax tensor<f32>
  // CHECK: te.layer_norm_backward
  %dx, %dgamma, %dbeta = te.layer_norm_backward %dy, %x, %gamma, %mu, %rsigma
    : tensor<256x512xbf16>, tensor<512xbf16>, tensor<256xf32>
  // CHECK: te.layer_norm_backward {{.*}} tensor<256xf32> amax tensor<f32>
  %dz, %dgamma2, %dbeta2, %dz_amax = te.layer_norm_backward %dy, %x, %gamma, %mu, %rsigma
    : tensor<256x512xbf16>, tensor<512xbf16>, tensor<256xf32> amax tensor<f32>
  return
}

// CHECK-LABEL: @activation
func.func @activation(%x: tensor<256x1024xbf16>, %dy: tensor<256x512xbf16>, %a: tensor<256x512xbf16>, %b: tensor<256x512xbf16>) {
  // CHECK: te.activation <swiglu> %{{.*}} : tensor<256x1024xbf16> -> tensor<256x512xbf16>
  // CHECK: te.activation <swiglu> %{{.*}}, %{{.*}} : tensor<256x512xbf16>, tensor<256x512xbf16> -> tensor<256x512xbf16>
  // CHECK: te.activation <clamped_swiglu> %{{.*}} {limit = 5.000000e+00 : f32} : tensor<256x1024xbf16> -> tensor<256x512xbf16>
  %y = te.activation <swiglu> %x : tensor<256x1024xbf16> -> tensor<256x512xbf16>
  %w = te.activation <swiglu> %a, %b : tensor<256x512xbf16>, tensor<256x512xbf16> -> tensor<256x512xbf16>
  %z = te.activation <clamped_swiglu> %x {limit = 5.0 : f32} : tensor<256x1024xbf16> -> tensor<256x512xbf16>
  // CHECK: te.activation <gelu> %{{.*}} amax tensor<f32>
  %g, %amax = te.activation <gelu> %dy : tensor<256x512xbf16> -> tensor<256x512xbf16> amax tensor<f32>
  // CHECK: te.activation_backward <swiglu>
  // CHECK: te.activation_backward <swiglu> {{.*}} gate tensor<256x512xbf16>
  %dx = te.activation_backward <swiglu> %dy, %x : tensor<256x512xbf16>, tensor<256x1024xbf16>
  %da, %db = te.activation_backward <swiglu> %dy, %a, %b
    : tensor<256x512xbf16>, tensor<256x512xbf16>, tensor<256x512xbf16> gate tensor<256x512xbf16>
  return
}

// CHECK-LABEL: @activation_quantize
func.func @activation_quantize(%x: tensor<256x1024xbf16>, %h: tensor<256x512xbf16>, %scale: tensor<f32>) {
  // CHECK: te.activation_quantize <swiglu>
  %row = te.activation_quantize <swiglu> %x : tensor<256x1024xbf16>
    -> !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 1>
  // CHECK: te.activation_quantize <gelu> %{{.*}} scale
  %q, %amax = te.activation_quantize <gelu> %h scale %scale : tensor<256x512xbf16>
    -> !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1> amax tensor<f32>
  return
}

// CHECK-LABEL: @activation_backward_quantize
func.func @activation_backward_quantize(%x: tensor<256x1024xbf16>, %dy: tensor<256x512xbf16>, %a: tensor<256x512xbf16>, %b: tensor<256x512xbf16>, %scale: tensor<f32>, %gate_scale: tensor<f32>) {
  // CHECK: te.activation_backward_quantize <swiglu>
  %row = te.activation_backward_quantize <swiglu> %dy, %x
    : tensor<256x512xbf16>, tensor<256x1024xbf16>
    -> !te.scaled<256x1024xf8E4M3FN, block_1x128, pow2, contract = 1>
  // CHECK: te.activation_backward_quantize <swiglu> %{{.*}}, %{{.*}}, %{{.*}} scale
  %q, %g, %amax, %gate_amax = te.activation_backward_quantize <swiglu> %dy, %a, %b
    scale %scale gate_scale %gate_scale
    : tensor<256x512xbf16>, tensor<256x512xbf16>, tensor<256x512xbf16>
    -> !te.scaled<256x512xf8E5M2, per_tensor, contract = 1>
       gate !te.scaled<256x512xf8E5M2, per_tensor, contract = 1>
       amax tensor<f32> gate_amax tensor<f32>
  return
}

// CHECK-LABEL: @embedding_backward_accumulate
func.func @embedding_backward_accumulate(%ids: tensor<256xi32>, %dy: tensor<256x512xbf16>) {
  %dw = te.embedding_backward %ids, %dy : tensor<256xi32>, tensor<256x512xbf16> -> tensor<1000x512xf32>
  // CHECK: te.embedding_backward %{{.*}}, %{{.*}} accumulate %{{.*}} : tensor<1000x512xf32> : tensor<256xi32>, tensor<256x512xbf16> -> tensor<1000x512xf32>
  %d = te.embedding_backward %ids, %dy accumulate %dw : tensor<1000x512xf32>
    : tensor<256xi32>, tensor<256x512xbf16> -> tensor<1000x512xf32>
  return
}

// CHECK-LABEL: @embedding(
func.func @embedding(%ids: tensor<256xi32>, %table: tensor<1000x512xbf16>, %dy: tensor<256x512xbf16>) {
  // CHECK: te.embedding
  %y = te.embedding %ids, %table : tensor<256xi32>, tensor<1000x512xbf16> -> tensor<256x512xbf16>
  // CHECK: te.embedding_backward
  %d = te.embedding_backward %ids, %dy : tensor<256xi32>, tensor<256x512xbf16> -> tensor<1000x512xbf16>
  return
}

// CHECK-LABEL: @rope
func.func @rope(%x: tensor<256x512xbf16>, %cos: tensor<128x64xf32>, %sin: tensor<128x64xf32>, %p: tensor<256xi32>) {
  // CHECK: te.rope %{{.*}}, %{{.*}}, %{{.*}} {heads = 4 : i64} : tensor<256x512xbf16>, tensor<128x64xf32>
  // CHECK: te.rope %{{.*}}, %{{.*}}, %{{.*}} positions %{{.*}} : tensor<256xi32> {heads = 4 : i64} : tensor<256x512xbf16>, tensor<128x64xf32>
  %y = te.rope %x, %cos, %sin {heads = 4 : i64} : tensor<256x512xbf16>, tensor<128x64xf32>
  %y2 = te.rope %x, %cos, %sin positions %p : tensor<256xi32> {heads = 4 : i64} : tensor<256x512xbf16>, tensor<128x64xf32>
  // CHECK: te.rope %{{.*}} : tensor<256x512xbf16>, tensor<128x64xf32> amax tensor<f32>
  %y3, %amax = te.rope %x, %cos, %sin {heads = 4 : i64} : tensor<256x512xbf16>, tensor<128x64xf32> amax tensor<f32>
  // CHECK: te.rope %{{.*}} {heads = 2 : i64, inverse, style = #te.rope_style<interleaved>}
  %z = te.rope %y, %cos, %sin {heads = 2 : i64, inverse, style = #te.rope_style<interleaved>}
    : tensor<256x512xbf16>, tensor<128x64xf32>
  return
}

// CHECK-LABEL: @attention
func.func @attention(%q: tensor<256x512xbf16>, %k: tensor<256x128xbf16>, %v: tensor<256x128xbf16>, %s: tensor<8xf32>, %do: tensor<256x512xbf16>,
    %v2: tensor<256x64xbf16>, %do2: tensor<256x256xbf16>, %lse2: tensor<2048xf32>, %cu: tensor<9xi32>, %state: tensor<2xi32>) {
  // CHECK: te.attention %{{.*}}, %{{.*}}, %{{.*}} {causal, heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64} : tensor<256x512xbf16>, tensor<256x128xbf16>
  // CHECK: te.attention %{{.*}} {causal, heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64, window_size = array<i64: 31, 0>}
  // CHECK: te.attention %{{.*}} {causal, heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64, softcap = 5.000000e+01 : f32}
  // CHECK: te.attention %{{.*}}, %{{.*}}, %{{.*}} sinks %{{.*}} : tensor<8xf32> {causal, heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64}
  // CHECK: te.attention {{.*}} : tensor<256x512xbf16>, tensor<256x128xbf16>, tensor<256x64xbf16> -> tensor<256x256xbf16>
  // CHECK: te.attention %{{.*}}, %{{.*}}, %{{.*}} documents %{{.*}} : tensor<9xi32> {causal, heads = 8 : i64, kv_heads = 2 : i64, sequence = 64 : i64}
  %o = te.attention %q, %k, %v {heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64, causal}
    : tensor<256x512xbf16>, tensor<256x128xbf16>
  %o2 = te.attention %q, %k, %v {heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64, causal, window_size = array<i64: 31, 0>}
    : tensor<256x512xbf16>, tensor<256x128xbf16>
  %o3 = te.attention %q, %k, %v {heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64, causal, softcap = 50.0 : f32}
    : tensor<256x512xbf16>, tensor<256x128xbf16>
  %o4 = te.attention %q, %k, %v sinks %s : tensor<8xf32> {heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64, causal}
    : tensor<256x512xbf16>, tensor<256x128xbf16>
  %o5 = te.attention %q, %k, %v2 {heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64, causal}
    : tensor<256x512xbf16>, tensor<256x128xbf16>, tensor<256x64xbf16> -> tensor<256x256xbf16>
  %o6 = te.attention %q, %k, %v documents %cu : tensor<9xi32> {heads = 8 : i64, kv_heads = 2 : i64, sequence = 64 : i64, causal}
    : tensor<256x512xbf16>, tensor<256x128xbf16>
  %o7 = te.attention %q, %k, %v rng %state {heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64, dropout = 0.1 : f32, stream = 1 : i32}
    : tensor<256x512xbf16>, tensor<256x128xbf16>
  // CHECK: te.attention %{{.*}}, %{{.*}}, %{{.*}} rng %{{.*}} {dropout = 1.000000e-01 : f32, heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64, stream = 1 : i32}
  // CHECK: te.attention %{{.*}}, %{{.*}}, %{{.*}} sinks %{{.*}} : tensor<8xf32> documents %{{.*}} : tensor<9xi32> {
  %o8 = te.attention %q, %k, %v sinks %s : tensor<8xf32> documents %cu : tensor<9xi32> {heads = 8 : i64, kv_heads = 2 : i64, sequence = 64 : i64}
    : tensor<256x512xbf16>, tensor<256x128xbf16>
  // CHECK: te.attention %{{.*}}, %{{.*}}, %{{.*}} documents %{{.*}} : tensor<9xi32> rng %{{.*}} {dropout = 1.000000e-01
  %o9 = te.attention %q, %k, %v documents %cu : tensor<9xi32> rng %state {heads = 8 : i64, kv_heads = 2 : i64, sequence = 64 : i64, dropout = 0.1 : f32}
    : tensor<256x512xbf16>, tensor<256x128xbf16>
  // CHECK: te.attention %{{.*}} {deterministic = false, heads = 8 : i64, kv_heads = 2 : i64, scale = 2.500000e-01 : f32, sequence = 256 : i64} {{.*}} lse tensor<2048xf32>
  %o1, %lse = te.attention %q, %k, %v {heads = 8 : i64, kv_heads = 2 : i64, sequence = 256 : i64, scale = 0.25 : f32, deterministic = false}
    : tensor<256x512xbf16>, tensor<256x128xbf16> lse tensor<2048xf32>
  // CHECK: te.attention_backward
  // CHECK: te.attention_backward {{.*}} documents %{{.*}} : tensor<9xi32> {causal, heads = 8 : i64, kv_heads = 2 : i64, sequence = 64 : i64} : tensor<256x512xbf16>, tensor<256x128xbf16>, tensor<2048xf32>
  %dq, %dk, %dv = te.attention_backward %do, %q, %k, %v, %o, %lse
    {heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64, causal}
    : tensor<256x512xbf16>, tensor<256x128xbf16>, tensor<2048xf32>
  %dq2, %dk2, %dv2 = te.attention_backward %do, %q, %k, %v, %o, %lse documents %cu : tensor<9xi32>
    {heads = 8 : i64, kv_heads = 2 : i64, sequence = 64 : i64, causal}
    : tensor<256x512xbf16>, tensor<256x128xbf16>, tensor<2048xf32>
  %dq3, %dk3, %dv3 = te.attention_backward %do, %q, %k, %v, %o, %lse rng %state
    {heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64, dropout = 0.1 : f32, stream = 1 : i32}
    : tensor<256x512xbf16>, tensor<256x128xbf16>, tensor<2048xf32>
  // CHECK: te.attention_backward {{.*}} rng %{{.*}} {dropout = 1.000000e-01 : f32,
  // CHECK: te.attention_backward {{.*}} : tensor<256x512xbf16>, tensor<256x128xbf16>, tensor<256x64xbf16> -> tensor<256x256xbf16>, tensor<2048xf32>
  %dq4, %dk4, %dv4 = te.attention_backward %do2, %q, %k, %v2, %o5, %lse2
    {heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64, causal}
    : tensor<256x512xbf16>, tensor<256x128xbf16>, tensor<256x64xbf16> -> tensor<256x256xbf16>, tensor<2048xf32>
  // CHECK: te.attention_sink_grad
  // CHECK: te.attention_sink_grad {{.*}} documents %{{.*}} : tensor<9xi32> {sequence = 64 : i64}
  %ds = te.attention_sink_grad %do, %o, %lse, %s {sequence = 128 : i64}
    : tensor<256x512xbf16>, tensor<2048xf32>, tensor<8xf32>
  %ds2 = te.attention_sink_grad %do, %o, %lse, %s documents %cu : tensor<9xi32> {sequence = 64 : i64}
    : tensor<256x512xbf16>, tensor<2048xf32>, tensor<8xf32>
  return
}

// CHECK-LABEL: @used_rows
func.func @used_rows(%cu: tensor<9xi32>) {
  // CHECK: te.used_rows %{{.*}} : tensor<9xi32> -> tensor<256xf32>
  %used = te.used_rows %cu : tensor<9xi32> -> tensor<256xf32>
  return
}

// CHECK-LABEL: @zero_unused
func.func @zero_unused(%x: tensor<256x512xbf16>, %used: tensor<256xf32>) {
  // CHECK: te.zero_unused %{{.*}}, %{{.*}} : tensor<256x512xbf16>, tensor<256xf32>
  %y = te.zero_unused %x, %used : tensor<256x512xbf16>, tensor<256xf32>
  return
}

// CHECK-LABEL: @dropout
func.func @dropout(%x: tensor<256x512xbf16>, %state: tensor<2xi32>) {
  // CHECK: te.dropout %{{.*}} rng %{{.*}} {probability = 1.000000e-01 : f32, stream = 2 : i32} : tensor<256x512xbf16>
  %y = te.dropout %x rng %state {probability = 0.1 : f32, stream = 2 : i32} : tensor<256x512xbf16>
  return
}

// CHECK-LABEL: @softmax
func.func @softmax(%x: tensor<256x512xbf16>, %dy: tensor<256x512xbf16>) {
  // CHECK: te.softmax %{{.*}} : tensor<256x512xbf16>
  %y0 = te.softmax %x : tensor<256x512xbf16>
  // CHECK: te.softmax %{{.*}} {scale = 1.250000e-01 : f32} : tensor<256x512xbf16>
  %y = te.softmax %x {scale = 0.125 : f32} : tensor<256x512xbf16>
  // CHECK: te.softmax_backward %{{.*}}, %{{.*}} {scale = 1.250000e-01 : f32} : tensor<256x512xbf16>
  %dx = te.softmax_backward %dy, %y {scale = 0.125 : f32} : tensor<256x512xbf16>
  return
}

// CHECK-LABEL: @cross_entropy
func.func @cross_entropy(%logits: tensor<256x1000xbf16>, %targets: tensor<256xi32>, %dloss: tensor<f32>) {
  // CHECK: te.cross_entropy %{{.*}}, %{{.*}} : tensor<256x1000xbf16>, tensor<256xi32>
  %loss = te.cross_entropy %logits, %targets : tensor<256x1000xbf16>, tensor<256xi32>
  %padded = te.cross_entropy %logits, %targets {vocabulary = 997} : tensor<256x1000xbf16>, tensor<256xi32>
  // CHECK: te.cross_entropy %{{.*}} lse tensor<256xf32>
  %loss1, %lse = te.cross_entropy %logits, %targets : tensor<256x1000xbf16>, tensor<256xi32> lse tensor<256xf32>
  // CHECK: te.cross_entropy_weight of %{{.*}} gradient %{{.*}} vocabulary 1000 : tensor<256xi32>
  %weight = te.cross_entropy_weight of %targets gradient %dloss vocabulary 1000 : tensor<256xi32>
  // CHECK: te.cross_entropy_weight of %{{.*}} vocabulary 1000 {ignore_index = 3 : i32} : tensor<256xi32>
  %weight1 = te.cross_entropy_weight of %targets vocabulary 1000 {ignore_index = 3 : i32} : tensor<256xi32>
  // CHECK: te.cross_entropy_backward
  %d = te.cross_entropy_backward %weight, %logits, %targets, %lse
    : tensor<256x1000xbf16>, tensor<256xi32>, tensor<256xf32>
  return
}

// CHECK-LABEL: @by_rows
func.func @by_rows(%x: tensor<256x512xbf16>, %w: tensor<1000x512xbf16>, %targets: tensor<256xi32>) {
  // CHECK: te.by_rows(%{{.*}}, %{{.*}}) with(%{{.*}}) rows 128 : (tensor<256x512xbf16>, tensor<256xi32>, tensor<1000x512xbf16>) -> tensor<f32> {
  // CHECK: te.yield %{{.*}} : tensor<f32>
  %loss = te.by_rows (%x, %targets) with (%w) rows 128
      : (tensor<256x512xbf16>, tensor<256xi32>, tensor<1000x512xbf16>) -> tensor<f32> {
  ^bb0(%x_rows: tensor<256x512xbf16>, %targets_rows: tensor<256xi32>, %weight: tensor<1000x512xbf16>):
    %logits = te.matmul %x_rows, %weight contract = [1, 1]
      : tensor<256x512xbf16>, tensor<1000x512xbf16> -> tensor<256x1000xbf16>
    %mean = te.cross_entropy %logits, %targets_rows : tensor<256x1000xbf16>, tensor<256xi32>
    te.yield %mean : tensor<f32>
  }
  return
}

// CHECK-LABEL: @rescale
func.func @rescale(%q: !te.scaled<256x512xf8E5M2, per_tensor, contract = 0>,
                   %b: !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 0>, %factor: tensor<f32>) {
  // CHECK: te.rescale %{{.*}} by %{{.*}} : <256x512xf8E5M2, per_tensor, contract = 0> -> <256x512xf8E5M2, per_tensor, contract = 0>
  %d = te.rescale %q by %factor
    : !te.scaled<256x512xf8E5M2, per_tensor, contract = 0>
    -> !te.scaled<256x512xf8E5M2, per_tensor, contract = 0>
  // CHECK: te.rescale %{{.*}} by %{{.*}} : <256x512xf8E4M3FN, block_1x128, pow2, contract = 0> -> <256x512xf8E4M3FN, block_1x128, contract = 0>
  %e = te.rescale %b by %factor
    : !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 0>
    -> !te.scaled<256x512xf8E4M3FN, block_1x128, contract = 0>
  return
}

// CHECK-LABEL: @adamw
func.func @adamw(%p: tensor<1024x512xf32>, %g: tensor<1024x512xbf16>,
                 %m: tensor<1024x512xf32>, %v: tensor<1024x512xf32>,
                 %mb: tensor<1024x512xbf16>, %vb: tensor<1024x512xbf16>,
                 %m8: tensor<1024x512xf8E4M3FN>, %v8: tensor<1024x512xf8E5M2>, %s: tensor<2x4096xf32>,
                 %sum: tensor<1024x512xf32>, %lr: tensor<f32>, %t: tensor<f32>, %factor: tensor<f32>, %skip: tensor<f32>) {
  // CHECK: te.adamw %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} lr %{{.*}} step %{{.*}} {weight_decay = 1.000000e-01 : f32}
  // CHECK: te.adamw %{{.*}} step %{{[a-z0-9]+}} {seed = 7 : i32} : tensor<1024x512xf32>, tensor<1024x512xbf16>, tensor<1024x512xbf16>
  // CHECK: te.adamw %{{.*}} step %{{[a-z0-9]+}} grad_scale %{{[a-z0-9]+}} : tensor<1024x512xf32>, tensor<1024x512xbf16>{{$}}
  // CHECK: te.adamw %{{.*}} scales %{{[a-z0-9]+}} lr %{{[a-z0-9]+}} step %{{[a-z0-9]+}} : tensor<1024x512xf32>, tensor<1024x512xbf16>, tensor<1024x512xf8E4M3FN>
  // CHECK: te.adamw %{{.*}} step %{{[a-z0-9]+}} unless %{{[a-z0-9]+}} : tensor<1024x512xf32>, tensor<1024x512xf32>
  %p1, %m1, %v1 = te.adamw %p, %g, %m, %v lr %lr step %t {weight_decay = 0.1 : f32}
    : tensor<1024x512xf32>, tensor<1024x512xbf16>
  %p2, %m2, %v2 = te.adamw %p, %g, %mb, %vb lr %lr step %t {seed = 7 : i32}
    : tensor<1024x512xf32>, tensor<1024x512xbf16>, tensor<1024x512xbf16>
  %p3, %m3, %v3 = te.adamw %p, %g, %m, %v lr %lr step %t grad_scale %factor
    : tensor<1024x512xf32>, tensor<1024x512xbf16>
  %p4, %m4, %v4, %s4 = te.adamw %p, %g, %m8, %v8 scales %s lr %lr step %t
    : tensor<1024x512xf32>, tensor<1024x512xbf16>, tensor<1024x512xf8E4M3FN>
  %p5, %m5, %v5 = te.adamw %p, %sum, %m, %v lr %lr step %t unless %skip
    : tensor<1024x512xf32>, tensor<1024x512xf32>
  return
}

// CHECK-LABEL: @clipping
func.func @clipping(%g1: tensor<1024x512xbf16>, %g2: tensor<512xf32>, %g3: tensor<512xf32>, %sum: tensor<f32>, %skip: tensor<f32>) {
  // CHECK: %[[S1:.*]] = te.sum_of_squares %{{[a-z0-9]+}}, %{{[a-z0-9]+}} : tensor<1024x512xbf16>, tensor<512xf32>
  // CHECK: te.sum_of_squares %{{[a-z0-9]+}} plus %[[S1]] : tensor<512xf32>
  // CHECK: te.sum_of_squares %{{[a-z0-9]+}} plus %[[S1]] unless %{{[a-z0-9]+}} : tensor<512xf32>
  // CHECK: te.clip_factor %{{[a-z0-9]+}} {max_norm = 1.000000e+00 : f32}
  %s1 = te.sum_of_squares %g1, %g2 : tensor<1024x512xbf16>, tensor<512xf32>
  %s2 = te.sum_of_squares %g3 plus %s1 : tensor<512xf32>
  %s3 = te.sum_of_squares %g3 plus %s1 unless %skip : tensor<512xf32>
  %norm, %factor = te.clip_factor %sum {max_norm = 1.0 : f32}
  return
}

// CHECK-LABEL: @probes
func.func @probes(%x: tensor<256x512xbf16>, %scale: tensor<f32>, %n0: tensor<2x3xi32>,
                  %q: !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>) {
  // CHECK: te.count_nonfinite %{{.*}} into %{{.*}}[0] : tensor<256x512xbf16>, tensor<2x3xi32>
  %n1 = te.count_nonfinite %x into %n0[0] : tensor<256x512xbf16>, tensor<2x3xi32>
  // CHECK: te.count_nonfinite %{{.*}} scale %{{.*}} for f8E4M3FN into %{{.*}}[1] :
  %n2 = te.count_nonfinite %x scale %scale for f8E4M3FN into %n1[1] : tensor<256x512xbf16>, tensor<2x3xi32>
  // CHECK: te.tensor_stats %{{.*}} cast %{{.*}} : {{.*}} -> tensor<14xf32>
  %stats = te.tensor_stats %x cast %q
    : tensor<256x512xbf16>, !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1> -> tensor<14xf32>
  // CHECK: te.tensor_stats %{{[a-z0-9]+}} : tensor<256x512xbf16> -> tensor<7xf32>
  %plain = te.tensor_stats %x : tensor<256x512xbf16> -> tensor<7xf32>
  return
}

// CHECK-LABEL: @sgd
func.func @sgd(%p: tensor<1024xf32>, %g: tensor<1024xf32>, %b: tensor<1024xf32>, %lr: tensor<f32>, %factor: tensor<f32>, %skip: tensor<f32>) {
  // CHECK: te.sgd %{{.*}}, %{{.*}} lr %{{[a-z0-9]+}} : tensor<1024xf32>, tensor<1024xf32>
  %p0 = te.sgd %p, %g lr %lr : tensor<1024xf32>, tensor<1024xf32>
  // CHECK: te.sgd %{{.*}}, %{{.*}} buffer %{{.*}} lr %{{.*}} {momentum = 0.899999976 : f32} :
  %p4, %b4 = te.sgd %p, %g buffer %b lr %lr {momentum = 0.9 : f32} : tensor<1024xf32>, tensor<1024xf32>
  // CHECK: te.sgd %{{.*}}, %{{.*}} buffer %{{.*}} lr %{{.*}} {momentum = 0.899999976 : f32, nesterov} :
  // CHECK: te.sgd %{{.*}}, %{{.*}} lr %{{[a-z0-9]+}} grad_scale %{{[a-z0-9]+}} : tensor<1024xf32>, tensor<1024xf32>
  // CHECK: te.sgd %{{.*}}, %{{.*}} lr %{{[a-z0-9]+}} unless %{{[a-z0-9]+}} : tensor<1024xf32>, tensor<1024xf32>
  %p1, %b1 = te.sgd %p, %g buffer %b lr %lr {momentum = 0.9 : f32, nesterov}
    : tensor<1024xf32>, tensor<1024xf32>
  %p2 = te.sgd %p, %g lr %lr grad_scale %factor : tensor<1024xf32>, tensor<1024xf32>
  %p3 = te.sgd %p, %g lr %lr unless %skip : tensor<1024xf32>, tensor<1024xf32>
  return
}

func.func private @loss(tensor<256xi32>, tensor<512x512xbf16>) -> tensor<f32>

// CHECK-LABEL: @vjp
func.func @vjp(%tokens: tensor<256xi32>, %w: tensor<512x512xbf16>, %one: tensor<f32>, %x: tensor<256x512xbf16>) {
  // CHECK: te.vjp @loss(%{{.*}}, %{{.*}}) cotangents(%{{.*}}) wrt [1]
  %loss, %dw = te.vjp @loss(%tokens, %w) cotangents(%one) wrt [1]
    : (tensor<256xi32>, tensor<512x512xbf16>), (tensor<f32>) -> (tensor<f32>, tensor<512x512xbf16>)
  // CHECK: te.residual %{{.*}} "mlp.x"
  %r = te.residual %x "mlp.x" : tensor<256x512xbf16>
  return
}

// CHECK-LABEL: @grouped_amax(
func.func @grouped_amax(%x: tensor<256x512xbf16>, %sizes: tensor<4xi32>) {
  // CHECK: te.grouped_amax %{{.*}}, %{{.*}} {alignment = 16 : i64}
  %amax = te.grouped_amax %x, %sizes {alignment = 16 : i64}
    : tensor<256x512xbf16>, tensor<4xi32> -> tensor<4xf32>
    return
}

// CHECK-LABEL: @zero_padding(
func.func @zero_padding(%x: tensor<256x512xbf16>, %sizes: tensor<2xi32>) {
  // CHECK: te.zero_padding %{{.*}}, %{{.*}} {alignment = 128 : i64} : tensor<256x512xbf16>, tensor<2xi32>
  %y = te.zero_padding %x, %sizes {alignment = 128 : i64} : tensor<256x512xbf16>, tensor<2xi32>
    return
}

// CHECK-LABEL: @round_group_sizes(
func.func @round_group_sizes(%sizes: tensor<4xi32>) {
  // CHECK: te.round_group_sizes %{{.*}} {multiple = 16 : i64} : tensor<4xi32>
  %rounded = te.round_group_sizes %sizes {multiple = 16 : i64} : tensor<4xi32>
    return
}

// CHECK-LABEL: @grouped_scaled_matmul(
func.func @grouped_scaled_matmul(%x: !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1, groups = 4>, %w: !te.scaled<4x1024x512xf8E4M3FN, per_tensor, contract = 1>, %sizes: tensor<4xi32>) {
  // CHECK: te.grouped_scaled_matmul %{{.*}}, %{{.*}}, %{{.*}} fast_accumulation = true {alignment = 16 : i64}
  %y = te.grouped_scaled_matmul %x, %w, %sizes fast_accumulation = true {alignment = 16 : i64}
    : !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1, groups = 4>,
      !te.scaled<4x1024x512xf8E4M3FN, per_tensor, contract = 1>, tensor<4xi32> -> tensor<256x1024xbf16>
    return
}

// CHECK-LABEL: @grouped_scaled_wgrad(
func.func @grouped_scaled_wgrad(%dy: !te.scaled<256x1024xf8E5M2, per_tensor, contract = 0, groups = 4>, %x: !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0, groups = 4>, %sizes: tensor<4xi32>) {
  // CHECK: te.grouped_scaled_wgrad %{{.*}}, %{{.*}}, %{{.*}} fast_accumulation = false {alignment = 16 : i64}
  %dw = te.grouped_scaled_wgrad %dy, %x, %sizes fast_accumulation = false {alignment = 16 : i64}
    : !te.scaled<256x1024xf8E5M2, per_tensor, contract = 0, groups = 4>,
      !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0, groups = 4>, tensor<4xi32> -> tensor<4x1024x512xbf16>
    return
}

// CHECK-LABEL: @grouped_matmul(
func.func @grouped_matmul(%x: tensor<256x512xbf16>, %w: tensor<4x1024x512xbf16>, %sizes: tensor<4xi32>) {
  // CHECK: te.grouped_matmul %{{.*}}, %{{.*}}, %{{.*}} contract = 1 {alignment = 16 : i64}
  %y = te.grouped_matmul %x, %w, %sizes contract = 1 {alignment = 16 : i64}
    : tensor<256x512xbf16>, tensor<4x1024x512xbf16>, tensor<4xi32> -> tensor<256x1024xbf16>
    return
}

// CHECK-LABEL: @grouped_wgrad(
func.func @grouped_wgrad(%dy: tensor<256x1024xbf16>, %x: tensor<256x512xbf16>, %sizes: tensor<4xi32>) {
  // CHECK: te.grouped_wgrad %{{.*}}, %{{.*}}, %{{.*}} {alignment = 16 : i64}
  %dw = te.grouped_wgrad %dy, %x, %sizes {alignment = 16 : i64}
    : tensor<256x1024xbf16>, tensor<256x512xbf16>, tensor<4xi32> -> tensor<4x1024x512xbf16>
    return
}

// CHECK-LABEL: @grouped_bias_grad(
func.func @grouped_bias_grad(%dy: tensor<256x1024xbf16>, %sizes: tensor<4xi32>) {
  // CHECK: te.grouped_bias_grad %{{.*}}, %{{.*}} {alignment = 16 : i64}
  %db = te.grouped_bias_grad %dy, %sizes {alignment = 16 : i64}
    : tensor<256x1024xbf16>, tensor<4xi32> -> tensor<4x1024xbf16>
    return
}

// CHECK-LABEL: @grouped_linear(
func.func @grouped_linear(%x: tensor<256x512xbf16>, %w: tensor<4x1024x512xbf16>, %sizes: tensor<4xi32>) {
  // CHECK: te.grouped_linear %{{.*}}, %{{.*}}, %{{.*}} {alignment = 128 : i64}
  %y = te.grouped_linear %x, %w, %sizes {alignment = 128 : i64}
    : tensor<256x512xbf16>, tensor<4x1024x512xbf16>, tensor<4xi32> -> tensor<256x1024xbf16>
    return
}

// CHECK-LABEL: @grouped_linear_dgrad(
func.func @grouped_linear_dgrad(%dy: tensor<256x1024xbf16>, %w: tensor<4x1024x512xbf16>, %sizes: tensor<4xi32>) {
  // CHECK: te.grouped_linear_dgrad %{{.*}}, %{{.*}}, %{{.*}} {alignment = 128 : i64}
  %dx = te.grouped_linear_dgrad %dy, %w, %sizes {alignment = 128 : i64}
    : tensor<256x1024xbf16>, tensor<4x1024x512xbf16>, tensor<4xi32> -> tensor<256x512xbf16>
    return
}

// CHECK-LABEL: @grouped_linear_wgrad(
func.func @grouped_linear_wgrad(%dy: tensor<256x1024xbf16>, %x: tensor<256x512xbf16>, %sizes: tensor<4xi32>) {
  // CHECK: te.grouped_linear_wgrad %{{.*}}, %{{.*}}, %{{.*}} {alignment = 128 : i64}
  %dw = te.grouped_linear_wgrad %dy, %x, %sizes {alignment = 128 : i64}
    : tensor<256x1024xbf16>, tensor<256x512xbf16>, tensor<4xi32> -> tensor<4x1024x512xbf16>
    return
}

// CHECK-LABEL: @quantize_groups(
func.func @quantize_groups(%x: tensor<256x512xbf16>, %scales: tensor<4xf32>, %sizes: tensor<4xi32>) {
  // CHECK: te.grouped_quantize %{{.*}} scale %{{.*}} sizes %{{.*}} {alignment = 16 : i64} : tensor<256x512xbf16> ->
  %q = te.grouped_quantize %x scale %scales sizes %sizes {alignment = 16 : i64} : tensor<256x512xbf16>
    -> !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1, groups = 4>
  // CHECK: te.dequantize %{{.*}} sizes %{{.*}} {alignment = 16 : i64}
  %d = te.dequantize %q sizes %sizes {alignment = 16 : i64}
    : !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1, groups = 4> -> tensor<256x512xbf16>
  return
}

// CHECK-LABEL: @stacks(
func.func @stacks(%w: tensor<4x32x64xbf16>, %scales: tensor<4xf32>) {
  // CHECK: te.quantize %{{.*}} scale %{{.*}} : tensor<4x32x64xbf16> -> !te.scaled<4x32x64xf8E4M3FN, per_tensor, contract = 1>
  %q = te.quantize %w scale %scales : tensor<4x32x64xbf16> -> !te.scaled<4x32x64xf8E4M3FN, per_tensor, contract = 1>
  // CHECK: te.transpose
  %t = te.transpose %q : !te.scaled<4x32x64xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<4x32x64xf8E4M3FN, per_tensor, contract = 0>
  // CHECK: te.dequantize %{{.*}} : <4x32x64xf8E4M3FN, per_tensor, contract = 0> -> tensor<4x32x64xbf16>
  %d = te.dequantize %t : !te.scaled<4x32x64xf8E4M3FN, per_tensor, contract = 0> -> tensor<4x32x64xbf16>
  return
}

// CHECK-LABEL: @router_topk(
func.func @router_topk(%logits: tensor<256x8xbf16>, %bias: tensor<8xf32>) {
  // CHECK: te.router_topk %{{.*}} bias %{{.*}} : tensor<8xf32> {chosen_groups = 2 : i64, groups = 4 : i64, normalize, sigmoid}
  %ids, %probs, %scores = te.router_topk %logits bias %bias : tensor<8xf32>
    {sigmoid, normalize, groups = 4 : i64, chosen_groups = 2 : i64}
    : tensor<256x8xbf16> -> tensor<256x2xi32>, tensor<256x2xf32>, tensor<256x8xf32>
    return
}

// CHECK-LABEL: @router_topk_backward(
func.func @router_topk_backward(%dprobs: tensor<256x2xf32>, %ids: tensor<256x2xi32>, %probs: tensor<256x2xf32>, %scores: tensor<256x8xf32>) {
  // CHECK: te.router_topk_backward %
  %dlogits = te.router_topk_backward %dprobs, %ids, %probs, %scores {normalize}
    : tensor<256x2xf32>, tensor<256x2xi32>, tensor<256x8xf32> -> tensor<256x8xbf16>
    return
}

// CHECK-LABEL: @permute(
func.func @permute(%x: tensor<256x512xbf16>, %ids: tensor<256x2xi32>) {
  // CHECK: te.permute %
  %y, %sizes, %row_of, %entry_of, %dropped = te.permute %x, %ids {alignment = 16 : i64}
    : tensor<256x512xbf16>, tensor<256x2xi32>
    -> tensor<640x512xbf16>, tensor<8xi32>, tensor<512xi32>, tensor<640xi32>
    return
}

// CHECK-LABEL: @unpermute(
func.func @unpermute(%y: tensor<640x512xbf16>, %row_of: tensor<512xi32>, %entry_of: tensor<640xi32>, %probs: tensor<256x2xf32>) {
  // CHECK: te.unpermute %
  %out = te.unpermute %y, %row_of, %entry_of probs %probs : tensor<256x2xf32>
    : tensor<640x512xbf16>, tensor<512xi32>, tensor<640xi32> -> tensor<256x512xbf16>
    return
}

// CHECK-LABEL: @unpermute_backward(
func.func @unpermute_backward(%dout: tensor<256x512xbf16>, %entry_of: tensor<640xi32>, %probs: tensor<256x2xf32>) {
  // CHECK: te.unpermute_backward %
  %dy = te.unpermute_backward %dout, %entry_of probs %probs : tensor<256x2xf32> {k = 2 : i64}
    : tensor<256x512xbf16>, tensor<640xi32> -> tensor<640x512xbf16>
    return
}

// CHECK-LABEL: @prob_grad(
func.func @prob_grad(%dout: tensor<256x512xbf16>, %y: tensor<640x512xbf16>, %row_of: tensor<512xi32>) {
  // CHECK: te.prob_grad %
  %dprobs = te.prob_grad %dout, %y, %row_of
    : tensor<256x512xbf16>, tensor<640x512xbf16>, tensor<512xi32> -> tensor<256x2xf32>
    return
}

// CHECK: module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]}
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
  func.func private @rows(%x: tensor<64x512xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]})
}
// CHECK: te.sharding = [#te.shard<axis = 0, group = 0>]

module attributes {te.groups = [
#te.group<id = 0, name = "tp", axis = "tp", size = 4>
]} {

// CHECK-LABEL: @transposed_weight(
func.func @transposed_weight(%x: tensor<256x512xbf16>, %w: tensor<512x1024xbf16>, %dy: tensor<256x1024xbf16>) {
  // CHECK: te.linear %{{.*}}, %{{.*}} {transposed_weight} : tensor<256x512xbf16>, tensor<512x1024xbf16> -> tensor<256x1024xbf16>
  %y = te.linear %x, %w {transposed_weight}
    : tensor<256x512xbf16>, tensor<512x1024xbf16> -> tensor<256x1024xbf16>
  // CHECK: te.linear_dgrad %{{.*}}, %{{.*}} {transposed_weight} :
  %dx = te.linear_dgrad %dy, %w {transposed_weight} : tensor<256x1024xbf16>, tensor<512x1024xbf16> -> tensor<256x512xbf16>
  // CHECK: te.linear_wgrad %{{.*}}, %{{.*}} {transposed_weight} :
  %dw = te.linear_wgrad %dy, %x {transposed_weight} : tensor<256x1024xbf16>, tensor<256x512xbf16> -> tensor<512x1024xbf16>
  return
}

// CHECK-LABEL: @parallel_linear
func.func @parallel_linear(%x: tensor<256x512xbf16>, %w: tensor<1024x512xbf16>, %t: tensor<256x512xbf16> {te.sharding = [
#te.shard<axis = 0, group = 0>
]}) {
  // CHECK: te.linear %{{.*}}, %{{.*}} parallel <column, group = 0, sequence> : tensor<256x512xbf16>
  %z = te.linear %x, %w parallel <column, group = 0, sequence>
    : tensor<256x512xbf16>, tensor<1024x512xbf16> -> tensor<1024x1024xbf16>
  // CHECK: te.linear %{{.*}}, %{{.*}} parallel <row, group = 0> :
  %r = te.linear %x, %w parallel <row, group = 0>
    : tensor<256x512xbf16>, tensor<1024x512xbf16> -> tensor<256x1024xbf16>
  // CHECK: te.linear_dgrad %{{.*}}, %{{.*}} parallel <column, group = 0, sequence> :
  %dx = te.linear_dgrad %z, %w parallel <column, group = 0, sequence> : tensor<1024x1024xbf16>, tensor<1024x512xbf16> -> tensor<256x512xbf16>
  return
}

// CHECK: @parallels() attributes {column = #te.parallel<column, group = 0, sequence>, row = #te.parallel<row, group = 0>}
func.func @parallels() attributes {column =
#te.parallel<column, group = 0, sequence>
, row =
#te.parallel<row, group = 0>
} { return }

// CHECK-LABEL: @collectives
func.func @collectives(%amax: tensor<f32>, %w: tensor<256x512xbf16>, %s: tensor<64x512xbf16>, %sq: !te.scaled<64x512xf8E4M3FN, per_tensor, contract = 1>, %b: tensor<512xbf16>) {
  // CHECK: te.amax_reduce %{{.*}} group 0
  %all = te.amax_reduce %amax group 0
  call @amax_reduce(%amax, %all) : (tensor<f32>, tensor<f32>) -> ()
  // CHECK: te.rank group 0
  %r = te.rank group 0
  call @all_reduce(%w) : (tensor<256x512xbf16>) -> ()
  call @all_gather(%s, %sq) : (tensor<64x512xbf16>, !te.scaled<64x512xf8E4M3FN, per_tensor, contract = 1>) -> ()
  call @reduce_scatter(%w) : (tensor<256x512xbf16>) -> ()
  return
}
func.func @amax_reduce(%x: tensor<f32>, %w: tensor<f32>) {
  // CHECK: te.amax_reduce %{{.*}}, %{{.*}} group 0
  %xs, %ws = te.amax_reduce %x, %w group 0
  return
}
func.func @all_reduce(%x: tensor<256x512xbf16>) {
  // CHECK: te.all_reduce %{{.*}} group 0 : tensor<256x512xbf16>
  %y = te.all_reduce %x group 0 : tensor<256x512xbf16>
  return
}
func.func @all_gather(%x: tensor<64x512xbf16>, %xq: !te.scaled<64x512xf8E4M3FN, per_tensor, contract = 1>) {
  // CHECK: te.all_gather %{{.*}} group 0 axis 0 : tensor<64x512xbf16> -> tensor<256x512xbf16>
  // CHECK: te.all_gather %{{.*}} group 0 axis 0 : tensor<64x512xbf16> -> tensor<200x512xbf16>
  %y = te.all_gather %x group 0 axis 0 : tensor<64x512xbf16> -> tensor<256x512xbf16>
  %u = te.all_gather %x group 0 axis 0 : tensor<64x512xbf16> -> tensor<200x512xbf16>
  // CHECK: te.all_gather %{{.*}} group 0 axis 0 : !te.scaled<64x512xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>
  %yq = te.all_gather %xq group 0 axis 0
    : !te.scaled<64x512xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>
  return
}
// CHECK-LABEL: @shards
func.func @shards(%x: tensor<5197xbf16>, %wq: !te.scaled<160x128xf8E4M3FN, block_128x128, pow2, contract = 1, shard = 5197>) {
  // CHECK: te.partial_amax %{{.*}} group 0 of [160, 128] blocks [128, 128] : tensor<5197xbf16> -> tensor<2x1xf32>
  %amax = te.partial_amax %x group 0 of [160, 128] blocks [128, 128] : tensor<5197xbf16> -> tensor<2x1xf32>
  %amaxes = te.amax_reduce %amax group 0 : tensor<2x1xf32>
  // CHECK: te.quantize_shard %{{.*}} amax %{{.*}} group 0 : tensor<5197xbf16> -> !te.scaled<160x128xf8E4M3FN, block_128x128, pow2, contract = 1, shard = 5197>
  %q = te.quantize_shard %x amax %amaxes group 0 : tensor<5197xbf16>
    -> !te.scaled<160x128xf8E4M3FN, block_128x128, pow2, contract = 1, shard = 5197>
  // CHECK: te.all_gather %{{.*}} group 0 axis 0 : !te.scaled<160x128xf8E4M3FN, block_128x128, pow2, contract = 1, shard = 5197> -> !te.scaled<160x128xf8E4M3FN, block_128x128, pow2, contract = 1>
  %w = te.all_gather %wq group 0 axis 0
    : !te.scaled<160x128xf8E4M3FN, block_128x128, pow2, contract = 1, shard = 5197>
    -> !te.scaled<160x128xf8E4M3FN, block_128x128, pow2, contract = 1>
  // CHECK: te.partial_amax %{{.*}} group 0 of [160, 128] blocks [32, 1] : tensor<5197xbf16> -> tensor<5x128xf32>
  %mx = te.partial_amax %x group 0 of [160, 128] blocks [32, 1] : tensor<5197xbf16> -> tensor<5x128xf32>
  %mxAll = te.amax_reduce %mx group 0 : tensor<5x128xf32>
  // CHECK: te.quantize_shard %{{.*}} amax %{{.*}} group 0 : tensor<5197xbf16> -> !te.scaled<160x128xf8E4M3FN, mx_1x32, contract = 0, shard = 5197>
  %mxq = te.quantize_shard %x amax %mxAll group 0 : tensor<5197xbf16>
    -> !te.scaled<160x128xf8E4M3FN, mx_1x32, contract = 0, shard = 5197>
  // CHECK: te.all_gather %{{.*}} group 0 axis 0 : !te.scaled<160x128xf8E4M3FN, mx_1x32, contract = 0, shard = 5197> -> !te.scaled<160x128xf8E4M3FN, mx_1x32, contract = 0>
  %mxw = te.all_gather %mxq group 0 axis 0
    : !te.scaled<160x128xf8E4M3FN, mx_1x32, contract = 0, shard = 5197> -> !te.scaled<160x128xf8E4M3FN, mx_1x32, contract = 0>
  return
}
// CHECK-LABEL: @shard_with_one_scale
func.func @shard_with_one_scale(%x: tensor<5197xbf16>, %scale: tensor<f32>) {
  // CHECK: %{{.*}}, %amax = te.quantize_shard %{{.*}} scale %{{.*}} : tensor<5197xbf16> -> !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1, shard = 5197> amax tensor<f32>
  %q, %amax = te.quantize_shard %x scale %scale : tensor<5197xbf16>
    -> !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1, shard = 5197> amax tensor<f32>
  return
}
// CHECK-LABEL: @shards_of_fp4
func.func @shards_of_fp4(%x: tensor<5198xbf16>) {
  // CHECK: te.partial_amax %{{.*}} group 0 of [160, 128] blocks [16, 16] : tensor<5198xbf16> -> tensor<10x8xf32>
  %amax = te.partial_amax %x group 0 of [160, 128] blocks [16, 16] : tensor<5198xbf16> -> tensor<10x8xf32>
  %amaxes = te.amax_reduce %amax group 0 : tensor<10x8xf32>
  // CHECK: te.quantize_shard %{{.*}} amax %{{.*}} group 0 : tensor<5198xbf16> -> !te.scaled<160x128xf4E2M1FN, nv_16x16, contract = 1, shard = 5198>
  %q = te.quantize_shard %x amax %amaxes group 0 : tensor<5198xbf16>
    -> !te.scaled<160x128xf4E2M1FN, nv_16x16, contract = 1, shard = 5198>
  // CHECK: te.all_gather %{{.*}} group 0 axis 0 : !te.scaled<160x128xf4E2M1FN, nv_16x16, contract = 1, shard = 5198> -> !te.scaled<160x128xf4E2M1FN, nv_16x16, contract = 1>
  %w = te.all_gather %q group 0 axis 0
    : !te.scaled<160x128xf4E2M1FN, nv_16x16, contract = 1, shard = 5198> -> !te.scaled<160x128xf4E2M1FN, nv_16x16, contract = 1>
  return
}
func.func @reduce_scatter(%x: tensor<256x512xbf16>) {
  // CHECK: te.reduce_scatter %{{.*}} group 0 axis 0 : tensor<256x512xbf16> -> tensor<64x512xbf16>
  %y = te.reduce_scatter %x group 0 axis 0 : tensor<256x512xbf16> -> tensor<64x512xbf16>
  return
}
func.func @all_to_all(%x: tensor<8x16x512xbf16>) {
  // CHECK: te.all_to_all %{{.*}} group 0 split 0 concat 1 : tensor<8x16x512xbf16> -> tensor<2x64x512xbf16>
  %y = te.all_to_all %x group 0 split 0 concat 1 : tensor<8x16x512xbf16> -> tensor<2x64x512xbf16>
  return
}
func.func @all_to_all_scaled(%xq: !te.scaled<128x512xf8E4M3FN, block_1x128, contract = 1>) {
  // CHECK: te.all_to_all %{{.*}} group 0 split 0 concat 1 : !te.scaled<128x512xf8E4M3FN, block_1x128, contract = 1> -> !te.scaled<128x512xf8E4M3FN, block_1x128, contract = 1, groups = 2>
  %yq = te.all_to_all %xq group 0 split 0 concat 1
    : !te.scaled<128x512xf8E4M3FN, block_1x128, contract = 1> -> !te.scaled<128x512xf8E4M3FN, block_1x128, contract = 1, groups = 2>
  return
}
func.func @bias_add(%x: tensor<256x512xbf16>, %bias: tensor<512xbf16>) {
  // CHECK: te.bias_add %{{.*}}, %{{.*}} : tensor<256x512xbf16>, tensor<512xbf16>
  %y = te.bias_add %x, %bias : tensor<256x512xbf16>, tensor<512xbf16>
  return
}

}

}

// CHECK-LABEL: @zero_unless(
func.func @zero_unless(%x: tensor<1024x512xf32>, %skip: tensor<f32>, %dy: tensor<256x1024xbf16>, %a: tensor<256x512xbf16>) {
  // CHECK: te.zero_unless %{{.*}}, %{{.*}} : tensor<1024x512xf32>
  %y = te.zero_unless %x, %skip : tensor<1024x512xf32>
  // CHECK: te.linear_wgrad %{{.*}}, %{{.*}} accumulate %{{.*}} : tensor<1024x512xf32> :
  %dw = te.linear_wgrad %dy, %a accumulate %y : tensor<1024x512xf32>
    : tensor<256x1024xbf16>, tensor<256x512xbf16> -> tensor<1024x512xf32>
  return
}

// CHECK-LABEL: @grouped_accumulate(
func.func @grouped_accumulate(%dy: tensor<256x1024xbf16>, %x: tensor<256x512xbf16>, %sizes: tensor<4xi32>, %sum: tensor<4x1024x512xf32>,
    %dyq: !te.scaled<256x1024xf8E5M2, per_tensor, contract = 0, groups = 4>, %xq: !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0, groups = 4>) {
  // CHECK: te.grouped_linear_wgrad %{{.*}}, %{{.*}}, %{{.*}} accumulate %{{.*}} : tensor<4x1024x512xf32> {alignment = 128 : i64} :
  %a = te.grouped_linear_wgrad %dy, %x, %sizes accumulate %sum : tensor<4x1024x512xf32> {alignment = 128 : i64}
    : tensor<256x1024xbf16>, tensor<256x512xbf16>, tensor<4xi32> -> tensor<4x1024x512xf32>
  // CHECK: te.grouped_wgrad %{{.*}}, %{{.*}}, %{{.*}} accumulate %{{.*}} : tensor<4x1024x512xf32> {alignment = 16 : i64} :
  %b = te.grouped_wgrad %dy, %x, %sizes accumulate %sum : tensor<4x1024x512xf32> {alignment = 16 : i64}
    : tensor<256x1024xbf16>, tensor<256x512xbf16>, tensor<4xi32> -> tensor<4x1024x512xf32>
  // CHECK: te.grouped_scaled_wgrad %{{.*}}, %{{.*}}, %{{.*}} accumulate %{{.*}} : tensor<4x1024x512xf32> fast_accumulation = false {alignment = 16 : i64} :
  %c = te.grouped_scaled_wgrad %dyq, %xq, %sizes accumulate %sum : tensor<4x1024x512xf32> fast_accumulation = false {alignment = 16 : i64}
    : !te.scaled<256x1024xf8E5M2, per_tensor, contract = 0, groups = 4>,
      !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0, groups = 4>, tensor<4xi32> -> tensor<4x1024x512xf32>
  return
}
