// RUN: te-opt %s --te-report-memory -o /dev/null | FileCheck %s
// RUN: te-opt %s --te-report-memory=format=json -o /dev/null | FileCheck %s --check-prefix=JSON
// RUN: te-opt %s --te-report-memory=format=html -o /dev/null | FileCheck %s --check-prefix=HTML
// RUN: not te-opt %s --te-report-memory=format=xml 2>&1 | FileCheck %s --check-prefix=ERROR

// ERROR: expected option 'format' of 'te-report-memory' to be 'text' or 'json', but got 'xml'

// A carried result has the memory of its argument: 256 bytes, not 512.
// CHECK:      memory of 'step'
// CHECK-NEXT: bytes
// CHECK-NEXT: arena 1024
// CHECK-NEXT: most alive at one launch 768
// CHECK-NEXT: arguments and results 256
// CHECK-NEXT: all of residual 512
// CHECK-NEXT: all of gradient 100
// CHECK:      alive at the peak, launch 1 (copy), largest first
// CHECK-NEXT: buffer owner cause bytes offset first launch last launch
// CHECK-NEXT: mlp.h mlp residual 512 0 0 2
// CHECK-NEXT: dx dx gradient 100 768 1 2
// CHECK:      buffer owner cause bytes offset first launch last launch
// CHECK-NEXT: mlp.h mlp residual 512 0 0 2
// CHECK-NEXT: dx dx gradient 100 768 1 2
// CHECK:      arguments and results, outside the arena
// CHECK-NEXT: buffer owner cause bytes offset first launch last launch
// CHECK-NEXT: x x weight 256 - 0 2

// HTML: <title>memory of 'step'</title>
// HTML: <title>512 bytes of residual at launch 0, copy</title>
// HTML: <title>dx of dx: gradient, 100 bytes at 768, launches 1 to 2</title>
// HTML-NOT: http

// JSON: "alive_at_peak": [
// JSON-NEXT: "mlp.h",
// JSON: "arena_bytes": 1024
// JSON: "argument_bytes": 256
// JSON: "cause": "residual"
// JSON: "last_launch": 2
// JSON: "max_live_bytes": 768
// JSON: "totals": {
// JSON-NEXT: "gradient": 100
func.func @step(%x: !tert.buffer<256>, %next: !tert.buffer<256>)
    attributes {tert.arena_bytes = 1024 : i64, tert.max_live_bytes = 768 : i64, tert.signature = [
      {name = "x", type = tensor<64xf32>, role = "argument", part = "value", carried = -1 : i64, weight},
      {name = "x", type = tensor<64xf32>, role = "result", part = "value", carried = 0 : i64}]} {
  %h = tert.alloc "mlp.h" residual offset 0 : !tert.buffer<512>
  %d = tert.alloc "dx" gradient offset 768 : !tert.buffer<100>
  tert.launch "copy" {bytes = 256 : i64} (%x, %h) : !tert.buffer<256>, !tert.buffer<512>
  tert.launch "copy" {bytes = 100 : i64} (%x, %d) : !tert.buffer<256>, !tert.buffer<100>
  tert.launch "copy" {bytes = 100 : i64} (%d, %h) : !tert.buffer<100>, !tert.buffer<512>
  return
}
