// RUN: te-opt %s --te-convert-to-tert --split-input-file | FileCheck %s

// The size of a head follows from the tables and from 'heads'.
// CHECK-LABEL: func.func @rotates
// CHECK: tert.launch "rope" {has_positions = 0 : i32, head_dim = 4 : i64, heads = 2 : i64, interleaved = 1 : i32, inverse = 1 : i32, rotary_dim = 2 : i64, sequence = 3 : i64, tokens = 6 : i64, type = 1 : i32}
func.func @rotates(%x: tensor<6x8xbf16> {te.name = "x"}, %cos: tensor<3x1xf32> {te.name = "cos"}, %sin: tensor<3x1xf32> {te.name = "sin"})
    -> (tensor<6x8xbf16> {te.name = "y"}) {
  %y = te.rope %x, %cos, %sin {heads = 2 : i64, inverse, style = #te.rope_style<interleaved>} : tensor<6x8xbf16>, tensor<3x1xf32>
  return %y : tensor<6x8xbf16>
}

// -----

// The scale is the default for heads of size 4. lse is a temporary if
// nothing reads it. A window of -1 means none, and so does a cap of 0.
// CHECK-LABEL: func.func @attends
// CHECK: tert.alloc "attention.lse" activation : !tert.buffer<96>
// CHECK: tert.launch "attention" {boundaries = 0 : i64, causal = 1 : i32, dropout = 0.000000e+00 : f32, has_sinks = 0 : i32, head_dim = 4 : i64, heads = 4 : i64, kv_heads = 2 : i64, scale = 5.000000e-01 : f32, sequence = 3 : i64, softcap = 3.000000e+01 : f32, stream = 0 : i32, tokens = 6 : i64, type = 0 : i32, value_dim = 4 : i64, window_left = 1 : i64}(%{{.*}}, %[[K:.*]], %[[K]], %[[NULL:.*]], %[[NULL]], %[[NULL]], %{{.*}}, %{{.*}}) : {{.*}}!tert.buffer<0>
// CHECK: tert.launch "attention_backward" {boundaries = 0 : i64, causal = 0 : i32, deterministic = 0 : i32, dropout = 0.000000e+00 : f32, head_dim = 8 : i64, heads = 2 : i64, kv_heads = 1 : i64, scale = 2.500000e-01 : f32, sequence = 6 : i64, softcap = 0.000000e+00 : f32, stream = 0 : i32, tokens = 6 : i64, type = 0 : i32, value_dim = 8 : i64, window_left = -1 : i64}
func.func @attends(%q: tensor<6x16xf32> {te.name = "q"}, %k: tensor<6x8xf32> {te.name = "k"}, %lse: tensor<12xf32> {te.name = "lse"})
    -> (tensor<6x16xf32> {te.name = "o"}, tensor<6x8xf32> {te.name = "dk"}) {
  %o = te.attention %q, %k, %k {heads = 4 : i64, kv_heads = 2 : i64, sequence = 3 : i64, causal, window_size = array<i64: 1, 0>, softcap = 30.0 : f32} : tensor<6x16xf32>, tensor<6x8xf32>
  %dq, %dk, %dv = te.attention_backward %q, %q, %k, %k, %o, %lse {heads = 2 : i64, kv_heads = 1 : i64, sequence = 6 : i64, scale = 0.25 : f32, deterministic = false}
    : tensor<6x16xf32>, tensor<6x8xf32>, tensor<12xf32>
  return %o, %dk : tensor<6x16xf32>, tensor<6x8xf32>
}

// -----

// The forward has a buffer for the sinks. For their gradient, the number of sinks determines the number of heads and the size of a head.
// CHECK-LABEL: func.func @sinks
// CHECK-SAME: %[[S:[^ ]*]]: !tert.buffer<16>
// CHECK: tert.launch "attention" {boundaries = 0 : i64, causal = 0 : i32, {{.*}}has_sinks = 1 : i32, {{.*}}}(%{{.*}}, %[[K:.*]], %[[K]], %[[S]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) :
// CHECK: tert.launch "attention_sink_grad" {boundaries = 0 : i64, head_dim = 4 : i64, heads = 4 : i64, sequence = 3 : i64, tokens = 6 : i64, type = 1 : i32}(%{{.*}}, %{{.*}}, %{{.*}}, %[[S]], %{{.*}}, %{{.*}}) :
func.func @sinks(%q: tensor<6x16xbf16> {te.name = "q"}, %k: tensor<6x8xbf16> {te.name = "k"}, %s: tensor<4xf32> {te.name = "s"}, %lse: tensor<24xf32> {te.name = "lse"})
    -> (tensor<6x16xbf16> {te.name = "o"}, tensor<4xf32> {te.name = "ds"}) {
  %o = te.attention %q, %k, %k sinks %s : tensor<4xf32> {heads = 4 : i64, kv_heads = 2 : i64, sequence = 3 : i64} : tensor<6x16xbf16>, tensor<6x8xbf16>
  %ds = te.attention_sink_grad %q, %q, %lse, %s {sequence = 3 : i64} : tensor<6x16xbf16>, tensor<24xf32>, tensor<4xf32>
  return %o, %ds : tensor<6x16xbf16>, tensor<4xf32>
}

// -----

// Boundaries of documents and positions are buffers.
// CHECK-LABEL: func.func @packs
// CHECK-SAME: %[[CU:[^ ]*]]: !tert.buffer<12>, %[[P:[^ ]*]]: !tert.buffer<24>
// CHECK: tert.launch "rope" {has_positions = 1 : i32, {{.*}}sequence = 4 : i64, tokens = 6 : i64, {{.*}}}(%{{.*}}, %{{.*}}, %{{.*}}, %[[P]], %{{.*}}, %{{.*}}) :
// CHECK: tert.launch "attention" {boundaries = 3 : i64, {{.*}}sequence = 6 : i64, {{.*}}tokens = 6 : i64, {{.*}}}(%{{.*}}, %{{.*}}, %{{.*}}, %[[S:.*]], %[[CU]], %{{.*}}, %{{.*}}, %{{.*}}) :
// CHECK: tert.launch "attention_backward" {boundaries = 3 : i64, {{.*}}}(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[CU]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) :
// CHECK: tert.launch "attention_sink_grad" {boundaries = 3 : i64, {{.*}}}(%{{.*}}, %{{.*}}, %{{.*}}, %[[S]], %[[CU]], %{{.*}}) :
func.func @packs(%x: tensor<6x16xbf16> {te.name = "x"}, %k: tensor<6x8xbf16> {te.name = "k"}, %cu: tensor<3xi32> {te.name = "cu"}, %p: tensor<6xi32> {te.name = "p"}, %cos: tensor<4x1xf32> {te.name = "cos"}, %s: tensor<4xf32> {te.name = "s"})
    -> (tensor<6x16xbf16> {te.name = "dq"}, tensor<4xf32> {te.name = "ds"}) {
  %q = te.rope %x, %cos, %cos positions %p : tensor<6xi32> {heads = 4 : i64} : tensor<6x16xbf16>, tensor<4x1xf32>
  %o, %lse = te.attention %q, %k, %k sinks %s : tensor<4xf32> documents %cu : tensor<3xi32> {heads = 4 : i64, kv_heads = 2 : i64, sequence = 6 : i64} : tensor<6x16xbf16>, tensor<6x8xbf16> lse tensor<24xf32>
  %dq, %dk, %dv = te.attention_backward %o, %q, %k, %k, %o, %lse documents %cu : tensor<3xi32> {heads = 4 : i64, kv_heads = 2 : i64, sequence = 6 : i64} : tensor<6x16xbf16>, tensor<6x8xbf16>, tensor<24xf32>
  %ds = te.attention_sink_grad %o, %o, %lse, %s documents %cu : tensor<3xi32> {sequence = 6 : i64} : tensor<6x16xbf16>, tensor<24xf32>, tensor<4xf32>
  return %dq, %ds : tensor<6x16xbf16>, tensor<4xf32>
}

// -----

// Dropout has its state.
// CHECK-LABEL: func.func @drops
// CHECK-SAME: %[[RNG:[^ ]*]]: !tert.buffer<8>
// CHECK: tert.launch "attention" {{{.*}}dropout = 2.500000e-01 : f32, {{.*}}stream = 7 : i32, {{.*}}}(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[RNG]], %{{.*}}, %{{.*}}) :
// CHECK: tert.launch "attention_backward" {{{.*}}dropout = 2.500000e-01 : f32, {{.*}}stream = 7 : i32, {{.*}}}(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[RNG]], %{{.*}}, %{{.*}}, %{{.*}}) :
func.func @drops(%q: tensor<6x16xbf16> {te.name = "q"}, %k: tensor<6x8xbf16> {te.name = "k"}, %rng: tensor<2xi32> {te.name = "rng"})
    -> (tensor<6x16xbf16> {te.name = "dq"}) {
  %o, %lse = te.attention %q, %k, %k rng %rng {heads = 4 : i64, kv_heads = 2 : i64, sequence = 3 : i64, dropout = 0.25 : f32, stream = 7 : i32} : tensor<6x16xbf16>, tensor<6x8xbf16> lse tensor<24xf32>
  %dq, %dk, %dv = te.attention_backward %o, %q, %k, %k, %o, %lse rng %rng {heads = 4 : i64, kv_heads = 2 : i64, sequence = 3 : i64, dropout = 0.25 : f32, stream = 7 : i32} : tensor<6x16xbf16>, tensor<6x8xbf16>, tensor<24xf32>
  return %dq : tensor<6x16xbf16>
}
