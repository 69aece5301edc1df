// A buffer that a launch of the side stream uses is alive as long as that launch may run.
// RUN: te-opt %s --te-plan-memory | FileCheck %s

// Buffers that the main stream writes meanwhile do not overlap those that the side stream uses, although these
// are dead in the order of launches. Buffers written after the main stream waited for the sum may overlap them.
// CHECK-LABEL: func.func @until_the_join
// CHECK-SAME: tert.max_live_bytes = 768 : i64
// CHECK: tert.alloc "summand" gradient offset [[SUMMAND:[0-9]+]]
// CHECK: tert.alloc "sum" gradient offset [[SUM:[0-9]+]]
// CHECK-NOT: offset [[SUMMAND]]
// CHECK-NOT: offset [[SUM]]
// CHECK: tert.alloc "beside" gradient
// CHECK: tert.alloc "after" gradient offset [[SUMMAND]]
func.func @until_the_join(%x: !tert.buffer<256>, %y: !tert.buffer<256>, %z: !tert.buffer<256>) {
  %summand = tert.alloc "summand" gradient : !tert.buffer<256>
  %sum = tert.alloc "sum" gradient : !tert.buffer<256>
  %beside = tert.alloc "beside" gradient : !tert.buffer<256>
  %after = tert.alloc "after" gradient : !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%x, %summand) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "reduce_scatter_sum" {count = 64 : i64, group_id = 0 : i32, ranks = 1 : i32, type = 0 : i32} (%summand, %sum) side : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%x, %beside) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%beside, %y) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%sum, %after) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%after, %z) : !tert.buffer<256>, !tert.buffer<256>
  return
}

// A gather may start as soon as its operand is available, before its position. Its result does not overlap buffers that are used from then on.
// CHECK-LABEL: func.func @from_the_wait
// CHECK-SAME: tert.max_live_bytes = 768 : i64
// CHECK: tert.alloc "part" activation offset
// CHECK: tert.alloc "beside" activation offset [[BESIDE:[0-9]+]]
// CHECK-NOT: offset [[BESIDE]]
// CHECK: tert.alloc "whole" activation
func.func @from_the_wait(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  %part = tert.alloc "part" activation : !tert.buffer<256>
  %beside = tert.alloc "beside" activation : !tert.buffer<256>
  %whole = tert.alloc "whole" activation : !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%x, %part) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%x, %beside) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%beside, %y) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "all_gather" {bytes = 256 : i64, group_id = 0 : i32, ranks = 1 : i32} (%part, %whole) side : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%whole, %y) : !tert.buffer<256>, !tert.buffer<256>
  return
}

// An operand that a collective on the side stream may still read is not overwritten in place. With one stream, it is.
// CHECK-LABEL: func.func @not_in_place
// CHECK: tert.alloc "read" activation offset [[READ:[0-9]+]]
// CHECK-NOT: offset [[READ]]
// CHECK: tert.alloc "negated" activation
func.func @not_in_place(%x: !tert.buffer<256>, %y: !tert.buffer<256>, %z: !tert.buffer<256>) {
  %read = tert.alloc "read" activation : !tert.buffer<256>
  %negated = tert.alloc "negated" activation : !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%x, %read) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "all_reduce_sum" {count = 64 : i64, group_id = 0 : i32, ranks = 1 : i32, type = 0 : i32} (%read, %y) side : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "bias_add" {cols = 64 : i64, rows = 1 : i64, type = 0 : i32}
    (%read, %x, %negated) : !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%y, %z) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%negated, %z) : !tert.buffer<256>, !tert.buffer<256>
  return
}

// CHECK-LABEL: func.func @in_place
// CHECK: tert.alloc "read" activation offset [[READ:[0-9]+]]
// CHECK: tert.alloc "negated" activation offset [[READ]]
func.func @in_place(%x: !tert.buffer<256>, %y: !tert.buffer<256>, %z: !tert.buffer<256>) {
  %read = tert.alloc "read" activation : !tert.buffer<256>
  %negated = tert.alloc "negated" activation : !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%x, %read) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "all_reduce_sum" {count = 64 : i64, group_id = 0 : i32, ranks = 1 : i32, type = 0 : i32} (%read, %y) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "bias_add" {cols = 64 : i64, rows = 1 : i64, type = 0 : i32}
    (%read, %x, %negated) : !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%y, %z) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%negated, %z) : !tert.buffer<256>, !tert.buffer<256>
  return
}
