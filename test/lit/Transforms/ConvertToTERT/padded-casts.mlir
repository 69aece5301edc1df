// RUN: te-opt %s --split-input-file --te-convert-to-tert | FileCheck %s

// Casts write the zeros of padding, and an amax does not read them: nothing is copied.
// CHECK-LABEL: @padded
// CHECK-NOT: "copy_strided"
// CHECK-NOT: "fill"
// CHECK: tert.launch "amax" {count = 6800 : i64, {{.*}}(%arg0, %[[AMAX:[0-9]+]],
// CHECK-NOT: "copy_strided"
// CHECK: tert.launch "quantize_tensor" {{{.*}}cols = 112 : i64{{.*}}, rows = 80 : i64, {{.*}}x_cols = 100 : i64, x_rows = 68 : i64{{.*}}(%arg0, %[[AMAX]],
func.func @padded(%x: tensor<68x100xbf16> {te.name = "x"}) -> (tensor<80x112xbf16> {te.name = "y"}) {
  %columns = arith.constant dense<0.0> : tensor<68x12xbf16>
  %rows = arith.constant dense<0.0> : tensor<12x112xbf16>
  %wide = tensor.concat dim(1) %x, %columns : (tensor<68x100xbf16>, tensor<68x12xbf16>) -> tensor<68x112xbf16>
  %all = tensor.concat dim(0) %wide, %rows : (tensor<68x112xbf16>, tensor<12x112xbf16>) -> tensor<80x112xbf16>
  %amax = te.amax %all : tensor<80x112xbf16>
  %scale = te.compute_scale %amax for f8E4M3FN
  %q = te.quantize %all scale %scale : tensor<80x112xbf16> -> !te.scaled<80x112xf8E4M3FN, per_tensor, contract = 1>
  %y = te.dequantize %q : !te.scaled<80x112xf8E4M3FN, per_tensor, contract = 1> -> tensor<80x112xbf16>
  return %y : tensor<80x112xbf16>
}

// -----

// A result needs the zeros in memory. The cast does not read them there.
// CHECK-LABEL: @read_elsewhere
// CHECK: tert.launch "fill"
// CHECK: tert.launch "copy_strided" {{.*}}(%arg0,
// CHECK: tert.launch "quantize_block" {{{.*}}x_cols = 64 : i64, x_rows = 68 : i64{{.*}}(%arg0,
func.func @read_elsewhere(%x: tensor<68x64xbf16> {te.name = "x"})
    -> (tensor<80x64xbf16> {te.name = "y"}, tensor<80x64xbf16> {te.name = "padded"}) {
  %zeros = arith.constant dense<0.0> : tensor<12x64xbf16>
  %all = tensor.concat dim(0) %x, %zeros : (tensor<68x64xbf16>, tensor<12x64xbf16>) -> tensor<80x64xbf16>
  %q = te.quantize %all : tensor<80x64xbf16> -> !te.scaled<80x64xf8E4M3FN, block_1x128, contract = 1>
  %y = te.dequantize %q : !te.scaled<80x64xf8E4M3FN, block_1x128, contract = 1> -> tensor<80x64xbf16>
  return %y, %all : tensor<80x64xbf16>, tensor<80x64xbf16>
}

// -----

// Columns in front of x, or what is no zero, are not padding.
// CHECK-LABEL: @concatenated
// CHECK: tert.launch "quantize_block" {{{.*}}x_cols = 64 : i64, x_rows = 80 : i64
func.func @concatenated(%x: tensor<68x64xbf16> {te.name = "x"}, %more: tensor<12x64xbf16> {te.name = "more"})
    -> (tensor<80x64xbf16> {te.name = "y"}) {
  %all = tensor.concat dim(0) %x, %more : (tensor<68x64xbf16>, tensor<12x64xbf16>) -> tensor<80x64xbf16>
  %q = te.quantize %all : tensor<80x64xbf16> -> !te.scaled<80x64xf8E4M3FN, block_1x128, contract = 1>
  %y = te.dequantize %q : !te.scaled<80x64xf8E4M3FN, block_1x128, contract = 1> -> tensor<80x64xbf16>
  return %y : tensor<80x64xbf16>
}

// -----

// The zeros of each matrix of a stack.
// CHECK-LABEL: @stack
// CHECK: tert.launch "quantize_block" {{{.*}}matrices = 3 : i64,{{.*}}x_cols = 50 : i64, x_rows = 64 : i64{{.*}}(%arg0,
func.func @stack(%w: tensor<3x64x50xbf16> {te.name = "w"}) -> (tensor<3x64x64xbf16> {te.name = "y"}) {
  %zeros = arith.constant dense<0.0> : tensor<3x64x14xbf16>
  %all = tensor.concat dim(2) %w, %zeros : (tensor<3x64x50xbf16>, tensor<3x64x14xbf16>) -> tensor<3x64x64xbf16>
  %q = te.quantize %all : tensor<3x64x64xbf16> -> !te.scaled<3x64x64xf8E4M3FN, block_128x128, contract = 1>
  %y = te.dequantize %q : !te.scaled<3x64x64xf8E4M3FN, block_128x128, contract = 1> -> tensor<3x64x64xbf16>
  return %y : tensor<3x64x64xbf16>
}

// -----

// A kernel has no zeros of a whole matrix, so these are copied; it writes those of rows and columns.
// CHECK-LABEL: @matrices
// CHECK: tert.launch "copy_strided" {{.*}}(%arg0,
// CHECK: tert.launch "quantize_block" {{{.*}}x_cols = 50 : i64, x_rows = 64 : i64
func.func @matrices(%w: tensor<2x64x50xbf16> {te.name = "w"}) -> (tensor<3x64x64xbf16> {te.name = "y"}) {
  %none = arith.constant dense<0.0> : tensor<1x64x50xbf16>
  %zeros = arith.constant dense<0.0> : tensor<3x64x14xbf16>
  %three = tensor.concat dim(0) %w, %none : (tensor<2x64x50xbf16>, tensor<1x64x50xbf16>) -> tensor<3x64x50xbf16>
  %all = tensor.concat dim(2) %three, %zeros : (tensor<3x64x50xbf16>, tensor<3x64x14xbf16>) -> tensor<3x64x64xbf16>
  %q = te.quantize %all : tensor<3x64x64xbf16> -> !te.scaled<3x64x64xf8E4M3FN, block_128x128, contract = 1>
  %y = te.dequantize %q : !te.scaled<3x64x64xf8E4M3FN, block_128x128, contract = 1> -> tensor<3x64x64xbf16>
  return %y : tensor<3x64x64xbf16>
}

// -----

// Scales with zeros behind them are in memory, also if the cast reads its x without zeros.
// CHECK-LABEL: @scales
// CHECK: tert.launch "copy_strided" {{.*}}(%arg1, %[[SCALES:.*]])
// CHECK: tert.launch "quantize_tensor" {{{.*}}x_rows = 60 : i64, {{.*}}}(%arg0,
func.func @scales(%x: tensor<2x60x64xbf16> {te.name = "x"}, %s: tensor<1xf32> {te.name = "s"}) -> (tensor<2x64x64xbf16> {te.name = "y"}) {
  %zeros = arith.constant dense<0.0> : tensor<2x4x64xbf16>
  %zero = arith.constant dense<0.0> : tensor<1xf32>
  %all = tensor.concat dim(1) %x, %zeros : (tensor<2x60x64xbf16>, tensor<2x4x64xbf16>) -> tensor<2x64x64xbf16>
  %scales = tensor.concat dim(0) %s, %zero : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
  %q = te.quantize %all scale %scales : tensor<2x64x64xbf16> -> !te.scaled<2x64x64xf8E4M3FN, per_tensor, contract = 1>
  %y = te.dequantize %q : !te.scaled<2x64x64xf8E4M3FN, per_tensor, contract = 1> -> tensor<2x64x64xbf16>
  return %y : tensor<2x64x64xbf16>
}
