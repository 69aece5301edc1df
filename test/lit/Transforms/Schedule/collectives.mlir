// Collectives transfer values as they are stored: parts along the first stored axis are contiguous.
// Other parts are copied from a scratch buffer, and padding between the scales of parts is removed.
// RUN: te-opt %s --te-convert-to-tert | FileCheck %s

module attributes {te.groups = [#te.group<id = 3, name = "tp", axis = "tp", size = 2>]} {

// CHECK-LABEL: func.func @tensors
// CHECK: tert.launch "all_gather" {bytes = 32 : i64, group_id = 3 : i32, ranks = 2 : i32}
// CHECK-NOT: copy_strided
// CHECK: tert.launch "all_gather" {bytes = 32 : i64
// CHECK-NEXT: tert.launch "copy_strided" {bytes = 4 : i64, parts = 2 : i64, rows = 8 : i64, x_part = 32 : i64, x_row = 4 : i64, y_part = 4 : i64, y_row = 8 : i64}
// CHECK: tert.launch "reduce_scatter_sum" {count = 8 : i64, group_id = 3 : i32, ranks = 2 : i32, type = 1 : i32}
// CHECK: tert.launch "copy_strided" {bytes = 2 : i64, parts = 2 : i64, rows = 8 : i64, x_part = 2 : i64, x_row = 4 : i64, y_part = 16 : i64, y_row = 2 : i64}
// CHECK: tert.launch "reduce_scatter_sum" {count = 8 : i64
// CHECK: tert.launch "all_reduce_sum" {count = 16 : i64, group_id = 3 : i32, ranks = 2 : i32, type = 1 : i32}
// CHECK: tert.launch "bias_add" {cols = 2 : i64, rows = 8 : i64, type = 1 : i32}
func.func @tensors(%x: tensor<8x2xbf16>, %b: tensor<2xbf16>)
    -> (tensor<16x2xbf16>, tensor<8x4xbf16>, tensor<4x2xbf16>, tensor<8x1xbf16>, tensor<8x2xbf16>) {
  %a = te.all_gather %x group 3 axis 0 : tensor<8x2xbf16> -> tensor<16x2xbf16>
  %c = te.all_gather %x group 3 axis 1 : tensor<8x2xbf16> -> tensor<8x4xbf16>
  %d = te.reduce_scatter %x group 3 axis 0 : tensor<8x2xbf16> -> tensor<4x2xbf16>
  %e = te.reduce_scatter %x group 3 axis 1 : tensor<8x2xbf16> -> tensor<8x1xbf16>
  %s = te.all_reduce %x group 3 : tensor<8x2xbf16>
  %f = te.bias_add %s, %b : tensor<8x2xbf16>, tensor<2xbf16>
  return %a, %c, %d, %e, %f : tensor<16x2xbf16>, tensor<8x4xbf16>, tensor<4x2xbf16>, tensor<8x1xbf16>, tensor<8x2xbf16>
}

// Sent and received without copies; received in blocks of 4 rows; sent by columns.
// CHECK-LABEL: func.func @exchanges
// CHECK-NEXT: tert.null
// CHECK-NEXT: tert.launch "all_to_all" {bytes = 96 : i64, group_id = 3 : i32, ranks = 2 : i32, scale_bytes = 0 : i64}
// CHECK-NEXT: tert.alloc "all_to_all.received"
// CHECK-NEXT: tert.launch "all_to_all" {bytes = 96 : i64, group_id = 3 : i32, ranks = 2 : i32, scale_bytes = 0 : i64}
// CHECK-NEXT: tert.launch "copy_strided" {bytes = 48 : i64, parts = 2 : i64, rows = 2 : i64, x_part = 96 : i64, x_row = 48 : i64, y_part = 48 : i64, y_row = 96 : i64}
// CHECK: tert.launch "copy_strided" {bytes = 24 : i64, parts = 2 : i64, rows = 4 : i64, x_part = 24 : i64, x_row = 48 : i64, y_part = 96 : i64, y_row = 24 : i64}
// CHECK-NEXT: tert.launch "all_to_all" {bytes = 96 : i64, group_id = 3 : i32, ranks = 2 : i32, scale_bytes = 0 : i64}
// CHECK-NOT: copy_strided
// CHECK: tert.launch "copy_strided" {bytes = 6 : i64, parts = 2 : i64, rows = 16 : i64, x_part = 6 : i64, x_row = 12 : i64, y_part = 96 : i64, y_row = 6 : i64}
// CHECK-NEXT: tert.alloc "all_to_all.received#2"
// CHECK-NEXT: tert.launch "all_to_all"
// CHECK-NEXT: tert.launch "copy_strided" {bytes = 24 : i64, parts = 2 : i64, rows = 4 : i64, x_part = 96 : i64, x_row = 24 : i64, y_part = 24 : i64, y_row = 48 : i64}
func.func @exchanges(%x: tensor<4x4x6xbf16>)
    -> (tensor<4x4x6xbf16>, tensor<2x8x6xbf16>, tensor<8x2x6xbf16>, tensor<4x8x3xbf16>) {
  %a = te.all_to_all %x group 3 split 0 concat 0 : tensor<4x4x6xbf16> -> tensor<4x4x6xbf16>
  %b = te.all_to_all %x group 3 split 0 concat 1 : tensor<4x4x6xbf16> -> tensor<2x8x6xbf16>
  %c = te.all_to_all %x group 3 split 1 concat 0 : tensor<4x4x6xbf16> -> tensor<8x2x6xbf16>
  %d = te.all_to_all %x group 3 split 2 concat 1 : tensor<4x4x6xbf16> -> tensor<4x8x3xbf16>
  return %a, %b, %c, %d : tensor<4x4x6xbf16>, tensor<2x8x6xbf16>, tensor<8x2x6xbf16>, tensor<4x8x3xbf16>
}

// Bytes and scales are sent in one launch. The data of an expert is contiguous, but its scales [2, 512] are not, on either side.
// CHECK-LABEL: func.func @exchange_of_casts
// CHECK: tert.launch "copy_strided" {bytes = 1024 : i64, parts = 2 : i64, rows = 2 : i64, x_part = 1024 : i64, x_row = 2048 : i64, y_part = 2048 : i64, y_row = 1024 : i64}
// CHECK: tert.launch "all_to_all" {bytes = 49152 : i64, group_id = 3 : i32, ranks = 2 : i32, scale_bytes = 2048 : i64}
// CHECK-NEXT: tert.launch "copy_strided" {bytes = 12288 : i64, parts = 2 : i64, rows = 4 : i64, x_part = 49152 : i64, x_row = 12288 : i64, y_part = 12288 : i64, y_row = 24576 : i64}
// CHECK-NEXT: tert.launch "copy_strided" {bytes = 256 : i64, parts = 2 : i64, rows = 8 : i64, x_part = 2048 : i64, x_row = 256 : i64, y_part = 256 : i64, y_row = 512 : i64}
func.func @exchange_of_casts(%x: !te.scaled<512x192xf8E4M3FN, block_1x128, contract = 1>) -> !te.scaled<512x192xf8E4M3FN, block_1x128, contract = 1, groups = 4> {
  %y = te.all_to_all %x group 3 split 0 concat 1 : !te.scaled<512x192xf8E4M3FN, block_1x128, contract = 1> -> !te.scaled<512x192xf8E4M3FN, block_1x128, contract = 1, groups = 4>
  return %y : !te.scaled<512x192xf8E4M3FN, block_1x128, contract = 1, groups = 4>
}

// Data is exchanged by rows, and scales [1, 128] by columns.
// CHECK-LABEL: func.func @block_rows
// CHECK: tert.launch "all_gather" {bytes = 16384 : i64
// CHECK: tert.launch "all_gather" {bytes = 512 : i64
// CHECK-NOT: copy_strided
func.func @block_rows(%x: !te.scaled<128x128xf8E4M3FN, block_1x128, pow2, contract = 1>) -> !te.scaled<256x128xf8E4M3FN, block_1x128, pow2, contract = 1> {
  %y = te.all_gather %x group 3 axis 0 : !te.scaled<128x128xf8E4M3FN, block_1x128, pow2, contract = 1> -> !te.scaled<256x128xf8E4M3FN, block_1x128, pow2, contract = 1>
  return %y : !te.scaled<256x128xf8E4M3FN, block_1x128, pow2, contract = 1>
}

// 32 of 128 rows of scales are valid in each part, and 64 in the whole; the others are zeros.
// CHECK-LABEL: func.func @padded_scales
// CHECK: tert.launch "all_gather" {bytes = 2048 : i64
// CHECK: tert.launch "all_gather" {bytes = 512 : i64
// CHECK: tert.launch "fill" {count = 128 : i64, type = 0 : i32
// CHECK-NEXT: tert.launch "copy_strided" {bytes = 128 : i64, parts = 2 : i64, rows = 1 : i64, x_part = 512 : i64, x_row = 512 : i64, y_part = 128 : i64, y_row = 0 : i64}
func.func @padded_scales(%x: !te.scaled<32x64xf8E4M3FN, mx_1x32, contract = 1>) -> !te.scaled<64x64xf8E4M3FN, mx_1x32, contract = 1> {
  %y = te.all_gather %x group 3 axis 0 : !te.scaled<32x64xf8E4M3FN, mx_1x32, contract = 1> -> !te.scaled<64x64xf8E4M3FN, mx_1x32, contract = 1>
  return %y : !te.scaled<64x64xf8E4M3FN, mx_1x32, contract = 1>
}

}
