// The gradients of grouped layers read the group sizes of the forward.
// RUN: te-opt %s --te-differentiate | FileCheck %s

// CHECK-LABEL: func.func @step
// CHECK: te.grouped_linear
// CHECK: %[[H:.*]] = te.residual {{.*}} "grouped_linear0.x"
// CHECK: te.grouped_linear_dgrad %[[DY:.*]], %{{.*}}, %[[SIZES:.*]] {alignment = 16 : i64, te.recipe = #te.recipe<high_precision>}
// CHECK: te.grouped_linear_wgrad %[[DY]], %[[H]], %[[SIZES]] {alignment = 16 : i64, te.recipe = #te.recipe<high_precision>}
// CHECK: te.grouped_bias_grad %[[DY]], %[[SIZES]] {alignment = 16 : i64}
func.func private @loss(%x: tensor<64x64xbf16>, %w: tensor<2x32x64xbf16>, %b: tensor<2x32xbf16>, %sizes: tensor<2xi32>) -> tensor<64x32xbf16> {
  %h = te.activation <relu> %x : tensor<64x64xbf16> -> tensor<64x64xbf16>
  %y = te.grouped_linear %h, %w, %sizes bias %b : tensor<2x32xbf16> {alignment = 16 : i64, te.recipe = #te.recipe<high_precision>}
    : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x32xbf16>
  return %y : tensor<64x32xbf16>
}
func.func @step(%x: tensor<64x64xbf16>, %w: tensor<2x32x64xbf16>, %b: tensor<2x32xbf16>, %sizes: tensor<2xi32>, %dy: tensor<64x32xbf16>)
    -> (tensor<64x32xbf16>, tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2x32xbf16>) {
  %r:4 = te.vjp @loss(%x, %w, %b, %sizes) cotangents(%dy) wrt [0, 1, 2]
    : (tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2x32xbf16>, tensor<2xi32>), (tensor<64x32xbf16>)
    -> (tensor<64x32xbf16>, tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2x32xbf16>)
  return %r#0, %r#1, %r#2, %r#3 : tensor<64x32xbf16>, tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2x32xbf16>
}
