// Casts of mx and nv schemes, and the ops around them, print as they parse.
// RUN: te-opt %s | te-opt | FileCheck %s

// CHECK-LABEL: @mx
// CHECK: te.quantize %{{.*}} : tensor<64x96xbf16> -> !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 1>, !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 0>
// CHECK: te.dequantize %{{.*}} : <64x96xf8E4M3FN, mx_1x32, contract = 0> -> tensor<64x96xf32>
// CHECK: te.swizzle_scales %{{.*}} : <64x96xf8E4M3FN, mx_1x32, contract = 1> -> <64x96xf8E4M3FN, mx_1x32, swizzled, contract = 1>
// CHECK: te.transpose %{{.*}} : <64x96xf8E5M2, mx_32x32, contract = 1> -> <64x96xf8E5M2, mx_32x32, contract = 0>
func.func @mx(%x: tensor<64x96xbf16>) {
  %row, %col = te.quantize %x : tensor<64x96xbf16> -> !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 1>, !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 0>
  %back = te.dequantize %col : !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 0> -> tensor<64x96xf32>
  %swizzled = te.swizzle_scales %row : !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 1> -> !te.scaled<64x96xf8E4M3FN, mx_1x32, swizzled, contract = 1>
  %square = te.quantize %x : tensor<64x96xbf16> -> !te.scaled<64x96xf8E5M2, mx_32x32, contract = 1>
  %other = te.transpose %square : !te.scaled<64x96xf8E5M2, mx_32x32, contract = 1> -> !te.scaled<64x96xf8E5M2, mx_32x32, contract = 0>
  return
}

// CHECK-LABEL: @nv
// CHECK: %[[AMAX:.*]] = te.amax %
// CHECK: te.quantize %{{.*}} amax %[[AMAX]] : tensor<64x96xbf16> -> !te.scaled<64x96xf4E2M1FN, nv_16x16, contract = 1>, !te.scaled<64x96xf4E2M1FN, nv_16x16, contract = 0>
// CHECK: te.quantize %{{.*}} amax %[[AMAX]] {four_over_six = #te.four_over_six<mse>} : tensor<64x96xbf16> -> !te.scaled<64x96xf4E2M1FN, nv_1x16, scale_max_256, contract = 1>
// CHECK: %[[NEXT:.*]] = te.rng_advance %{{.*}} {count = 2 : i32}
// CHECK: te.quantize %{{.*}} amax %[[AMAX]] rng %[[NEXT]] {stream = 3 : i32} : tensor<64x96xbf16> -> !te.scaled<64x96xf4E2M1FN, nv_1x16, contract = 1>
// CHECK: %[[ROWS:.*]] = te.amax_rows %{{.*}} : tensor<64x96xbf16> -> tensor<64xf32>
// CHECK: te.quantize %{{.*}} amax %[[ROWS]] : tensor<64x96xbf16> -> !te.scaled<64x96xf4E2M1FN, nv_1x16, row_scaled, contract = 1>
// CHECK: te.hadamard %{{.*}} : tensor<64x96xbf16>
// CHECK: te.dequantize %{{.*}} {without_amax} : <64x96xf4E2M1FN, nv_16x16, contract = 1> -> tensor<64x96xbf16>
// CHECK: %[[ALPHA:.*]] = te.nvfp4_alpha %{{.*}}, %{{.*}} : <64x96xf4E2M1FN, nv_16x16, contract = 1>, <64x96xf4E2M1FN, nv_16x16, contract = 1>
// CHECK: te.matmul %{{.*}}, %{{.*}} alpha %[[ALPHA]] contract = [1, 1] : tensor<64x96xbf16>, tensor<64x96xbf16> -> tensor<64x64xbf16>
func.func @nv(%x: tensor<64x96xbf16>, %state: tensor<2xi32>) {
  %amax = te.amax %x : tensor<64x96xbf16>
  %row, %col = te.quantize %x amax %amax : tensor<64x96xbf16> -> !te.scaled<64x96xf4E2M1FN, nv_16x16, contract = 1>, !te.scaled<64x96xf4E2M1FN, nv_16x16, contract = 0>
  %four = te.quantize %x amax %amax {four_over_six = #te.four_over_six<mse>} : tensor<64x96xbf16> -> !te.scaled<64x96xf4E2M1FN, nv_1x16, scale_max_256, contract = 1>
  %next = te.rng_advance %state {count = 2 : i32}
  %drawn = te.quantize %x amax %amax rng %next {stream = 3 : i32} : tensor<64x96xbf16> -> !te.scaled<64x96xf4E2M1FN, nv_1x16, contract = 1>
  %rows = te.amax_rows %x : tensor<64x96xbf16> -> tensor<64xf32>
  %each = te.quantize %x amax %rows : tensor<64x96xbf16> -> !te.scaled<64x96xf4E2M1FN, nv_1x16, row_scaled, contract = 1>
  %rotated = te.hadamard %x : tensor<64x96xbf16>
  %exact = te.dequantize %row {without_amax} : !te.scaled<64x96xf4E2M1FN, nv_16x16, contract = 1> -> tensor<64x96xbf16>
  %alpha = te.nvfp4_alpha %row, %row : !te.scaled<64x96xf4E2M1FN, nv_16x16, contract = 1>, !te.scaled<64x96xf4E2M1FN, nv_16x16, contract = 1>
  %y = te.matmul %exact, %exact alpha %alpha contract = [1, 1] : tensor<64x96xbf16>, tensor<64x96xbf16> -> tensor<64x64xbf16>
  return
}
