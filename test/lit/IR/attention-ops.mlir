// RUN: te-opt %s | te-opt | FileCheck %s

// Heads of values of another size are written with the types of values and of the result.
// CHECK-LABEL: @value_heads
// CHECK: te.attention %arg0, %arg1, %arg2 {{.*}} : tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x6xf32> -> tensor<8x12xf32> lse tensor<32xf32>
// CHECK: te.attention_backward {{.*}} : tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x6xf32> -> tensor<8x12xf32>, tensor<32xf32>
func.func @value_heads(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>, %v: tensor<8x6xf32>, %do: tensor<8x12xf32>) -> (tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x6xf32>) {
  %o, %lse = te.attention %q, %k, %v {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64} : tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x6xf32> -> tensor<8x12xf32> lse tensor<32xf32>
  %dq, %dk, %dv = te.attention_backward %do, %q, %k, %v, %o, %lse {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64}
    : tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x6xf32> -> tensor<8x12xf32>, tensor<32xf32>
  return %dq, %dk, %dv : tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x6xf32>
}
