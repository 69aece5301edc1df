// One budget for residuals and columns of weights. The step of three micro-batches holds 101024 bytes for its backwards.
// RUN: te-opt %S/../../Numerics/Inputs/micro_batches.mlir --te-training-pipeline="recipe=float8_block_scaling transpose-policy=budget transpose-budget=40000 compile-to=quantize" --remarks-filter='te-(materialize|remat).*' 2>&1 | FileCheck %s --check-prefix=LITTLE
// RUN: te-opt %S/../../Numerics/Inputs/micro_batches.mlir --te-training-pipeline="recipe=float8_block_scaling transpose-policy=budget transpose-budget=1000000 compile-to=quantize" --remarks-filter='te-(materialize|remat).*' 2>&1 | FileCheck %s --check-prefix=MUCH
// RUN: te-opt %S/../../Numerics/Inputs/micro_batches.mlir --te-training-pipeline="recipe=float8_block_scaling transpose-policy=budget transpose-budget=100 compile-to=quantize" 2>&1 | FileCheck %s --check-prefix=LEAST

// Too little for the residuals: nothing is left for columns, and values are computed again.
// LITTLE-DAG: of 40000 bytes to save, 0 are left for columns of weights
// LITTLE-DAG: columns of 'up' are computed directly before each of their 3 uses
// LITTLE-DAG: is recomputed: frees
// LITTLE: policy = "budget:40000"

// More than enough: nothing is computed again.
// MUCH: of 1000000 bytes to save, 898976 are left for columns of weights
// MUCH: columns of 'up' are computed in the forward and saved
// MUCH-NOT: is recomputed
// MUCH: recomputed = []
// MUCH-NOT: te.transpose

// All can be computed from the arguments.
// LEAST: tert.remat = {held_after = 0 : i64, held_before = 101024 : i64, policy = "budget:100"
