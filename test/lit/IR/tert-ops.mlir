// RUN: te-opt %s | te-opt | FileCheck %s
// RUN: te-opt %s --mlir-print-op-generic | te-opt | FileCheck %s
// RUN: te-opt %s --cse --canonicalize | FileCheck %s --check-prefix=EFFECTS

// CHECK-LABEL: func.func @round_trip
// EFFECTS-LABEL: func.func @round_trip
func.func @round_trip(%x: !tert.buffer<256>, %y: !tert.buffer<256>, %z: !tert.buffer<64>) {
  // CHECK: tert.alloc "h" residual : !tert.buffer<256>
  %h = tert.alloc "h" residual : !tert.buffer<256>
  // CHECK: tert.alloc "q.data" cached_cast offset 4096 : !tert.buffer<64>
  %q = tert.alloc "q.data" cached_cast offset 4096 : !tert.buffer<64>
  // CHECK: tert.alloc "grad.w" gradient of_result 2 : !tert.buffer<64>
  %r = tert.alloc "grad.w" gradient of_result 2 : !tert.buffer<64>
  // CHECK: %[[NULL:.*]] = tert.null : !tert.buffer<0>
  %null = tert.null : !tert.buffer<0>
  // CHECK: tert.launch "fill" {count = 64 : i64, type = 0 : i32, value = 1.000000e+00 : f32}(%{{.*}}, %[[NULL]]) : !tert.buffer<256>, !tert.buffer<0>
  tert.launch "fill" {count = 64 : i64, type = 0 : i32, value = 1.0 : f32} (%h, %null) : !tert.buffer<256>, !tert.buffer<0>
  // CHECK: tert.launch "copy" {bytes = 256 : i64}
  tert.launch "copy" {bytes = 256 : i64} (%h, %y) : !tert.buffer<256>, !tert.buffer<256>
  // CHECK: tert.launch "all_reduce_max" {count = 64 : i64, group_id = 0 : i32}(%{{.*}}, %{{.*}}) side : !tert.buffer<256>
  tert.launch "all_reduce_max" {count = 64 : i64, group_id = 0 : i32} (%h, %y) side : !tert.buffer<256>, !tert.buffer<256>
  return
}

// Launches write memory, so they are neither merged nor removed. An unused alloc is removed.
// EFFECTS-LABEL: func.func @launches_have_effects
func.func @launches_have_effects(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  // EFFECTS-NOT: tert.alloc
  // EFFECTS-COUNT-2: tert.launch "copy"
  %unused = tert.alloc "unused" activation : !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%x, %y) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%x, %y) : !tert.buffer<256>, !tert.buffer<256>
  return
}

// Elementwise kernels may write to the memory that they read (launch-c5).
// CHECK-LABEL: func.func @in_place
func.func @in_place(%x: !tert.buffer<256>, %b: !tert.buffer<256>) {
  // CHECK: tert.launch "bias_add"
  tert.launch "bias_add" {cols = 64 : i64, rows = 1 : i64, type = 0 : i32}
    (%x, %b, %x) : !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<256>
  return
}
