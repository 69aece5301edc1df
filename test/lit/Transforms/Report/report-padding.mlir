// Casts are padded for each layer, and sizes are no violation; GEMMs that the target does not have are.
// RUN: te-opt %s --te-report-constraints -o %t.mlir | FileCheck %s --match-full-lines --strict-whitespace --check-prefix=TEXT
// RUN: te-opt %s --te-report-constraints=target=sm_100 -o %t.mlir | FileCheck %s --check-prefix=REFUSED
// RUN: te-opt %s --pass-pipeline='builtin.module(te-report-constraints{target=sm_100 format=json})' -o %t.mlir | FileCheck %s --check-prefix=JSON
// RUN: not te-opt %s --te-report-constraints=target=sm_80 2>&1 | FileCheck %s --check-prefix=ERROR
// RUN: te-opt %s --te-check-constraints -o %t.mlir
// RUN: not te-opt %s --te-check-constraints=target=sm_100 -o %t.mlir 2>/dev/null
// ERROR: te-report-constraints: expected 'target' to be one of sm_90, sm_100, reference, but got 'sm_80'

//      TEXT:size constraints
// TEXT-NEXT:  layer  axis  tensor              size  multiple of  by                 padded to
// TEXT-NEXT:  w1     M     rows of x           20    16           wgrad contraction  32
// TEXT-NEXT:  w1     N     rows of w1          48    8            fprop output       -
// TEXT-NEXT:  w1     K     columns of w1       64    16           fprop contraction  -
// TEXT-NEXT:  w2     M     rows of activation  20    16           wgrad contraction  32
// TEXT-NEXT:  w2     N     rows of w2          64    16           dgrad contraction  -
// TEXT-NEXT:  w2     K     columns of w2       24    16           fprop contraction  32
//  TEXT-NOT:{{.+}}

// REFUSED: GEMMs that the target does not have
// REFUSED-NEXT: layer gemm why
// REFUSED-NEXT: w1 fprop expected a product that 'sm_100' has, but got 'block_1x128' and 'block_128x128': {{.*}}; the nearest supported is 'pow2_scales = true'
// REFUSED-NEXT: w1 wgrad expected a product that 'sm_100' has, but got 'block_1x128' and 'block_1x128': {{.*}}
// REFUSED-NEXT: w2 fprop, dgrad expected
// REFUSED-NEXT: w2 wgrad expected
// JSON: "refused": [
// JSON: "gemm": "fprop",
// JSON-NEXT: "layer": "w1",
// JSON-NEXT: "why": "expected a product that 'sm_100' has

module attributes {te.recipe = #te.recipe<float8_block_scaling, {pow2_scales = false}>} {
  func.func private @mlp(%x: tensor<20x64xbf16> {te.name = "x"}, %w1: tensor<48x64xbf16> {te.name = "w1"}, %b1: tensor<48xbf16> {te.name = "b1"}, %w2: tensor<64x24xbf16> {te.name = "w2"}) -> tensor<20x64xbf16> {
    %h = te.linear %x, %w1 bias %b1 : tensor<48xbf16> : tensor<20x64xbf16>, tensor<48x64xbf16> -> tensor<20x48xbf16>
    %a = te.activation <swiglu> %h : tensor<20x48xbf16> -> tensor<20x24xbf16>
    %y = te.linear %a, %w2 : tensor<20x24xbf16>, tensor<64x24xbf16> -> tensor<20x64xbf16>
    return %y : tensor<20x64xbf16>
  }
  func.func @step(%x: tensor<20x64xbf16>, %w1: tensor<48x64xbf16>, %b1: tensor<48xbf16>, %w2: tensor<64x24xbf16>, %dy: tensor<20x64xbf16> {te.name = "dy"})
      -> (tensor<20x64xbf16>, tensor<48x64xbf16>, tensor<64x24xbf16>) {
    %r:3 = te.vjp @mlp(%x, %w1, %b1, %w2) cotangents(%dy) wrt [1, 3]
      : (tensor<20x64xbf16>, tensor<48x64xbf16>, tensor<48xbf16>, tensor<64x24xbf16>), (tensor<20x64xbf16>) -> (tensor<20x64xbf16>, tensor<48x64xbf16>, tensor<64x24xbf16>)
    return %r#0, %r#1, %r#2 : tensor<20x64xbf16>, tensor<48x64xbf16>, tensor<64x24xbf16>
  }
}
