// The states that a captured step returns, with their flags, and the inputs of a replay.
// RUN: te-opt %s --te-training-pipeline="vjp=layers recipe=delayed_scaling cache-weights=true main-grad=true report=capture compile-to=quantize" -o %t.mlir | FileCheck %s
// RUN: te-opt %s --te-training-pipeline="vjp=layers recipe=nvfp4_block_scaling emulate=true cache-weights=true report=capture report-format=json compile-to=quantize" -o %t.mlir | FileCheck %s --check-prefix=JSON
// RUN: not te-opt %s --pass-pipeline='builtin.module(te-report-capture{format=yaml})' 2>&1 | FileCheck %s --check-prefix=FORMAT
// FORMAT: expected option 'format' of 'te-report-capture' to be 'text' or 'json', but got 'yaml'

// CHECK: capture of @layers: left by one replay to the next
// CHECK-NEXT: argument bytes changes
// CHECK-DAG: grad.w 65536 unless skip_weight_update
// CHECK-DAG: w.x.scale 8 every replay
// CHECK-DAG: w.w.amax_history 8192 unless skip_weight_update
// CHECK-DAG: w.w.scale 8 unless skip_weight_update
// CHECK-DAG: w.row 16392 unless skip_weight_update
// CHECK-DAG: v.w.scale 4 unless skip_weight_update
// CHECK: capture of @layers: given to a replay
// CHECK-NEXT: argument bytes is
// CHECK-NEXT: x 32768 input
// CHECK-NEXT: w 32768 weight
// CHECK: skip_weight_update 4 skip flag of {{[0-9]+}} ops

// JSON: "capture": [
// JSON: "changes": "advanced",
// JSON-NEXT: "name": "rng_state"
// JSON: "given": [
func.func @layers(%x: tensor<256x64xbf16> {te.name = "x"}, %w: tensor<2x128x64xbf16> {te.name = "w", te.weight}, %sizes: tensor<2xi32> {te.name = "sizes"},
                  %v: tensor<128x128xbf16> {te.name = "v", te.weight}) -> (tensor<256x128xbf16> {te.name = "y"}) {
  %h = te.grouped_linear %x, %w, %sizes {alignment = 128 : i64} : tensor<256x64xbf16>, tensor<2x128x64xbf16>, tensor<2xi32> -> tensor<256x128xbf16>
  %y = te.linear %h, %v : tensor<256x128xbf16>, tensor<128x128xbf16> -> tensor<256x128xbf16>
  return %y : tensor<256x128xbf16>
}
