// RUN: te-opt %s --te-report-determinism -o %t.mlir | FileCheck %s
// RUN: te-opt %s --te-report-determinism=target=sm_100 -o %t.mlir | FileCheck %s --check-prefix=SM100
// RUN: te-opt %s --te-report-determinism=target=reference -o %t.mlir | FileCheck %s --check-prefix=REFERENCE
// RUN: te-opt %s --te-report-determinism=format=json -o %t.mlir | FileCheck %s --check-prefix=JSON
// RUN: te-opt %s --te-report-determinism="refuse target=reference" -o %t.mlir
// RUN: not te-opt %s --te-report-determinism=format=html 2>&1 | FileCheck %s --check-prefix=FORMAT
// RUN: not te-opt %s --te-report-determinism=target=sm_80 2>&1 | FileCheck %s --check-prefix=TARGET
// FORMAT: expected option 'format' of 'te-report-determinism' to be 'text' or 'json', but got 'html'
// TARGET: te-report-determinism: {{.*}}sm_80

// Refused are the backward that adds in any order, and the sum over four ranks. A sum of two has one order.
// RUN: not te-opt %s --te-report-determinism="refuse quiet" 2>&1 | FileCheck %s --check-prefix=REFUSE --implicit-check-not=error: --implicit-check-not="same bits of"
// REFUSE: report-determinism.mlir:[[@LINE+60]]:3: error: expected the same bits in each process, because of 'deterministic', but got 'attention_backward': cuDNN adds rows of the gradient of q in any order; leave out 'deterministic = false' of te.attention
// REFUSE: report-determinism.mlir:[[@LINE+65]]:3: error: expected the same bits in each process, because of 'deterministic', but got 'all_reduce_sum': NCCL's order of sums follows the connections between the GPUs; gather the summands

// CHECK: same bits of 'step': 10 launches in each process, 2 with one choice of algorithms, 2 not
// CHECK-NEXT: kernel launches each run each process names why
// CHECK-NEXT: all_reduce_sum 1 yes no s NCCL's order of sums follows the connections between the GPUs
// CHECK-NEXT: attention_backward 1 no no dq cuDNN adds rows of the gradient of q in any order
// CHECK-NEXT: matmul 1 yes by choice w1 wgrad the algorithm that is chosen while the step is loaded decides the order of the sum
// CHECK-NEXT: scaled_matmul 1 yes by choice y the algorithm
// CHECK-NEXT: copy 3 yes yes a, b and 1 more sums have a fixed order; maxima and counts need none
// CHECK-NEXT: all_reduce_max 1 yes yes s bytes are moved, or maxima taken
// CHECK-NEXT: all_reduce_sum 1 yes yes s sums have a fixed order
// CHECK-NEXT: attention_backward 1 yes yes dq cuDNN's order of sums is fixed
// CHECK-NEXT: generated 1 yes yes y {{.*}} dropout is a function of a seed and an offset
// CHECK-NEXT: quantize_nvfp4 1 yes yes y sums have a fixed order
// CHECK-NEXT: quantize_nvfp4 1 yes yes y a fixed order; random bits are a function of a seed
// CHECK-NEXT: scaled_matmul 1 yes yes y sums have a fixed order

// On sm_100, cuBLASLt multiplies blocks, too.
// SM100: same bits of 'step': 9 launches in each process, 3 with one choice of algorithms, 2 not
// SM100: scaled_matmul 2 yes by choice y, y the algorithm

// REFERENCE: same bits of 'step': 14 launches in each process, 0 with one choice of algorithms, 0 not
// REFERENCE-NOT: NCCL
// REFERENCE-NOT: cuDNN

// JSON: "determinism": [
// JSON: "kernels": [
// JSON: "bits": "CudnnAnyOrder",
// JSON-NEXT: "each_process": false,
// JSON-NEXT: "each_run": false,
// JSON-NEXT: "kernel": "attention_backward",
// JSON-NEXT: "launches": 1,
// JSON-NEXT: "names": [
// JSON-NEXT: "dq"
// JSON-NEXT: ],
// JSON-NEXT: "needs_choice": false,
// JSON-NEXT: "why": "cuDNN adds rows of the gradient of q in any order"
// JSON: "bits": "CublasLt",
// JSON-NEXT: "each_process": true,
// JSON: "needs_choice": true,
func.func @step(%x: !tert.buffer<4096>, %a: !tert.buffer<64>, %b: !tert.buffer<64>, %c: !tert.buffer<64>, %dq: !tert.buffer<4096>, %dk: !tert.buffer<4096>, %dv: !tert.buffer<4096>, %lse: !tert.buffer<64>, %s: !tert.buffer<64>, %y: !tert.buffer<4096>)
    attributes {tert.signature = [
      {carried = -1 : i64, name = "x", part = "value", role = "argument", type = tensor<1024xf32>},
      {carried = -1 : i64, name = "a", part = "value", role = "result", type = tensor<16xf32>},
      {carried = -1 : i64, name = "b", part = "value", role = "result", type = tensor<16xf32>},
      {carried = -1 : i64, name = "c", part = "value", role = "result", type = tensor<16xf32>},
      {carried = -1 : i64, name = "dq", part = "value", role = "result", type = tensor<1024xf32>},
      {carried = -1 : i64, name = "dk", part = "value", role = "result", type = tensor<1024xf32>},
      {carried = -1 : i64, name = "dv", part = "value", role = "result", type = tensor<1024xf32>},
      {carried = -1 : i64, name = "lse", part = "value", role = "argument", type = tensor<16xf32>},
      {carried = -1 : i64, name = "s", part = "value", role = "result", type = tensor<16xf32>},
      {carried = -1 : i64, name = "y", part = "value", role = "result", type = tensor<1024xf32>}]} {
  %null = tert.null : !tert.buffer<0>
  tert.launch "copy" {bytes = 64 : i64}
    (%x, %a) : !tert.buffer<4096>, !tert.buffer<64>
  tert.launch "copy" {bytes = 64 : i64}
    (%x, %b) : !tert.buffer<4096>, !tert.buffer<64>
  tert.launch "copy" {bytes = 64 : i64}
    (%x, %c) : !tert.buffer<4096>, !tert.buffer<64>
  tert.launch "attention_backward" {boundaries = 0 : i64, causal = 1 : i32, deterministic = 0 : i32, dropout = 0.0 : f32, head_dim = 32 : i64, heads = 2 : i64, kv_heads = 2 : i64, scale = 0.25 : f32, sequence = 32 : i64, softcap = 0.0 : f32, stream = 0 : i32, tokens = 32 : i64, type = 1 : i32, value_dim = 32 : i64, window_left = -1 : i64}
    (%x, %x, %x, %x, %x, %lse, %null, %null, %dq, %dk, %dv) : !tert.buffer<4096>, !tert.buffer<4096>, !tert.buffer<4096>, !tert.buffer<4096>, !tert.buffer<4096>, !tert.buffer<64>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<4096>, !tert.buffer<4096>, !tert.buffer<4096>
  tert.launch "attention_backward" {boundaries = 0 : i64, causal = 1 : i32, deterministic = 1 : i32, dropout = 0.0 : f32, head_dim = 32 : i64, heads = 2 : i64, kv_heads = 2 : i64, scale = 0.25 : f32, sequence = 32 : i64, softcap = 0.0 : f32, stream = 0 : i32, tokens = 32 : i64, type = 1 : i32, value_dim = 32 : i64, window_left = -1 : i64}
    (%x, %x, %x, %x, %x, %lse, %null, %null, %dq, %dk, %dv) : !tert.buffer<4096>, !tert.buffer<4096>, !tert.buffer<4096>, !tert.buffer<4096>, !tert.buffer<4096>, !tert.buffer<64>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<4096>, !tert.buffer<4096>, !tert.buffer<4096>
  tert.launch "all_reduce_sum" {count = 16 : i64, group_id = 0 : i32, ranks = 2 : i32, type = 0 : i32}
    (%lse, %s) : !tert.buffer<64>, !tert.buffer<64>
  tert.launch "all_reduce_sum" {count = 16 : i64, group_id = 0 : i32, ranks = 4 : i32, type = 0 : i32}
    (%lse, %s) : !tert.buffer<64>, !tert.buffer<64>
  tert.launch "all_reduce_max" {count = 16 : i64, group_id = 0 : i32}
    (%lse, %s) : !tert.buffer<64>, !tert.buffer<64>
  tert.launch "matmul" {k = 8 : i64, m = 8 : i64, n = 8 : i64, out_type = 0 : i32, trans_a = 0 : i32, trans_b = 0 : i32, type = 0 : i32}
    (%x, %x, %null, %null, %null, %y) : !tert.buffer<4096>, !tert.buffer<4096>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<4096>
    loc(fused<{te.layer = "w1", te.gemm = "wgrad", te.reason = "as written"}>["model.py":7:5])
  tert.launch "scaled_matmul" {a_axis = 1 : i32, a_row_scaled = 0 : i32, a_scale_max = 0 : i32, a_scheme = 0 : i32, a_type = 3 : i32, b_axis = 1 : i32, b_scale_max = 0 : i32, b_scheme = 0 : i32, b_type = 3 : i32, fast_accumulation = 0 : i32, k = 128 : i64, m = 16 : i64, n = 16 : i64, out_type = 1 : i32, swizzled = 0 : i32}
    (%x, %lse, %null, %x, %lse, %null, %null, %null, %y) : !tert.buffer<4096>, !tert.buffer<64>, !tert.buffer<0>, !tert.buffer<4096>, !tert.buffer<64>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<4096>
  tert.launch "scaled_matmul" {a_axis = 1 : i32, a_row_scaled = 0 : i32, a_scale_max = 0 : i32, a_scheme = 1 : i32, a_type = 3 : i32, b_axis = 1 : i32, b_scale_max = 0 : i32, b_scheme = 2 : i32, b_type = 3 : i32, fast_accumulation = 0 : i32, k = 128 : i64, m = 16 : i64, n = 16 : i64, out_type = 1 : i32, swizzled = 0 : i32}
    (%x, %lse, %null, %x, %lse, %null, %null, %null, %y) : !tert.buffer<4096>, !tert.buffer<64>, !tert.buffer<0>, !tert.buffer<4096>, !tert.buffer<64>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<4096>
  tert.launch "quantize_nvfp4" {cols = 32 : i64, four_over_six = 0 : i32, matrices = 1 : i64, row_scaled = 0 : i32, rows = 32 : i64, scale_max = 448 : i32, scheme = 5 : i32, stochastic = 1 : i32, stream = 0 : i32, type = 1 : i32, x_cols = 32 : i64, x_rows = 32 : i64}
    (%x, %lse, %null, %y, %s, %a, %null, %null, %null, %null) : !tert.buffer<4096>, !tert.buffer<64>, !tert.buffer<0>, !tert.buffer<4096>, !tert.buffer<64>, !tert.buffer<64>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>
  tert.launch "quantize_nvfp4" {cols = 32 : i64, four_over_six = 0 : i32, matrices = 1 : i64, row_scaled = 0 : i32, rows = 32 : i64, scale_max = 448 : i32, scheme = 5 : i32, stochastic = 0 : i32, stream = 0 : i32, type = 1 : i32, x_cols = 32 : i64, x_rows = 32 : i64}
    (%x, %lse, %null, %y, %s, %a, %null, %null, %null, %null) : !tert.buffer<4096>, !tert.buffer<64>, !tert.buffer<0>, !tert.buffer<4096>, !tert.buffer<64>, !tert.buffer<64>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>
  tert.launch "generated" {count = 1024 : i64, function = 0 : i64}
    (%x, %null, %null, %null, %null, %null, %null, %null, %y, %null, %null, %null) : !tert.buffer<4096>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<4096>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%in: f32):
    tert.yield %in : f32
  }
  return
}
