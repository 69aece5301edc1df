// RUN: te-opt %s --te-overlap-communication --remarks-filter='.*' 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// RUN: te-opt %s --te-overlap-communication=always=true | FileCheck %s --check-prefix=ALWAYS
// RUN: not te-opt %s --te-overlap-communication=target=sm_80 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not te-opt %s --te-training-pipeline=overlap=yes 2>&1 | FileCheck %s --check-prefix=OPTION

// TARGET: te-overlap-communication: expected 'target' to be one of sm_90, sm_100, reference, but got 'sm_80'
// OPTION: expected 'overlap' to be one of auto, always, never, but got 'yes'

// The backward of a column-parallel layer: the gather of x moves before the GEMM of dx, and the sum of dx runs beside the GEMM of dw.
// REMARK: overlap-communication.mlir:[[# @LINE + 8]]:{{.*}} remark: [Passed] overlap {{.*}}the collectives of 'column_backward' are on the side stream: {{[0-9]+}} of {{[0-9]+}} microseconds are expected to be gained
// CHECK-LABEL: func.func @column_backward
// CHECK: tert.launch "all_gather" {{.*}} side :
// CHECK: tert.launch "matmul"
// CHECK: tert.launch "reduce_scatter_sum" {{.*}} side :
// CHECK: tert.launch "matmul"
// CHECK: tert.launch "copy"
// CHECK-NOT: tert.launch
func.func @column_backward(%part: !tert.buffer<16777216>, %dy: !tert.buffer<117440512>, %w: !tert.buffer<58720256>, %dw: !tert.buffer<58720256>, %y: !tert.buffer<16777216>) {
  %null = tert.null : !tert.buffer<0>
  %partial = tert.alloc "partial" gradient : !tert.buffer<67108864>
  %dx = tert.alloc "dx" gradient : !tert.buffer<16777216>
  %x = tert.alloc "x" gradient : !tert.buffer<67108864>
  tert.launch "matmul" {m = 8192 : i64, n = 4096 : i64, k = 7168 : i64, trans_a = 0 : i32, trans_b = 0 : i32, type = 1 : i32, out_type = 1 : i32}
    (%dy, %w, %null, %null, %null, %partial) : !tert.buffer<117440512>, !tert.buffer<58720256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<67108864>
  tert.launch "reduce_scatter_sum" {count = 8388608 : i64, group_id = 0 : i32, ranks = 4 : i32, type = 1 : i32} (%partial, %dx) : !tert.buffer<67108864>, !tert.buffer<16777216>
  tert.launch "all_gather" {bytes = 16777216 : i64, group_id = 0 : i32, ranks = 4 : i32} (%part, %x) : !tert.buffer<16777216>, !tert.buffer<67108864>
  tert.launch "matmul" {m = 7168 : i64, n = 4096 : i64, k = 8192 : i64, trans_a = 1 : i32, trans_b = 0 : i32, type = 1 : i32, out_type = 1 : i32}
    (%dy, %x, %null, %null, %null, %dw) : !tert.buffer<117440512>, !tert.buffer<67108864>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<58720256>
  tert.launch "copy" {bytes = 16777216 : i64} (%dx, %y) : !tert.buffer<16777216>, !tert.buffer<16777216>
  return
}

// The result of the collective is needed at once by all following launches, so there is no gain and nothing changes.
// With 'always' it is on the side stream, and only the copy of x, which does not need the gather's result, moves.
// REMARK: remark: [Missed] overlap {{.*}}microseconds would be gained, but 10 are required{{.*}}the collectives of 'nothing_beside' stay on one stream
// CHECK-LABEL: func.func @nothing_beside
// CHECK-NOT: side
// CHECK: return
// ALWAYS-LABEL: func.func @nothing_beside
// ALWAYS: tert.launch "all_gather" {{.*}} side :
// ALWAYS-NEXT: tert.launch "copy"
func.func @nothing_beside(%part: !tert.buffer<16777216>, %y: !tert.buffer<67108864>) {
  %x = tert.alloc "x" activation : !tert.buffer<67108864>
  tert.launch "all_gather" {bytes = 16777216 : i64, group_id = 0 : i32, ranks = 4 : i32} (%part, %x) : !tert.buffer<16777216>, !tert.buffer<67108864>
  tert.launch "copy" {bytes = 67108864 : i64} (%x, %y) : !tert.buffer<67108864>, !tert.buffer<67108864>
  return
}

// The gain in a small step is below the limit.
// REMARK: remark: [Missed] overlap {{.*}}Function=too_small
// CHECK-LABEL: func.func @too_small
// CHECK-NOT: side
// CHECK: return
func.func @too_small(%part: !tert.buffer<256>, %w: !tert.buffer<1024>, %y: !tert.buffer<512>, %z: !tert.buffer<1024>) {
  %x = tert.alloc "x" activation : !tert.buffer<512>
  tert.launch "all_gather" {bytes = 256 : i64, group_id = 0 : i32, ranks = 2 : i32} (%part, %x) : !tert.buffer<256>, !tert.buffer<512>
  tert.launch "copy" {bytes = 1024 : i64} (%w, %z) : !tert.buffer<1024>, !tert.buffer<1024>
  tert.launch "copy" {bytes = 512 : i64} (%x, %y) : !tert.buffer<512>, !tert.buffer<512>
  return
}

// A launch never moves across one whose buffer it writes: 'scratch' is written again for the second GEMM, after the reader of the first.
// CHECK-LABEL: func.func @write_after_read
// CHECK: tert.launch "all_gather"
// CHECK: tert.launch "copy" {{.*}}(%arg1, %[[SCRATCH:.*]]) :
// CHECK: tert.launch "bias_add" {{.*}}(%[[SCRATCH]], %[[X:.*]], %arg3)
// CHECK: tert.launch "copy" {{.*}}(%arg2, %[[SCRATCH]]) :
func.func @write_after_read(%part: !tert.buffer<16777216>, %a: !tert.buffer<67108864>, %b: !tert.buffer<67108864>, %y: !tert.buffer<67108864>, %z: !tert.buffer<67108864>) {
  %x = tert.alloc "x" activation : !tert.buffer<67108864>
  %scratch = tert.alloc "scratch" activation : !tert.buffer<67108864>
  tert.launch "all_gather" {bytes = 16777216 : i64, group_id = 0 : i32, ranks = 4 : i32} (%part, %x) : !tert.buffer<16777216>, !tert.buffer<67108864>
  tert.launch "copy" {bytes = 67108864 : i64} (%a, %scratch) : !tert.buffer<67108864>, !tert.buffer<67108864>
  tert.launch "bias_add" {cols = 33554432 : i64, rows = 1 : i64, type = 1 : i32}
    (%scratch, %x, %y) : !tert.buffer<67108864>, !tert.buffer<67108864>, !tert.buffer<67108864>
  tert.launch "copy" {bytes = 67108864 : i64} (%b, %scratch) : !tert.buffer<67108864>, !tert.buffer<67108864>
  tert.launch "copy" {bytes = 67108864 : i64} (%scratch, %z) : !tert.buffer<67108864>, !tert.buffer<67108864>
  return
}

// The time of attention depends on the number of visible positions: with 8,192 it hides a gather, with a window of 17 it does not.
// REMARK: remark: [Passed] overlap {{.*}}the collectives of 'attention_beside' are on the side stream
// CHECK-LABEL: func.func @attention_beside
// CHECK: tert.launch "all_gather" {{.*}} side :
func.func @attention_beside(%part: !tert.buffer<16777216>, %q: !tert.buffer<1024>, %o: !tert.buffer<1024>, %lse: !tert.buffer<1024>, %y: !tert.buffer<67108864>) {
  %x = tert.alloc "x" activation : !tert.buffer<67108864>
  tert.launch "all_gather" {bytes = 16777216 : i64, group_id = 0 : i32, ranks = 4 : i32} (%part, %x) : !tert.buffer<16777216>, !tert.buffer<67108864>
  tert.launch "attention" {boundaries = 0 : i64, causal = 1 : i32, dropout = 0.0 : f32, has_sinks = 0 : i32, head_dim = 128 : i64, heads = 8 : i64, kv_heads = 8 : i64, scale = 1.0 : f32, sequence = 8192 : i64, softcap = 0.0 : f32, stream = 0 : i32, tokens = 8192 : i64, type = 1 : i32, value_dim = 128 : i64, window_left = -1 : i64}
    (%q, %q, %q, %q, %q, %q, %o, %lse) : !tert.buffer<1024>, !tert.buffer<1024>, !tert.buffer<1024>, !tert.buffer<1024>, !tert.buffer<1024>, !tert.buffer<1024>, !tert.buffer<1024>, !tert.buffer<1024>
  tert.launch "copy" {bytes = 67108864 : i64} (%x, %y) : !tert.buffer<67108864>, !tert.buffer<67108864>
  return
}

// REMARK: remark: [Missed] overlap {{.*}}the collectives of 'window_beside' stay on one stream
// CHECK-LABEL: func.func @window_beside
// CHECK-NOT: side
// CHECK: return
func.func @window_beside(%part: !tert.buffer<16777216>, %q: !tert.buffer<1024>, %o: !tert.buffer<1024>, %lse: !tert.buffer<1024>, %y: !tert.buffer<67108864>) {
  %x = tert.alloc "x" activation : !tert.buffer<67108864>
  tert.launch "all_gather" {bytes = 16777216 : i64, group_id = 0 : i32, ranks = 4 : i32} (%part, %x) : !tert.buffer<16777216>, !tert.buffer<67108864>
  tert.launch "attention" {boundaries = 0 : i64, causal = 1 : i32, dropout = 0.0 : f32, has_sinks = 0 : i32, head_dim = 128 : i64, heads = 8 : i64, kv_heads = 8 : i64, scale = 1.0 : f32, sequence = 8192 : i64, softcap = 0.0 : f32, stream = 0 : i32, tokens = 8192 : i64, type = 1 : i32, value_dim = 128 : i64, window_left = 16 : i64}
    (%q, %q, %q, %q, %q, %q, %o, %lse) : !tert.buffer<1024>, !tert.buffer<1024>, !tert.buffer<1024>, !tert.buffer<1024>, !tert.buffer<1024>, !tert.buffer<1024>, !tert.buffer<1024>, !tert.buffer<1024>
  tert.launch "copy" {bytes = 67108864 : i64} (%x, %y) : !tert.buffer<67108864>, !tert.buffer<67108864>
  return
}
