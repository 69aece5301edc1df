// Which launch waits for which is derived from the buffers that they share. The runtime gets this order when the step is loaded.
// RUN: te-opt %s --te-convert-tert-to-llvm | FileCheck %s

// CHECK: module attributes {tert.launches = [
// CHECK-SAME: kernel = "copy"
// CHECK-NOT: side
// CHECK-SAME: kernel = "all_gather"
// CHECK-SAME: side}
// CHECK-LABEL: llvm.func @te_module_load(
// CHECK-SAME: %[[INSTANCE:.*]]: !llvm.ptr
// CHECK: llvm.call @te_rt_plan_copy
// CHECK-NOT: te_rt_order
// The gather is slot 1, on the side stream, after slot 0.
// CHECK: llvm.call @te_rt_plan_all_gather
// CHECK: %[[SLOT:.*]] = llvm.mlir.constant(1 : i32)
// CHECK: %[[SIDE:.*]] = llvm.mlir.constant(1 : i32)
// CHECK: %[[WAIT:.*]] = llvm.mlir.constant(0 : i32)
// CHECK: llvm.call @te_rt_order(%[[INSTANCE]], %[[SLOT]], %[[SIDE]], %[[WAIT]]) : (!llvm.ptr, i32, i32, i32) -> i32
// The sum after it waits for slot 0, too, because its stream has already done so.
// CHECK: llvm.call @te_rt_plan_all_reduce_sum
// CHECK: %[[SLOT:.*]] = llvm.mlir.constant(2 : i32)
// CHECK: %[[SIDE:.*]] = llvm.mlir.constant(1 : i32)
// CHECK: %[[WAIT:.*]] = llvm.mlir.constant(-1 : i32)
// CHECK: llvm.call @te_rt_order(%[[INSTANCE]], %[[SLOT]], %[[SIDE]], %[[WAIT]])
// Launches that share no buffer with them, or only read one, do not wait.
// CHECK: llvm.call @te_rt_plan_copy
// CHECK-NOT: te_rt_order
// The reader of the gather waits for the gather, but not for the sum.
// CHECK: llvm.call @te_rt_plan_copy
// CHECK: %[[SLOT:.*]] = llvm.mlir.constant(4 : i32)
// CHECK: %[[MAIN:.*]] = llvm.mlir.constant(0 : i32)
// CHECK: %[[WAIT:.*]] = llvm.mlir.constant(1 : i32)
// CHECK: llvm.call @te_rt_order(%[[INSTANCE]], %[[SLOT]], %[[MAIN]], %[[WAIT]])
// The launch that writes the operand of the sum waits for the sum.
// CHECK: llvm.call @te_rt_plan_copy
// CHECK: %[[SLOT:.*]] = llvm.mlir.constant(5 : i32)
// CHECK: %[[MAIN:.*]] = llvm.mlir.constant(0 : i32)
// CHECK: %[[WAIT:.*]] = llvm.mlir.constant(2 : i32)
// CHECK: llvm.call @te_rt_order(%[[INSTANCE]], %[[SLOT]], %[[MAIN]], %[[WAIT]])
// CHECK-NEXT: llvm.return
func.func @step(%x: !tert.buffer<256>, %y: !tert.buffer<512>, %z: !tert.buffer<256>)
    attributes {tert.arena_bytes = 1024 : i64, tert.max_live_bytes = 1024 : i64, tert.signature = []} {
  %part = tert.alloc "part" activation offset 0 : !tert.buffer<256>
  %whole = tert.alloc "whole" activation offset 512 : !tert.buffer<512>
  tert.launch "copy" {bytes = 256 : i64} (%x, %part) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "all_gather" {bytes = 256 : i64, group_id = 0 : i32, ranks = 2 : i32} (%part, %whole) side : !tert.buffer<256>, !tert.buffer<512>
  tert.launch "all_reduce_sum" {count = 64 : i64, group_id = 0 : i32, ranks = 2 : i32, type = 0 : i32} (%part, %z) side : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%part, %y) : !tert.buffer<256>, !tert.buffer<512>
  tert.launch "copy" {bytes = 512 : i64} (%whole, %y) : !tert.buffer<512>, !tert.buffer<512>
  tert.launch "copy" {bytes = 256 : i64} (%x, %part) : !tert.buffer<256>, !tert.buffer<256>
  return
}
