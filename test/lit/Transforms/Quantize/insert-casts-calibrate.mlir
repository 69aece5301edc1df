// Calibration: states and amaxes are those of a quantised step, and GEMMs
// are in high precision. The quantised step has the same signature.

// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts{calibrate},cse))' --split-input-file | FileCheck %s
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts{calibrate},cse))' --split-input-file | grep '^  func' > %t.calibrated
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts,cse))' --split-input-file | grep '^  func' > %t.quantised
// RUN: diff %t.calibrated %t.quantised
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts{calibrate}))' --split-input-file --remarks-filter='.*' 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// REMARK: [Analysis] gemm-precision{{.*}}Reason="calibration for recipe 'delayed_scaling'", Remark="fprop of 'w' became te.matmul on the original operands"
// REMARK: [Missed] gemm-precision{{.*}}fallback

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<32x64xbf16> {te.name = "x"}
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<48x64xbf16> {te.name = "w", te.weight}
// CHECK-SAME: %[[DY:[a-z0-9]+]]: tensor<32x48xbf16> {te.name = "grad.y"}
// CHECK-SAME: %[[XH:[a-z0-9]+]]: tensor<16xf32> {te.init = 0.000000e+00 : f32, te.name = "w.x.amax_history", te.recipe_state}
// CHECK-NOT: te.quantize
// CHECK: %[[A:.*]] = te.activation
// CHECK-NEXT: %[[XA:.*]] = te.amax %[[A]]
// CHECK-NEXT: %[[WA:.*]] = te.amax %[[W]]
// CHECK-NEXT: %[[Y:.*]] = te.matmul %[[A]], %[[W]] contract = [1, 1]
// CHECK-NEXT: %[[R:.*]] = te.residual %[[A]] "linear.x" : tensor<32x64xbf16>
// CHECK-NEXT: %[[GA:.*]] = te.amax %[[DY]]
// CHECK-NEXT: %[[DX:.*]] = te.matmul %[[DY]], %[[W]] contract = [1, 0]
// CHECK-NEXT: %[[DW:.*]] = te.matmul %[[DY]], %[[R]] contract = [0, 0]
// CHECK-NEXT: te.delayed_scaling_update %[[XA]], %[[XH]]
// CHECK-NEXT: te.delayed_scaling_update %[[WA]]
// CHECK-NEXT: te.delayed_scaling_update %[[GA]]
// CHECK-NEXT: return %[[Y]], %[[DX]], %[[DW]]
func.func @step(%x: tensor<32x64xbf16> {te.name = "x"}, %w: tensor<48x64xbf16> {te.name = "w", te.weight},
                %dy: tensor<32x48xbf16> {te.name = "grad.y"})
    -> (tensor<32x48xbf16> {te.name = "y"}, tensor<32x64xbf16>, tensor<48x64xbf16>)
    attributes {te.recipe = #te.recipe<delayed_scaling, {amax_history_len = 16}>} {
  %a = te.activation <silu> %x : tensor<32x64xbf16> -> tensor<32x64xbf16>
  %y = te.linear %a, %w : tensor<32x64xbf16>, tensor<48x64xbf16> -> tensor<32x48xbf16>
  %ra = te.residual %a "linear.x" : tensor<32x64xbf16>
  %dx = te.linear_dgrad %dy, %w : tensor<32x48xbf16>, tensor<48x64xbf16> -> tensor<32x64xbf16>
  %dw = te.linear_wgrad %dy, %ra : tensor<32x48xbf16>, tensor<32x64xbf16> -> tensor<48x64xbf16>
  return %y, %dx, %dw : tensor<32x48xbf16>, tensor<32x64xbf16>, tensor<48x64xbf16>
}

// -----

// The forward runs in high precision. x has a slot for wgrad only, and is measured in the forward.
// CHECK-LABEL: func.func @backward_only
// CHECK-SAME: te.name = "linear.x.dy.amax_history"
// CHECK-SAME: te.name = "linear.x.x.amax_history"
// CHECK: %[[A:.*]] = te.activation
// CHECK-NEXT: te.matmul
// CHECK-NEXT: te.amax %[[A]]
// CHECK-NEXT: te.residual %[[A]]
func.func @backward_only(%x: tensor<32x24xf16>, %w: tensor<48x24xf16> {te.name = "w", te.weight}, %b: tensor<48xf16>,
                         %dy: tensor<32x48xf16>)
    -> (tensor<32x48xf16>, tensor<48x24xf16>) attributes {te.recipe = #te.recipe<delayed_scaling>} {
  %a = te.activation <silu> %x : tensor<32x24xf16> -> tensor<32x24xf16>
  %y = te.linear %a, %w bias %b : tensor<48xf16> : tensor<32x24xf16>, tensor<48x24xf16> -> tensor<32x48xf16>
  %ra = te.residual %a "linear.x" : tensor<32x24xf16>
  %dw = te.linear_wgrad %dy, %ra : tensor<32x48xf16>, tensor<32x24xf16> -> tensor<48x24xf16>
  return %y, %dw : tensor<32x48xf16>, tensor<48x24xf16>
}

// -----

// A recipe without states has nothing to calibrate; te-insert-probes measures tensors.
// CHECK-LABEL: func.func @no_state
// CHECK-NEXT: te.matmul
// CHECK-NEXT: te.matmul
// CHECK-NEXT: return
func.func @no_state(%x: tensor<32x64xbf16>, %w: tensor<48x64xbf16>, %dy: tensor<32x48xbf16>)
    -> (tensor<32x48xbf16>, tensor<32x64xbf16>)
    attributes {te.recipe = #te.recipe<float8_block_scaling, {backward_override = dequantized}>} {
  %y = te.linear %x, %w : tensor<32x64xbf16>, tensor<48x64xbf16> -> tensor<32x48xbf16>
  %dx = te.linear_dgrad %dy, %w : tensor<32x48xbf16>, tensor<48x64xbf16> -> tensor<32x64xbf16>
  return %y, %dx : tensor<32x48xbf16>, tensor<32x64xbf16>
}
