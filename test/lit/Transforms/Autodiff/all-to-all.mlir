// The gradient of an exchange is the opposite exchange. It differs between ranks, so the gradient of a parameter that all ranks have is summed.
// RUN: te-opt %s --te-differentiate | FileCheck %s

module attributes {te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 2>]} {
// CHECK-LABEL: func.func @step
// CHECK: te.all_to_all %{{.*}} group 0 split 0 concat 1 : tensor<4x8xf32> -> tensor<2x16xf32>
// CHECK: %[[BACK:.*]] = te.all_to_all %{{.*}} group 0 split 1 concat 0 : tensor<2x16xf32> -> tensor<4x8xf32>
// CHECK: %[[DX:.*]] = arith.mulf %[[BACK]]
// CHECK: %[[DG:.*]] = arith.mulf %[[BACK]]
// CHECK: %[[ALL:.*]] = te.all_reduce %[[DG]] group 0 : tensor<4x8xf32>
// CHECK: return %{{.*}}, %[[DX]], %[[ALL]]
func.func private @loss(%x: tensor<4x8xf32> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %g: tensor<4x8xf32>) -> tensor<2x16xf32> {
  %h = arith.mulf %x, %g : tensor<4x8xf32>
  %y = te.all_to_all %h group 0 split 0 concat 1 : tensor<4x8xf32> -> tensor<2x16xf32>
  return %y : tensor<2x16xf32>
}
func.func @step(%x: tensor<4x8xf32> {te.sharding = [#te.shard<axis = 0, group = 0>]}, %g: tensor<4x8xf32>,
                %dy: tensor<2x16xf32> {te.sharding = [#te.shard<axis = 0, group = 0>]})
    -> (tensor<2x16xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %r:3 = te.vjp @loss(%x, %g) cotangents(%dy) wrt [0, 1]
    : (tensor<4x8xf32>, tensor<4x8xf32>), (tensor<2x16xf32>) -> (tensor<2x16xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
  return %r#0, %r#1, %r#2 : tensor<2x16xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
}
