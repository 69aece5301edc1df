// The tensor cores of sm_100 contract 8-bit operands along any axis: a per-tensor cast has only rows, and these are saved.
// RUN: te-opt %s --te-training-pipeline="vjp=mlp target=sm_100 recipe=float8_current_scaling compile-to=quantize" | FileCheck %s --implicit-check-not="contract = 0>" --implicit-check-not=te.transpose
// RUN: te-opt %s --te-training-pipeline="vjp=mlp target=sm_100 recipe=delayed_scaling compile-to=quantize" | FileCheck %s --implicit-check-not="contract = 0>" --implicit-check-not=te.transpose
// The policies for columns have no effect.
// RUN: te-opt %s --te-training-pipeline="vjp=mlp target=sm_100 recipe=float8_current_scaling compile-to=schedule" -o %t.on-demand.mlir
// RUN: te-opt %s --te-training-pipeline="vjp=mlp target=sm_100 recipe=float8_current_scaling transpose-policy=eager compile-to=schedule" -o %t.eager.mlir
// RUN: diff %t.on-demand.mlir %t.eager.mlir
// Other targets read columns.
// RUN: te-opt %s --te-training-pipeline="vjp=mlp recipe=float8_current_scaling compile-to=quantize" | FileCheck %s --check-prefix=SM90 --implicit-check-not="contract = ["
// RUN: te-opt %s --te-training-pipeline="vjp=odd target=sm_100 recipe=float8_current_scaling compile-to=quantize" | FileCheck %s --check-prefix=ODD
// RUN: te-opt %s --te-training-pipeline="vjp=differ target=sm_100 recipe=float8_current_scaling compile-to=quantize" | FileCheck %s --check-prefix=DIFFER
// RUN: not te-opt %s --te-insert-casts=target=sm_80 2>&1 | FileCheck %s --check-prefix=TARGET
// TARGET: error: te-insert-casts: expected 'target' to be one of sm_90, sm_100, reference, but got 'sm_80'

// The results have the bytes of a target with columns.
// RUN: te-run %s --entry=mlp --vjp --seed=1 --backend=reference --pipeline="target=sm_100 recipe=float8_current_scaling" --compare=mlp --compare-vjp --compare-pipeline="recipe=float8_current_scaling target=reference" | FileCheck %s --check-prefix=SAME
// RUN: te-run %s --entry=mlp --vjp --seed=1 --backend=reference --steps=3 --pipeline="target=sm_100 recipe=delayed_scaling" --compare=mlp --compare-vjp --compare-pipeline="recipe=delayed_scaling target=reference" | FileCheck %s --check-prefix=SAME
// SAME: agree in {{[0-9]+}} arrays, 8 of them of casts

// CHECK-LABEL: @mlp
// CHECK: %[[X:.*]] = te.quantize %arg0
// CHECK: %[[W1:.*]] = te.quantize %arg1
// CHECK: te.scaled_matmul %[[X]], %[[W1]] fast_accumulation = true :
// CHECK: %[[A:.*]] = te.quantize
// CHECK: %[[W2:.*]] = te.quantize %arg2
// CHECK: te.scaled_matmul %[[A]], %[[W2]] fast_accumulation = true :
// CHECK-DAG: %[[HELD_A:.*]] = te.residual %[[A]] "linear1.x" : {{.*}}contract = 1>
// CHECK-DAG: %[[HELD_W2:.*]] = te.residual %[[W2]] "w2" : {{.*}}contract = 1>
// CHECK-DAG: %[[HELD_X:.*]] = te.residual %[[X]] "x" : {{.*}}contract = 1>
// CHECK-DAG: %[[HELD_W1:.*]] = te.residual %[[W1]] "w1" : {{.*}}contract = 1>
// CHECK: %[[DY:.*]] = te.quantize
// CHECK: te.scaled_matmul %[[DY]], %[[HELD_W2]] fast_accumulation = false contract = [1, 0]
// CHECK: te.scaled_matmul %[[DY]], %[[HELD_A]] fast_accumulation = false contract = [0, 0]

// SM90-COUNT-6: te.scaled_matmul
func.func @mlp(%x: tensor<64x96xbf16> {te.name = "x"}, %w1: tensor<160x96xbf16> {te.name = "w1", te.weight},
               %w2: tensor<96x160xbf16> {te.name = "w2", te.weight}) -> (tensor<64x96xbf16> {te.name = "y"}) {
  %h = te.linear %x, %w1 : tensor<64x96xbf16>, tensor<160x96xbf16> -> tensor<64x160xbf16>
  %a = te.activation <silu> %h : tensor<64x160xbf16> -> tensor<64x160xbf16>
  %y = te.linear %a, %w2 : tensor<64x160xbf16>, tensor<96x160xbf16> -> tensor<64x96xbf16>
  return %y : tensor<64x96xbf16>
}

// The strides of rows are multiples of 16 bytes. Only dgrad would require this of dy, which has 24 columns here.
// ODD-LABEL: @odd
// ODD: te.scaled_matmul {{.*}} fast_accumulation = false contract = [0, 0] : {{.*}}contract = 0>, {{.*}}contract = 1>
func.func @odd(%w: tensor<24x96xbf16> {te.name = "w", te.weight}) -> (tensor<64x24xbf16> {te.name = "y"}) {
  %x = arith.constant dense<1.0> : tensor<64x96xbf16>
  %y = te.linear %x, %w : tensor<64x96xbf16>, tensor<24x96xbf16> -> tensor<64x24xbf16>
  return %y : tensor<64x24xbf16>
}

// In a custom recipe, the cast of w for dgrad has its own recipe, and differs.
// DIFFER-LABEL: @differ
// DIFFER: te.quantize %arg1 {{.*}}f8E4M3FN, per_tensor, contract = 1>
// DIFFER: te.quantize %arg1 {{.*}}f8E4M3FN, per_tensor, pow2, contract = 0>
func.func @differ(%x: tensor<64x96xbf16> {te.name = "x"}, %w: tensor<32x96xbf16> {te.name = "w", te.weight}) -> (tensor<64x32xbf16> {te.name = "y"}) {
  %y = te.linear %x, %w {te.recipe = #te.recipe<custom, {fprop = #te.recipe<float8_current_scaling>, dgrad = #te.recipe<float8_current_scaling, {pow2_scales = true}>, wgrad = #te.recipe<float8_current_scaling>}>}
    : tensor<64x96xbf16>, tensor<32x96xbf16> -> tensor<64x32xbf16>
  return %y : tensor<64x32xbf16>
}
