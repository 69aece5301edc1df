// RUN: te-opt %s --te-form-regions --te-convert-to-tert --split-input-file | FileCheck %s

// Rows of an argument are read in place, and gradients of rows are computed in those of the whole.
// CHECK-LABEL: func.func @rows
// CHECK-DAG: %[[FIRST:.*]] = tert.slice %arg0 offset 0 : !tert.buffer<4096> -> !tert.buffer<1024>
// CHECK-DAG: %[[REST:.*]] = tert.slice %arg0 offset 1024 : !tert.buffer<4096> -> !tert.buffer<3072>
// CHECK: %[[TO:.*]] = tert.slice %arg2 offset 0
// CHECK: tert.launch "matmul" {{.*}}(%arg1, %[[FIRST]], {{.*}}, %[[TO]])
// CHECK: %[[TO:.*]] = tert.slice %arg2 offset 512
// CHECK: tert.launch "matmul" {{.*}}(%arg1, %[[REST]], {{.*}}, %[[TO]])
// CHECK-NOT: tert.launch
func.func @rows(%w: tensor<64x32xbf16> {te.name = "w", te.weight}, %x: tensor<16x32xbf16> {te.name = "x"})
    -> (tensor<64x16xbf16> {te.name = "y"}) {
  %a = tensor.extract_slice %w[0, 0] [16, 32] [1, 1] : tensor<64x32xbf16> to tensor<16x32xbf16>
  %b = tensor.extract_slice %w[16, 0] [48, 32] [1, 1] : tensor<64x32xbf16> to tensor<48x32xbf16>
  %p = te.matmul %x, %a contract = [1, 1] : tensor<16x32xbf16>, tensor<16x32xbf16> -> tensor<16x16xbf16>
  %q = te.matmul %x, %b contract = [1, 1] : tensor<16x32xbf16>, tensor<48x32xbf16> -> tensor<16x48xbf16>
  %t = tensor.collapse_shape %q [[0, 1]] : tensor<16x48xbf16> into tensor<768xbf16>
  %s = tensor.expand_shape %t [[0, 1]] output_shape [48, 16] : tensor<768xbf16> into tensor<48x16xbf16>
  %y = tensor.concat dim(0) %p, %s : (tensor<16x16xbf16>, tensor<48x16xbf16>) -> tensor<64x16xbf16>
  return %y : tensor<64x16xbf16>
}

// -----

// Columns of one size are copied by one launch before their first reader, and joined by one.
// CHECK-LABEL: func.func @columns
// CHECK: tert.launch "matmul"
// CHECK: tert.launch "generated" {count = 512 : i64
// CHECK-NOT: "generated"
// CHECK: %[[PARTS:.*]] = tert.alloc
// CHECK: %[[TO:.*]] = tert.slice %[[PARTS]] offset 0
// CHECK: tert.launch "matmul" {{.*}} %[[TO]])
// CHECK: %[[TO:.*]] = tert.slice %[[PARTS]] offset 512
// CHECK: tert.launch "matmul" {{.*}} %[[TO]])
// CHECK: tert.launch "copy_strided" {bytes = 32 : i64, parts = 2 : i64, rows = 16 : i64, x_part = 512 : i64, x_row = 32 : i64, y_part = 32 : i64, y_row = 64 : i64}(%[[PARTS]], %arg2)
// CHECK-NOT: tert.launch
func.func @columns(%w: tensor<32x32xbf16> {te.name = "w", te.weight}, %x: tensor<16x32xbf16> {te.name = "x"})
    -> (tensor<16x32xbf16> {te.name = "y"}) {
  %a = tensor.extract_slice %w[0, 0] [32, 16] [1, 1] : tensor<32x32xbf16> to tensor<32x16xbf16>
  %b = tensor.extract_slice %w[0, 16] [32, 16] [1, 1] : tensor<32x32xbf16> to tensor<32x16xbf16>
  %h = te.matmul %x, %w contract = [1, 1] : tensor<16x32xbf16>, tensor<32x32xbf16> -> tensor<16x32xbf16>
  %p = te.matmul %h, %a contract = [1, 0] : tensor<16x32xbf16>, tensor<32x16xbf16> -> tensor<16x16xbf16>
  %q = te.matmul %h, %b contract = [1, 0] : tensor<16x32xbf16>, tensor<32x16xbf16> -> tensor<16x16xbf16>
  %y = tensor.concat dim(1) %p, %q : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x32xbf16>
  return %y : tensor<16x32xbf16>
}

// -----

// A part that begins between addresses that kernels take is copied, and so is one that is returned.
// CHECK-LABEL: func.func @copied
// CHECK: tert.launch "generated" {count = 32
// CHECK: tert.launch "generated" {count = 60
// CHECK: tert.launch "matmul"
func.func @copied(%w: tensor<16x12xbf16> {te.name = "w"}, %v: tensor<64xbf16> {te.name = "v"}, %x: tensor<16x12xbf16> {te.name = "x"})
    -> (tensor<16x5xbf16> {te.name = "y"}, tensor<32xbf16> {te.name = "z"}) {
  %a = tensor.extract_slice %w[1, 0] [5, 12] [1, 1] : tensor<16x12xbf16> to tensor<5x12xbf16>
  %z = tensor.extract_slice %v[32] [32] [1] : tensor<64xbf16> to tensor<32xbf16>
  %y = te.matmul %x, %a contract = [1, 1] : tensor<16x12xbf16>, tensor<5x12xbf16> -> tensor<16x5xbf16>
  return %y, %z : tensor<16x5xbf16>, tensor<32xbf16>
}

// -----

// Columns of no rows need no launch.
// CHECK-LABEL: func.func @no_rows
// CHECK-NOT: copy_strided
func.func @no_rows(%x: tensor<0x32xbf16> {te.name = "x"}, %a: tensor<16x32xbf16> {te.name = "a"}, %b: tensor<16x32xbf16> {te.name = "b"})
    -> (tensor<0x32xbf16> {te.name = "y"}) {
  %p = te.matmul %x, %a contract = [1, 1] : tensor<0x32xbf16>, tensor<16x32xbf16> -> tensor<0x16xbf16>
  %q = te.matmul %x, %b contract = [1, 1] : tensor<0x32xbf16>, tensor<16x32xbf16> -> tensor<0x16xbf16>
  %y = tensor.concat dim(1) %p, %q : (tensor<0x16xbf16>, tensor<0x16xbf16>) -> tensor<0x32xbf16>
  return %y : tensor<0x32xbf16>
}

// -----

// Two results that are one value are computed in the rows of the first, and copied to those of the second.
// CHECK-LABEL: func.func @twice
// CHECK: tert.launch "copy_strided" {bytes = 32768 : i64, {{.*}}}(%{{.*}}, %[[SECOND:.*]])
func.func @twice(%x: tensor<256x32xbf16> {te.name = "x"}, %w: tensor<64x32xbf16> {te.name = "w"}) -> (tensor<512x64xbf16> {te.name = "y"}) {
  %r:2 = te.by_rows (%x) with (%w) rows 128 : (tensor<256x32xbf16>, tensor<64x32xbf16>) -> (tensor<256x64xbf16>, tensor<256x64xbf16>) {
  ^bb0(%xr: tensor<256x32xbf16>, %wr: tensor<64x32xbf16>):
    %l = te.matmul %xr, %wr contract = [1, 1] : tensor<256x32xbf16>, tensor<64x32xbf16> -> tensor<256x64xbf16>
    te.yield %l, %l : tensor<256x64xbf16>, tensor<256x64xbf16>
  }
  %y = tensor.concat dim(0) %r#0, %r#1 : (tensor<256x64xbf16>, tensor<256x64xbf16>) -> tensor<512x64xbf16>
  return %y : tensor<512x64xbf16>
}
