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

}
