// Parses, verifies and prints every example of the tert dialect's reference
// pages. test/lint/doc_examples.py checks that the file has all of them.
// RUN: te-opt %s | te-opt | FileCheck %s
// RUN: te-opt %s --mlir-print-op-generic | te-opt | FileCheck %s
// RUN: te-opt %s --emit-bytecode | te-opt | FileCheck %s

// CHECK-LABEL: @buffer
func.func @buffer(
  // CHECK-SAME: !tert.buffer<262144>
  %a:
!tert.buffer<262144>
) { return }

// CHECK-LABEL: @alloc
func.func @alloc(%result: !tert.buffer<2097152>) {
  // CHECK: tert.alloc "w1.out" activation : !tert.buffer<2097152>
  // CHECK: tert.alloc "x.data" cached_cast offset 4096 : !tert.buffer<131072>
  // CHECK: tert.alloc "grad.w1" gradient of_result 0 offset 135168 : !tert.buffer<2097152>
  %h = tert.alloc "w1.out" activation : !tert.buffer<2097152>
  %q = tert.alloc "x.data" cached_cast offset 4096 : !tert.buffer<131072>
  %dw = tert.alloc "grad.w1" gradient of_result 0 offset 135168 : !tert.buffer<2097152>
  return
}

// CHECK-LABEL: @null
func.func @null() {
  // CHECK: tert.null : !tert.buffer<0>
  %none = tert.null : !tert.buffer<0>
  return
}

// CHECK-LABEL: @slice
func.func @slice(%weights: !tert.buffer<524288>) {
  // CHECK: tert.slice %{{.*}} offset 131072 : !tert.buffer<524288> -> !tert.buffer<131072>
  %second = tert.slice %weights offset 131072 : !tert.buffer<524288> -> !tert.buffer<131072>
  return
}

// CHECK-LABEL: @launch
func.func @launch(%x: !tert.buffer<262144>, %y: !tert.buffer<262144>) {
  // CHECK: tert.launch "hadamard" {cols = 512 : i64, rows = 256 : i64}(%{{.*}}, %{{.*}}) : !tert.buffer<262144>, !tert.buffer<262144>
  // CHECK: tert.launch "all_reduce_max" {count = 65536 : i64, group_id = 0 : i32}(%{{.*}}, %{{.*}}) side : !tert.buffer<262144>, !tert.buffer<262144>
  tert.launch "hadamard" {cols = 512 : i64, rows = 256 : i64} (%x, %y)
    : !tert.buffer<262144>, !tert.buffer<262144>
  tert.launch "all_reduce_max" {count = 65536 : i64, group_id = 0 : i32} (%x, %y) side
    : !tert.buffer<262144>, !tert.buffer<262144>
  return
}

// CHECK-LABEL: @generated
func.func @generated(%x: !tert.buffer<64>, %y: !tert.buffer<64>) {
  %none = tert.null : !tert.buffer<0>
  // CHECK: tert.launch "generated"
  // CHECK: ^bb0(%{{.*}}: bf16):
  // CHECK: tert.yield %{{.*}} : bf16
  tert.launch "generated" {count = 32 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<64>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<64>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: bf16):
    %wide = arith.extf %in : bf16 to f32
    %twice = arith.addf %wide, %wide : f32
    %sum = arith.truncf %twice : f32 to bf16
    tert.yield %sum : bf16
  }
  return
}

// CHECK-LABEL: @dropout
func.func @dropout(%x: !tert.buffer<128>, %state: !tert.buffer<8>, %y: !tert.buffer<128>) {
  %none = tert.null : !tert.buffer<0>
  %first = tert.slice %state offset 0 : !tert.buffer<8> -> !tert.buffer<4>
  tert.launch "generated" {count = 32 : i64, function = 0 : i64} (%x, %first, %state, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (0)>, affine_map<(d0) -> (1)>]
    : !tert.buffer<128>, !tert.buffer<4>, !tert.buffer<8>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32, %seed: i32, %offset: i32):
    // CHECK: tert.dropout %{{.*}}, %{{.*}} {probability = 1.000000e-01 : f32, stream = 2 : i32}
    %factor = tert.dropout %seed, %offset {probability = 0.1 : f32, stream = 2 : i32}
    %out = arith.mulf %in, %factor : f32
    tert.yield %out : f32
  }
  return
}

// CHECK-LABEL: func.func @amax
func.func @amax(%in: !tert.buffer<256>, %y: !tert.buffer<4>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%in, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (0)>]
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<4>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%x: f32):
    // CHECK: tert.amax %{{.*}}
    %amax = tert.amax %x
    tert.yield %amax : f32
  }
  return
}

// CHECK-LABEL: func.func @row_reduce
func.func @row_reduce(%in: !tert.buffer<32768>, %y: !tert.buffer<8>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 8192 : i64, function = 0 : i64} (%in, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0 floordiv 4096)>]
    : !tert.buffer<32768>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<8>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%x: f32):
    // CHECK: tert.row_reduce maximum %{{.*}} {cols = 4096 : i64}
    %max = tert.row_reduce maximum %x {cols = 4096 : i64}
    tert.yield %max : f32
  }
  return
}
