// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts,cse,te-materialize-transposes{policy=on-demand}))' | FileCheck %s --check-prefix=DEMAND
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts,cse,te-materialize-transposes{policy=eager}))' | FileCheck %s --check-prefix=EAGER
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts,cse,te-materialize-transposes{target=sm_100}))' --remarks-filter='.*' 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// REMARK-DAG: [Passed] weight-transpose{{.*}}columns of 'w' are made right before their use
// REMARK-DAG: [Missed] weight-transpose{{.*}}columns of 'v' are made although sm_100 could contract the rows

// The row usage, which the forward needs anyway, is what is held.
// DEMAND-LABEL: func.func @block_weight
// DEMAND: %[[ROW:.*]] = te.quantize %{{.*}} : {{.*}}block_128x128, pow2, contract = 1>
// DEMAND: %[[XC:.*]] = te.quantize %{{.*}} : {{.*}}block_1x128, pow2, contract = 0>
// DEMAND: te.scaled_matmul %{{.*}}, %[[ROW]]
// DEMAND: %[[HELD:.*]] = te.residual %[[ROW]] "w"
// DEMAND-NEXT: te.residual %[[XC]] "x"
// DEMAND-NEXT: %[[COL:.*]] = te.transpose %[[HELD]]
// DEMAND-NEXT: te.scaled_matmul %{{.*}}, %[[COL]]
// DEMAND-NOT: te.transpose
// EAGER-LABEL: func.func @block_weight
// EAGER-NOT: te.transpose
// EAGER: %[[COL:.*]] = te.quantize %{{.*}} : {{.*}}block_128x128, pow2, contract = 0>
// EAGER: %[[HELD:.*]] = te.residual %[[COL]] "w"
// EAGER: te.scaled_matmul %{{.*}}, %[[HELD]]
func.func @block_weight(%x: tensor<32x64xbf16> {te.name = "x"}, %w: tensor<64x64xbf16> {te.name = "w", te.weight}, %dy: tensor<32x64xbf16>)
    -> (tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<64x64xbf16>)
    attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  %y = te.linear %x, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  %dx = te.linear_dgrad %dy, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  %dw = te.linear_wgrad %dy, %x : tensor<32x64xbf16>, tensor<32x64xbf16> -> tensor<64x64xbf16>
  return %y, %dx, %dw : tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<64x64xbf16>
}

// Per-tensor columns follow from rows too; the residual keeps its name.
// DEMAND-LABEL: func.func @per_tensor_rounded_weight
// DEMAND: %[[ROW:.*]] = te.quantize %{{.*}} scale %{{.*}} : {{.*}} -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
// DEMAND: %[[HELD:.*]] = te.residual %[[ROW]] "linear.w"
// DEMAND: %[[COL:.*]] = te.transpose %[[HELD]]
// DEMAND-NEXT: te.scaled_matmul %{{.*}}, %[[COL]]
func.func @per_tensor_rounded_weight(%x: tensor<32x64xbf16>, %v: tensor<64x64xf32> {te.name = "v", te.weight}, %dy: tensor<32x64xbf16>)
    -> (tensor<32x64xbf16>, tensor<32x64xbf16>)
    attributes {te.recipe = #te.recipe<float8_current_scaling>} {
  %w = arith.truncf %v : tensor<64x64xf32> to tensor<64x64xbf16>
  %y = te.linear %x, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  %r = te.residual %w "linear.w" : tensor<64x64xbf16>
  %dx = te.linear_dgrad %dy, %r : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  return %y, %dx : tensor<32x64xbf16>, tensor<32x64xbf16>
}

// Columns of 1x128 blocks are another rounding: no transpose makes them.
// DEMAND-LABEL: func.func @rows_of_1x128_do_not_transpose
// DEMAND-NOT: te.transpose
// DEMAND: te.residual %{{.*}} "w" : !te.scaled<64x64xf8E4M3FN, block_1x128, pow2, contract = 0>
func.func @rows_of_1x128_do_not_transpose(%x: tensor<32x64xbf16>, %w: tensor<64x64xbf16> {te.name = "w", te.weight}, %dy: tensor<32x64xbf16>)
    -> (tensor<32x64xbf16>, tensor<32x64xbf16>)
    attributes {te.recipe = #te.recipe<float8_block_scaling, {w_block_dim = 1}>} {
  %y = te.linear %x, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  %dx = te.linear_dgrad %dy, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  return %y, %dx : tensor<32x64xbf16>, tensor<32x64xbf16>
}

// An argument that is no weight keeps both casts.
// DEMAND-LABEL: func.func @activations_do_not_transpose
// DEMAND-NOT: te.transpose
func.func @activations_do_not_transpose(%x: tensor<32x64xbf16>, %w: tensor<64x64xbf16>, %dy: tensor<32x64xbf16>)
    -> (tensor<32x64xbf16>, tensor<32x64xbf16>)
    attributes {te.recipe = #te.recipe<float8_current_scaling>} {
  %y = te.linear %x, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  %dx = te.linear_dgrad %dy, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  return %y, %dx : tensor<32x64xbf16>, tensor<32x64xbf16>
}
