// Each thread of a CPU and each block of a GPU raises an amax with one atomic maximum. The record names the outputs that are amaxes.
// RUN: te-opt %s --te-convert-tert-to-llvm="target=sm_90" | FileCheck %s

// CHECK-LABEL: llvm.func internal @te_generated_0(
// CHECK: %[[PART:.*]] = llvm.alloca
// CHECK: llvm.intr.fabs
// CHECK: llvm.fcmp "ogt"
// CHECK: llvm.atomicrmw umax %{{.*}}, %{{.*}} monotonic
// CHECK-LABEL: llvm.func @te_generated_0_device(
// CHECK: llvm.call_intrinsic "llvm.nvvm.redux.sync.umax"
// CHECK: llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.all"
// CHECK: llvm.load volatile
// CHECK: llvm.atomicrmw umax %{{.*}}, %{{.*}} syncscope("device") monotonic
// CHECK: llvm.mlir.global private constant @te_generated_0_record_0
// CHECK: llvm.mlir.constant(2 : i32)
func.func @step(%x: !tert.buffer<64>, %y: !tert.buffer<64>, %amax: !tert.buffer<4>) attributes {tert.arena_bytes = 0 : i64, tert.signature = []} {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 32 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %amax, %none, %none)
    maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (0)>]
    : !tert.buffer<64>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<64>, !tert.buffer<4>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: bf16):
    %w = arith.extf %in : bf16 to f32
    %p = arith.mulf %w, %w : f32
    %n = arith.truncf %p : f32 to bf16
    %r = arith.extf %n : bf16 to f32
    %a = tert.amax %r
    tert.yield %n, %a : bf16, f32
  }
  return
}
