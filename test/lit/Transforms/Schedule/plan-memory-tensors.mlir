// Functions on tensors have no buffers, so they are neither planned nor reported.

// RUN: te-opt %s --te-plan-memory --te-report-memory | FileCheck %s

// CHECK-NOT: memory of
// CHECK: func.func @step(%arg0: tensor<4xf32>) -> tensor<4xf32> {
func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
