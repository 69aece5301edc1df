// Casts of a stack of weights are a launch a matrix, on parts of one buffer; sizes that are a constant are filled in by runs.
// RUN: te-opt %s --te-convert-to-tert --te-plan-memory | FileCheck %s

// CHECK-LABEL: func.func @stack
// CHECK: tert.slice %arg0 offset 0 : !tert.buffer<8192> -> !tert.buffer<4096>
// CHECK: %[[DATA:.*]] = tert.alloc "{{.*}}row"
// CHECK: tert.launch "quantize_block" {{.*}}rows = 32 : i64
// CHECK: tert.slice {{.*}} offset 4096 : !tert.buffer<8192> -> !tert.buffer<4096>
// CHECK: tert.slice %[[DATA]] offset 2048 : !tert.buffer<4096> -> !tert.buffer<2048>
// CHECK: tert.launch "quantize_block" {{.*}}rows = 32 : i64
// CHECK-NOT: quantize_block
// Both parts live until the product that reads them.
// CHECK: tert.alloc "{{.*}}" constant
// CHECK: tert.launch "fill" {count = 1 : i64
// CHECK: tert.launch "fill" {count = 2 : i64
// CHECK-NOT: tert.launch "fill"
// CHECK: tert.launch "grouped_zero_padding" {{.*}}alignment = 128 : i64{{.*}}groups = 3 : i64
func.func @stack(%w: tensor<2x32x64xbf16>, %x: tensor<384x64xbf16>)
    -> (!te.scaled<2x32x64xf8E4M3FN, block_128x128, contract = 1>, tensor<384x64xbf16>) {
  %q = te.quantize %w : tensor<2x32x64xbf16> -> !te.scaled<2x32x64xf8E4M3FN, block_128x128, contract = 1>
  %sizes = arith.constant dense<[100, 7, 7]> : tensor<3xi32>
  %z = te.zero_padding %x, %sizes {alignment = 128 : i64} : tensor<384x64xbf16>, tensor<3xi32>
  return %q, %z : !te.scaled<2x32x64xf8E4M3FN, block_128x128, contract = 1>, tensor<384x64xbf16>
}
