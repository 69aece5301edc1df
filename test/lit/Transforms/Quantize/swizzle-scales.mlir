// RUN: te-opt %s --te-swizzle-scales --mlir-print-local-scope | FileCheck %s
// RUN: te-opt %s --te-training-pipeline="target=sm_100 recipe=mxfp8_block_scaling compile-to=quantize" \
// RUN:   --mlir-print-local-scope | FileCheck %s --check-prefix=STEP
// RUN: te-opt %s --te-training-pipeline="target=reference recipe=mxfp8_block_scaling compile-to=quantize" \
// RUN:   | FileCheck %s --check-prefix=PLAIN

!mx = !te.scaled<128x128xf8E4M3FN, mx_1x32, contract = 1>
!q = !te.scaled<128x128xf8E4M3FN, per_tensor, contract = 1>

// CHECK-LABEL: func.func @mx(
// CHECK-SAME: %[[A:[^:]*]]: {{.*}}, %[[B:[^:]*]]: !te
// CHECK: %[[SA:.*]] = te.swizzle_scales %[[A]] : {{.*}} -> {{.*}}mx_1x32, swizzled, contract = 1>
// CHECK: %[[SB:.*]] = te.swizzle_scales %[[B]]
// CHECK: te.scaled_matmul %[[SA]], %[[SB]]
func.func @mx(%a: !mx, %b: !mx) -> tensor<128x128xbf16> {
  %y = te.scaled_matmul %a, %b fast_accumulation = false : !mx, !mx -> tensor<128x128xbf16>
  return %y : tensor<128x128xbf16>
}

// Other schemes have only one order of scales.
// CHECK-LABEL: func.func @per_tensor(
// CHECK-NOT: te.swizzle_scales
func.func @per_tensor(%a: !q, %b: !q) -> tensor<128x128xbf16> {
  %y = te.scaled_matmul %a, %b fast_accumulation = false : !q, !q -> tensor<128x128xbf16>
  return %y : tensor<128x128xbf16>
}

!nv = !te.scaled<128x128xf4E2M1FN, nv_1x16, contract = 1>
!sw = !te.scaled<128x128xf8E4M3FN, mx_1x32, swizzled, contract = 1>

// CHECK-LABEL: func.func @nv(
// CHECK-COUNT-2: te.swizzle_scales
func.func @nv(%a: !nv, %b: !nv) -> tensor<128x128xbf16> {
  %y = te.scaled_matmul %a, %b fast_accumulation = false : !nv, !nv -> tensor<128x128xbf16>
  return %y : tensor<128x128xbf16>
}

// CHECK-LABEL: func.func @swizzled(
// CHECK-NOT: te.swizzle_scales
func.func @swizzled(%a: !sw, %b: !sw) -> tensor<128x128xbf16> {
  %y = te.scaled_matmul %a, %b fast_accumulation = false : !sw, !sw -> tensor<128x128xbf16>
  return %y : tensor<128x128xbf16>
}

// A value that is already swizzled does not change. A value that two GEMMs read
// is swizzled once. The reference backend reads scales that are not swizzled.
// STEP-LABEL: func.func @linears(
// STEP-COUNT-3: te.swizzle_scales
// STEP-NOT: te.swizzle_scales
// PLAIN-LABEL: func.func @linears(
// PLAIN-NOT: te.swizzle_scales
// PLAIN: return
func.func @linears(%x: tensor<128x128xbf16>, %v: tensor<128x128xbf16>, %w: tensor<128x128xbf16>)
    -> (tensor<128x128xbf16>, tensor<128x128xbf16>) {
  %a = te.linear %x, %v : tensor<128x128xbf16>, tensor<128x128xbf16> -> tensor<128x128xbf16>
  %b = te.linear %x, %w : tensor<128x128xbf16>, tensor<128x128xbf16> -> tensor<128x128xbf16>
  return %a, %b : tensor<128x128xbf16>, tensor<128x128xbf16>
}
