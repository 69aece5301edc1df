// RUN: te-opt %s --te-plan-memory=results=grad.*,y | FileCheck %s
// RUN: te-opt %s --te-plan-memory | FileCheck %s --check-prefix=OUTSIDE

// A result has the memory of what no launch reads any more when it is written, and keeps it until the end: the
// last launch may write in place, but not over a result that the caller reads. A state stays where it is, and
// so does a result that no launch writes. Both entries get their offset.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:.*]]: !tert.buffer<512>, %{{.*}}: !tert.buffer<512>, %{{.*}}: !tert.buffer<512>, %[[STATE:.*]]: !tert.buffer<512>, %{{.*}}: !tert.buffer<512>)
// CHECK-SAME: tert.arena_bytes = 1024 : i64, tert.max_live_bytes = 1024 : i64
// CHECK-SAME: name = "grad.w", offset = 0 : i64, part = "value"
// CHECK-SAME: name = "y", offset = 512 : i64, part = "data"
// CHECK-SAME: {carried = 0 : i64, name = "x", part = "value"
// CHECK-SAME: {carried = -1 : i64, name = "grad.none", part = "value"
// CHECK-DAG: %[[W:.*]] = tert.alloc "grad.w" gradient of_result 1 offset 0 : !tert.buffer<512>
// CHECK-DAG: %[[Y:.*]] = tert.alloc "y.data" activation of_result 2 offset 512 : !tert.buffer<512>
// CHECK-DAG: %[[SAVED:.*]] = tert.alloc "saved" residual offset 0 : !tert.buffer<512>
// CHECK-DAG: %[[OTHER:.*]] = tert.alloc "other" residual offset 512 : !tert.buffer<512>
// CHECK: tert.launch "copy" {{.*}}(%[[X]], %[[SAVED]])
// CHECK: tert.launch "copy" {{.*}}(%[[SAVED]], %[[OTHER]])
// CHECK: tert.launch "copy" {{.*}}(%[[OTHER]], %[[W]])
// CHECK: tert.launch "copy" {{.*}}(%[[W]], %[[STATE]])
// CHECK: tert.launch "bias_add" {{.*}}(%[[W]], %[[X]], %[[Y]])
// OUTSIDE-LABEL: func.func @step
// OUTSIDE-SAME: tert.arena_bytes = 1024 : i64
// OUTSIDE-NOT: of_result
func.func @step(%x: !tert.buffer<512>, %dw: !tert.buffer<512>, %y: !tert.buffer<512>, %state: !tert.buffer<512>, %none: !tert.buffer<512>)
    attributes {tert.signature = [
      {carried = -1 : i64, name = "x", part = "value", role = "argument", type = tensor<128xf32>},
      {carried = -1 : i64, name = "grad.w", part = "value", role = "result", type = tensor<128xf32>},
      {carried = -1 : i64, name = "y", part = "data", role = "result", type = tensor<128xf32>},
      {carried = 0 : i64, name = "x", part = "value", role = "result", type = tensor<128xf32>},
      {carried = -1 : i64, name = "grad.none", part = "value", role = "result", type = tensor<128xf32>}]} {
  %saved = tert.alloc "saved" residual : !tert.buffer<512>
  %other = tert.alloc "other" residual : !tert.buffer<512>
  tert.launch "copy" {bytes = 512 : i64} (%x, %saved) : !tert.buffer<512>, !tert.buffer<512>
  tert.launch "copy" {bytes = 512 : i64} (%saved, %other) : !tert.buffer<512>, !tert.buffer<512>
  tert.launch "copy" {bytes = 512 : i64} (%other, %dw) : !tert.buffer<512>, !tert.buffer<512>
  tert.launch "copy" {bytes = 512 : i64} (%dw, %state) : !tert.buffer<512>, !tert.buffer<512>
  tert.launch "bias_add" {cols = 128 : i64, rows = 1 : i64, type = 0 : i32}
    (%dw, %x, %y) : !tert.buffer<512>, !tert.buffer<512>, !tert.buffer<512>
  return
}
