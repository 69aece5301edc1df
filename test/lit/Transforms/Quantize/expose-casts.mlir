// RUN: te-opt %s --te-expose-casts --mlir-print-local-scope | FileCheck %s --check-prefix=NONE
// RUN: te-opt %s --te-training-pipeline="target=reference recipe=mxfp8_block_scaling expose-casts compile-to=quantize" \
// RUN:   --mlir-print-local-scope | FileCheck %s
// RUN: te-opt %s --te-training-pipeline="target=reference recipe=mxfp8_block_scaling compile-to=quantize" \
// RUN:   | FileCheck %s --check-prefix=ABSENT
// RUN: te-opt %s --te-training-pipeline="target=sm_90 recipe=mxfp8_block_scaling emulate expose-casts compile-to=quantize" \
// RUN:   --mlir-print-local-scope | FileCheck %s

// GEMMs without a layer have no name for results.
// NONE-LABEL: func.func @product
// NONE-SAME: -> tensor<64x64xbf16> {
// CHECK-LABEL: func.func @product
// CHECK-SAME: -> tensor<64x64xbf16> {
// ABSENT-NOT: cast.w.2
func.func @product(%a: !te.scaled<64x64xf8E4M3FN, mx_1x32, contract = 1>, %b: !te.scaled<64x64xf8E4M3FN, mx_1x32, contract = 1>)
    -> tensor<64x64xbf16> {
  %y = te.scaled_matmul %a, %b fast_accumulation = false
    : !te.scaled<64x64xf8E4M3FN, mx_1x32, contract = 1>, !te.scaled<64x64xf8E4M3FN, mx_1x32, contract = 1> -> tensor<64x64xbf16>
  return %y : tensor<64x64xbf16>
}

// Layers with one name are numbered, skipping names in use. A
// cast that two layers share is returned twice. A layer in high
// precision has no casts, and a layer without readers is removed.
// CHECK-LABEL: func.func @layers
// CHECK-SAME: te.name = "y"
// CHECK-SAME: te.name = "cast.w.1.x"
// CHECK-SAME: mx_1x32, contract = 1> {te.name = "cast.w.2.x"}
// CHECK-SAME: mx_1x32, contract = 1> {te.name = "cast.w.2.w"}
// CHECK-SAME: {te.name = "cast.w.3.x"}
// CHECK-SAME: {te.name = "cast.w.3.w"}) {
// CHECK-DAG: %[[X:.*]] = te.quantize %arg0
// CHECK-DAG: %[[W:.*]] = te.quantize %arg1
// CHECK: %[[A:.*]] = te.quantize %{{[0-9]+}} :
// CHECK: return %{{.*}}, %arg0, %[[X]], %[[W]], %[[A]], %[[W]] :
func.func @layers(%x: tensor<64x64xbf16> {te.name = "x"}, %w: tensor<64x64xbf16> {te.name = "w", te.weight},
                  %taken: tensor<64x64xbf16> {te.name = "cast.w.x"})
    -> (tensor<64x64xbf16> {te.name = "y"}, tensor<64x64xbf16> {te.name = "cast.w.1.x"}) {
  %a = te.linear %x, %w : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  %b = te.linear %a, %w : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  %c = te.linear %b, %w {te.recipe = #te.recipe<high_precision>} : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  %dead = te.linear %c, %w : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  return %c, %x : tensor<64x64xbf16>, tensor<64x64xbf16>
}

// Casts of the backward are not returned, because the names are those of the forward.
// CHECK-LABEL: func.func @step
// CHECK-SAME: -> (tensor<64x64xbf16>, tensor<64x64xbf16>, !te.scaled<64x64xf8E4M3FN, mx_1x32, contract = 1> {te.name = "cast.w.x"}, !te.scaled<64x64xf8E4M3FN, mx_1x32, contract = 1> {te.name = "cast.w.w"}) {
// CHECK: %[[X:.*]]:2 = te.quantize %arg0
// CHECK: return %{{.*}}, %{{.*}}, %[[X]]#0, %
func.func private @forward(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
  %y = te.linear %x, %w : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  return %y : tensor<64x64xbf16>
}
func.func @step(%x: tensor<64x64xbf16> {te.name = "x"}, %w: tensor<64x64xbf16> {te.name = "w", te.weight})
    -> (tensor<64x64xbf16>, tensor<64x64xbf16>) {
  %one = arith.constant dense<1.0> : tensor<64x64xbf16>
  %y, %dw = te.vjp @forward(%x, %w) cotangents(%one) wrt [1]
    : (tensor<64x64xbf16>, tensor<64x64xbf16>), (tensor<64x64xbf16>) -> (tensor<64x64xbf16>, tensor<64x64xbf16>)
  return %y, %dw : tensor<64x64xbf16>, tensor<64x64xbf16>
}
