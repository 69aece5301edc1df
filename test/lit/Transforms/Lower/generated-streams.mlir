// Launches that differ in their random streams only share their code, which takes the first stream; the others follow in
// the code by their distance from it.
// RUN: te-opt %s --te-convert-tert-to-llvm="target=sm_90" | FileCheck %s

// CHECK: llvm.func internal @te_generated_0(%{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64, %[[STREAM:.*]]: i32)
// CHECK: %[[ZERO:.*]] = llvm.mlir.constant(0 : i32)
// CHECK: %[[FIRST:.*]] = llvm.add %[[STREAM]], %[[ZERO]]
// CHECK: llvm.call @te_scalar_dropout_words(%{{.*}}, %{{.*}}, %{{.*}}, %[[FIRST]])
// CHECK: %[[THREE:.*]] = llvm.mlir.constant(3 : i32)
// CHECK: %[[NEXT:.*]] = llvm.add %[[STREAM]], %[[THREE]]
// CHECK: llvm.call @te_scalar_dropout_words(%{{.*}}, %{{.*}}, %{{.*}}, %[[NEXT]])
// CHECK: llvm.func @te_generated_0_device(
// CHECK: llvm.mlir.global private constant @te_generated_0_record_2()
// CHECK: llvm.mlir.global private constant @te_generated_0_record_4294967295()
// CHECK: llvm.func internal @te_generated_1(
// CHECK: llvm.mlir.constant(4 : i32)
// CHECK: llvm.mlir.global private constant @te_generated_1_record_2()
// CHECK-NOT: @te_generated_2
func.func @step(%x: !tert.buffer<128>, %state: !tert.buffer<8>, %y: !tert.buffer<128>) attributes {tert.arena_bytes = 0 : i64, tert.signature = []} {
  %none = tert.null : !tert.buffer<0>
  %first = tert.slice %state offset 0 : !tert.buffer<8> -> !tert.buffer<4>
  tert.launch "generated" {count = 32 : i64, function = 0 : i64} (%x, %first, %state, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (0)>, affine_map<(d0) -> (1)>]
    : !tert.buffer<128>, !tert.buffer<4>, !tert.buffer<8>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32, %seed: i32, %offset: i32):
    %factor = tert.dropout %seed, %offset {probability = 0.1 : f32, stream = 2 : i32}
    %again = tert.dropout %seed, %offset {probability = 0.1 : f32, stream = 5 : i32}
    %some = arith.mulf %in, %factor : f32
    %out = arith.mulf %some, %again : f32
    tert.yield %out : f32
  }
  tert.launch "generated" {count = 32 : i64, function = 0 : i64} (%x, %first, %state, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (0)>, affine_map<(d0) -> (1)>]
    : !tert.buffer<128>, !tert.buffer<4>, !tert.buffer<8>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32, %seed: i32, %offset: i32):
    %factor = tert.dropout %seed, %offset {probability = 0.1 : f32, stream = -1 : i32}
    %again = tert.dropout %seed, %offset {probability = 0.1 : f32, stream = 2 : i32}
    %some = arith.mulf %in, %factor : f32
    %out = arith.mulf %some, %again : f32
    tert.yield %out : f32
  }
  tert.launch "generated" {count = 32 : i64, function = 0 : i64} (%x, %first, %state, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (0)>, affine_map<(d0) -> (1)>]
    : !tert.buffer<128>, !tert.buffer<4>, !tert.buffer<8>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32, %seed: i32, %offset: i32):
    %factor = tert.dropout %seed, %offset {probability = 0.1 : f32, stream = 2 : i32}
    %again = tert.dropout %seed, %offset {probability = 0.1 : f32, stream = 6 : i32}
    %some = arith.mulf %in, %factor : f32
    %out = arith.mulf %some, %again : f32
    tert.yield %out : f32
  }
  return
}
