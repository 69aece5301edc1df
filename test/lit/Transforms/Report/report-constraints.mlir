// RUN: te-opt %s --te-report-constraints -o %t.mlir | FileCheck %s --match-full-lines --strict-whitespace --check-prefix=TEXT
// RUN: te-opt %s --pass-pipeline='builtin.module(te-report-constraints{format=json})' -o %t.mlir | FileCheck %s --check-prefix=JSON
// RUN: not te-opt %s --pass-pipeline='builtin.module(te-report-constraints{format=yaml})' 2>&1 | FileCheck %s --check-prefix=ERROR
// ERROR: expected option 'format' of 'te-report-constraints' to be 'text' or 'json', but got 'yaml'

// The rule in the table is the strictest of the layer's GEMMs. Without a te.vjp, there is only fprop.
//      TEXT:size constraints
// TEXT-NEXT:  layer  axis  tensor        size  multiple of  by                 padded to
// TEXT-NEXT:  w      M     rows of x     40    16           wgrad contraction  48
// TEXT-NEXT:  w      N     rows of w     64    16           dgrad contraction  -
// TEXT-NEXT:  w      K     columns of w  24    16           fprop contraction  32
// TEXT-NEXT:  v      N     rows of v     60    8            fprop output       64
// TEXT-NEXT:  v      K     columns of v  32    16           fprop contraction  -
//  TEXT-NOT:{{.+}}

// JSON: "constraints": [
// JSON: "axis": "M",
// JSON-NEXT: "by": "wgrad contraction",
// JSON-NEXT: "layer": "w",
// JSON-NEXT: "multiple": 16,
// JSON-NEXT: "padded": 48,
// JSON-NEXT: "size": 40,
// JSON-NEXT: "tensor": "x",
// JSON-NEXT: "tensor_axis": "rows"
// JSON: "refused": []

module attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  func.func private @layer(%x: tensor<40x24xbf16> {te.name = "x"}, %w: tensor<64x24xbf16> {te.name = "w"}) -> tensor<40x64xbf16> {
    %y = te.linear %x, %w : tensor<40x24xbf16>, tensor<64x24xbf16> -> tensor<40x64xbf16>
    return %y : tensor<40x64xbf16>
  }
  func.func @step(%x: tensor<40x24xbf16>, %w: tensor<64x24xbf16>, %dy: tensor<40x64xbf16>) -> (tensor<40x64xbf16>, tensor<40x24xbf16>, tensor<64x24xbf16>) {
    %r:3 = te.vjp @layer(%x, %w) cotangents(%dy) wrt [0, 1]
      : (tensor<40x24xbf16>, tensor<64x24xbf16>), (tensor<40x64xbf16>) -> (tensor<40x64xbf16>, tensor<40x24xbf16>, tensor<64x24xbf16>)
    return %r#0, %r#1, %r#2 : tensor<40x64xbf16>, tensor<40x24xbf16>, tensor<64x24xbf16>
  }
  func.func @inference(%x: tensor<40x32xbf16> {te.name = "x"}, %v: tensor<60x32xbf16> {te.name = "v"}) -> tensor<40x60xbf16>
      attributes {te.recipe = #te.recipe<float8_current_scaling>} {
    %y = te.linear %x, %v : tensor<40x32xbf16>, tensor<60x32xbf16> -> tensor<40x60xbf16>
    return %y : tensor<40x60xbf16>
  }
}
