// A thread whose run is behind its row counts for no amax: it reads the last elements of the row, which another thread may have
// overwritten, because an output may be an input.
// RUN: te-opt %s --te-convert-tert-to-llvm="target=sm_90" | FileCheck %s

// CHECK-LABEL: llvm.func @te_generated_0_device(
// CHECK: %[[PRODUCT:.*]] = llvm.fmul
// CHECK: %[[X:.*]] = llvm.select %{{.*}}, %[[PRODUCT]], %{{.*}} : i1, f32
// CHECK: llvm.intr.fabs(%[[X]])
func.func @step(%x: !tert.buffer<36>, %amax: !tert.buffer<4>) attributes {tert.arena_bytes = 0 : i64, tert.signature = []} {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 9 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %x, %amax, %none, %none)
    maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (0)>]
    : !tert.buffer<36>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<36>, !tert.buffer<4>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    %s = tert.row_reduce sum %in {cols = 9 : i64}
    %p = arith.mulf %in, %s : f32
    %q = arith.addf %in, %s : f32
    %a = tert.amax %p
    tert.yield %q, %a : f32, f32
  }
  return
}
