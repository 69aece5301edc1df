// The code of a launch with a body, for the CPU and for a GPU.
// RUN: te-opt %s --te-convert-tert-to-llvm="target=sm_90" | FileCheck %s
// RUN: te-opt %s --te-convert-tert-to-llvm | FileCheck %s --check-prefix=HOST --implicit-check-not=tert.device

// CHECK: tert.target = "sm_90"
// CHECK: llvm.call @te_rt_plan_generated(%{{.*}}) : (!llvm.ptr, i32, i64, i64) -> i32
// Launches with equal bodies share their code.
// CHECK: llvm.func internal @te_generated_0(%[[BUFFERS:.*]]: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i32)
// CHECK: llvm.getelementptr %[[BUFFERS]]
// CHECK: llvm.load %{{.*}} : !llvm.ptr -> i16
// CHECK: llvm.call @te_scalar_from_bf16
// CHECK: llvm.fmul {{.*}} : f32
// CHECK: llvm.call @te_scalar_to_bf16
// CHECK: llvm.func @te_generated_0_device(%{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: i64, %{{.*}}: i32, %{{.*}}: i32) attributes {passthrough = {{\[\[}}"nvvm.maxntid", "256"]], tert.device}
// CHECK: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK: llvm.call_intrinsic "llvm.nvvm.f2bf16.rn"
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<1>
// CHECK: llvm.mlir.global private constant @te_generated_0_device_code
// CHECK: llvm.mlir.global private constant @te_generated_0_record_0
// CHECK-NOT: @te_generated_1
// HOST: llvm.func internal @te_generated_0(
func.func @step(%x: !tert.buffer<64>, %y: !tert.buffer<64>) attributes {tert.arena_bytes = 0 : i64, tert.signature = []} {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 32 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<64>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<64>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: bf16):
    %w = arith.extf %in : bf16 to f32
    %p = arith.mulf %w, %w : f32
    %n = arith.truncf %p : f32 to bf16
    tert.yield %n : bf16
  }
  tert.launch "generated" {count = 32 : i64, function = 0 : i64} (%y, %none, %none, %none, %none, %none, %none, %none, %x, %none, %none, %none)
    : !tert.buffer<64>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<64>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%other: bf16):
    %w = arith.extf %other : bf16 to f32
    %p = arith.mulf %w, %w : f32
    %n = arith.truncf %p : f32 to bf16
    tert.yield %n : bf16
  }
  return
}
