// te-insert-casts may add arguments to the function of a layer, which callers would not pass. Earlier phases therefore remove all calls.
// RUN: te-opt %s --te-legalize-input --te-differentiate --te-insert-casts | FileCheck %s
// RUN: not te-opt %s --te-insert-casts 2>&1 | FileCheck %s --check-prefix=CALLS
// RUN: not te-opt %s --te-insert-skip-flags 2>&1 | FileCheck %s --check-prefix=FLAGS

// CALLS-DAG: insert-casts-calls.mlir:[[@LINE+22]]:8: error: expected calls to be inlined before 'te-insert-casts', which may change the arguments of functions; run the import phase first (te-legalize-input)
// CALLS-DAG: insert-casts-calls.mlir:[[@LINE+27]]:13: error: expected 'te.vjp' to be differentiated before 'te-insert-casts', which may change the arguments of functions; run the import and autodiff phases first (te-legalize-input, te-differentiate)
// CALLS-NOT: does not verify
// FLAGS-DAG: error: expected calls to be inlined before 'te-insert-skip-flags'
// FLAGS-DAG: error: expected 'te.vjp' to be differentiated before 'te-insert-skip-flags'

// Both functions have a scale for each tensor that a layer casts.
// CHECK-LABEL: func.func @calls
// CHECK-SAME: te.name = "w.x.scale"
// CHECK: te.scaled_matmul
// CHECK-LABEL: func.func @differentiates
// CHECK-SAME: te.name = "w.dy.scale"
// CHECK-COUNT-2: te.scaled_matmul

module attributes {te.recipe = #te.recipe<delayed_scaling>} {
func.func private @layer(%x: tensor<32x32xbf16>, %w: tensor<64x32xbf16> {te.name = "w", te.weight}) -> tensor<32x64xbf16> {
  %y = te.linear %x, %w : tensor<32x32xbf16>, tensor<64x32xbf16> -> tensor<32x64xbf16>
  return %y : tensor<32x64xbf16>
}

func.func @calls(%x: tensor<32x32xbf16> {te.name = "x"}, %w: tensor<64x32xbf16> {te.name = "w", te.weight})
    -> (tensor<32x64xbf16> {te.name = "y"}) {
  %y = call @layer(%x, %w) : (tensor<32x32xbf16>, tensor<64x32xbf16>) -> tensor<32x64xbf16>
  return %y : tensor<32x64xbf16>
}

func.func @differentiates(%x: tensor<32x32xbf16> {te.name = "x"}, %w: tensor<64x32xbf16> {te.name = "w", te.weight},
    %dy: tensor<32x64xbf16> {te.name = "grad.y"}) -> (tensor<32x64xbf16> {te.name = "y"}, tensor<64x32xbf16> {te.name = "grad.w"}) {
  %y, %dw = te.vjp @layer(%x, %w) cotangents(%dy) wrt [1]
    : (tensor<32x32xbf16>, tensor<64x32xbf16>), (tensor<32x64xbf16>) -> (tensor<32x64xbf16>, tensor<64x32xbf16>)
  return %y, %dw : tensor<32x64xbf16>, tensor<64x32xbf16>
}
}
