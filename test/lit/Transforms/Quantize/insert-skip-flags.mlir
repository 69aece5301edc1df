// RUN: te-opt %s --split-input-file --te-insert-skip-flags --mlir-print-local-scope | FileCheck %s
// RUN: te-opt %s --split-input-file --te-insert-skip-flags="transposes=true" --mlir-print-local-scope | FileCheck %s --check-prefix=KEEP

// A cast of a weight is kept, with what measures it; one of an activation is not.
// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[W:[^:]*]]: tensor<256x512xbf16> {te.name = "w", te.weight}
// CHECK-SAME: %[[SKIP:[^:]*]]: tensor<f32> {te.init = 0.000000e+00 : f32, te.name = "skip_weight_update"}
// CHECK-SAME: %[[ROW:[^:]*]]: !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1> {te.init = 0x7FC00000 : f32, te.name = "w.row"}
// CHECK-SAME: -> (!te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0>, !te.scaled<64x512xf8E4M3FN, per_tensor, contract = 1>,
// CHECK-SAME: !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1> {te.name = "w.row"})
// KEEP-LABEL: func.func @step(
// KEEP-SAME: te.name = "w.row"}, %[[COL:[^:]*]]: !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0> {te.init = 0x7FC00000 : f32, te.name = "w.col"}
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

// Both usages of a cast are kept. The program has a flag of its own, and a name that is taken.
// CHECK-LABEL: func.func @both(
// CHECK-SAME: %[[SKIP:[^:]*]]: tensor<f32> {te.name = "skip_weight_update"}
// CHECK-SAME: %[[ROW:[^:]*]]: {{[^%]*}}te.name = "w.row.1"}, %[[COL:[^:]*]]: {{[^%]*}}te.name = "w.col"}
func.func @both(%w: tensor<256x512xbf16> {te.name = "w", te.weight}, %skip: tensor<f32> {te.name = "skip_weight_update"},
    %taken: tensor<f32> {te.name = "w.row"}) {
  // CHECK: te.quantize %{{[^ ]*}} into %[[ROW]], %[[COL]] unless %[[SKIP]] :
  %row, %col = te.quantize %w : tensor<256x512xbf16>
    -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>, !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 0>
  return
}
