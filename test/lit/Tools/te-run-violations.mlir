// One run reports every violation of a module, and writes nothing.
// RUN: rm -f %t.npz
// RUN: not te-run %s --entry=f --seed=0 --outputs=%t.npz 2>&1 | FileCheck %s
// RUN: not ls %t.npz

// CHECK: te-run-violations.mlir:[[#@LINE+3]]:{{[0-9]+}}: error: 'te.linear' op
func.func @f(%x: tensor<16x32xf32> {te.name = "x"}, %w: tensor<16x48xf32> {te.name = "w"})
    -> (tensor<16x16xf32> {te.name = "y"}) {
  %y = te.linear %x, %w : tensor<16x32xf32>, tensor<16x48xf32> -> tensor<16x16xf32>
  return %y : tensor<16x16xf32>
}

// CHECK: te-run-violations.mlir:[[#@LINE+2]]:{{[0-9]+}}: error: 'te.linear' op
func.func @g(%x: tensor<16x32xf32>, %w: tensor<16x32xf32>) -> tensor<16x17xf32> {
  %y = te.linear %x, %w : tensor<16x32xf32>, tensor<16x32xf32> -> tensor<16x17xf32>
  return %y : tensor<16x17xf32>
}
