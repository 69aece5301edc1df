// RUN: te-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expected 'bytes' not to be negative, but got -1}}
func.func @buffer_c1(%x: !tert.buffer<-1>) { return }

// -----
func.func @alloc_c1() {
  // expected-error @below {{expected 'name' not to be empty}}
  %h = tert.alloc "" activation : !tert.buffer<256>
  return
}

// -----
func.func @alloc_c2() {
  // expected-error @below {{expected 'offset' to be a multiple of 256 that is not negative, but got 64}}
  %h = tert.alloc "h" activation offset 64 : !tert.buffer<256>
  return
}

// -----
func.func @alloc_c3(%x: !tert.buffer<256>) {
  // expected-error @below {{expected 'of_result' to be one of 1 arguments, but got 1}}
  %h = tert.alloc "h" gradient of_result 1 : !tert.buffer<256>
  return
}

// -----
func.func @alloc_c3_type(%x: !tert.buffer<512>) {
  // expected-error @below {{expected 'of_result' to be an argument of type '!tert.buffer<256>' that no op uses, but argument 0 has type '!tert.buffer<512>' and no uses}}
  %h = tert.alloc "h" gradient of_result 0 : !tert.buffer<256>
  return
}

// -----
func.func @alloc_c3_used(%x: !tert.buffer<256>) {
  // expected-error @below {{expected 'of_result' to be an argument of type '!tert.buffer<256>' that no op uses, but argument 0 has type '!tert.buffer<256>' and some uses}}
  %h = tert.alloc "h" gradient of_result 0 : !tert.buffer<256>
  tert.launch "copy" {bytes = 256 : i64} (%x, %h) : !tert.buffer<256>, !tert.buffer<256>
  return
}

// -----
func.func @null_c1() {
  // expected-error @below {{expected type '!tert.buffer<0>', but got '!tert.buffer<4>'}}
  %h = tert.null : !tert.buffer<4>
  return
}

// -----
func.func @slice_c1(%x: !tert.buffer<256>) {
  // expected-error @below {{expected 64 bytes from offset 200 to be in the buffer of 256}}
  %h = tert.slice %x offset 200 : !tert.buffer<256> -> !tert.buffer<64>
  return
}

// -----
func.func @slice_c2(%x: !tert.buffer<256>) {
  %h = tert.slice %x offset 64 : !tert.buffer<256> -> !tert.buffer<128>
  // expected-error @below {{expected 'buffer' to be no slice itself}}
  %p = tert.slice %h offset 64 : !tert.buffer<128> -> !tert.buffer<64>
  return
}

// -----
func.func @launch_c1(%x: !tert.buffer<256>) {
  // expected-error @below {{the runtime has no kernel 'sine'}}
  tert.launch "sine" {} (%x) : !tert.buffer<256>
  return
}

// -----
func.func @launch_c2_missing(%x: !tert.buffer<256>) {
  // expected-error @below {{expected parameter 'bytes' of kernel 'copy'}}
  tert.launch "copy" {} (%x, %x) : !tert.buffer<256>, !tert.buffer<256>
  return
}

// -----
func.func @launch_c2_type(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  // expected-error @below {{expected parameter 'bytes' of kernel 'copy' to be of type i64, but got 256 : i32}}
  tert.launch "copy" {bytes = 256 : i32} (%x, %y) : !tert.buffer<256>, !tert.buffer<256>
  return
}

// -----
func.func @launch_c2_unknown(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  // expected-error @below {{kernel 'copy' has no parameter 'stream'}}
  tert.launch "copy" {bytes = 256 : i64, stream = 0 : i32} (%x, %y) : !tert.buffer<256>, !tert.buffer<256>
  return
}

// -----
func.func @launch_c3(%x: !tert.buffer<256>) {
  // expected-error @below {{expected 2 buffers for kernel 'copy', but got 1}}
  tert.launch "copy" {bytes = 256 : i64} (%x) : !tert.buffer<256>
  return
}

// -----
func.func @launch_c4(%x: !tert.buffer<256>) {
  %null = tert.null : !tert.buffer<0>
  // expected-error @below {{buffer 'y' of kernel 'copy' is not optional}}
  tert.launch "copy" {bytes = 256 : i64} (%x, %null) : !tert.buffer<256>, !tert.buffer<0>
  return
}

// -----
func.func @launch_c5(%x: !tert.buffer<256>) {
  %null = tert.null : !tert.buffer<0>
  // expected-error @below {{kernel 'matmul' cannot write 'out' into the buffer of 'a'}}
  tert.launch "matmul" {m = 8 : i64, n = 8 : i64, k = 8 : i64, trans_a = 0 : i32, trans_b = 0 : i32, type = 0 : i32, out_type = 0 : i32}
    (%x, %x, %null, %null, %null, %x) : !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256>
  return
}

// -----
func.func @launch_c6(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  // expected-error @below {{expected a launch that is 'side' to be a collective, but kernel 'copy' is none}}
  tert.launch "copy" {bytes = 256 : i64} (%x, %y) side : !tert.buffer<256>, !tert.buffer<256>
  return
}

// -----
func.func @launch_c7(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  // expected-error @below {{expected no 'body' for kernel 'copy'}}
  tert.launch "copy" {bytes = 256 : i64} (%x, %y) : !tert.buffer<256>, !tert.buffer<256> {
  ^bb0(%in: f32):
    tert.yield %in : f32
  }
  return
}

// -----
func.func @launch_c7_elements(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  %none = tert.null : !tert.buffer<0>
  // expected-error @below {{expected a body that takes an element of each of 2 inputs and yields one of each of 1 outputs}}
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %x, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    tert.yield %in : f32
  }
  return
}

// -----
func.func @launch_c7_op(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    // expected-error @below {{expected generated code to be arith and math ops on f32, conversions between f32 and bf16 or f16, tert.dropout, tert.row_reduce and tert.amax, but got 'math.atan'}}
    %out = math.atan %in : f32
    tert.yield %out : f32
  }
  return
}

// -----
func.func @launch_c7_condition(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    %holds = arith.cmpf olt, %in, %in : f32
    // expected-error @below {{expected generated code to be arith and math ops on f32, conversions between f32 and bf16 or f16, tert.dropout, tert.row_reduce and tert.amax, but got 'arith.select'}}
    %out = arith.select %holds, %holds, %holds : i1
    tert.yield %in : f32
  }
  return
}

// -----
func.func @launch_c7_size(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  %none = tert.null : !tert.buffer<0>
  // expected-error @below {{expected a buffer of 64 elements of type 'bf16', but got one of 256 bytes}}
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    %out = arith.truncf %in : f32 to bf16
    tert.yield %out : bf16
  }
  return
}

// -----
func.func @launch_c8(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  %none = tert.null : !tert.buffer<0>
  // expected-error @below {{expected 'maps' to be a map of one dimension to one result for each of 1 inputs, or of them and 1 outputs}}
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none) maps [affine_map<(d0, d1) -> (d0)>]
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    tert.yield %in : f32
  }
  return
}

// -----
func.func @launch_c7_reach(%x: !tert.buffer<32>, %y: !tert.buffer<256>) {
  %none = tert.null : !tert.buffer<0>
  // expected-error @below {{expected a buffer of 16 elements of type 'f32', but got one of 32 bytes}}
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none) maps [affine_map<(d0) -> (d0 mod 16)>]
    : !tert.buffer<32>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    tert.yield %in : f32
  }
  return
}

// -----
func.func @row_reduce_c1(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    // expected-error @below {{expected 'cols' to be from 1 to 16777216 and to divide 'count' (64), but got 48}}
    %sum = tert.row_reduce sum %in {cols = 48 : i64}
    tert.yield %sum : f32
  }
  return
}

// -----
func.func @row_reduce_c1_negative(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    // expected-error @below {{expected 'cols' to be from 1 to 16777216 and to divide 'count' (64), but got -32}}
    %sum = tert.row_reduce sum %in {cols = -32 : i64}
    tert.yield %sum : f32
  }
  return
}

// -----
// A kernel without a body that has maps, and writes to a buffer that it reads.
func.func @launch_c8_in_place(%x: !tert.buffer<256>, %b: !tert.buffer<256>) {
  // expected-error @below {{kernel 'bias_add' cannot write 'y' into the buffer of 'x'}}
  tert.launch "bias_add" {cols = 64 : i64, rows = 1 : i64, type = 0 : i32} (%x, %b, %x) maps [affine_map<(d0) -> (d0 mod 2)>] : !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<256>
  return
}

// -----
func.func @launch_c8_in_place_identity(%x: !tert.buffer<256>, %b: !tert.buffer<256>) {
  // expected-error @below {{expected no 'maps' for kernel 'bias_add'}}
  tert.launch "bias_add" {cols = 64 : i64, rows = 1 : i64, type = 0 : i32} (%x, %b, %x) maps [affine_map<(d0) -> (d0)>] : !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<256>
  return
}

// -----
func.func @row_reduce_c1_different(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    %sum = tert.row_reduce sum %in {cols = 32 : i64}
    // expected-error @below {{expected 'cols' to be that of the first reduction (32), but got 16}}
    %other = tert.row_reduce sum %sum {cols = 16 : i64}
    tert.yield %other : f32
  }
  return
}

// -----
func.func @launch_c8_output(%x: !tert.buffer<256>, %y: !tert.buffer<8>) {
  %none = tert.null : !tert.buffer<0>
  // expected-error @below {{expected an output to have an element for each of 'count', one for each row, with one value in a row, or, of tert.amax, one for all, but its map is affine_map<(d0) -> (d0 floordiv 32)>}}
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0 floordiv 32)>]
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<8>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    %sum = tert.row_reduce sum %in {cols = 32 : i64}
    %out = arith.addf %sum, %in : f32
    tert.yield %out : f32
  }
  return
}

// -----
func.func @launch_c8_kernel(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  // expected-error @below {{expected no 'maps' for kernel 'copy'}}
  tert.launch "copy" {bytes = 256 : i64} (%x, %y) maps [affine_map<(d0) -> (d0)>] : !tert.buffer<256>, !tert.buffer<256>
  return
}

// -----
func.func @launch_c5_maps(%x: !tert.buffer<256>) {
  %none = tert.null : !tert.buffer<0>
  // expected-error @below {{kernel 'generated' cannot write 'out0' into the buffer of 'in0'}}
  tert.launch "generated" {count = 128 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %x, %none, %none, %none) maps [affine_map<(d0) -> (d0 mod 64)>]
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    %out = arith.truncf %in : f32 to bf16
    tert.yield %out : bf16
  }
  return
}

// -----
func.func @launch_c8_expression(%x: !tert.buffer<0>, %y: !tert.buffer<0>) {
  %none = tert.null : !tert.buffer<0>
  // expected-error @below {{expected 'maps' of sums, products, floordiv and mod that stay within 64 bits}}
  tert.launch "generated" {count = 0 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none) maps [affine_map<(d0) -> (d0 ceildiv 2)>]
    : !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    tert.yield %in : f32
  }
  return
}

// -----

func.func @alloc_c2_negative() {
  // expected-error @below {{expected 'offset' to be a multiple of 256 that is not negative, but got -256}}
  %h = tert.alloc "h" activation offset -256 : !tert.buffer<256>
  return
}

// -----

func.func @alloc_c3_negative(%x: !tert.buffer<256>) {
  // expected-error @below {{expected 'of_result' to be one of 1 arguments, but got -1}}
  %h = tert.alloc "h" gradient of_result -1 : !tert.buffer<256>
  return
}

// -----

func.func @slice_c1_negative(%x: !tert.buffer<256>) {
  // expected-error @below {{expected 64 bytes from offset -64 to be in the buffer of 256}}
  %h = tert.slice %x offset -64 : !tert.buffer<256> -> !tert.buffer<64>
  return
}

// -----

func.func @slice_c1_behind(%x: !tert.buffer<256>) {
  // expected-error @below {{expected 0 bytes from offset 257 to be in the buffer of 256}}
  %h = tert.slice %x offset 257 : !tert.buffer<256> -> !tert.buffer<0>
  return
}

// -----

func.func @launch_c2_attribute(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  // expected-error @below {{expected parameter 'bytes' of kernel 'copy' to be of type i64, but got "256"}}
  tert.launch "copy" {bytes = "256"} (%x, %y) : !tert.buffer<256>, !tert.buffer<256>
  return
}

// -----

func.func @launch_c2_string(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  // expected-error @below {{expected parameter 'bytes' of kernel 'copy' to be of type i64, but got unit}}
  tert.launch "copy" {bytes} (%x, %y) : !tert.buffer<256>, !tert.buffer<256>
  return
}

// -----

func.func @launch_c2_float(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  // expected-error @below {{expected parameter 'bytes' of kernel 'copy' to be of type i64, but got 2.560000e+02 : f32}}
  tert.launch "copy" {bytes = 256.0 : f32} (%x, %y) : !tert.buffer<256>, !tert.buffer<256>
  return
}

// -----

func.func @launch_c7_integers(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    // expected-error @below {{expected generated code to be arith and math ops on f32, conversions between f32 and bf16 or f16, tert.dropout, tert.row_reduce and tert.amax, but got 'arith.constant'}}
    %i = arith.constant 1 : i32
    tert.yield %in : f32
  }
  return
}

// -----

func.func @launch_c7_half(%x: !tert.buffer<128>, %y: !tert.buffer<128>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: bf16):
    // expected-error @below {{expected generated code to be arith and math ops on f32, conversions between f32 and bf16 or f16, tert.dropout, tert.row_reduce and tert.amax, but got 'arith.addf'}}
    %s = arith.addf %in, %in : bf16
    tert.yield %s : bf16
  }
  return
}

// -----

func.func @launch_c7_narrow(%x: !tert.buffer<128>, %y: !tert.buffer<128>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: bf16):
    // expected-error @below {{expected generated code to be arith and math ops on f32, conversions between f32 and bf16 or f16, tert.dropout, tert.row_reduce and tert.amax, but got 'arith.extf'}}
    %s = arith.extf %in : bf16 to f64
    %t = arith.truncf %s : f64 to bf16
    tert.yield %t : bf16
  }
  return
}

// -----

func.func @launch_c7_rounding(%x: !tert.buffer<256>, %y: !tert.buffer<128>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    // expected-error @below {{expected generated code to be arith and math ops on f32, conversions between f32 and bf16 or f16, tert.dropout, tert.row_reduce and tert.amax, but got 'arith.truncf'}}
    %s = arith.truncf %in to_nearest_even : f32 to bf16
    tert.yield %s : bf16
  }
  return
}

// -----

func.func @launch_c7_compare(%x: !tert.buffer<128>, %y: !tert.buffer<128>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: bf16):
    // expected-error @below {{expected generated code to be arith and math ops on f32, conversions between f32 and bf16 or f16, tert.dropout, tert.row_reduce and tert.amax, but got 'arith.cmpf'}}
    %c = arith.cmpf ogt, %in, %in : bf16
    tert.yield %in : bf16
  }
  return
}

// -----

func.func @launch_c7_choice(%x: !tert.buffer<128>, %y: !tert.buffer<128>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: bf16):
    %w = arith.extf %in : bf16 to f32
    %c = arith.cmpf ogt, %w, %w : f32
    // expected-error @below {{expected generated code to be arith and math ops on f32, conversions between f32 and bf16 or f16, tert.dropout, tert.row_reduce and tert.amax, but got 'arith.select'}}
    %s = arith.select %c, %in, %in : bf16
    tert.yield %s : bf16
  }
  return
}

// -----

func.func @row_reduce_c1_none(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    // expected-error @below {{expected 'cols' to be from 1 to 16777216 and to divide 'count' (64), but got 0}}
    %s = tert.row_reduce sum %in {cols = 0 : i64}
    tert.yield %s : f32
  }
  return
}

// -----

func.func @launch_c8_results(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  %none = tert.null : !tert.buffer<0>
  // expected-error @below {{expected 'maps' to be a map of one dimension to one result}}
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none) maps [affine_map<(d0) -> (d0, d0)>]
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    tert.yield %in : f32
  }
  return
}

// -----

func.func @launch_c8_number(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  %none = tert.null : !tert.buffer<0>
  // expected-error @below {{expected 'maps' to be a map of one dimension to one result}}
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none) maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>]
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    tert.yield %in : f32
  }
  return
}

// -----

func.func @launch_c8_symbol(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  %none = tert.null : !tert.buffer<0>
  // expected-error @below {{expected 'maps' to be a map of one dimension to one result}}
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none) maps [affine_map<(d0)[s0] -> (d0 + s0)>]
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    tert.yield %in : f32
  }
  return
}

// -----

func.func @launch_c8_negative(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  %none = tert.null : !tert.buffer<0>
  // expected-error @below {{expected 'maps' of sums, products, floordiv and mod that stay within 64 bits}}
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none) maps [affine_map<(d0) -> (d0 - 1)>]
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    tert.yield %in : f32
  }
  return
}

// -----

func.func @launch_c8_large(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  %none = tert.null : !tert.buffer<0>
  // expected-error @below {{expected 'maps' of sums, products, floordiv and mod that stay within 64 bits}}
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none) maps [affine_map<(d0) -> (d0 * 9223372036854775807)>]
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    tert.yield %in : f32
  }
  return
}

// -----

func.func @launch_c7_count(%x: !tert.buffer<4>, %y: !tert.buffer<4>) {
  %none = tert.null : !tert.buffer<0>
  // expected-error @below {{expected a buffer of 1 elements of type 'f32', but got one of 4 bytes}}
  tert.launch "generated" {count = -1 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<4>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<4>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    tert.yield %in : f32
  }
  return
}

// -----

func.func @amax_c1(%x: !tert.buffer<256>, %y: !tert.buffer<4>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (0)>]
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<4>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    %amax = tert.amax %in
    // expected-error @below {{expected only tert.yield to read the result of tert.amax}}
    %other = arith.negf %amax : f32
    tert.yield %amax : f32
  }
  return
}

// -----

// An amax has one element.
func.func @launch_c8_amax(%x: !tert.buffer<256>, %y: !tert.buffer<256>) {
  %none = tert.null : !tert.buffer<0>
  // expected-error @below {{expected an output to have an element for each of 'count', one for each row, with one value in a row, or, of tert.amax, one for all, but its map is affine_map<(d0) -> (d0)>}}
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    %amax = tert.amax %in
    tert.yield %amax : f32
  }
  return
}

// -----

// And nothing else has one.
func.func @launch_c8_one(%x: !tert.buffer<256>, %y: !tert.buffer<4>) {
  %none = tert.null : !tert.buffer<0>
  // expected-error @below {{one for all, but its map is affine_map<(d0) -> (0)>}}
  tert.launch "generated" {count = 64 : i64, function = 0 : i64} (%x, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (0)>]
    : !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<4>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    tert.yield %in : f32
  }
  return
}
