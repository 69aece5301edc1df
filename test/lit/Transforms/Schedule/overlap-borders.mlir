// Cases in which collectives and launches do not move, although a move would save time.
// RUN: te-opt %s --te-overlap-communication --split-input-file | FileCheck %s

// Ranks run their own programs, so all collectives keep the order that was verified. The gather could run beside the first GEMM.
// CHECK-LABEL: func.func @own_program
// CHECK: tert.launch "reduce_scatter_sum"
// CHECK: tert.launch "all_gather"
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>, #te.group<id = 1, name = "pp", axis = "pp", size = 2>]} {
module attributes {te.ranks = array<i64: 0, 1>} {
func.func @own_program(%part: !tert.buffer<33554432>, %dy: !tert.buffer<117440512>, %w: !tert.buffer<58720256>, %dw: !tert.buffer<58720256>, %y: !tert.buffer<33554432>) {
  %null = tert.null : !tert.buffer<0>
  %partial = tert.alloc "partial" gradient : !tert.buffer<67108864>
  %x = tert.alloc "x" gradient : !tert.buffer<67108864>
  tert.launch "matmul" {m = 8192 : i64, n = 4096 : i64, k = 7168 : i64, trans_a = 0 : i32, trans_b = 0 : i32, type = 1 : i32, out_type = 1 : i32}
    (%dy, %w, %null, %null, %null, %partial) : !tert.buffer<117440512>, !tert.buffer<58720256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<67108864>
  tert.launch "reduce_scatter_sum" {count = 16777216 : i64, group_id = 0 : i32, ranks = 2 : i32, type = 1 : i32} (%partial, %y) : !tert.buffer<67108864>, !tert.buffer<33554432>
  tert.launch "all_gather" {bytes = 33554432 : i64, group_id = 0 : i32, ranks = 2 : i32} (%part, %x) : !tert.buffer<33554432>, !tert.buffer<67108864>
  tert.launch "matmul" {m = 7168 : i64, n = 4096 : i64, k = 8192 : i64, trans_a = 1 : i32, trans_b = 0 : i32, type = 1 : i32, out_type = 1 : i32}
    (%dy, %x, %null, %null, %null, %dw) : !tert.buffer<117440512>, !tert.buffer<67108864>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<58720256>
  return
}
}
}

// -----

// Host programs split a step at the first use of a cotangent. The launch that could run during the gather stays after that.
// CHECK-LABEL: func.func @cut
// CHECK: tert.launch "all_gather"
// CHECK: tert.launch "copy" {{.*}}(%{{.*}}, %arg2)
// CHECK: tert.launch "copy" {{.*}}(%arg1, %arg3)
func.func @cut(%part: !tert.buffer<33554432>, %dy: !tert.buffer<67108864>, %y: !tert.buffer<67108864>, %dx: !tert.buffer<67108864>)
    attributes {tert.signature = [
      {carried = -1 : i64, name = "x", part = "value", role = "argument", type = tensor<16777216xbf16>},
      {carried = -1 : i64, name = "grad.y", part = "value", role = "argument", type = tensor<33554432xbf16>},
      {carried = -1 : i64, name = "y", part = "value", role = "result", type = tensor<33554432xbf16>},
      {carried = -1 : i64, name = "grad.x", part = "value", role = "result", type = tensor<33554432xbf16>}]} {
  %x = tert.alloc "x" activation : !tert.buffer<67108864>
  tert.launch "all_gather" {bytes = 33554432 : i64, group_id = 0 : i32, ranks = 2 : i32} (%part, %x) : !tert.buffer<33554432>, !tert.buffer<67108864>
  tert.launch "copy" {bytes = 67108864 : i64} (%x, %y) : !tert.buffer<67108864>, !tert.buffer<67108864>
  tert.launch "copy" {bytes = 67108864 : i64} (%dy, %dx) : !tert.buffer<67108864>, !tert.buffer<67108864>
  return
}

// The same if the other input is not a cotangent.
// CHECK-LABEL: func.func @no_cut
// CHECK: tert.launch "all_gather" {{.*}} side
// CHECK: tert.launch "copy" {{.*}}(%arg1, %arg3)
// CHECK: tert.launch "copy" {{.*}}(%{{.*}}, %arg2)
func.func @no_cut(%part: !tert.buffer<33554432>, %a: !tert.buffer<67108864>, %y: !tert.buffer<67108864>, %b: !tert.buffer<67108864>) {
  %x = tert.alloc "x" activation : !tert.buffer<67108864>
  tert.launch "all_gather" {bytes = 33554432 : i64, group_id = 0 : i32, ranks = 2 : i32} (%part, %x) : !tert.buffer<33554432>, !tert.buffer<67108864>
  tert.launch "copy" {bytes = 67108864 : i64} (%x, %y) : !tert.buffer<67108864>, !tert.buffer<67108864>
  tert.launch "copy" {bytes = 67108864 : i64} (%a, %b) : !tert.buffer<67108864>, !tert.buffer<67108864>
  return
}
