// RUN: te-opt %s --te-report-schedule -o %t.mlir | FileCheck %s
// RUN: te-opt %s --te-report-schedule=format=json -o %t.mlir | FileCheck %s --check-prefix=JSON
// RUN: not te-opt %s --te-report-schedule=format=html 2>&1 | FileCheck %s --check-prefix=FORMAT
// FORMAT: expected option 'format' of 'te-report-schedule' to be 'text' or 'json', but got 'html'

// The gather may run from the first launch on, beside the fill before it. The sum may run beside two launches, one of them a GEMM.
// CHECK: launches of 'step'
// CHECK-NEXT: launch stream kernel name waits for beside
// CHECK-NEXT: 0 main copy part - -
// CHECK-NEXT: 1 main fill z - -
// CHECK-NEXT: 2 side all_gather whole 0 1 other
// CHECK-NEXT: 3 side all_reduce_sum s - 4 w1 wgrad, 1 other
// CHECK-NEXT: 4 main matmul w1 wgrad 2 -
// CHECK-NEXT: 5 main copy y 3 -

// JSON: "launches": [
// JSON: "beside": [
// JSON-NEXT: 1
// JSON-NEXT: ],
// JSON-NEXT: "beside_text": "1 other",
// JSON-NEXT: "kernel": "all_gather",
// JSON-NEXT: "name": "whole",
// JSON-NEXT: "stream": "side",
// JSON-NEXT: "waits_for": 0
func.func @step(%x: !tert.buffer<128>, %y: !tert.buffer<256>, %z: !tert.buffer<256>, %s: !tert.buffer<256>, %dw: !tert.buffer<256>)
    attributes {tert.signature = [
      {carried = -1 : i64, name = "x", part = "value", role = "argument", type = tensor<32xf32>},
      {carried = -1 : i64, name = "y", part = "value", role = "result", type = tensor<64xf32>},
      {carried = -1 : i64, name = "z", part = "value", role = "result", type = tensor<64xf32>},
      {carried = -1 : i64, name = "s", part = "value", role = "result", type = tensor<64xf32>},
      {carried = -1 : i64, name = "dw", part = "value", role = "result", type = tensor<8x8xf32>}]} {
  %null = tert.null : !tert.buffer<0>
  %part = tert.alloc "part" activation : !tert.buffer<128>
  %whole = tert.alloc "whole" activation : !tert.buffer<256>
  tert.launch "copy" {bytes = 128 : i64} (%x, %part) : !tert.buffer<128>, !tert.buffer<128>
  tert.launch "fill" {count = 64 : i64, type = 0 : i32, value = 1.0 : f32} (%z, %null) : !tert.buffer<256>, !tert.buffer<0>
  tert.launch "all_gather" {bytes = 128 : i64, group_id = 0 : i32, ranks = 2 : i32} (%part, %whole) side : !tert.buffer<128>, !tert.buffer<256>
  tert.launch "all_reduce_sum" {count = 64 : i64, group_id = 0 : i32, ranks = 2 : i32, type = 0 : i32} (%whole, %s) side : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "matmul" {m = 8 : i64, n = 8 : i64, k = 8 : i64, trans_a = 0 : i32, trans_b = 0 : i32, type = 0 : i32, out_type = 0 : i32}
    (%whole, %whole, %null, %null, %null, %dw) : !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256>
    loc(fused<{te.layer = "w1", te.gemm = "wgrad", te.reason = "as written"}>["model.py":7:5])
  tert.launch "copy" {bytes = 256 : i64} (%s, %y) : !tert.buffer<256>, !tert.buffer<256>
  return
}
