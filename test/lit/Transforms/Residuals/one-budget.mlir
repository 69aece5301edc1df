// Residuals and columns of weights share one budget. The step with three micro-batches saves 101,024 bytes for its backwards.
// RUN: te-opt %S/../../Numerics/Inputs/micro_batches.mlir --te-training-pipeline="recipe=float8_block_scaling transpose-policy=budget transpose-budget=40000 compile-to=quantize" --remarks-filter='te-(materialize|remat).*' 2>&1 | FileCheck %s --check-prefix=LITTLE
// RUN: te-opt %S/../../Numerics/Inputs/micro_batches.mlir --te-training-pipeline="recipe=float8_block_scaling transpose-policy=budget transpose-budget=1000000 compile-to=quantize" --remarks-filter='te-(materialize|remat).*' 2>&1 | FileCheck %s --check-prefix=MUCH
// RUN: te-opt %S/../../Numerics/Inputs/micro_batches.mlir --te-training-pipeline="recipe=float8_block_scaling transpose-policy=budget transpose-budget=100 compile-to=quantize" 2>&1 | FileCheck %s --check-prefix=LEAST

// The limit is less than the residuals: no columns are cached, and values are recomputed.
// LITTLE-DAG: of 40000 bytes to save, 0 are left for columns of weights
// LITTLE-DAG: columns of 'up' are computed directly before each of their 3 uses
// LITTLE-DAG: is recomputed: frees
// LITTLE: policy = "budget:40000"

// The limit is larger than both: nothing is recomputed.
// MUCH: of 1000000 bytes to save, 898976 are left for columns of weights
// MUCH: columns of 'up' are computed in the forward and saved
// MUCH-NOT: is recomputed
// MUCH: recomputed = []
// MUCH-NOT: te.transpose

// All residuals can be recomputed from the arguments.
// LEAST: tert.remat = {held_after = 0 : i64, held_before = 101024 : i64, policy = "budget:100"
