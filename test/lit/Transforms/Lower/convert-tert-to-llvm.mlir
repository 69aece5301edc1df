// RUN: te-opt %s --te-convert-tert-to-llvm | FileCheck %s
// RUN: te-opt %s --te-convert-tert-to-llvm | mlir-translate --mlir-to-llvmir | FileCheck %s --check-prefix=LLVM

// The attributes describe each slot, for measurements.
// CHECK: module attributes {tert.launches = [
// CHECK-SAME: {kernel = "copy", location = "{{[^"]*}}convert-tert-to-llvm.mlir:[[# @LINE + 31]]:3", name = "a", parameters = {bytes = 256 : i64}}
// CHECK-SAME: {kernel = "copy", location = "", name = "y.data", parameters = {bytes = 256 : i64}}
// CHECK-SAME: {kernel = "fill", location = "{{[^"]*}}", name = "w1 fprop", parameters = {count = 64 : i64, type = 0 : i32, value = 1.000000e+00 : f32}}
// CHECK-SAME: ], tert.signature = [
// CHECK-SAME: tert.uses = [array<i32: 0, 2>, array<i32: 1, 1>]
// CHECK-NOT: func.func
// Every launch has its own slot, even if parameters are equal.
// CHECK-LABEL: llvm.func @te_module_load(%{{.*}}: !llvm.ptr) -> i32
// CHECK-COUNT-2: llvm.call @te_rt_plan_copy(%{{.*}}) : (!llvm.ptr, i32, i64) -> i32
// CHECK-NOT: te_rt_plan_copy
// CHECK: %[[LAST:.*]] = llvm.call @te_rt_plan_fill(%{{.*}}) : (!llvm.ptr, i32, i64, i32, f32) -> i32
// CHECK: llvm.return %[[LAST]] : i32
// CHECK-LABEL: llvm.func @te_module_step
// CHECK-SAME: (%[[INSTANCE:.*]]: !llvm.ptr, %[[ARENA:.*]]: !llvm.ptr, %[[ARGUMENTS:.*]]: !llvm.ptr)
// CHECK: %[[TWO:.*]] = llvm.mlir.constant(2 : i32) : i32
// CHECK: %[[ARRAY:.*]] = llvm.alloca %[[TWO]] x !llvm.ptr
// CHECK: llvm.getelementptr %[[ARGUMENTS]][0]
// CHECK: llvm.getelementptr %[[ARENA]]
// CHECK: llvm.call @te_rt_launch(%[[INSTANCE]], %{{.*}}, %[[ARRAY]]) : (!llvm.ptr, i32, !llvm.ptr) -> i32
// CHECK-COUNT-2: llvm.call @te_rt_launch
// CHECK-NOT: llvm.call @te_rt_launch
// CHECK: llvm.mlir.global external constant @te_module()

// LLVM: @te_module = constant { i32, i32, i64, i32, i32, ptr, ptr, ptr, ptr, i32, i32 } { i32 1297237332, i32 {{[0-9]+}}, i64 512, i32 3, i32 2, ptr @te_module_load, ptr @te_module_step, ptr @te_module_origins, ptr @te_module_kernels, i32 2, i32 0 }
// Messages about a launch have its location.
// LLVM: @te_module_origins = private constant [{{[0-9]+}} x i8] c"'a' at {{.*}}convert-tert-to-llvm.mlir:{{[0-9]+}}:3\00'y.data'\00'w1 fprop' at model.py:7:5\00"
func.func @step(%x: !tert.buffer<256>, %y: !tert.buffer<256>)
    attributes {tert.arena_bytes = 512 : i64, tert.max_live_bytes = 512 : i64, tert.signature = [
      {carried = -1 : i64, name = "x", part = "value", role = "argument", type = tensor<64xf32>},
      {carried = -1 : i64, name = "y", part = "data", role = "result", type = tensor<64xf32>}]} {
  %a = tert.alloc "a" activation offset 256 : !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%x, %a) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%a, %y) : !tert.buffer<256>, !tert.buffer<256> loc(unknown)
  %null = tert.null : !tert.buffer<0>
  tert.launch "fill" {count = 64 : i64, type = 0 : i32, value = 1.0 : f32} (%x, %null) : !tert.buffer<256>, !tert.buffer<0>
    loc(fused<{te.layer = "w1", te.gemm = "fprop", te.reason = "as written"}>["model.py":7:5])
  return
}
