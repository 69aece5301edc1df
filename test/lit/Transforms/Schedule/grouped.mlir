// Casts and transposes of a stack of weights are one launch. Constant sizes are written by one fill for each run of equal values.
// RUN: te-opt %s --te-convert-to-tert --te-plan-memory | FileCheck %s

// CHECK-LABEL: func.func @stack
// CHECK-NOT: tert.slice
// CHECK: tert.launch "quantize_block" {{.*}}matrices = 2 : i64{{.*}}rows = 32 : i64
// CHECK-NOT: quantize_block
// CHECK: tert.launch "transpose_scaled" {{.*}}matrices = 2 : i64{{.*}}rows = 32 : i64
// CHECK-NOT: transpose_scaled
// CHECK: tert.launch "dequantize" {{.*}}matrices = 2 : i64{{.*}}rows = 32 : i64
// CHECK-NOT: dequantize
// CHECK: tert.alloc "{{.*}}" constant
// CHECK: tert.launch "fill" {count = 1 : i64
// CHECK: tert.launch "fill" {count = 2 : i64
// CHECK-NOT: tert.launch "fill"
// CHECK: tert.launch "grouped_zero_padding" {{.*}}alignment = 128 : i64{{.*}}groups = 3 : i64
func.func @stack(%w: tensor<2x32x64xbf16>, %x: tensor<384x64xbf16>)
    -> (!te.scaled<2x32x64xf8E4M3FN, block_128x128, contract = 0>, tensor<2x32x64xbf16>, tensor<384x64xbf16>) {
  %q = te.quantize %w : tensor<2x32x64xbf16> -> !te.scaled<2x32x64xf8E4M3FN, block_128x128, contract = 1>
  %t = te.transpose %q : !te.scaled<2x32x64xf8E4M3FN, block_128x128, contract = 1> -> !te.scaled<2x32x64xf8E4M3FN, block_128x128, contract = 0>
  %d = te.dequantize %q : !te.scaled<2x32x64xf8E4M3FN, block_128x128, contract = 1> -> tensor<2x32x64xbf16>
  %sizes = arith.constant dense<[100, 7, 7]> : tensor<3xi32>
  %z = te.zero_padding %x, %sizes {alignment = 128 : i64} : tensor<384x64xbf16>, tensor<3xi32>
  return %t, %d, %z : !te.scaled<2x32x64xf8E4M3FN, block_128x128, contract = 0>, tensor<2x32x64xbf16>, tensor<384x64xbf16>
}
