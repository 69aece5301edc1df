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

// -----

// No expert has tokens that are not used, whose rows a sum of the experts leaves at zero. A mask of another type is widened.
// CHECK-LABEL: func.func @experts
// CHECK: %[[ZERO:.*]] = te.zero_unused %arg0, %arg1
// CHECK: %[[N:.*]] = te.layer_norm %[[ZERO]]
// CHECK: %[[USED:.*]] = arith.extf %arg1 : tensor<32xbf16> to tensor<32xf32>
// CHECK: te.permute %[[N]], %{{.*}} used %[[USED]] : tensor<32xf32> {alignment = 16 : i64}
// CHECK-NOT: te.zero_unused
// CHECK: %[[SUM:.*]] = te.unpermute
// CHECK-NEXT: te.linear %[[SUM]], %arg3
func.func @experts(%x: tensor<32x64xbf16>, %used: tensor<32xbf16>, %gamma: tensor<64xbf16>, %w: tensor<64x64xbf16>, %router: tensor<4x64xbf16>,
                   %up: tensor<4x64x64xbf16>, %bias: tensor<4x64xbf16>) -> tensor<32x64xbf16>
    attributes {te.recipe = #te.recipe<float8_current_scaling>} {
  %0 = te.zero_unused %x, %used : tensor<32x64xbf16>, tensor<32xbf16>
  %1 = te.layer_norm %0, %gamma, %gamma : tensor<32x64xbf16>, tensor<64xbf16>
  %2 = te.linear %0, %router : tensor<32x64xbf16>, tensor<4x64xbf16> -> tensor<32x4xbf16>
  %ids, %probs, %scores = te.router_topk %2 {normalize} : tensor<32x4xbf16> -> tensor<32x2xi32>, tensor<32x2xf32>, tensor<32x4xf32>
  %rows, %sizes, %row_of, %entry_of, %dropped = te.permute %1, %ids {alignment = 16 : i64}
    : tensor<32x64xbf16>, tensor<32x2xi32> -> tensor<32x64xbf16>, tensor<4xi32>, tensor<64xi32>, tensor<32xi32>
  %3 = te.grouped_linear %rows, %up, %sizes bias %bias : tensor<4x64xbf16> {alignment = 16 : i64}
    : tensor<32x64xbf16>, tensor<4x64x64xbf16>, tensor<4xi32> -> tensor<32x64xbf16>
  %4 = te.grouped_linear %3, %up, %sizes {alignment = 16 : i64} : tensor<32x64xbf16>, tensor<4x64x64xbf16>, tensor<4xi32> -> tensor<32x64xbf16>
  %5 = te.unpermute %4, %row_of, %entry_of probs %probs : tensor<32x2xf32> : tensor<32x64xbf16>, tensor<64xi32>, tensor<32xi32> -> tensor<32x64xbf16>
  %6 = te.linear %5, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  return %6 : tensor<32x64xbf16>
}

// -----

// Rows of a batch in groups of a fixed size. A program that says itself which tokens are used is not changed.
// CHECK-LABEL: func.func @groups
// CHECK: %[[ZERO:.*]] = te.zero_unused %arg0, %arg1
// CHECK: %[[H:.*]] = te.grouped_linear %[[ZERO]], %arg2, %arg3 {
// CHECK: %[[Y:.*]] = te.grouped_linear %[[H]], %arg2, %arg3 bias %arg4
// CHECK: %[[READ:.*]] = te.zero_unused %[[Y]], %arg1
// CHECK: te.grouped_linear %[[READ]], %arg2, %arg3
// CHECK: te.permute %{{.*}}, %arg5 used %arg6
// CHECK-NOT: te.zero_unused
func.func @groups(%x: tensor<32x64xbf16>, %used: tensor<32xf32>, %w: tensor<2x64x64xbf16>, %sizes: tensor<2xi32>, %bias: tensor<2x64xbf16>,
                  %ids: tensor<32x1xi32>, %other: tensor<32xf32>) -> tensor<64x64xbf16> attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  %0 = te.zero_unused %x, %used : tensor<32x64xbf16>, tensor<32xf32>
  %1 = te.grouped_linear %0, %w, %sizes {alignment = 16 : i64} : tensor<32x64xbf16>, tensor<2x64x64xbf16>, tensor<2xi32> -> tensor<32x64xbf16>
  %2 = te.grouped_linear %1, %w, %sizes bias %bias : tensor<2x64xbf16> {alignment = 16 : i64}
    : tensor<32x64xbf16>, tensor<2x64x64xbf16>, tensor<2xi32> -> tensor<32x64xbf16>
  %3 = te.grouped_linear %2, %w, %sizes {alignment = 16 : i64} : tensor<32x64xbf16>, tensor<2x64x64xbf16>, tensor<2xi32> -> tensor<32x64xbf16>
  %rows, %s, %row_of, %entry_of, %dropped = te.permute %3, %ids used %other : tensor<32xf32> {alignment = 16 : i64}
    : tensor<32x64xbf16>, tensor<32x1xi32> -> tensor<64x64xbf16>, tensor<2xi32>, tensor<32xi32>, tensor<64xi32>
  return %rows : tensor<64x64xbf16>
}

// -----

// A sum over rows adds zeros, whatever the rank: the mean of squared logarithms of sums, and of softmaxes of sequences. A sum over
// columns needs none.
// CHECK-LABEL: func.func @sums
// CHECK: te.zero_unused %arg0, %arg1
// CHECK: %[[LSE:.*]] = math.log
// CHECK: %[[COLUMN:.*]] = tensor.expand_shape %[[LSE]] {{\[\[}}0, 1]] output_shape [32, 1]
// CHECK: %[[ZERO:.*]] = te.zero_unused %[[COLUMN]], %arg1 : tensor<32x1xf32>
// CHECK: %[[TERMS:.*]] = tensor.collapse_shape %[[ZERO]] {{\[\[}}0, 1]] : tensor<32x1xf32> into tensor<32xf32>
// CHECK: linalg.reduce { arith.addf } ins(%[[TERMS]] : tensor<32xf32>)
// CHECK: %[[E:.*]] = math.exp %{{.*}} : tensor<2x16x4xf32>
// CHECK: %[[ROWS:.*]] = tensor.collapse_shape %[[E]] {{\[\[}}0, 1], [2]]
// CHECK: %[[ZEROS:.*]] = te.zero_unused %[[ROWS]], %arg1 : tensor<32x4xf32>
// CHECK: %[[BATCH:.*]] = tensor.expand_shape %[[ZEROS]] {{\[\[}}0, 1], [2]]
// CHECK: linalg.reduce { arith.addf } ins(%[[BATCH]] : tensor<2x16x4xf32>)
// CHECK-NOT: te.zero_unused
func.func @sums(%x: tensor<32x4xf32>, %used: tensor<32xf32>) -> (tensor<f32>, tensor<4xf32>, tensor<4xf32>) {
  %none = arith.constant dense<0.0> : tensor<f32>
  %zeros = arith.constant dense<0.0> : tensor<4xf32>
  %rows = arith.constant dense<0.0> : tensor<32xf32>
  %0 = te.zero_unused %x, %used : tensor<32x4xf32>, tensor<32xf32>
  %1 = math.exp %0 : tensor<32x4xf32>
  %2 = linalg.reduce { arith.addf } ins(%1 : tensor<32x4xf32>) outs(%rows : tensor<32xf32>) dimensions = [1]
  %3 = math.log %2 : tensor<32xf32>
  %4 = linalg.reduce { arith.addf } ins(%3 : tensor<32xf32>) outs(%none : tensor<f32>) dimensions = [0]
  %5 = tensor.expand_shape %0 [[0, 1], [2]] output_shape [2, 16, 4] : tensor<32x4xf32> into tensor<2x16x4xf32>
  %6 = math.exp %5 : tensor<2x16x4xf32>
  %7 = linalg.reduce { arith.addf } ins(%6 : tensor<2x16x4xf32>) outs(%zeros : tensor<4xf32>) dimensions = [0, 1]
  %8 = linalg.reduce { arith.addf } ins(%0 : tensor<32x4xf32>) outs(%zeros : tensor<4xf32>) dimensions = [0]
  return %4, %7, %8 : tensor<f32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A maximum over rows is not changed: zeros may be larger.
// CHECK-LABEL: func.func @maximum
// CHECK: te.zero_unused %arg0, %arg1
// CHECK-NOT: te.zero_unused
func.func @maximum(%x: tensor<32x4xf32>, %used: tensor<32xf32>) -> tensor<4xf32> {
  %lowest = arith.constant dense<0xFF800000> : tensor<4xf32>
  %0 = te.zero_unused %x, %used : tensor<32x4xf32>, tensor<32xf32>
  %1 = math.exp %0 : tensor<32x4xf32>
  %2 = linalg.reduce { arith.maximumf } ins(%1 : tensor<32x4xf32>) outs(%lowest : tensor<4xf32>) dimensions = [0]
  return %2 : tensor<4xf32>
}

// -----

// Columns that a sum over rows leaves are no rows, even if there are as many.
// CHECK-LABEL: func.func @square
// CHECK: te.zero_unused %arg0
// CHECK-NOT: te.zero_unused
func.func @square(%x: tensor<4x4xf32>, %used: tensor<4xf32>) -> tensor<f32> {
  %none = arith.constant dense<0.0> : tensor<f32>
  %zeros = arith.constant dense<0.0> : tensor<4xf32>
  %0 = te.zero_unused %x, %used : tensor<4x4xf32>, tensor<4xf32>
  %1 = linalg.reduce { arith.addf } ins(%0 : tensor<4x4xf32>) outs(%zeros : tensor<4xf32>) dimensions = [0]
  %2 = math.exp %1 : tensor<4xf32>
  %3 = linalg.reduce { arith.addf } ins(%2 : tensor<4xf32>) outs(%none : tensor<f32>) dimensions = [0]
  return %3 : tensor<f32>
}

// -----

// Attention within other documents leaves other rows at zero.
// CHECK-LABEL: func.func @other_documents
// CHECK: %[[O:.*]] = te.attention
// CHECK: %[[READ:.*]] = te.zero_unused %[[O]]
// CHECK: te.linear %[[READ]]
func.func @other_documents(%x: tensor<32x64xbf16>, %w: tensor<64x64xbf16>, %documents: tensor<4xi32>, %others: tensor<4xi32>) -> tensor<32x64xbf16>
    attributes {te.recipe = #te.recipe<float8_current_scaling>} {
  %used = te.used_rows %documents : tensor<4xi32> -> tensor<32xf32>
  %0 = te.zero_unused %x, %used : tensor<32x64xbf16>, tensor<32xf32>
  %1 = te.attention %0, %0, %0 documents %others : tensor<4xi32> {heads = 2 : i64, kv_heads = 2 : i64, sequence = 32 : i64, causal}
    : tensor<32x64xbf16>, tensor<32x64xbf16>
  %2 = te.linear %1, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  return %2 : tensor<32x64xbf16>
}

// -----

// Columns of zeros are zeros, and columns of other values are not.
// CHECK-LABEL: func.func @columns
// CHECK: te.zero_unused %arg0
// CHECK: %[[ZEROS:.*]] = tensor.extract_slice
// CHECK-NEXT: te.linear %[[ZEROS]]
// CHECK: %[[PART:.*]] = tensor.extract_slice
// CHECK-NEXT: %[[READ:.*]] = te.zero_unused %[[PART]]
// CHECK-NEXT: te.linear %[[READ]]
func.func @columns(%x: tensor<32x64xbf16>, %used: tensor<32xf32>, %w: tensor<64x64xbf16>, %v: tensor<64x32xbf16>, %b: tensor<64xbf16>) -> (tensor<32x64xbf16>, tensor<32x64xbf16>)
    attributes {te.recipe = #te.recipe<float8_current_scaling>} {
  %0 = te.zero_unused %x, %used : tensor<32x64xbf16>, tensor<32xf32>
  %1 = tensor.extract_slice %0[0, 32] [32, 32] [1, 1] : tensor<32x64xbf16> to tensor<32x32xbf16>
  %2 = te.linear %1, %v : tensor<32x32xbf16>, tensor<64x32xbf16> -> tensor<32x64xbf16>
  %3 = te.linear %0, %w bias %b : tensor<64xbf16> : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  %4 = tensor.extract_slice %3[0, 32] [32, 32] [1, 1] : tensor<32x64xbf16> to tensor<32x32xbf16>
  %5 = te.linear %4, %v : tensor<32x32xbf16>, tensor<64x32xbf16> -> tensor<32x64xbf16>
  return %2, %5 : tensor<32x64xbf16>, tensor<32x64xbf16>
}

// -----

// Rows that move are other rows.
// CHECK-LABEL: func.func @moved_rows
// CHECK: te.zero_unused
// CHECK-NOT: te.zero_unused
func.func @moved_rows(%x: tensor<32x64xbf16>, %used: tensor<32xf32>, %w: tensor<64x64xbf16>) -> tensor<16x64xbf16>
    attributes {te.recipe = #te.recipe<float8_current_scaling>} {
  %0 = te.zero_unused %x, %used : tensor<32x64xbf16>, tensor<32xf32>
  %1 = tensor.extract_slice %0[0, 0] [16, 64] [2, 1] : tensor<32x64xbf16> to tensor<16x64xbf16>
  %2 = te.linear %1, %w : tensor<16x64xbf16>, tensor<64x64xbf16> -> tensor<16x64xbf16>
  return %2 : tensor<16x64xbf16>
}
