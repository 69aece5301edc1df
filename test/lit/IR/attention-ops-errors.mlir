// Each function violates one constraint, whose label the error contains.
// RUN: te-opt %s --split-input-file --verify-diagnostics

func.func @rope_c1(%x: tensor<4x8xf32>, %cos: tensor<4x1xf32>) {
  // expected-error @below {{expected 'heads' to be one or more and to divide the columns of 'x' (8), but got 3}}
  %y = te.rope %x, %cos, %cos {heads = 3 : i64} : tensor<4x8xf32>, tensor<4x1xf32>
  return
}

// -----

func.func @rope_c1_none(%x: tensor<4x8xf32>, %cos: tensor<4x1xf32>) {
  // expected-error @below {{expected 'heads' to be one or more and to divide the columns of 'x' (8), but got 0}}
  %y = te.rope %x, %cos, %cos {heads = 0 : i64} : tensor<4x8xf32>, tensor<4x1xf32>
  return
}

// -----

func.func @rope_c1_no_columns(%x: tensor<4x0xf32>, %cos: tensor<4x0xf32>) {
  // expected-error @below {{expected 'x' to have one or more columns, but got 0}}
  %y = te.rope %x, %cos, %cos {heads = 2 : i64} : tensor<4x0xf32>, tensor<4x0xf32>
  return
}

// -----

func.func @rope_c2(%x: tensor<4x8xf32>, %cos: tensor<3x2xf32>) {
  // expected-error @below {{expected the rows of 'x' to be a multiple of those of 'cos', but got 4 and 3}}
  %y = te.rope %x, %cos, %cos {heads = 2 : i64} : tensor<4x8xf32>, tensor<3x2xf32>
  return
}

// -----

func.func @rope_c3(%x: tensor<4x8xf32>, %cos: tensor<4x3xf32>) {
  // expected-error @below {{expected 'cos' to have at most half the columns of a head of 'x', but got 3 and 4}}
  %y = te.rope %x, %cos, %cos {heads = 2 : i64} : tensor<4x8xf32>, tensor<4x3xf32>
  return
}

// -----

func.func @attention_c1(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>) {
  // expected-error @below {{expected 'heads' to be one or more and to divide the columns of 'q' (8), but got 3}}
  %o = te.attention %q, %k, %k {heads = 3 : i64, kv_heads = 1 : i64, sequence = 4 : i64} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c1_no_columns(%q: tensor<8x0xf32>, %v: tensor<8x8xf32>) {
  // expected-error @below {{expected 'q' to have one or more columns, but got 0}}
  %o = te.attention %q, %q, %v {heads = 2 : i64, kv_heads = 2 : i64, sequence = 4 : i64} : tensor<8x0xf32>, tensor<8x0xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return
}

// -----

func.func @attention_c2(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>) {
  // expected-error @below {{expected 'kv_heads' to be one or more and to divide 'heads' (4), but got 3}}
  %o = te.attention %q, %k, %k {heads = 4 : i64, kv_heads = 3 : i64, sequence = 4 : i64} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c2_none(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>) {
  // expected-error @below {{expected 'kv_heads' to be one or more and to divide 'heads' (4), but got 0}}
  %o = te.attention %q, %k, %k {heads = 4 : i64, kv_heads = 0 : i64, sequence = 4 : i64} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c3(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>) {
  // expected-error @below {{expected 'k' to have shape 8x2, but got 8x4}}
  %o = te.attention %q, %k, %k {heads = 4 : i64, kv_heads = 1 : i64, sequence = 4 : i64} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c3_values(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>, %v: tensor<8x6xf32>) {
  // expected-error @below {{expected 'o' to have shape 8x12, but got 8x8}}
  %o = te.attention %q, %k, %v {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64} : tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x6xf32> -> tensor<8x8xf32>
  return
}

// -----

func.func @attention_c3_value_heads(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>, %v: tensor<8x5xf32>) {
  // expected-error @below {{expected 'v' to have shape 8x4, but got 8x5}}
  %o = te.attention %q, %k, %v {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64} : tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x5xf32> -> tensor<8x8xf32>
  return
}

// -----

func.func @attention_c3_element_type(%q: tensor<8x8xf32>, %k: tensor<8x4xbf16>) {
  // expected-error @below {{expected 'k' and 'q' to have one element type, but got 'bf16' and 'f32'}}
  %o = te.attention %q, %k, %k {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64} : tensor<8x8xf32>, tensor<8x4xbf16>
  return
}

// -----

func.func @attention_c4(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>) {
  // expected-error @below {{expected 'sequence' to be one or more and to divide the rows of 'q' (8), but got 3}}
  %o = te.attention %q, %k, %k {heads = 4 : i64, kv_heads = 2 : i64, sequence = 3 : i64} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c5(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>) {
  // expected-error @below {{expected 'scale' to be finite, but got INF}}
  %o = te.attention %q, %k, %k {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64, scale = 0x7F800000 : f32} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c6(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>) {
  // expected-error @below {{expected 'lse' to have shape 32, but got 8}}
  %o, %lse = te.attention %q, %k, %k {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64} : tensor<8x8xf32>, tensor<8x4xf32> lse tensor<8xf32>
  return
}

// -----

func.func @attention_c7(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>) {
  // expected-error @below {{expected 'window_size' to be the positions before and after one that it sees, zero or more and 0, but got [2, 2]}}
  %o = te.attention %q, %k, %k {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64, causal, window_size = array<i64: 2, 2>} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c7_negative(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>) {
  // expected-error @below {{zero or more and 0, but got [-1, 0]}}
  %o = te.attention %q, %k, %k {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64, causal, window_size = array<i64: -1, 0>} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c7_one_number(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>) {
  // expected-error @below {{zero or more and 0, but got [2]}}
  %o = te.attention %q, %k, %k {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64, causal, window_size = array<i64: 2>} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c7_not_causal(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>) {
  // expected-error @below {{expected 'causal' beside 'window_size'}}
  %o = te.attention %q, %k, %k {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64, window_size = array<i64: 2, 0>} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c8(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>) {
  // expected-error @below {{expected 'softcap' to be finite and greater than 0, but got 0}}
  %o = te.attention %q, %k, %k {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64, softcap = 0.0 : f32} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c8_negative(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>) {
  // expected-error @below {{greater than 0, but got -2}}
  %o = te.attention %q, %k, %k {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64, softcap = -2.0 : f32} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c8_infinite(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>) {
  // expected-error @below {{greater than 0, but got INF}}
  %o = te.attention %q, %k, %k {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64, softcap = 0x7F800000 : f32} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c8_nan(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>) {
  // expected-error @below {{greater than 0, but got nan}}
  %o = te.attention %q, %k, %k {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64, softcap = 0x7FC00000 : f32} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c9(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>, %s: tensor<2xf32>) {
  // expected-error @below {{expected 'sinks' to have shape 4, but got 2}}
  %o = te.attention %q, %k, %k sinks %s : tensor<2xf32> {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c9_type(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>, %s: tensor<4xbf16>) {
  // expected-error @below {{operand #3 must be 1D tensor of 32-bit float values}}
  %o = te.attention %q, %k, %k sinks %s : tensor<4xbf16> {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c10(%q: tensor<8x8xf32>, %v: tensor<8x0xf32>) {
  // expected-error @below {{expected 'v' to have one or more columns, but got 0}}
  %o = te.attention %q, %q, %v {heads = 2 : i64, kv_heads = 2 : i64, sequence = 4 : i64} : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x0xf32> -> tensor<8x0xf32>
  return
}

// -----

func.func @attention_sink_grad_c1(%o: tensor<8x8xf32>, %lse: tensor<24xf32>, %s: tensor<3xf32>) {
  // expected-error @below {{expected 'sinks' to have one or more elements, which divide the columns of 'o' (8), but got 3}}
  %d = te.attention_sink_grad %o, %o, %lse, %s {sequence = 4 : i64} : tensor<8x8xf32>, tensor<24xf32>, tensor<3xf32>
  return
}

// -----

func.func @attention_sink_grad_c1_no_columns(%o: tensor<8x0xf32>, %lse: tensor<32xf32>, %s: tensor<4xf32>) {
  // expected-error @below {{expected 'o' to have one or more columns, but got 0}}
  %d = te.attention_sink_grad %o, %o, %lse, %s {sequence = 4 : i64} : tensor<8x0xf32>, tensor<32xf32>, tensor<4xf32>
  return
}

// -----

func.func @attention_sink_grad_c2(%o: tensor<8x8xf32>, %lse: tensor<32xf32>, %s: tensor<4xf32>) {
  // expected-error @below {{expected 'sequence' to be one or more and to divide the rows of 'o' (8), but got 3}}
  %d = te.attention_sink_grad %o, %o, %lse, %s {sequence = 3 : i64} : tensor<8x8xf32>, tensor<32xf32>, tensor<4xf32>
  return
}

// -----

func.func @attention_sink_grad_c3(%o: tensor<8x8xf32>, %lse: tensor<8xf32>, %s: tensor<4xf32>) {
  // expected-error @below {{expected 'lse' to have shape 32, but got 8}}
  %d = te.attention_sink_grad %o, %o, %lse, %s {sequence = 4 : i64} : tensor<8x8xf32>, tensor<8xf32>, tensor<4xf32>
  return
}

// -----

func.func @attention_backward_c1_softcap(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>, %lse: tensor<32xf32>) {
  // expected-error @below {{expected 'softcap' to be finite and greater than 0, but got -1}}
  %dq, %dk, %dv = te.attention_backward %q, %q, %k, %k, %q, %lse {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64, softcap = -1.0 : f32}
    : tensor<8x8xf32>, tensor<8x4xf32>, tensor<32xf32>
  return
}

// -----

func.func @attention_backward_c1_window(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>, %lse: tensor<32xf32>) {
  // expected-error @below {{expected 'causal' beside 'window_size'}}
  %dq, %dk, %dv = te.attention_backward %q, %q, %k, %k, %q, %lse {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64, window_size = array<i64: 2, 0>}
    : tensor<8x8xf32>, tensor<8x4xf32>, tensor<32xf32>
  return
}

// -----

func.func @attention_backward_c1(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>, %lse: tensor<8xf32>) {
  // expected-error @below {{expected 'lse' to have shape 32, but got 8}}
  %dq, %dk, %dv = te.attention_backward %q, %q, %k, %k, %q, %lse {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64}
    : tensor<8x8xf32>, tensor<8x4xf32>, tensor<8xf32>
  return
}

// -----

func.func @rope_c2_no_rows(%x: tensor<4x8xf32>, %cos: tensor<0x2xf32>, %p: tensor<4xi32>) {
  // expected-error @below {{expected the rows of 'x' to be a multiple of those of 'cos', but got 4 and 0}}
  %y = te.rope %x, %cos, %cos positions %p : tensor<4xi32> {heads = 2 : i64} : tensor<4x8xf32>, tensor<0x2xf32>
  return
}

// -----

func.func @rope_c4(%x: tensor<4x8xf32>, %cos: tensor<3x2xf32>, %p: tensor<3xi32>) {
  // expected-error @below {{expected 'positions' to have shape 4, but got 3}}
  %y = te.rope %x, %cos, %cos positions %p : tensor<3xi32> {heads = 2 : i64} : tensor<4x8xf32>, tensor<3x2xf32>
  return
}

// -----

func.func @attention_c11(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>, %cu: tensor<3xi32>) {
  // expected-error @below {{expected 'sequence', the rows of the longest of 'documents', to be from 1 to the number of rows (8), but got 9}}
  %o = te.attention %q, %k, %k documents %cu : tensor<3xi32> {heads = 4 : i64, kv_heads = 2 : i64, sequence = 9 : i64} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c11_none(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>, %cu: tensor<0xi32>) {
  // expected-error @below {{expected 'documents' to have one or more elements, but got 0}}
  %o = te.attention %q, %k, %k documents %cu : tensor<0xi32> {heads = 4 : i64, kv_heads = 2 : i64, sequence = 8 : i64} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c12(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>, %s: tensor<2xi32>) {
  // expected-error @below {{expected 'dropout' to be from 0 to less than 1, but got 1.0}}
  %o = te.attention %q, %k, %k rng %s {heads = 4 : i64, kv_heads = 2 : i64, sequence = 8 : i64, dropout = 1.0 : f32} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c12_state(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>) {
  // expected-error @below {{expected 'rng', a seed and an offset, for 'dropout' 5.000000e-01}}
  %o = te.attention %q, %k, %k {heads = 4 : i64, kv_heads = 2 : i64, sequence = 8 : i64, dropout = 0.5 : f32} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c12_no_dropout(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>, %s: tensor<2xi32>) {
  // expected-error @below {{expected 'rng' and 'stream' only with a 'dropout' of more than 0}}
  %o = te.attention %q, %k, %k rng %s {heads = 4 : i64, kv_heads = 2 : i64, sequence = 8 : i64} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c12_stream(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>) {
  // expected-error @below {{expected 'rng' and 'stream' only with a 'dropout' of more than 0}}
  %o = te.attention %q, %k, %k {heads = 4 : i64, kv_heads = 2 : i64, sequence = 8 : i64, stream = 1 : i32} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @documents_of_i64(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>, %cu: tensor<3xi64>) {
  // expected-error @below {{operand #3 must be boundaries of documents, a 1-D tensor of i32 (cast those of i64 before the step takes them), but got 'tensor<3xi64>'}}
  %o = te.attention %q, %k, %k documents %cu : tensor<3xi64> {heads = 4 : i64, kv_heads = 2 : i64, sequence = 8 : i64} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_backward_c1_documents(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>, %lse: tensor<32xf32>, %cu: tensor<3xi32>) {
  // expected-error @below {{expected 'sequence', the rows of the longest of 'documents', to be from 1 to the number of rows (8), but got 0}}
  %dq, %dk, %dv = te.attention_backward %q, %q, %k, %k, %q, %lse documents %cu : tensor<3xi32> {heads = 4 : i64, kv_heads = 2 : i64, sequence = 0 : i64} : tensor<8x8xf32>, tensor<8x4xf32>, tensor<32xf32>
  return
}

// -----

func.func @attention_sink_grad_c4(%o: tensor<8x8xf32>, %lse: tensor<32xf32>, %s: tensor<4xf32>, %cu: tensor<3xi32>) {
  // expected-error @below {{expected 'sequence', the rows of the longest of 'documents', to be from 1 to the number of rows (8), but got 9}}
  %ds = te.attention_sink_grad %o, %o, %lse, %s documents %cu : tensor<3xi32> {sequence = 9 : i64} : tensor<8x8xf32>, tensor<32xf32>, tensor<4xf32>
  return
}

// -----

func.func @used_rows_c1(%cu: tensor<0xi32>) {
  // expected-error @below {{expected 'documents' to have one or more elements, but got 0}}
  %used = te.used_rows %cu : tensor<0xi32> -> tensor<8xf32>
  return
}

// -----

func.func @zero_unused_c1(%x: tensor<8x4xf32>, %used: tensor<4xf32>) {
  // expected-error @below {{expected 'used' to have shape 8, but got 4}}
  %y = te.zero_unused %x, %used : tensor<8x4xf32>, tensor<4xf32>
  return
}

// -----

func.func @attention_c4_none(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>) {
  // expected-error @below {{expected 'sequence' to be one or more and to divide the rows of 'q' (8), but got 0}}
  %o = te.attention %q, %k, %k {heads = 4 : i64, kv_heads = 2 : i64, sequence = 0 : i64} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_c12_negative(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>, %s: tensor<2xi32>) {
  // expected-error @below {{expected 'dropout' to be from 0 to less than 1, but got -5.0}}
  %o = te.attention %q, %k, %k rng %s {heads = 4 : i64, kv_heads = 2 : i64, sequence = 8 : i64, dropout = -0.5 : f32} : tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @attention_sink_grad_c1_none(%o: tensor<8x8xf32>, %lse: tensor<0xf32>, %s: tensor<0xf32>) {
  // expected-error @below {{expected 'sinks' to have one or more elements, which divide the columns of 'o' (8), but got 0}}
  %d = te.attention_sink_grad %o, %o, %lse, %s {sequence = 4 : i64} : tensor<8x8xf32>, tensor<0xf32>, tensor<0xf32>
  return
}
