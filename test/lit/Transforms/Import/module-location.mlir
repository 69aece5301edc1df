// If the file has no explicit module, an error about the module is at its first op.
// RUN: not te-opt %s --te-assign-recipe='recipe=high_precision backward-override=dequantized' 2>&1 | FileCheck %s --check-prefix=HP
// HP: module-location.mlir:[[# @LINE + 4]]:1: error: expected a quantised recipe for backward override 'dequantized'
// RUN: not te-opt %s --te-wrap-vjp='entry=absent' 2>&1 | FileCheck %s --check-prefix=ENTRY
// ENTRY: module-location.mlir:[[# @LINE + 2]]:1: error: expected a function of the module to differentiate, but got 'absent'; there is 'f'

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
