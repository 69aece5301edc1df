// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-check-finite))' | FileCheck %s
// RUN: te-opt %s --te-training-pipeline="target=reference check-finite compile-to=schedule" | FileCheck %s --check-prefix=LAUNCH

// Two arguments and two results are counted. A broadcast has the elements of its operand, and the tensor that it writes has none yet.
// CHECK-LABEL: func.func @f
// CHECK-COUNT-4: te.count_nonfinite
// CHECK-NOT: te.count_nonfinite
// CHECK: return
// LAUNCH: tert.launch "generated"
func.func @f(%x: tensor<4x8xf32> {te.name = "x"}, %b: tensor<8xf32> {te.name = "b"}) -> (tensor<4x8xf32> {te.name = "y"}) {
  %e = tensor.empty() : tensor<4x8xf32>
  %bs = linalg.broadcast ins(%b : tensor<8xf32>) outs(%e : tensor<4x8xf32>) dimensions = [0]
  %s = arith.addf %x, %bs : tensor<4x8xf32>
  %y = arith.mulf %s, %bs : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
