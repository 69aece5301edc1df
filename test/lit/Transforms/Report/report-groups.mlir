// For a layer of groups, the constraints report prints the least rows of padding, and how many rows suffice for any routing.
// RUN: te-opt %s --te-report-constraints -o %t.mlir | FileCheck %s --match-full-lines --strict-whitespace --check-prefix=TEXT
// RUN: te-opt %s --pass-pipeline='builtin.module(te-report-constraints{format=json})' -o %t.mlir | FileCheck %s --check-prefix=JSON

//      TEXT:rows of groups
// TEXT-NEXT:  layer  rows  groups  alignment  entries  padding  rows for any routing
// TEXT-NEXT:  w      96    3       16         8        88       64
// TEXT-NEXT:  v      96    3       16         -        -        -

// JSON: "groups": [
// JSON: "alignment": 16,
// JSON-NEXT: "enough_rows": 64,
// JSON-NEXT: "entries": 8,
// JSON-NEXT: "groups": 3,
// JSON-NEXT: "layer": "w",
// JSON-NEXT: "rows": 96
// JSON: "enough_rows": null,
func.func @moe(%x: tensor<4x64xbf16> {te.name = "x"}, %ids: tensor<4x2xi32>, %w: tensor<3x64x64xbf16> {te.name = "w"},
               %v: tensor<3x64x64xbf16> {te.name = "v"}, %given: tensor<3xi32>) -> tensor<96x64xbf16> {
  %y, %sizes, %row_of, %entry_of, %dropped = te.permute %x, %ids {alignment = 16 : i64}
    : tensor<4x64xbf16>, tensor<4x2xi32> -> tensor<96x64xbf16>, tensor<3xi32>, tensor<8xi32>, tensor<96xi32>
  %h = te.grouped_linear %y, %w, %sizes {alignment = 16 : i64} : tensor<96x64xbf16>, tensor<3x64x64xbf16>, tensor<3xi32> -> tensor<96x64xbf16>
  %z = te.grouped_linear %h, %v, %given {alignment = 16 : i64} : tensor<96x64xbf16>, tensor<3x64x64xbf16>, tensor<3xi32> -> tensor<96x64xbf16>
  return %z : tensor<96x64xbf16>
}
