// RUN: te-opt %s --te-plan-memory | FileCheck %s
// RUN: te-opt %s --te-plan-memory=budget=2560 | FileCheck %s

// The elementwise chain a -> b shares one slot. The result of the matmul must not
// use the slot of its operand, but may use that of the large buffer, which is dead.
// CHECK-LABEL: func.func @chain
// CHECK-SAME: tert.arena_bytes = 1024 : i64, tert.max_live_bytes = 1024 : i64
func.func @chain(%x: !tert.buffer<512>, %y: !tert.buffer<512>) {
  %null = tert.null : !tert.buffer<0>
  // CHECK: tert.alloc "a" activation offset [[A:[0-9]+]]
  %a = tert.alloc "a" activation : !tert.buffer<512>
  // CHECK: tert.alloc "b" activation offset [[A]]
  %b = tert.alloc "b" activation : !tert.buffer<512>
  // CHECK-NOT: tert.alloc "c" activation offset [[A]]
  // CHECK: tert.alloc "c" activation
  %c = tert.alloc "c" activation : !tert.buffer<512>
  tert.launch "bias_add" {cols = 128 : i64, rows = 1 : i64, type = 0 : i32}
    (%x, %x, %a) : !tert.buffer<512>, !tert.buffer<512>, !tert.buffer<512>
  tert.launch "bias_add" {cols = 128 : i64, rows = 1 : i64, type = 0 : i32}
    (%a, %x, %b) : !tert.buffer<512>, !tert.buffer<512>, !tert.buffer<512>
  tert.launch "matmul" {m = 8 : i64, n = 16 : i64, k = 16 : i64, trans_a = 0 : i32, trans_b = 0 : i32, type = 0 : i32, out_type = 0 : i32}
    (%b, %x, %null, %null, %null, %c) : !tert.buffer<512>, !tert.buffer<512>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<512>
  tert.launch "copy" {bytes = 512 : i64} (%c, %y) : !tert.buffer<512>, !tert.buffer<512>
  return
}

// A buffer that is also read as the bias, which the result must not overwrite, keeps its slot.
// CHECK-LABEL: func.func @read_as_two
// CHECK-SAME: tert.arena_bytes = 512 : i64, tert.max_live_bytes = 512 : i64
func.func @read_as_two(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  %a = tert.alloc "a" activation : !tert.buffer<256>
  %b = tert.alloc "b" activation : !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%x, %a) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "bias_add" {cols = 64 : i64, rows = 1 : i64, type = 0 : i32}
    (%a, %a, %b) : !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%b, %y) : !tert.buffer<256>, !tert.buffer<256>
  return
}

// An input that is read again later keeps its slot.
// CHECK-LABEL: func.func @live_input
// CHECK-SAME: tert.arena_bytes = 512 : i64, tert.max_live_bytes = 512 : i64
func.func @live_input(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  %a = tert.alloc "a" activation : !tert.buffer<256>
  %b = tert.alloc "b" activation : !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%x, %a) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "bias_add" {cols = 64 : i64, rows = 1 : i64, type = 0 : i32}
    (%a, %x, %b) : !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<256>
  tert.launch "bias_add" {cols = 64 : i64, rows = 1 : i64, type = 0 : i32}
    (%a, %b, %y) : !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<256>
  return
}

// A result with wider elements never uses the memory of an operand
// with narrower ones, although both sizes round up to one slot.
// CHECK-LABEL: func.func @wider
// CHECK-SAME: tert.arena_bytes = 512 : i64
func.func @wider(%x: !tert.buffer<128>, %y: !tert.buffer<256>) {
  %null = tert.null : !tert.buffer<0>
  // CHECK: tert.alloc "a" activation offset [[NARROW:[0-9]+]]
  %a = tert.alloc "a" activation : !tert.buffer<128>
  // CHECK-NOT: tert.alloc "b" activation offset [[NARROW]]
  // CHECK: tert.alloc "b" activation
  %b = tert.alloc "b" activation : !tert.buffer<256>
  tert.launch "copy" {bytes = 128 : i64} (%x, %a) : !tert.buffer<128>, !tert.buffer<128>
  tert.launch "generated" {count = 64 : i64, function = 0 : i64}
    (%a, %null, %null, %null, %null, %null, %null, %null, %b, %null, %null, %null)
    : !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>,
      !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%narrow: bf16):
    %wide = arith.extf %narrow : bf16 to f32
    tert.yield %wide : f32
  }
  tert.launch "copy" {bytes = 256 : i64} (%b, %y) : !tert.buffer<256>, !tert.buffer<256>
  return
}

// An input that is read through a map keeps its slot, although the result has as many bytes: its elements are read again.
// CHECK-LABEL: func.func @broadcast
// CHECK-SAME: tert.arena_bytes = 512 : i64
func.func @broadcast(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  %null = tert.null : !tert.buffer<0>
  // CHECK: tert.alloc "a" activation offset [[A:[0-9]+]]
  %a = tert.alloc "a" activation : !tert.buffer<256>
  // CHECK-NOT: tert.alloc "b" activation offset [[A]]
  // CHECK: tert.alloc "b" activation
  %b = tert.alloc "b" activation : !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%x, %a) : !tert.buffer<256>, !tert.buffer<256>
  tert.launch "generated" {count = 128 : i64, function = 0 : i64}
    (%a, %null, %null, %null, %null, %null, %null, %null, %b, %null, %null, %null) maps [affine_map<(d0) -> (d0 mod 64)>]
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>,
      !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%wide: f32):
    %narrow = arith.truncf %wide : f32 to bf16
    tert.yield %narrow : bf16
  }
  tert.launch "copy" {bytes = 256 : i64} (%b, %y) : !tert.buffer<256>, !tert.buffer<256>
  return
}
