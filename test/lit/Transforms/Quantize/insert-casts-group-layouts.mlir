// A tensor that dense layers and groups of several sizes read has separate casts, amaxes and states for each.

// RUN: te-opt %s --split-input-file --te-training-pipeline="recipe=delayed_scaling compile-to=quantize" | FileCheck %s --check-prefix=STATES
// RUN: te-opt %s --split-input-file --te-training-pipeline="vjp=layers recipe=float8_current_scaling compile-to=quantize" | FileCheck %s --check-prefix=CASTS

// STATES-LABEL: func.func @layers
// STATES-SAME: %[[X:[a-z0-9]+]]: tensor<128x64xbf16> {te.name = "x"}
// STATES-SAME: %[[SIZES:[a-z0-9]+]]: tensor<2xi32> {te.name = "sizes"}
// STATES-SAME: %[[DENSE:[a-z0-9]+]]: tensor<f32> {te.init = 1.000000e+00 : f32, te.name = "dense.x.scale"
// STATES-SAME: %[[GIVEN:[a-z0-9]+]]: tensor<2xf32> {te.init = 1.000000e+00 : f32, te.name = "given.x.scale"
// STATES-SAME: %[[HALVES:[a-z0-9]+]]: tensor<2xf32> {te.init = 1.000000e+00 : f32, te.name = "halves.x.scale"
// STATES-NOT: te.name = "again.x.scale"
// STATES: %[[CONSTANT:.*]] = arith.constant dense<64> : tensor<2xi32>
// STATES-DAG: te.amax %[[X]] :
// STATES-DAG: te.grouped_amax %[[X]], %[[SIZES]]
// STATES-DAG: te.grouped_amax %[[X]], %[[CONSTANT]]
// STATES-DAG: te.quantize %[[X]] scale %[[DENSE]] :
// STATES-DAG: te.grouped_quantize %[[X]] scale %[[GIVEN]] sizes %[[SIZES]]
// STATES-DAG: te.grouped_quantize %[[X]] scale %[[HALVES]] sizes %[[CONSTANT]]

// The first reader of x is before the sizes are available.
// CASTS-LABEL: func.func @layers
// CASTS-SAME: %[[X:[a-z0-9]+]]: tensor<128x64xbf16> {te.name = "x"}
// CASTS: %[[X0:.*]]:2 = te.quantize %[[X]] scale %{{[0-9]+}} :
// CASTS: te.scaled_matmul %[[X0]]#0
// CASTS: %[[SIZES:.*]] = te.round_group_sizes
// CASTS: %[[X1:.*]]:2 = te.grouped_quantize %[[X]] scale %{{.*}} sizes %[[SIZES]]
// CASTS: te.grouped_scaled_matmul %[[X1]]#0
!x = tensor<128x64xbf16>
!w = tensor<64x64xbf16>
!e = tensor<2x64x64xbf16>
func.func @layers(%x: !x {te.name = "x"}, %sizes: tensor<2xi32> {te.name = "sizes"}, %dense: !w {te.name = "dense", te.weight},
                  %given: !e {te.name = "given", te.weight}, %halves: !e {te.name = "halves", te.weight},
                  %again: !e {te.name = "again", te.weight})
    -> (!x {te.name = "a"}, !x {te.name = "b"}, !x {te.name = "c"}, !x {te.name = "d"}) {
  %a = te.linear %x, %dense : !x, !w -> !x
  %b = te.grouped_linear %x, %given, %sizes {alignment = 64 : i64} : !x, !e, tensor<2xi32> -> !x
  %h0 = arith.constant dense<64> : tensor<2xi32>
  %c = te.grouped_linear %x, %halves, %h0 {alignment = 64 : i64} : !x, !e, tensor<2xi32> -> !x
  %h1 = arith.constant dense<64> : tensor<2xi32>
  %d = te.grouped_linear %x, %again, %h1 {alignment = 64 : i64} : !x, !e, tensor<2xi32> -> !x
  return %a, %b, %c, %d : !x, !x, !x, !x
}

// -----

!x = tensor<128x64xbf16>
!w = tensor<64x64xbf16>
!e = tensor<2x64x64xbf16>
func.func @layers(%x: !x {te.name = "x"}, %given: tensor<2xi32>, %dense: !w {te.name = "dense", te.weight},
                  %experts: !e {te.name = "experts", te.weight}) -> (!x {te.name = "a"}, !x {te.name = "b"}) {
  %a = te.linear %x, %dense : !x, !w -> !x
  %sizes = te.round_group_sizes %given {multiple = 64 : i64} : tensor<2xi32>
  %b = te.grouped_linear %x, %experts, %sizes {alignment = 64 : i64} : !x, !e, tensor<2xi32> -> !x
  return %a, %b : !x, !x
}
