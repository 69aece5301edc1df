// The purpose of each argument: what the kernels that use it do with it, and its name.
// RUN: te-opt %s --te-report-memory -o /dev/null | FileCheck %s

#wgrad = loc(fused<{te.gemm = "wgrad", te.layer = "l", te.reason = ""}>["l"])
#dgrad = loc(fused<{te.gemm = "dgrad", te.layer = "l", te.reason = ""}>["l"])

// CHECK-DAG: {{^ *}}w {{[^ ]+}} weight 256
// CHECK-DAG: {{^ *}}p {{[^ ]+}} input 256
// CHECK-DAG: {{^ *}}p.buf {{[^ ]+}} optimizer_state 256
// CHECK-DAG: {{^ *}}x.history {{[^ ]+}} quantiser_state 256
// CHECK-DAG: {{^ *}}x.scale {{[^ ]+}} quantiser_state 256
// CHECK-DAG: {{^ *}}x.amax {{[^ ]+}} input 256
// CHECK-DAG: {{^ *}}grad.v {{[^ ]+}} main_grad 256
// CHECK-DAG: {{^ *}}grad.w {{[^ ]+}} gradient 256
// CHECK-DAG: {{^ *}}u {{[^ ]+}} gradient 256
// CHECK-DAG: {{^ *}}z {{[^ ]+}} gradient 256
// CHECK-DAG: {{^ *}}grad.b {{[^ ]+}} gradient 256
// CHECK-DAG: {{^ *}}y {{[^ ]+}} output 256
// CHECK-DAG: {{^ *}}x.next {{[^ ]+}} output 256
func.func @step(%a0: !tert.buffer<256>, %a1: !tert.buffer<256>, %a2: !tert.buffer<256>, %a3: !tert.buffer<256>, %a4: !tert.buffer<256>, %a5: !tert.buffer<256>, %a6: !tert.buffer<256>, %a7: !tert.buffer<256>, %a8: !tert.buffer<256>, %a9: !tert.buffer<256>, %a10: !tert.buffer<256>, %a11: !tert.buffer<256>, %a12: !tert.buffer<256>)
    attributes {tert.arena_bytes = 0 : i64, tert.max_live_bytes = 0 : i64, tert.signature = [
      {name = "w", type = tensor<64xf32>, role = "argument", part = "value", carried = -1 : i64, weight},
      {name = "p", type = tensor<64xf32>, role = "argument", part = "value", carried = -1 : i64},
      {name = "p.buf", type = tensor<64xf32>, role = "argument", part = "value", carried = -1 : i64},
      {name = "x.history", type = tensor<64xf32>, role = "argument", part = "value", carried = -1 : i64},
      {name = "x.scale", type = tensor<64xf32>, role = "argument", part = "value", carried = -1 : i64},
      {name = "x.amax", type = tensor<64xf32>, role = "argument", part = "value", carried = -1 : i64},
      {name = "grad.v", type = tensor<64xf32>, role = "argument", part = "value", carried = -1 : i64},
      {name = "grad.w", type = tensor<64xf32>, role = "result", part = "value", carried = -1 : i64},
      {name = "u", type = tensor<64xf32>, role = "result", part = "value", carried = -1 : i64},
      {name = "z", type = tensor<64xf32>, role = "result", part = "value", carried = -1 : i64},
      {name = "grad.b", type = tensor<64xf32>, role = "result", part = "value", carried = -1 : i64},
      {name = "y", type = tensor<64xf32>, role = "result", part = "value", carried = -1 : i64},
      {name = "x.next", type = tensor<64xf32>, role = "result", part = "value", carried = -1 : i64}]} {
  %none = tert.null : !tert.buffer<0>
  %part = tert.slice %a11 offset 0 : !tert.buffer<256> -> !tert.buffer<64>
  tert.launch "copy" {bytes = 64 : i64} (%a5, %part) : !tert.buffer<256>, !tert.buffer<64>
  tert.launch "sgd" {count = 64 : i64, param_type = 0 : i32, grad_type = 0 : i32, momentum = 0.5 : f32, weight_decay = 0.0 : f32, nesterov = 0 : i32}
    (%a1, %a5, %a2, %a5, %none, %a1, %a2, %none) : !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<0>
  tert.launch "delayed_scaling_update" {slots = 8 : i64, history_length = 8 : i64, algorithm = 0 : i32, fp8_max = 448.0 : f32, margin = 0 : i32}
    (%a5, %a3, %a4, %a3, %a12) : !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<256>
  tert.launch "matmul" {m = 8 : i64, n = 8 : i64, k = 8 : i64, trans_a = 0 : i32, trans_b = 0 : i32, type = 0 : i32, out_type = 0 : i32}
    (%a5, %a0, %none, %none, %none, %a6) : !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256> loc(#wgrad)
  tert.launch "matmul" {m = 8 : i64, n = 8 : i64, k = 8 : i64, trans_a = 0 : i32, trans_b = 0 : i32, type = 0 : i32, out_type = 0 : i32}
    (%a5, %a0, %none, %none, %none, %a7) : !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256> loc(#wgrad)
  tert.launch "matmul" {m = 8 : i64, n = 8 : i64, k = 8 : i64, trans_a = 0 : i32, trans_b = 0 : i32, type = 0 : i32, out_type = 0 : i32}
    (%a5, %a0, %none, %none, %none, %a8) : !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<256> loc(#dgrad)
  tert.launch "activation_backward" {rows = 1 : i64, cols = 64 : i64, type = 0 : i32, kind = 0 : i32, limit = 7.0 : f32, alpha = 1.0 : f32, offset = 1.0 : f32}
    (%a0, %a1, %a9, %none) : !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<0>
  tert.launch "copy" {bytes = 256 : i64} (%a1, %a10) : !tert.buffer<256>, !tert.buffer<256>
  return
}
