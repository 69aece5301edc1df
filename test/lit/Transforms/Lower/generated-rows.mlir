// The code of a launch that sums rows, for the CPU and for a GPU.
// RUN: te-opt %s --split-input-file --te-convert-tert-to-llvm="target=sm_90" | FileCheck %s --check-prefixes=CHECK,BLOCK

// CHECK: #[[UNROLL:.*]] = #llvm.loop_unroll<disable = true>
// CHECK: #[[COMPACT:.*]] = #llvm.loop_annotation<unroll = #[[UNROLL]]>

// The CPU adds the elements of a row to 256 lanes, and visits the row again for the results.
// CHECK: llvm.func internal @te_generated_0(
// CHECK: %[[LANES:.*]] = llvm.alloca
// CHECK: llvm.call @te_scalar_set_lanes(%[[LANES]], %{{.*}})
// CHECK: llvm.urem
// CHECK: llvm.call @te_scalar_sum_of_lanes(%[[LANES]])
// CHECK: llvm.fmul
// CHECK: llvm.store {{.*}} : i16

// A warp loads its row once: a run of four elements for each thread.
// CHECK: llvm.func @te_generated_0_device(
// CHECK: llvm.load %{{.*}} {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xi32>
// CHECK-COUNT-8: llvm.call_intrinsic "llvm.nvvm.shfl.sync.bfly.f32"
// CHECK-NOT: -> vector<2xi32>
// CHECK: llvm.store {{.*}} {alignment = 8 : i64} : vector<4xbf16>, !llvm.ptr<1>
// CHECK: llvm.icmp "eq"
// CHECK: llvm.store {{.*}} : f32, !llvm.ptr<1>
// Buffers without that alignment are read one element at a time, in loops that stay small.
// CHECK: llvm.load {{.*}} : !llvm.ptr<1> -> vector<1xbf16>
// CHECK-NOT: llvm.load
// CHECK: llvm.br {{.*}} {loop_annotation = #[[COMPACT]]}
// CHECK-COUNT-5: llvm.call_intrinsic "llvm.nvvm.shfl.sync.bfly.f32"
// CHECK: llvm.load {{.*}} : !llvm.ptr<1> -> vector<1xbf16>
// CHECK-NOT: llvm.load
// CHECK: llvm.store {{.*}} : vector<1xbf16>, !llvm.ptr<1>
// CHECK-NOT: llvm.load
// CHECK: llvm.br {{.*}} {loop_annotation = #[[COMPACT]]}
// 128 threads compute four rows of 128 elements.
// CHECK: llvm.mlir.global private constant @te_generated_0_record_0
// CHECK: llvm.mlir.constant(128 : i32) : i32
// CHECK: llvm.mlir.constant(512 : i32) : i32
// CHECK: llvm.mlir.constant(0 : i32) : i32
func.func @step(%x: !tert.buffer<2560>, %y: !tert.buffer<2560>, %s: !tert.buffer<40>) attributes {tert.arena_bytes = 0 : i64, tert.signature = []} {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 1280 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %s, %none, %none)
    maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0 floordiv 128)>]
    : !tert.buffer<2560>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<2560>, !tert.buffer<40>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: bf16):
    %w = arith.extf %in : bf16 to f32
    %sum = tert.row_reduce sum %w {cols = 128 : i64}
    %p = arith.mulf %w, %sum : f32
    %n = arith.truncf %p : f32 to bf16
    tert.yield %n, %sum : bf16, f32
  }
  return
}

// -----

// A block of 128 threads keeps a longer row in registers. Each thread has two lanes, and then reduces eight of the 256.
// BLOCK: llvm.mlir.global external @te_shared_memory() {addr_space = 3 : i32, alignment = 16 : i64, tert.device} : !llvm.array<0 x i8>
// BLOCK: llvm.func @te_generated_0_device({{.*}}attributes {passthrough = {{\[\[}}"nvvm.maxntid", "128"]], tert.device}
// BLOCK-COUNT-56: llvm.load {{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> vector<1xi32>
// BLOCK-NOT: llvm.load
// BLOCK-COUNT-2: llvm.store {{.*}} : f32, !llvm.ptr<3>
// BLOCK: llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.all"
// BLOCK-COUNT-8: llvm.load {{.*}} : !llvm.ptr<3> -> f32
// A division by the sum is a product with its inverse and two corrections. Only if one dividend of a run needs it, all are divided.
// BLOCK: llvm.fdiv
// BLOCK-COUNT-8: llvm.call_intrinsic "llvm.fma.f32"
// BLOCK: llvm.cond_br
// BLOCK-COUNT-2: llvm.fdiv
// BLOCK: llvm.store {{.*}} {alignment = 4 : i64} : vector<2xbf16>, !llvm.ptr<1>
// The shared memory has 256 lanes of f32.
// BLOCK: llvm.mlir.global private constant @te_generated_0_record_0
// BLOCK: llvm.mlir.constant(128 : i32) : i32
// BLOCK: llvm.mlir.constant(14336 : i32) : i32
// BLOCK: llvm.mlir.constant(1024 : i32) : i32
func.func @long(%x: !tert.buffer<57344>, %y: !tert.buffer<57344>) attributes {tert.arena_bytes = 0 : i64, tert.signature = []} {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 28672 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<57344>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<57344>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: bf16):
    %w = arith.extf %in : bf16 to f32
    %sum = tert.row_reduce sum %w {cols = 14336 : i64}
    %q = arith.divf %w, %sum : f32
    %n = arith.truncf %q : f32 to bf16
    tert.yield %n : bf16
  }
  return
}

// -----

// If that would be too much code, two groups of 128 threads have half of the columns each. The second adds to the lanes of the first.
// BLOCK: llvm.func @te_generated_0_device({{.*}}attributes {passthrough = {{\[\[}}"nvvm.maxntid", "256"]], tert.device}
// BLOCK: llvm.udiv
// BLOCK-COUNT-28: llvm.load {{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> vector<1xi32>
// BLOCK-NOT: llvm.load
// BLOCK-COUNT-2: llvm.store {{.*}} : f32, !llvm.ptr<3>
// BLOCK: llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.all"
// BLOCK: llvm.load {{.*}} : !llvm.ptr<3> -> f32
// BLOCK: llvm.store {{.*}} : f32, !llvm.ptr<3>
// BLOCK: llvm.load {{.*}} : !llvm.ptr<3> -> f32
// BLOCK: llvm.store {{.*}} : f32, !llvm.ptr<3>
// BLOCK: llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.all"
// BLOCK-COUNT-8: llvm.load {{.*}} : !llvm.ptr<3> -> f32
// BLOCK: llvm.mlir.global private constant @te_generated_0_record_0
// BLOCK: llvm.mlir.constant(256 : i32) : i32
// BLOCK: llvm.mlir.constant(14336 : i32) : i32
// BLOCK: llvm.mlir.constant(1024 : i32) : i32
func.func @exponentials(%x: !tert.buffer<57344>, %y: !tert.buffer<57344>) attributes {tert.arena_bytes = 0 : i64, tert.signature = []} {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 28672 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<57344>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<57344>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: bf16):
    %w = arith.extf %in : bf16 to f32
    %e = math.exp %w : f32
    %sum = tert.row_reduce sum %e {cols = 14336 : i64}
    %q = arith.divf %e, %sum : f32
    %n = arith.truncf %q : f32 to bf16
    tert.yield %n : bf16
  }
  return
}

// -----

// A row with an odd number of columns has no pairs: each of 256 threads has one lane. In the last run, some have the last element instead.
// BLOCK: llvm.func @te_generated_0_device({{.*}}attributes {passthrough = {{\[\[}}"nvvm.maxntid", "256"]], tert.device}
// BLOCK-NOT: llvm.udiv
// BLOCK-NOT: llvm.intr.smin
// BLOCK-COUNT-19: llvm.load {{.*}} : !llvm.ptr<1> -> vector<1xbf16>
// BLOCK: llvm.intr.smin
// BLOCK: llvm.load {{.*}} : !llvm.ptr<1> -> vector<1xbf16>
// BLOCK-NOT: llvm.load
// BLOCK: llvm.store {{.*}} : f32, !llvm.ptr<3>
// BLOCK: llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.all"
// BLOCK: llvm.mlir.global private constant @te_generated_0_record_0
// BLOCK: llvm.mlir.constant(256 : i32) : i32
// BLOCK: llvm.mlir.constant(5001 : i32) : i32
// BLOCK: llvm.mlir.constant(1024 : i32) : i32
func.func @odd(%x: !tert.buffer<20004>, %y: !tert.buffer<20004>) attributes {tert.arena_bytes = 0 : i64, tert.signature = []} {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 10002 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<20004>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<20004>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: bf16):
    %w = arith.extf %in : bf16 to f32
    %e = math.exp %w : f32
    %sum = tert.row_reduce sum %e {cols = 5001 : i64}
    %q = arith.divf %e, %sum : f32
    %n = arith.truncf %q : f32 to bf16
    tert.yield %n : bf16
  }
  return
}
