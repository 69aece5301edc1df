// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts,cse,te-materialize-transposes{policy=on-demand rows-are-kept=true}))' | FileCheck %s --check-prefix=DEMAND
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts,cse,te-materialize-transposes))' | FileCheck %s --check-prefix=REPLACED
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts,cse,te-materialize-transposes{policy=eager}))' | FileCheck %s --check-prefix=EAGER
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts,cse,te-materialize-transposes{target=sm_100}))' --remarks-filter='.*' 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts,cse,te-materialize-transposes{policy=cached}))' | FileCheck %s --check-prefix=CACHED
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts,cse,te-materialize-transposes{policy=budget transpose-budget=12152}))' --remarks-filter='.*' 2>%t.remarks | FileCheck %s --check-prefix=BUDGET
// RUN: FileCheck %s --check-prefix=BUDGET-REMARK --input-file=%t.remarks

// REMARK-DAG: [Passed] weight-transpose{{.*}}columns of 'w' are computed in the forward and saved, moving {{[0-9]+}} bytes
// REMARK-DAG: [Missed] weight-transpose{{.*}}columns of 'v' are computed although sm_100 could contract the rows

// Nothing but the forward reads the rows, so the columns are saved in their place.
// REPLACED-LABEL: func.func @block_weight
// REPLACED-NOT: te.transpose
// REPLACED: te.residual %{{.*}} "w" : {{.*}}block_128x128, pow2, contract = 0>

// If the rows stay in memory, they are what is saved.
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

// Per-tensor columns are computed from rows, too. The residual keeps its name.
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

// The columns of 1x128 blocks are rounded differently, so they cannot be transposed from rows.
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

// An argument that is not a weight keeps both casts.
// DEMAND-LABEL: func.func @activations_do_not_transpose
// DEMAND-NOT: te.transpose
func.func @activations_do_not_transpose(%x: tensor<32x64xbf16>, %w: tensor<64x64xbf16>, %dy: tensor<32x64xbf16>)
    -> (tensor<32x64xbf16>, tensor<32x64xbf16>)
    attributes {te.recipe = #te.recipe<float8_current_scaling>} {
  %y = te.linear %x, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  %dx = te.linear_dgrad %dy, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  return %y, %dx : tensor<32x64xbf16>, tensor<32x64xbf16>
}

// Three backwards read the columns of 'w': on demand, each computes them; cached, the first does for all. Residuals and both columns have 6,152
// bytes each; the 6,000 left suffice for those of 'w' from the forward to the first and between the last two, but not beside those of 'v'.
// DEMAND-LABEL: func.func @three_backwards
// DEMAND-COUNT-5: te.transpose
// DEMAND-NOT: te.transpose
// REPLACED-LABEL: func.func @three_backwards
// REPLACED-COUNT-5: te.transpose
// CACHED-LABEL: func.func @three_backwards
// CACHED: %[[COL:.*]] = te.transpose %{{.*}} : <64x64x
// CACHED-NEXT: te.scaled_matmul %{{.*}}, %[[COL]]
// CACHED: %[[V:.*]] = te.transpose %{{.*}} : <32x64x
// CACHED-NEXT: te.scaled_matmul %{{.*}}, %[[V]]
// CACHED: te.scaled_matmul %{{.*}}, %[[COL]]
// CACHED: te.scaled_matmul %{{.*}}, %[[COL]]
// CACHED: te.scaled_matmul %{{.*}}, %[[V]]
// CACHED-NOT: te.transpose
// EAGER-LABEL: func.func @three_backwards
// EAGER-NOT: te.transpose
// BUDGET-LABEL: func.func @three_backwards
// BUDGET: %[[CAST:.*]] = te.quantize %arg1 {{.*}}contract = 0>
// BUDGET: %[[COL0:.*]] = te.residual %[[CAST]]
// BUDGET: te.scaled_matmul %{{.*}}, %[[COL0]]
// BUDGET: te.transpose %{{.*}} : <32x64x
// BUDGET: %[[COL1:.*]] = te.transpose %{{.*}} : <64x64x
// BUDGET-NEXT: te.scaled_matmul %{{.*}}, %[[COL1]]
// BUDGET-NOT: te.transpose %{{.*}} : <64x64x
// BUDGET: te.scaled_matmul %{{.*}}, %[[COL1]]
// BUDGET-REMARK-DAG: of 12152 bytes to save, 6000 are left for columns of weights
// BUDGET-REMARK-DAG: columns of 'w' are computed in the forward and before 1 of their 3 uses, moving 12300 bytes
// BUDGET-REMARK-DAG: columns of 'v' are computed directly before each of their 2 uses, moving 8208 bytes
func.func @three_backwards(%x: tensor<32x64xbf16> {te.name = "x"}, %w: tensor<64x64xbf16> {te.name = "w", te.weight},
                           %v: tensor<32x64xbf16> {te.name = "v", te.weight}, %dy: tensor<32x64xbf16>, %dz: tensor<32x32xbf16>)
    -> (tensor<32x64xbf16>, tensor<32x32xbf16>, tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<32x64xbf16>)
    attributes {te.recipe = #te.recipe<float8_current_scaling>} {
  %y = te.linear %x, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  %z = te.linear %x, %v : tensor<32x64xbf16>, tensor<32x64xbf16> -> tensor<32x32xbf16>
  %d0 = te.linear_dgrad %dy, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  %e0 = te.linear_dgrad %dz, %v : tensor<32x32xbf16>, tensor<32x64xbf16> -> tensor<32x64xbf16>
  %d1 = te.linear_dgrad %d0, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  %d2 = te.linear_dgrad %d1, %w : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
  %dz1 = arith.addf %dz, %z : tensor<32x32xbf16>
  %e1 = te.linear_dgrad %dz1, %v : tensor<32x32xbf16>, tensor<32x64xbf16> -> tensor<32x64xbf16>
  return %y, %z, %d0, %d1, %d2, %e0, %e1 : tensor<32x64xbf16>, tensor<32x32xbf16>, tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<32x64xbf16>
}
