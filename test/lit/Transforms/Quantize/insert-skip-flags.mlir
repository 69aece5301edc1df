// RUN: te-opt %s --split-input-file --te-insert-skip-flags --mlir-print-local-scope | FileCheck %s
// RUN: te-opt %s --split-input-file --te-insert-skip-flags="transposes=true" --mlir-print-local-scope | FileCheck %s --check-prefix=KEEP

// The cast of a weight is cached, with its amax. The cast of an activation is not.
// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[W:[^:]*]]: tensor<256x512xbf16> {te.name = "w", te.weight}
// CHECK-SAME: %[[SKIP:[^:]*]]: tensor<f32> {te.init = 0.000000e+00 : f32, te.name = "skip_weight_update"}
// CHECK-SAME: %[[ROW:[^:]*]]: !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1> {te.init = 0x7FC00000 : f32, te.name = "w.row", te.recipe_state}
// CHECK-SAME: -> (!te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0>, !te.scaled<64x512xf8E4M3FN, per_tensor, contract = 1>,
// CHECK-SAME: !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1> {te.name = "w.row"})
// KEEP-LABEL: func.func @step(
// KEEP-SAME: te.name = "w.row", te.recipe_state}, %[[COL:[^:]*]]: !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0> {te.init = 0x7FC00000 : f32, te.name = "w.col", te.recipe_state}
func.func @step(%x: tensor<64x512xbf16>, %w: tensor<256x512xbf16> {te.name = "w", te.weight})
    -> (!te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0>, !te.scaled<64x512xf8E4M3FN, per_tensor, contract = 1>) {
  // CHECK: %[[AMAX:.*]] = te.amax %[[W]] unless %[[SKIP]] : tensor<256x512xbf16>
  %amax = te.amax %w : tensor<256x512xbf16>
  %scale = te.compute_scale %amax for f8E4M3FN
  // CHECK: %[[Q:.*]] = te.quantize %[[W]] scale %{{.*}} into %[[ROW]] unless %[[SKIP]] :
  %q = te.quantize %w scale %scale : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>
  // CHECK: te.transpose %[[Q]] :
  // KEEP: te.transpose %{{.*}} into %[[COL]] unless %{{.*}} :
  %t = te.transpose %q : !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0>
  // CHECK: te.amax %{{[^ ]*}} : tensor<64x512xbf16>
  %ax = te.amax %x : tensor<64x512xbf16>
  %sx = te.compute_scale %ax for f8E4M3FN
  // CHECK: te.quantize %{{[^ ]*}} scale %{{[^ ]*}} : tensor<64x512xbf16>
  %qx = te.quantize %x scale %sx : tensor<64x512xbf16> -> !te.scaled<64x512xf8E4M3FN, per_tensor, contract = 1>
  // CHECK: return %{{.*}}, %{{.*}}, %[[Q]]
  return %t, %qx : !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0>, !te.scaled<64x512xf8E4M3FN, per_tensor, contract = 1>
}

// -----

// Both usages of a cast are cached. The program has its own flag, and uses a name.
// CHECK-LABEL: func.func @both(
// CHECK-SAME: %[[SKIP:[^:]*]]: tensor<f32> {te.name = "skip_weight_update"}
// CHECK-SAME: %[[ROW:[^:]*]]: {{[^%]*}}te.name = "w.row.1", te.recipe_state}, %[[COL:[^:]*]]: {{[^%]*}}te.name = "w.col", te.recipe_state}
func.func @both(%w: tensor<256x512xbf16> {te.name = "w", te.weight}, %skip: tensor<f32> {te.name = "skip_weight_update"},
    %taken: tensor<f32> {te.name = "w.row"}) {
  // CHECK: te.quantize %{{[^ ]*}} into %[[ROW]], %[[COL]] unless %[[SKIP]] :
  %row, %col = te.quantize %w : tensor<256x512xbf16>
    -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>, !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 0>
  return
}

// -----

// The amaxes of a stack, one for each expert, are skipped like that of a matrix.
// CHECK-LABEL: func.func @stack(
// CHECK-SAME: %[[W:[^:]*]]: tensor<4x32x64xbf16> {te.name = "w", te.weight}
// CHECK-SAME: %[[SKIP:[^:]*]]: tensor<f32> {te.init = 0.000000e+00 : f32, te.name = "skip_weight_update"}
func.func @stack(%w: tensor<4x32x64xbf16> {te.name = "w", te.weight}, %history: tensor<16x4xf32> {te.name = "w.amax_history"}, %scale: tensor<4xf32> {te.name = "w.scale"})
    -> (!te.scaled<4x32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<16x4xf32> {te.name = "w.amax_history"}, tensor<4xf32> {te.name = "w.scale"}) {
  // CHECK: te.amax_rows %{{[^ ]*}} unless %[[SKIP]] : tensor<4x2048xbf16> -> tensor<4xf32>
  %rows = tensor.collapse_shape %w [[0], [1, 2]] : tensor<4x32x64xbf16> into tensor<4x2048xbf16>
  %amax = te.amax_rows %rows : tensor<4x2048xbf16> -> tensor<4xf32>
  // CHECK: te.quantize %[[W]] scale %{{[^ ]*}} into %{{[^ ]*}} unless %[[SKIP]]
  %q = te.quantize %w scale %scale : tensor<4x32x64xbf16> -> !te.scaled<4x32x64xf8E4M3FN, per_tensor, contract = 1>
  %h, %s = te.delayed_scaling_update %amax, %history, %scale for f8E4M3FN : tensor<4xf32>, tensor<16x4xf32>
  return %q, %h, %s : !te.scaled<4x32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<16x4xf32>, tensor<4xf32>
}

// -----

// A value that is computed only from weights changes only with them, so its cast is cached, too. An amax that is only returned is not skipped.
// CHECK-LABEL: func.func @merged(
// CHECK-SAME: te.name = "skip_weight_update"}, %[[KEPT:[^:]*]]: {{[^%]*}}te.name = "w.row", te.recipe_state}
func.func @merged(%w: tensor<256x512xbf16> {te.name = "w", te.weight}, %delta: tensor<256x512xbf16> {te.name = "delta", te.weight}, %x: tensor<256x512xbf16>)
    -> (!te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>, !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>, tensor<f32>) {
  %half = arith.constant dense<0.5> : tensor<256x512xbf16>
  %scaled = arith.mulf %half, %delta : tensor<256x512xbf16>
  %merged = arith.addf %w, %scaled : tensor<256x512xbf16>
  // CHECK: te.quantize %{{[^ ]*}} into %[[KEPT]] unless
  %q = te.quantize %merged : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  // CHECK: %[[MIXED:.*]] = arith.mulf
  %mixed = arith.mulf %w, %x : tensor<256x512xbf16>
  // CHECK: te.quantize %[[MIXED]] :
  %qx = te.quantize %mixed : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  // CHECK: te.amax %{{[^ ]*}} : tensor<256x512xbf16>
  %largest = te.amax %w : tensor<256x512xbf16>
  return %q, %qx, %largest : !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>, !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>, tensor<f32>
}
