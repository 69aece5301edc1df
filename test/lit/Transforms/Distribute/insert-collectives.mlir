// The ops that replace a parallel layer and its gradients, in every mode.
// RUN: te-opt %s --pass-pipeline="builtin.module(func.func(te-insert-collectives))" | FileCheck %s

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>,
                                #te.group<id = 1, name = "one", axis = "one", size = 1>]} {

// CHECK-LABEL: @column
// CHECK-NOT: te.all
// CHECK: te.linear %{{.*}}, %{{.*}} bias %{{.*}} : tensor<8xbf16> : tensor<16x4xbf16>, tensor<8x4xbf16> -> tensor<16x8xbf16>
// CHECK: %[[DX:.*]] = te.linear_dgrad
// CHECK-NEXT: te.all_reduce %[[DX]] group 0 : tensor<16x4xbf16>
// CHECK-NOT: te.all
// CHECK: te.linear_wgrad
func.func @column(%x: tensor<16x4xbf16>, %w: tensor<8x4xbf16>, %b: tensor<8xbf16>, %dy: tensor<16x8xbf16>)
    -> (tensor<16x8xbf16>, tensor<16x4xbf16>, tensor<8x4xbf16>) {
  %y = te.linear %x, %w bias %b : tensor<8xbf16> parallel <column, group = 0> : tensor<16x4xbf16>, tensor<8x4xbf16> -> tensor<16x8xbf16>
  %dx = te.linear_dgrad %dy, %w parallel <column, group = 0> : tensor<16x8xbf16>, tensor<8x4xbf16> -> tensor<16x4xbf16>
  %dw = te.linear_wgrad %dy, %x parallel <column, group = 0> : tensor<16x8xbf16>, tensor<16x4xbf16> -> tensor<8x4xbf16>
  return %y, %dx, %dw : tensor<16x8xbf16>, tensor<16x4xbf16>, tensor<8x4xbf16>
}

// The new layer has the recipe of the parallel one.
// CHECK-LABEL: @column_sequence
// CHECK: %[[ALL:.*]] = te.all_gather %[[X:.*]] group 0 axis 0 : tensor<4x4xbf16> -> tensor<16x4xbf16>
// CHECK-NEXT: te.linear %[[ALL]], %{{.*}} {te.recipe = #te.recipe<mxfp8_block_scaling>}
// CHECK: %[[DX:.*]] = te.linear_dgrad %{{.*}} -> tensor<16x4xbf16>
// CHECK-NEXT: te.reduce_scatter %[[DX]] group 0 axis 0 : tensor<16x4xbf16> -> tensor<4x4xbf16>
// CHECK: %[[AGAIN:.*]] = te.all_gather %[[X]] group 0 axis 0
// CHECK-NEXT: te.linear_wgrad %{{.*}}, %[[AGAIN]]
func.func @column_sequence(%x: tensor<4x4xbf16>, %w: tensor<8x4xbf16>, %dy: tensor<16x8xbf16>)
    -> (tensor<16x8xbf16>, tensor<4x4xbf16>, tensor<8x4xbf16>) {
  %y = te.linear %x, %w parallel <column, group = 0, sequence> {te.recipe = #te.recipe<mxfp8_block_scaling>} : tensor<4x4xbf16>, tensor<8x4xbf16> -> tensor<16x8xbf16>
  %dx = te.linear_dgrad %dy, %w parallel <column, group = 0, sequence> : tensor<16x8xbf16>, tensor<8x4xbf16> -> tensor<4x4xbf16>
  %dw = te.linear_wgrad %dy, %x parallel <column, group = 0, sequence> : tensor<16x8xbf16>, tensor<4x4xbf16> -> tensor<8x4xbf16>
  return %y, %dx, %dw : tensor<16x8xbf16>, tensor<4x4xbf16>, tensor<8x4xbf16>
}

// The bias is added once, after the sum over the ranks.
// CHECK-LABEL: @row(
// CHECK: %[[Y:.*]] = te.linear %{{.*}}, %{{.*}} : tensor<16x4xbf16>
// CHECK-NEXT: %[[SUM:.*]] = te.all_reduce %[[Y]] group 0 : tensor<16x8xbf16>
// CHECK-NEXT: te.bias_add %[[SUM]], %{{.*}} : tensor<16x8xbf16>, tensor<8xbf16>
// CHECK-NOT: te.all
// CHECK: te.linear_dgrad
// CHECK: te.linear_wgrad
func.func @row(%x: tensor<16x4xbf16>, %w: tensor<8x4xbf16>, %b: tensor<8xbf16>, %dy: tensor<16x8xbf16>)
    -> (tensor<16x8xbf16>, tensor<16x4xbf16>, tensor<8x4xbf16>) {
  %y = te.linear %x, %w bias %b : tensor<8xbf16> parallel <row, group = 0> : tensor<16x4xbf16>, tensor<8x4xbf16> -> tensor<16x8xbf16>
  %dx = te.linear_dgrad %dy, %w parallel <row, group = 0> : tensor<16x8xbf16>, tensor<8x4xbf16> -> tensor<16x4xbf16>
  %dw = te.linear_wgrad %dy, %x parallel <row, group = 0> : tensor<16x8xbf16>, tensor<16x4xbf16> -> tensor<8x4xbf16>
  return %y, %dx, %dw : tensor<16x8xbf16>, tensor<16x4xbf16>, tensor<8x4xbf16>
}

// CHECK-LABEL: @row_sequence
// CHECK: %[[Y:.*]] = te.linear %{{.*}} -> tensor<16x8xbf16>
// CHECK-NEXT: %[[PART:.*]] = te.reduce_scatter %[[Y]] group 0 axis 0 : tensor<16x8xbf16> -> tensor<4x8xbf16>
// CHECK-NEXT: te.bias_add %[[PART]]
// CHECK: %[[DY:.*]] = te.all_gather %{{.*}} group 0 axis 0 : tensor<4x8xbf16> -> tensor<16x8xbf16>
// CHECK-NEXT: te.linear_dgrad %[[DY]]
// CHECK: te.all_gather
// CHECK-NEXT: te.linear_wgrad
func.func @row_sequence(%x: tensor<16x4xbf16>, %w: tensor<8x4xbf16>, %b: tensor<8xbf16>, %dy: tensor<4x8xbf16>)
    -> (tensor<4x8xbf16>, tensor<16x4xbf16>, tensor<8x4xbf16>) {
  %y = te.linear %x, %w bias %b : tensor<8xbf16> parallel <row, group = 0, sequence> : tensor<16x4xbf16>, tensor<8x4xbf16> -> tensor<4x8xbf16>
  %dx = te.linear_dgrad %dy, %w parallel <row, group = 0, sequence> : tensor<4x8xbf16>, tensor<8x4xbf16> -> tensor<16x4xbf16>
  %dw = te.linear_wgrad %dy, %x parallel <row, group = 0, sequence> : tensor<4x8xbf16>, tensor<16x4xbf16> -> tensor<8x4xbf16>
  return %y, %dx, %dw : tensor<4x8xbf16>, tensor<16x4xbf16>, tensor<8x4xbf16>
}

// A group of one rank needs no collectives.
// CHECK-LABEL: @one_rank
// CHECK-NOT: te.reduce_scatter
// CHECK: te.linear %{{.*}}, %{{.*}} bias %{{.*}} : tensor<8xbf16> : tensor<16x4xbf16>
// CHECK-NEXT: return
func.func @one_rank(%x: tensor<16x4xbf16>, %w: tensor<8x4xbf16>, %b: tensor<8xbf16>) -> tensor<16x8xbf16> {
  %y = te.linear %x, %w bias %b : tensor<8xbf16> parallel <row, group = 1, sequence> : tensor<16x4xbf16>, tensor<8x4xbf16> -> tensor<16x8xbf16>
  return %y : tensor<16x8xbf16>
}

// A sum that is widened afterwards is computed in f32, and so is a GEMM that only the sum reads.
// CHECK-LABEL: @widened
// CHECK: %[[DW:.*]] = te.linear_wgrad {{.*}} -> tensor<8x4xf32>
// CHECK-NEXT: te.all_reduce %[[DW]] group 0 : tensor<8x4xf32>
// CHECK-NOT: arith.extf
// CHECK: return
func.func @widened(%x: tensor<16x4xbf16>, %dy: tensor<16x8xbf16>) -> tensor<8x4xf32> {
  %dw = te.linear_wgrad %dy, %x : tensor<16x8xbf16>, tensor<16x4xbf16> -> tensor<8x4xbf16>
  %sum = te.all_reduce %dw group 0 : tensor<8x4xbf16>
  %wide = arith.extf %sum : tensor<8x4xbf16> to tensor<8x4xf32>
  return %wide : tensor<8x4xf32>
}

// A GEMM that accumulates, or that has another reader, keeps its type.
// CHECK-LABEL: @widened_accumulates
// CHECK: %[[DW:.*]] = te.linear_wgrad {{.*}} accumulate {{.*}} -> tensor<8x4xbf16>
// CHECK: %[[WIDE:.*]] = arith.extf %[[DW]]
// CHECK: te.all_reduce %[[WIDE]] group 0 : tensor<8x4xf32>
func.func @widened_accumulates(%x: tensor<16x4xbf16>, %dy: tensor<16x8xbf16>, %before: tensor<8x4xbf16>) -> tensor<8x4xf32> {
  %dw = te.linear_wgrad %dy, %x accumulate %before : tensor<8x4xbf16> : tensor<16x8xbf16>, tensor<16x4xbf16> -> tensor<8x4xbf16>
  %sum = te.all_reduce %dw group 0 : tensor<8x4xbf16>
  %wide = arith.extf %sum : tensor<8x4xbf16> to tensor<8x4xf32>
  return %wide : tensor<8x4xf32>
}

// CHECK-LABEL: @widened_read_twice
// CHECK: %[[DW:.*]] = te.linear_wgrad {{.*}} -> tensor<8x4xbf16>
// CHECK: %[[WIDE:.*]] = arith.extf %[[DW]]
// CHECK: te.all_reduce %[[WIDE]] group 0 : tensor<8x4xf32>
func.func @widened_read_twice(%x: tensor<16x4xbf16>, %dy: tensor<16x8xbf16>) -> (tensor<8x4xf32>, tensor<8x4xbf16>) {
  %dw = te.linear_wgrad %dy, %x : tensor<16x8xbf16>, tensor<16x4xbf16> -> tensor<8x4xbf16>
  %sum = te.all_reduce %dw group 0 : tensor<8x4xbf16>
  %wide = arith.extf %sum : tensor<8x4xbf16> to tensor<8x4xf32>
  return %wide, %dw : tensor<8x4xf32>, tensor<8x4xbf16>
}

// CHECK-LABEL: @widened_view_read_twice
// CHECK: %[[DW:.*]] = te.linear_wgrad {{.*}} -> tensor<8x4xbf16>
// CHECK: %[[FLAT:.*]] = tensor.collapse_shape %[[DW]]
// CHECK: %[[WIDE:.*]] = arith.extf %[[FLAT]]
// CHECK: te.all_reduce %[[WIDE]] group 0 : tensor<32xf32>
func.func @widened_view_read_twice(%x: tensor<16x4xbf16>, %dy: tensor<16x8xbf16>) -> (tensor<32xf32>, tensor<32xbf16>) {
  %dw = te.linear_wgrad %dy, %x : tensor<16x8xbf16>, tensor<16x4xbf16> -> tensor<8x4xbf16>
  %flat = tensor.collapse_shape %dw [[0, 1]] : tensor<8x4xbf16> into tensor<32xbf16>
  %sum = te.all_reduce %flat group 0 : tensor<32xbf16>
  %wide = arith.extf %sum : tensor<32xbf16> to tensor<32xf32>
  return %wide, %flat : tensor<32xf32>, tensor<32xbf16>
}

// A sum with another reader is rounded.
// CHECK-LABEL: @rounded_sum
// CHECK: te.all_reduce %{{.*}} group 0 : tensor<8x4xbf16>
// CHECK: arith.extf
func.func @rounded_sum(%x: tensor<8x4xbf16>) -> (tensor<8x4xf32>, tensor<8x4xbf16>) {
  %sum = te.all_reduce %x group 0 : tensor<8x4xbf16>
  %wide = arith.extf %sum : tensor<8x4xbf16> to tensor<8x4xf32>
  return %wide, %sum : tensor<8x4xf32>, tensor<8x4xbf16>
}

// A group of one rank gathers nothing.
// CHECK-LABEL: @one_rank_of_sequences
// CHECK-NOT: te.all_gather
// CHECK: te.linear_wgrad
// CHECK-NOT: te.all_gather
// CHECK: te.linear_wgrad
func.func @one_rank_of_sequences(%x: tensor<16x4xbf16>, %dy: tensor<16x8xbf16>) -> (tensor<8x4xbf16>, tensor<8x4xbf16>) {
  %column = te.linear_wgrad %dy, %x parallel <column, group = 1, sequence> : tensor<16x8xbf16>, tensor<16x4xbf16> -> tensor<8x4xbf16>
  %row = te.linear_wgrad %dy, %x parallel <row, group = 1, sequence> : tensor<16x8xbf16>, tensor<16x4xbf16> -> tensor<8x4xbf16>
  return %column, %row : tensor<8x4xbf16>, tensor<8x4xbf16>
}
}
