// RUN: not te-opt %s --te-training-pipeline 2>&1 | FileCheck %s
// RUN: te-opt %s --te-compile-to=schedule | FileCheck %s --check-prefix=LOOK
// RUN: te-run %s --entry=step --seed=0 --quiet

// A module that is compiled has one step; other modules may have several.
// CHECK: one-entry.mlir:[[#@LINE+7]]:{{[0-9]+}}: error: expected one public function, the step, but got '@step', '@other'; make the others private ('func.func private'), or compile them as modules of their own; a function that only exists to be differentiated is private and named by 'vjp='
// CHECK: one-entry.mlir:[[#@LINE+3]]:{{[0-9]+}}: note: '@step' is here
// LOOK: func.func @step
// LOOK: func.func @other
func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @unused(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
