// Casts of an exchanged tensor are exchanged in its place, if they are its only readers, if no block
// has rows that travel to different ranks, and if they have fewer bytes than the tensor together.
// RUN: te-opt %s --te-cast-before-exchange --split-input-file | FileCheck %s
// RUN: te-opt %s --te-cast-before-exchange --split-input-file --remarks-filter=te-cast-before-exchange -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Rows of eight experts are exchanged for the rows of four.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: (%[[X:.*]]: tensor<512x256xbf16>
// CHECK: %[[Q:.*]] = te.quantize %[[X]] {amax_epsilon = 1.000000e-03 : f32} : tensor<512x256xbf16> -> !te.scaled<512x256xf8E4M3FN, block_1x128, pow2, contract = 1>
// CHECK: %[[Y:.*]] = te.all_to_all %[[Q]] group 0 split 0 concat 1 : !te.scaled<512x256xf8E4M3FN, block_1x128, pow2, contract = 1> -> !te.scaled<512x256xf8E4M3FN, block_1x128, pow2, contract = 1, groups = 4>
// CHECK-NEXT: return %[[Y]]
// REMARK: [Passed] exchange-precision | {{.*}} | Remark="'arg0' is cast before it is exchanged, 135168 bytes instead of 262144"
module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 2>]} {
  func.func @rows(%x: tensor<512x256xbf16>) -> !te.scaled<512x256xf8E4M3FN, block_1x128, pow2, contract = 1, groups = 4> {
    %sizes = arith.constant dense<128> : tensor<4xi32>
    %e = tensor.expand_shape %x [[0, 1], [2]] output_shape [8, 64, 256] : tensor<512x256xbf16> into tensor<8x64x256xbf16>
    %y = te.all_to_all %e group 0 split 0 concat 1 : tensor<8x64x256xbf16> -> tensor<4x128x256xbf16>
    %m = tensor.collapse_shape %y [[0, 1], [2]] : tensor<4x128x256xbf16> into tensor<512x256xbf16>
    %q = te.grouped_quantize %m sizes %sizes {alignment = 128 : i64, amax_epsilon = 1.0e-3 : f32} : tensor<512x256xbf16> -> !te.scaled<512x256xf8E4M3FN, block_1x128, pow2, contract = 1, groups = 4>
    return %q : !te.scaled<512x256xf8E4M3FN, block_1x128, pow2, contract = 1, groups = 4>
  }
}

// -----

// Both usages in FP8 have more bytes than bf16, but fewer than f32. Columns are cast if a rank has whole blocks of rows.
// CHECK-LABEL: func.func @both
// CHECK: te.all_to_all %{{.*}} : tensor<8x128x256xbf16>
// REMARK: [Missed] exchange-precision | {{.*}} | Reason="its casts together have 540672 bytes", Remark="'arg0' is exchanged in high precision, 524288 bytes"
// CHECK-LABEL: func.func @both_of_f32
// CHECK: %[[Q:.*]]:2 = te.quantize
// CHECK: te.all_to_all %[[Q]]#0 group 0 split 0 concat 1
// CHECK: te.all_to_all %[[Q]]#1 group 0 split 0 concat 1
// REMARK: [Passed] exchange-precision | {{.*}} 540672 bytes instead of 1048576
// CHECK-LABEL: func.func @cut_blocks
// CHECK: te.all_to_all %{{.*}} : tensor<8x64x256xf32>
// REMARK: [Missed] exchange-precision | {{.*}} to be a multiple of 128, but got 64
module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 2>]} {
  func.func @both(%x: tensor<8x128x256xbf16>) -> (!te.scaled<1024x256xf8E4M3FN, block_1x128, contract = 1, groups = 4>, !te.scaled<1024x256xf8E4M3FN, block_1x128, contract = 0, groups = 4>) {
    %sizes = arith.constant dense<256> : tensor<4xi32>
    %y = te.all_to_all %x group 0 split 0 concat 1 : tensor<8x128x256xbf16> -> tensor<4x256x256xbf16>
    %m = tensor.collapse_shape %y [[0, 1], [2]] : tensor<4x256x256xbf16> into tensor<1024x256xbf16>
    %q = te.grouped_quantize %m sizes %sizes {alignment = 128 : i64} : tensor<1024x256xbf16> -> !te.scaled<1024x256xf8E4M3FN, block_1x128, contract = 1, groups = 4>
    %c = te.grouped_quantize %m sizes %sizes {alignment = 128 : i64} : tensor<1024x256xbf16> -> !te.scaled<1024x256xf8E4M3FN, block_1x128, contract = 0, groups = 4>
    return %q, %c : !te.scaled<1024x256xf8E4M3FN, block_1x128, contract = 1, groups = 4>, !te.scaled<1024x256xf8E4M3FN, block_1x128, contract = 0, groups = 4>
  }
  func.func @both_of_f32(%x: tensor<8x128x256xf32>) -> (!te.scaled<1024x256xf8E4M3FN, block_1x128, contract = 1, groups = 4>, !te.scaled<1024x256xf8E4M3FN, block_1x128, contract = 0, groups = 4>) {
    %sizes = arith.constant dense<256> : tensor<4xi32>
    %y = te.all_to_all %x group 0 split 0 concat 1 : tensor<8x128x256xf32> -> tensor<4x256x256xf32>
    %m = tensor.collapse_shape %y [[0, 1], [2]] : tensor<4x256x256xf32> into tensor<1024x256xf32>
    %q, %c = te.grouped_quantize %m sizes %sizes {alignment = 128 : i64} : tensor<1024x256xf32> -> !te.scaled<1024x256xf8E4M3FN, block_1x128, contract = 1, groups = 4>, !te.scaled<1024x256xf8E4M3FN, block_1x128, contract = 0, groups = 4>
    return %q, %c : !te.scaled<1024x256xf8E4M3FN, block_1x128, contract = 1, groups = 4>, !te.scaled<1024x256xf8E4M3FN, block_1x128, contract = 0, groups = 4>
  }
  func.func @cut_blocks(%x: tensor<8x64x256xf32>) -> !te.scaled<512x256xf8E4M3FN, block_1x128, contract = 0, groups = 4> {
    %sizes = arith.constant dense<128> : tensor<4xi32>
    %y = te.all_to_all %x group 0 split 0 concat 1 : tensor<8x64x256xf32> -> tensor<4x128x256xf32>
    %m = tensor.collapse_shape %y [[0, 1], [2]] : tensor<4x128x256xf32> into tensor<512x256xf32>
    %c = te.grouped_quantize %m sizes %sizes {alignment = 128 : i64} : tensor<512x256xf32> -> !te.scaled<512x256xf8E4M3FN, block_1x128, contract = 0, groups = 4>
    return %c : !te.scaled<512x256xf8E4M3FN, block_1x128, contract = 0, groups = 4>
  }
}

// -----

// A matrix is one run of rows for each rank; amaxes of rows are measured before the exchange. A scale of all rows and other readers prevent the change.
// CHECK-LABEL: func.func @matrix
// CHECK: te.quantize %{{.*}} -> !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 0>
// CHECK: te.all_to_all %{{.*}} group 0 split 0 concat 0 : !te.scaled
// CHECK-LABEL: func.func @amaxes_of_rows
// CHECK: %[[A:.*]] = te.amax_rows %arg0
// CHECK: %[[Q:.*]] = te.quantize %arg0 amax %[[A]]
// CHECK: te.all_to_all %[[Q]] group 0 split 0 concat 0
// CHECK-NOT: te.amax_rows
// CHECK-LABEL: func.func @one_scale
// CHECK: te.all_to_all %{{.*}} : tensor<64x96xbf16>
// REMARK: Reason="a scale of 'per_tensor' depends on rows of all ranks"
// CHECK-LABEL: func.func @read_itself
// CHECK: te.all_to_all %{{.*}} : tensor<64x96xbf16>
// REMARK: Reason="'te.activation' reads it"
// CHECK-LABEL: func.func @columns
// CHECK: te.all_to_all %{{.*}} : tensor<64x96xbf16>
// REMARK: Reason="it is not a matrix of rows"
// The cast keeps an amax that is given, or that is of other rows.
// REMARK: Reason="a cast reads the amax of another tensor"
// REMARK: Reason="a cast reads the amax of another tensor"
module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 2>]} {
  func.func @matrix(%x: tensor<64x96xbf16>) -> !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 0> {
    %y = te.all_to_all %x group 0 split 0 concat 0 : tensor<64x96xbf16> -> tensor<64x96xbf16>
    %q = te.quantize %y : tensor<64x96xbf16> -> !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 0>
    return %q : !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 0>
  }
  func.func @amaxes_of_rows(%x: tensor<64x96xbf16>) -> !te.scaled<64x96xf4E2M1FN, nv_1x16, row_scaled, contract = 1> {
    %y = te.all_to_all %x group 0 split 0 concat 0 : tensor<64x96xbf16> -> tensor<64x96xbf16>
    %a = te.amax_rows %y : tensor<64x96xbf16> -> tensor<64xf32>
    %q = te.quantize %y amax %a : tensor<64x96xbf16> -> !te.scaled<64x96xf4E2M1FN, nv_1x16, row_scaled, contract = 1>
    return %q : !te.scaled<64x96xf4E2M1FN, nv_1x16, row_scaled, contract = 1>
  }
  func.func @one_scale(%x: tensor<64x96xbf16>, %s: tensor<f32>) -> !te.scaled<64x96xf8E4M3FN, per_tensor, contract = 1> {
    %y = te.all_to_all %x group 0 split 0 concat 0 : tensor<64x96xbf16> -> tensor<64x96xbf16>
    %q = te.quantize %y scale %s : tensor<64x96xbf16> -> !te.scaled<64x96xf8E4M3FN, per_tensor, contract = 1>
    return %q : !te.scaled<64x96xf8E4M3FN, per_tensor, contract = 1>
  }
  func.func @read_itself(%x: tensor<64x96xbf16>) -> (tensor<64x96xbf16>, !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 1>) {
    %y = te.all_to_all %x group 0 split 0 concat 0 : tensor<64x96xbf16> -> tensor<64x96xbf16>
    %a = te.activation <relu> %y : tensor<64x96xbf16> -> tensor<64x96xbf16>
    %q = te.quantize %y : tensor<64x96xbf16> -> !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 1>
    return %a, %q : tensor<64x96xbf16>, !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 1>
  }
  func.func @columns(%x: tensor<64x96xbf16>) -> !te.scaled<128x48xf8E4M3FN, block_1x128, contract = 1> {
    %y = te.all_to_all %x group 0 split 1 concat 0 : tensor<64x96xbf16> -> tensor<128x48xbf16>
    %q = te.quantize %y : tensor<128x48xbf16> -> !te.scaled<128x48xf8E4M3FN, block_1x128, contract = 1>
    return %q : !te.scaled<128x48xf8E4M3FN, block_1x128, contract = 1>
  }
  func.func @amaxes_of_other_rows(%x: tensor<64x96xbf16>, %z: tensor<64x96xbf16>) -> !te.scaled<64x96xf4E2M1FN, nv_1x16, row_scaled, contract = 1> {
    %y = te.all_to_all %x group 0 split 0 concat 0 : tensor<64x96xbf16> -> tensor<64x96xbf16>
    %a = te.amax_rows %z : tensor<64x96xbf16> -> tensor<64xf32>
    %q = te.quantize %y amax %a : tensor<64x96xbf16> -> !te.scaled<64x96xf4E2M1FN, nv_1x16, row_scaled, contract = 1>
    return %q : !te.scaled<64x96xf4E2M1FN, nv_1x16, row_scaled, contract = 1>
  }
  func.func @amaxes_given(%x: tensor<64x96xbf16>, %a: tensor<64xf32>) -> !te.scaled<64x96xf4E2M1FN, nv_1x16, row_scaled, contract = 1> {
    %y = te.all_to_all %x group 0 split 0 concat 0 : tensor<64x96xbf16> -> tensor<64x96xbf16>
    %q = te.quantize %y amax %a : tensor<64x96xbf16> -> !te.scaled<64x96xf4E2M1FN, nv_1x16, row_scaled, contract = 1>
    return %q : !te.scaled<64x96xf4E2M1FN, nv_1x16, row_scaled, contract = 1>
  }
}

// -----

// What is sent to a rank, and received from it, may be one run of rows without groups.
// CHECK-LABEL: func.func @one_group_received
// CHECK: te.quantize %{{.*}} -> !te.scaled<128x96xf8E4M3FN, mx_1x32, contract = 1>
// CHECK: te.all_to_all %{{.*}} group 0 split 0 concat 0 : !te.scaled
// CHECK-LABEL: func.func @one_group_sent
// CHECK: te.quantize %{{.*}} -> !te.scaled<128x96xf8E4M3FN, mx_1x32, contract = 1>
// CHECK: te.all_to_all %{{.*}} group 0 split 0 concat 0 : !te.scaled
module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 2>]} {
  func.func @one_group_received(%x: tensor<2x64x96xbf16>) -> !te.scaled<128x96xf8E4M3FN, mx_1x32, contract = 1> {
    %y = te.all_to_all %x group 0 split 0 concat 1 : tensor<2x64x96xbf16> -> tensor<1x128x96xbf16>
    %m = tensor.collapse_shape %y [[0, 1], [2]] : tensor<1x128x96xbf16> into tensor<128x96xbf16>
    %q = te.quantize %m : tensor<128x96xbf16> -> !te.scaled<128x96xf8E4M3FN, mx_1x32, contract = 1>
    return %q : !te.scaled<128x96xf8E4M3FN, mx_1x32, contract = 1>
  }
  func.func @one_group_sent(%x: tensor<1x128x96xbf16>) -> !te.scaled<128x96xf8E4M3FN, mx_1x32, contract = 1> {
    %y = te.all_to_all %x group 0 split 1 concat 0 : tensor<1x128x96xbf16> -> tensor<2x64x96xbf16>
    %m = tensor.collapse_shape %y [[0, 1], [2]] : tensor<2x64x96xbf16> into tensor<128x96xbf16>
    %q = te.quantize %m : tensor<128x96xbf16> -> !te.scaled<128x96xf8E4M3FN, mx_1x32, contract = 1>
    return %q : !te.scaled<128x96xf8E4M3FN, mx_1x32, contract = 1>
  }
}

// -----

// Casts that other rows, other groups or an earlier step decide about stay where they are.
// REMARK: Reason="4 groups are received, but a cast has 2"
// REMARK: Reason="the exchange has no groups, but a cast has"
// REMARK: Reason="rows of several groups are received, but a cast has none"
// REMARK: Reason="rows of several groups are received, but a cast has none"
// REMARK: Reason="a cast is stochastic or cached, or measures its tensor"
// REMARK: Reason="no cast reads it"
// REMARK: Reason="it is not a matrix of rows"
// REMARK: Reason="it is not a matrix of rows"
// REMARK: Reason="it is not a matrix of rows"
// REMARK: Reason="it is not a matrix of rows"
// REMARK: Reason="'te.amax_rows' reads it"
// REMARK-NOT: Reason
// CHECK-LABEL: func.func @other_groups
// CHECK-NOT: te.all_to_all {{.*}} : !te.scaled
module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 2>, #te.group<id = 1, name = "one", axis = "one", size = 1>]} {
  func.func @other_groups(%x: tensor<8x64x256xbf16>, %sizes: tensor<2xi32>) -> !te.scaled<512x256xf8E4M3FN, block_1x128, pow2, contract = 1, groups = 2> {
    %y = te.all_to_all %x group 0 split 0 concat 1 : tensor<8x64x256xbf16> -> tensor<4x128x256xbf16>
    %m = tensor.collapse_shape %y [[0, 1], [2]] : tensor<4x128x256xbf16> into tensor<512x256xbf16>
    %q = te.grouped_quantize %m sizes %sizes {alignment = 128 : i64} : tensor<512x256xbf16> -> !te.scaled<512x256xf8E4M3FN, block_1x128, pow2, contract = 1, groups = 2>
    return %q : !te.scaled<512x256xf8E4M3FN, block_1x128, pow2, contract = 1, groups = 2>
  }
  func.func @groups_of_cast(%x: tensor<512x256xbf16>, %sizes: tensor<2xi32>) -> !te.scaled<512x256xf8E4M3FN, block_1x128, pow2, contract = 1, groups = 2> {
    %y = te.all_to_all %x group 0 split 0 concat 0 : tensor<512x256xbf16> -> tensor<512x256xbf16>
    %q = te.grouped_quantize %y sizes %sizes {alignment = 128 : i64} : tensor<512x256xbf16> -> !te.scaled<512x256xf8E4M3FN, block_1x128, pow2, contract = 1, groups = 2>
    return %q : !te.scaled<512x256xf8E4M3FN, block_1x128, pow2, contract = 1, groups = 2>
  }
  func.func @groups_received(%x: tensor<4x64x96xbf16>) -> !te.scaled<256x96xf8E4M3FN, mx_1x32, contract = 1> {
    %y = te.all_to_all %x group 0 split 0 concat 1 : tensor<4x64x96xbf16> -> tensor<2x128x96xbf16>
    %m = tensor.collapse_shape %y [[0, 1], [2]] : tensor<2x128x96xbf16> into tensor<256x96xbf16>
    %q = te.quantize %m : tensor<256x96xbf16> -> !te.scaled<256x96xf8E4M3FN, mx_1x32, contract = 1>
    return %q : !te.scaled<256x96xf8E4M3FN, mx_1x32, contract = 1>
  }
  func.func @groups_sent(%x: tensor<2x128x96xbf16>) -> !te.scaled<256x96xf8E4M3FN, mx_1x32, contract = 1> {
    %y = te.all_to_all %x group 0 split 1 concat 0 : tensor<2x128x96xbf16> -> tensor<4x64x96xbf16>
    %m = tensor.collapse_shape %y [[0, 1], [2]] : tensor<4x64x96xbf16> into tensor<256x96xbf16>
    %q = te.quantize %m : tensor<256x96xbf16> -> !te.scaled<256x96xf8E4M3FN, mx_1x32, contract = 1>
    return %q : !te.scaled<256x96xf8E4M3FN, mx_1x32, contract = 1>
  }
  func.func @cached(%x: tensor<64x96xbf16>, %old: !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 1>, %skip: tensor<f32>) -> !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 1> {
    %y = te.all_to_all %x group 0 split 0 concat 0 : tensor<64x96xbf16> -> tensor<64x96xbf16>
    %q = te.quantize %y into %old unless %skip : tensor<64x96xbf16> -> !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 1>
    return %q : !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 1>
  }
  func.func @no_cast(%x: tensor<64x96xbf16>) {
    %y = te.all_to_all %x group 0 split 0 concat 0 : tensor<64x96xbf16> -> tensor<64x96xbf16>
    return
  }
  func.func @read_as_groups_too(%x: tensor<8x64x96xbf16>) -> (tensor<4x128x96xbf16>, !te.scaled<512x96xf8E4M3FN, mx_1x32, contract = 1>) {
    %y = te.all_to_all %x group 0 split 0 concat 1 : tensor<8x64x96xbf16> -> tensor<4x128x96xbf16>
    %m = tensor.collapse_shape %y [[0, 1], [2]] : tensor<4x128x96xbf16> into tensor<512x96xbf16>
    %q = te.quantize %m : tensor<512x96xbf16> -> !te.scaled<512x96xf8E4M3FN, mx_1x32, contract = 1>
    return %y, %q : tensor<4x128x96xbf16>, !te.scaled<512x96xf8E4M3FN, mx_1x32, contract = 1>
  }
  func.func @row_for_each_group(%x: tensor<64x32x32xbf16>) -> !te.scaled<32x2048xf8E4M3FN, mx_1x32, contract = 1> {
    %y = te.all_to_all %x group 0 split 0 concat 1 : tensor<64x32x32xbf16> -> tensor<32x64x32xbf16>
    %m = tensor.collapse_shape %y [[0], [1, 2]] : tensor<32x64x32xbf16> into tensor<32x2048xbf16>
    %q = te.quantize %m : tensor<32x2048xbf16> -> !te.scaled<32x2048xf8E4M3FN, mx_1x32, contract = 1>
    return %q : !te.scaled<32x2048xf8E4M3FN, mx_1x32, contract = 1>
  }
  func.func @columns_sent(%x: tensor<4x64x192xbf16>) -> !te.scaled<512x96xf8E4M3FN, mx_1x32, contract = 1> {
    %y = te.all_to_all %x group 0 split 2 concat 0 : tensor<4x64x192xbf16> -> tensor<8x64x96xbf16>
    %m = tensor.collapse_shape %y [[0, 1], [2]] : tensor<8x64x96xbf16> into tensor<512x96xbf16>
    %q = te.quantize %m : tensor<512x96xbf16> -> !te.scaled<512x96xf8E4M3FN, mx_1x32, contract = 1>
    return %q : !te.scaled<512x96xf8E4M3FN, mx_1x32, contract = 1>
  }
  func.func @columns_received(%x: tensor<8x64x96xbf16>) -> !te.scaled<256x192xf8E4M3FN, mx_1x32, contract = 1> {
    %y = te.all_to_all %x group 0 split 0 concat 2 : tensor<8x64x96xbf16> -> tensor<4x64x192xbf16>
    %m = tensor.collapse_shape %y [[0, 1], [2]] : tensor<4x64x192xbf16> into tensor<256x192xbf16>
    %q = te.quantize %m : tensor<256x192xbf16> -> !te.scaled<256x192xf8E4M3FN, mx_1x32, contract = 1>
    return %q : !te.scaled<256x192xf8E4M3FN, mx_1x32, contract = 1>
  }
  func.func @amaxes_read(%x: tensor<64x96xbf16>) -> (tensor<64xf32>, !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 1>) {
    %y = te.all_to_all %x group 0 split 0 concat 0 : tensor<64x96xbf16> -> tensor<64x96xbf16>
    %a = te.amax_rows %y : tensor<64x96xbf16> -> tensor<64xf32>
    %q = te.quantize %y : tensor<64x96xbf16> -> !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 1>
    return %a, %q : tensor<64xf32>, !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 1>
  }
  func.func @one_rank(%x: tensor<64x96xbf16>) -> !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 1> {
    %y = te.all_to_all %x group 1 split 0 concat 0 : tensor<64x96xbf16> -> tensor<64x96xbf16>
    %q = te.quantize %y : tensor<64x96xbf16> -> !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 1>
    return %q : !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 1>
  }
}

// -----

// Amaxes that nothing reads are computed of no exchanged tensor.
// CHECK-LABEL: func.func @amaxes_unread
// CHECK-NOT: te.amax_rows
// CHECK: te.all_to_all %{{.*}} : !te.scaled
module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 2>]} {
  func.func @amaxes_unread(%x: tensor<64x96xbf16>) -> !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 1> {
    %y = te.all_to_all %x group 0 split 0 concat 0 : tensor<64x96xbf16> -> tensor<64x96xbf16>
    %a = te.amax_rows %y : tensor<64x96xbf16> -> tensor<64xf32>
    %q = te.quantize %y : tensor<64x96xbf16> -> !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 1>
    return %q : !te.scaled<64x96xf8E4M3FN, mx_1x32, contract = 1>
  }
}
