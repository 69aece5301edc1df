// RUN: te-opt %s --te-zero-unused --split-input-file | FileCheck %s

// Layers that keep zeros read what they read before: a norm, an activation, a product with a constant, a residual connection, attention within
// documents.
// CHECK-LABEL: func.func @zeros
// CHECK: te.zero_unused %arg0
// CHECK-NOT: te.zero_unused
// CHECK: return
func.func @zeros(%x: tensor<32x64xbf16>, %gamma: tensor<64xbf16>, %w: tensor<64x64xbf16>, %documents: tensor<4xi32>) -> tensor<32x64xbf16>
    attributes {te.recipe = #te.recipe<float8_current_scaling>} {
  %used = te.used_rows %documents : tensor<4xi32> -> tensor<32xf32>
  %two = arith.constant dense<2.0> : tensor<32x64xbf16>
  %0 = te.zero_unused %x, %used : tensor<32x64xbf16>, tensor<32xf32>
  %1 = arith.mulf %0, %two : tensor<32x64xbf16>
  %2 = te.rms_norm %1, %gamma : tensor<32x64xbf16>, tensor<64xbf16>
  %3 = te.linear %2, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  %4 = te.attention %3, %3, %3 documents %documents : tensor<4xi32> {heads = 2 : i64, kv_heads = 2 : i64, sequence = 32 : i64, causal}
    : tensor<32x64xbf16>, tensor<32x64xbf16>
  %5 = te.linear %4, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  %6 = arith.addf %5, %1 : tensor<32x64xbf16>
  %7 = te.activation <swiglu> %6, %5 : tensor<32x64xbf16>, tensor<32x64xbf16> -> tensor<32x64xbf16>
  %8 = te.linear %7, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  return %8 : tensor<32x64xbf16>
}

// -----

// A bias is in rows that are not used, too. All layers that read a value read one with zeros; a high-precision layer casts nothing.
// CHECK-LABEL: func.func @bias
// CHECK: %[[ZERO:.*]] = te.zero_unused %arg0, %arg1
// CHECK: %[[H:.*]] = te.linear %[[ZERO]], %arg2 bias
// CHECK: %[[Y:.*]] = te.activation <gelu> %[[H]]
// CHECK: %[[READ:.*]] = te.zero_unused %[[Y]], %arg1
// CHECK: te.linear %[[READ]], %arg2
// CHECK: te.linear %[[READ]], %arg2
// CHECK: te.linear %[[Y]], %arg2
// CHECK-NOT: te.zero_unused
func.func @bias(%x: tensor<32x64xbf16>, %used: tensor<32xf32>, %w: tensor<64x64xbf16>, %b: tensor<64xbf16>)
    -> (tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<32x64xbf16>) attributes {te.recipe = #te.recipe<mxfp8_block_scaling>} {
  %0 = te.zero_unused %x, %used : tensor<32x64xbf16>, tensor<32xf32>
  %1 = te.linear %0, %w bias %b : tensor<64xbf16> : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  %2 = te.activation <gelu> %1 : tensor<32x64xbf16> -> tensor<32x64xbf16>
  %3 = te.linear %2, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  %4 = te.linear %2, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  %5 = te.linear %2, %w {te.recipe = #te.recipe<high_precision>} : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  return %3, %4, %5 : tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<32x64xbf16>
}

// -----

// Attention of a mask that the step takes may read other rows. A batch of two sequences is tracked through its reshapes.
// CHECK-LABEL: func.func @batch
// CHECK: te.zero_unused %arg0, %arg1
// CHECK: %[[O:.*]] = te.attention
// CHECK: tensor.expand_shape %[[O]]
// CHECK: arith.addf
// CHECK: %[[ROWS:.*]] = tensor.collapse_shape
// CHECK: %[[READ:.*]] = te.zero_unused %[[ROWS]], %arg1
// CHECK: te.linear %[[READ]]
func.func @batch(%x: tensor<32x64xbf16>, %used: tensor<32xf32>, %w: tensor<64x64xbf16>, %documents: tensor<4xi32>) -> tensor<32x64xbf16>
    attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  %0 = te.zero_unused %x, %used : tensor<32x64xbf16>, tensor<32xf32>
  %1 = te.attention %0, %0, %0 documents %documents : tensor<4xi32> {heads = 2 : i64, kv_heads = 2 : i64, sequence = 16 : i64, causal}
    : tensor<32x64xbf16>, tensor<32x64xbf16>
  %2 = tensor.expand_shape %1 [[0, 1], [2]] output_shape [2, 16, 64] : tensor<32x64xbf16> into tensor<2x16x64xbf16>
  %3 = arith.addf %2, %2 : tensor<2x16x64xbf16>
  %4 = tensor.collapse_shape %3 [[0, 1], [2]] : tensor<2x16x64xbf16> into tensor<32x64xbf16>
  %5 = te.linear %4, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  return %5 : tensor<32x64xbf16>
}

// -----

// Nothing is known of the rows of other values.
// CHECK-LABEL: func.func @other
// CHECK-NOT: te.zero_unused
func.func @other(%x: tensor<32x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<32x64xbf16>
    attributes {te.recipe = #te.recipe<float8_current_scaling>} {
  %y = te.linear %x, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  return %y : tensor<32x64xbf16>
}
