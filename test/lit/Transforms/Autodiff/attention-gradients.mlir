// RUN: te-opt %s --te-differentiate --te-verify-stage=stage=autodiff --split-input-file | FileCheck %s

// The gradient of a rotation is the inverse rotation, and the gradient of that is the
// rotation. The style does not change, and tables that are arguments are not saved.

// CHECK-LABEL: func.func @rotates(
// CHECK-SAME:    %[[X:[^ ]*]]: tensor<8x8xf32>, %[[COS:[^ ]*]]: tensor<4x2xf32>, %[[SIN:[^ ]*]]: tensor<4x2xf32>, %[[DY:[^ ]*]]: tensor<8x8xf32>)
// CHECK-NOT:     te.residual
// CHECK:         %[[DZ:.*]] = te.rope %[[DY]], %[[COS]], %[[SIN]] {heads = 2 : i64, style = #te.rope_style<interleaved>}
// CHECK-NEXT:    %[[DX:.*]] = te.rope %[[DZ]], %[[COS]], %[[SIN]] {heads = 2 : i64, inverse}
// CHECK-NEXT:    return %[[DX]]
func.func @rotates(%x: tensor<8x8xf32>, %cos: tensor<4x2xf32>, %sin: tensor<4x2xf32>, %dy: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y, %dx = te.vjp @rotation(%x, %cos, %sin) cotangents(%dy) wrt [0]
    : (tensor<8x8xf32>, tensor<4x2xf32>, tensor<4x2xf32>), (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  return %dx : tensor<8x8xf32>
}
func.func private @rotation(%x: tensor<8x8xf32>, %cos: tensor<4x2xf32>, %sin: tensor<4x2xf32>) -> tensor<8x8xf32> {
  %z = te.rope %x, %cos, %sin {heads = 2 : i64} : tensor<8x8xf32>, tensor<4x2xf32>
  %y = te.rope %z, %cos, %sin {heads = 2 : i64, inverse, style = #te.rope_style<interleaved>} : tensor<8x8xf32>, tensor<4x2xf32>
  return %y : tensor<8x8xf32>
}

// -----

// The tables are treated as constants.

// CHECK-LABEL: func.func @tables(
// CHECK:         %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:         return %[[ZERO]]
func.func @tables(%x: tensor<8x8xf32>, %cos: tensor<4x2xf32>, %dy: tensor<8x8xf32>) -> tensor<4x2xf32> {
  %y, %dcos = te.vjp @tabulated(%x, %cos) cotangents(%dy) wrt [1]
    : (tensor<8x8xf32>, tensor<4x2xf32>), (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<4x2xf32>)
  return %dcos : tensor<4x2xf32>
}
func.func private @tabulated(%x: tensor<8x8xf32>, %cos: tensor<4x2xf32>) -> tensor<8x8xf32> {
  %y = te.rope %x, %cos, %cos {heads = 2 : i64} : tensor<8x8xf32>, tensor<4x2xf32>
  return %y : tensor<8x8xf32>
}

// -----

// The forward returns lse, and q, k, v, o and lse are
// saved. Operands without a requested gradient get none.

// CHECK-LABEL: func.func @attends(
// CHECK-SAME:    %[[Q:[^ ]*]]: tensor<8x8xf32>, %[[K:[^ ]*]]: tensor<8x4xf32>, %[[DY:[^ ]*]]: tensor<8x8xf32>)
// CHECK:         %[[SUM:.*]] = arith.addf %[[Q]], %[[Q]]
// CHECK:         %[[O:.*]], %[[LSE:.*]] = te.attention %[[SUM]], %[[K]], %[[K]] {causal, deterministic = false, heads = 4 : i64, kv_heads = 2 : i64, scale = 5.000000e-01 : f32, sequence = 4 : i64, softcap = 3.000000e+01 : f32, window_size = array<i64: 1, 0>} : {{.*}} lse tensor<32xf32>
// CHECK-NEXT:    %[[SUM_R:.*]] = te.residual %[[SUM]] "attention0.q"
// CHECK-NEXT:    %[[O_R:.*]] = te.residual %[[O]] "attention0.o"
// CHECK-NEXT:    %[[LSE_R:.*]] = te.residual %[[LSE]] "attention0.lse"
// CHECK-NEXT:    %[[DQ:.*]], %{{.*}}, %{{.*}} = te.attention_backward %[[DY]], %[[SUM_R]], %[[K]], %[[K]], %[[O_R]], %[[LSE_R]] {causal, deterministic = false, heads = 4 : i64, kv_heads = 2 : i64, scale = 5.000000e-01 : f32, sequence = 4 : i64, softcap = 3.000000e+01 : f32, window_size = array<i64: 1, 0>}
// CHECK-NEXT:    %[[DX:.*]] = arith.addf %[[DQ]], %[[DQ]]
// CHECK-NEXT:    return %[[DX]]
func.func @attends(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>, %dy: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y, %dx = te.vjp @attention(%q, %k) cotangents(%dy) wrt [0]
    : (tensor<8x8xf32>, tensor<8x4xf32>), (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  return %dx : tensor<8x8xf32>
}
func.func private @attention(%x: tensor<8x8xf32>, %k: tensor<8x4xf32>) -> tensor<8x8xf32> {
  %q = arith.addf %x, %x : tensor<8x8xf32>
  %o = te.attention %q, %k, %k {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64, causal, window_size = array<i64: 1, 0>, scale = 0.5 : f32, softcap = 30.0 : f32, deterministic = false} : tensor<8x8xf32>, tensor<8x4xf32>
  return %o : tensor<8x8xf32>
}

// -----

// The sinks are saved if their gradient is requested. Its op reads the same o and lse.

// CHECK-LABEL: func.func @sinks(
// CHECK-SAME:    %[[Q:[^ ]*]]: tensor<8x8xf32>, %[[K:[^ ]*]]: tensor<8x4xf32>, %[[S:[^ ]*]]: tensor<4xf32>, %[[DY:[^ ]*]]: tensor<8x8xf32>)
// CHECK:         %[[SUM:.*]] = arith.addf %[[S]], %[[S]]
// CHECK:         %[[O:.*]], %[[LSE:.*]] = te.attention %[[Q]], %[[K]], %[[K]] sinks %[[SUM]] : tensor<4xf32> {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64} : {{.*}} lse tensor<32xf32>
// CHECK-NEXT:    %[[O_R:.*]] = te.residual %[[O]] "attention0.o"
// CHECK-NEXT:    %[[LSE_R:.*]] = te.residual %[[LSE]] "attention0.lse"
// CHECK-NEXT:    %[[SUM_R:.*]] = te.residual %[[SUM]] "attention0.sinks"
// CHECK:         %[[DS:.*]] = te.attention_sink_grad %[[DY]], %[[O_R]], %[[LSE_R]], %[[SUM_R]] {sequence = 4 : i64}
// CHECK-NEXT:    %[[DX:.*]] = arith.addf %[[DS]], %[[DS]]
// CHECK-NEXT:    return %[[DX]]
func.func @sinks(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>, %s: tensor<4xf32>, %dy: tensor<8x8xf32>) -> tensor<4xf32> {
  %y, %dx = te.vjp @sunk(%q, %k, %s) cotangents(%dy) wrt [2]
    : (tensor<8x8xf32>, tensor<8x4xf32>, tensor<4xf32>), (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<4xf32>)
  return %dx : tensor<4xf32>
}
func.func private @sunk(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>, %x: tensor<4xf32>) -> tensor<8x8xf32> {
  %s = arith.addf %x, %x : tensor<4xf32>
  %o = te.attention %q, %k, %k sinks %s : tensor<4xf32> {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64} : tensor<8x8xf32>, tensor<8x4xf32>
  return %o : tensor<8x8xf32>
}

// -----

// Otherwise, they are not saved.

// CHECK-LABEL: func.func @constant_sinks(
// CHECK-NOT:     "attention0.sinks"
// CHECK-NOT:     te.attention_sink_grad
// CHECK:         te.attention_backward
// CHECK:         return
func.func @constant_sinks(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>, %dy: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y, %dx = te.vjp @off_by_one(%q, %k) cotangents(%dy) wrt [0]
    : (tensor<8x8xf32>, tensor<8x4xf32>), (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  return %dx : tensor<8x8xf32>
}
func.func private @off_by_one(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>) -> tensor<8x8xf32> {
  %s = arith.constant dense<0.0> : tensor<4xf32>
  %o = te.attention %q, %k, %k sinks %s : tensor<4xf32> {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64} : tensor<8x8xf32>, tensor<8x4xf32>
  return %o : tensor<8x8xf32>
}

// -----

// Boundaries of documents and positions are read by the backward, and saved if they are
// computed. The sinks' gradient needs them, too.

// CHECK-LABEL: func.func @packs(
// CHECK-SAME:    %[[Q:[^ ]*]]: tensor<8x8xf32>, %[[K:[^ ]*]]: tensor<8x4xf32>, %[[S:[^ ]*]]: tensor<4xf32>, %[[CU:[^ ]*]]: tensor<3xi32>, %[[P:[^ ]*]]: tensor<8xi32>, %[[COS:[^ ]*]]: tensor<5x1xf32>, %[[DY:[^ ]*]]: tensor<8x8xf32>)
// CHECK:         %[[ENDS:.*]] = arith.addi %[[CU]], %[[CU]]
// CHECK:         %[[TURNED:.*]] = te.rope %[[Q]], %[[COS]], %[[COS]] positions %[[P]] : tensor<8xi32> {heads = 4 : i64}
// CHECK:         %[[O:.*]], %[[LSE:.*]] = te.attention %[[TURNED]], %[[K]], %[[K]] sinks %[[S]] : tensor<4xf32> documents %[[ENDS]] : tensor<3xi32> {causal, heads = 4 : i64, kv_heads = 2 : i64, sequence = 8 : i64} : {{.*}} lse tensor<32xf32>
// CHECK:         %[[ENDS_R:.*]] = te.residual %[[ENDS]] "attention0.documents"
// CHECK:         %[[DQ:.*]], %{{.*}}, %{{.*}} = te.attention_backward %[[DY]], {{.*}} documents %[[ENDS_R]] : tensor<3xi32> {causal, heads = 4 : i64, kv_heads = 2 : i64, sequence = 8 : i64}
// CHECK:         %[[DS:.*]] = te.attention_sink_grad {{.*}}, %[[S]] documents %[[ENDS_R]] : tensor<3xi32> {sequence = 8 : i64}
// CHECK:         %[[DX:.*]] = te.rope %[[DQ]], %[[COS]], %[[COS]] positions %[[P]] : tensor<8xi32> {heads = 4 : i64, inverse}
// CHECK:         return %[[DX]], %[[DS]]
func.func @packs(%q: tensor<8x8xf32>, %k: tensor<8x4xf32>, %s: tensor<4xf32>, %cu: tensor<3xi32>, %p: tensor<8xi32>, %cos: tensor<5x1xf32>, %dy: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<4xf32>) {
  %y, %dx, %ds = te.vjp @packed(%q, %k, %s, %cu, %p, %cos) cotangents(%dy) wrt [0, 2]
    : (tensor<8x8xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<3xi32>, tensor<8xi32>, tensor<5x1xf32>), (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<4xf32>)
  return %dx, %ds : tensor<8x8xf32>, tensor<4xf32>
}
func.func private @packed(%x: tensor<8x8xf32>, %k: tensor<8x4xf32>, %s: tensor<4xf32>, %cu: tensor<3xi32>, %p: tensor<8xi32>, %cos: tensor<5x1xf32>) -> tensor<8x8xf32> {
  %ends = arith.addi %cu, %cu : tensor<3xi32>
  %q = te.rope %x, %cos, %cos positions %p : tensor<8xi32> {heads = 4 : i64} : tensor<8x8xf32>, tensor<5x1xf32>
  %o = te.attention %q, %k, %k sinks %s : tensor<4xf32> documents %ends : tensor<3xi32> {heads = 4 : i64, kv_heads = 2 : i64, sequence = 8 : i64, causal} : tensor<8x8xf32>, tensor<8x4xf32>
  return %o : tensor<8x8xf32>
}

// -----

// Cotangents of rows that are not used are set to zero. The rows are saved if they are computed.

// CHECK-LABEL: func.func @leaves_out(
// CHECK-SAME:    %[[CU:[^ ]*]]: tensor<3xi32>, %[[DY:[^ ]*]]: tensor<8x8xf32>)
// CHECK:         %[[USED:.*]] = te.used_rows %[[CU]]
// CHECK:         %[[USED_R:.*]] = te.residual %[[USED]] "zero_unused0.used"
// CHECK:         %[[DX:.*]] = te.zero_unused %[[DY]], %[[USED_R]]
// CHECK:         return %[[DX]]
func.func @leaves_out(%x: tensor<8x8xf32>, %cu: tensor<3xi32>, %dy: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y, %dx = te.vjp @used(%x, %cu) cotangents(%dy) wrt [0]
    : (tensor<8x8xf32>, tensor<3xi32>), (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  return %dx : tensor<8x8xf32>
}
func.func private @used(%x: tensor<8x8xf32>, %cu: tensor<3xi32>) -> tensor<8x8xf32> {
  %used = te.used_rows %cu : tensor<3xi32> -> tensor<8xf32>
  %y = te.zero_unused %x, %used : tensor<8x8xf32>, tensor<8xf32>
  return %y : tensor<8x8xf32>
}
