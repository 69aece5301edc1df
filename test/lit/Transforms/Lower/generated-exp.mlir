// RUN: te-opt %s --te-convert-tert-to-llvm="target=sm_90" | FileCheck %s

// What is left of elements without their maximum is not above 0, for which exp has a function with fewer instructions.
// CHECK: llvm.func internal @te_generated_0(
// CHECK: llvm.call @te_scalar_exp_nonpositive(
// CHECK: llvm.call @te_scalar_exp(
func.func @below(%x: !tert.buffer<2560>, %y: !tert.buffer<2560>, %z: !tert.buffer<2560>) attributes {tert.arena_bytes = 0 : i64, tert.signature = []} {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 640 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %z, %none, %none)
    : !tert.buffer<2560>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<2560>, !tert.buffer<2560>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    %max = tert.row_reduce maximum %in {cols = 128 : i64}
    %d = arith.subf %in, %max : f32
    %e = math.exp %d : f32
    // The difference of another value may be above 0.
    %other = arith.addf %in, %in : f32
    %o = arith.subf %other, %max : f32
    %f = math.exp %o : f32
    tert.yield %e, %f : f32, f32
  }
  return
}
