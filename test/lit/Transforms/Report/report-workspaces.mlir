// RUN: te-opt %s --te-plan-memory=target=sm_90 --te-report-memory -o /dev/null | FileCheck %s
// RUN: te-opt %s --te-plan-memory=target=sm_90 --te-report-memory=format=json -o /dev/null | FileCheck %s --check-prefix=JSON
// RUN: te-opt %s --te-plan-memory --te-report-memory -o /dev/null | FileCheck %s --check-prefix=NONE
// RUN: not te-opt %s --te-plan-memory=target=sm_80 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not te-opt %s --te-plan-memory="target=sm_90 budget=1" 2>&1 | FileCheck %s --check-prefix=BUDGET

// All launches share a region of the largest size. A norm's backward: column sums of 5 strips of up to 32 rows, 32 columns. Deterministic attention: 2
// heads * 256 tokens * 128 keys of 2 bytes, and an f32 for each head and token. Gradient of sinks: one for each head and 128 tokens. GEMM: its library's.
// CHECK: workspace, at most 33554432
// CHECK: workspaces, one region outside the arena for all launches
// CHECK-NEXT: buffer owner cause bytes offset first launch last launch
// CHECK-NEXT: matmul matmul workspace 33554432 - 0 0
// CHECK-NEXT: attention_backward attention_backward workspace 133120 - 2 2
// CHECK-NEXT: rms_norm_backward rms_norm_backward workspace 640 - 1 1
// CHECK-NEXT: attention_sink_grad attention_sink_grad workspace 16 - 3 3
// CHECK-EMPTY:

// JSON: "workspace_bytes": 33554432
// JSON: "cause": "workspace"

// NONE-NOT: workspace

// TARGET: te-plan-memory: expected 'target' to be one of sm_90, sm_100, reference, but got 'sm_80'

// BUDGET: note: the smallest 'budget' that works is 256
// BUDGET: note: outside the arena, scratch memory of kernels takes up to 33554432 bytes more
func.func @step(%a: !tert.buffer<32768>, %stats: !tert.buffer<2048>, %out: !tert.buffer<32768>, %dk: !tert.buffer<32768>, %dv: !tert.buffer<32768>) {
  %t = tert.alloc "t" gradient : !tert.buffer<64>
  %null = tert.null : !tert.buffer<0>
  tert.launch "matmul" {k = 32 : i64, m = 16 : i64, n = 16 : i64, out_type = 1 : i32, trans_a = 0 : i32, trans_b = 0 : i32, type = 1 : i32}(%a, %a, %null, %null, %null, %out) : !tert.buffer<32768>, !tert.buffer<32768>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<32768>
  tert.launch "rms_norm_backward" {cols = 32 : i64, rows = 130 : i64, type = 1 : i32, zero_centered = 0 : i32}(%a, %a, %a, %stats, %out, %t, %null, %null) : !tert.buffer<32768>, !tert.buffer<32768>, !tert.buffer<32768>, !tert.buffer<2048>, !tert.buffer<32768>, !tert.buffer<64>, !tert.buffer<0>, !tert.buffer<0>
  tert.launch "attention_backward" {boundaries = 0 : i64, causal = 1 : i32, deterministic = 1 : i32, dropout = 0.0 : f32, head_dim = 32 : i64, heads = 2 : i64, kv_heads = 2 : i64, scale = 0.25 : f32, sequence = 128 : i64, softcap = 0.0 : f32, stream = 0 : i32, tokens = 256 : i64, type = 1 : i32, value_dim = 32 : i64, window_left = -1 : i64}(%a, %a, %a, %a, %a, %stats, %null, %null, %out, %dk, %dv) : !tert.buffer<32768>, !tert.buffer<32768>, !tert.buffer<32768>, !tert.buffer<32768>, !tert.buffer<32768>, !tert.buffer<2048>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<32768>, !tert.buffer<32768>, !tert.buffer<32768>
  tert.launch "attention_sink_grad" {boundaries = 0 : i64, head_dim = 32 : i64, heads = 2 : i64, sequence = 128 : i64, tokens = 256 : i64, type = 1 : i32}(%a, %a, %stats, %stats, %null, %t) : !tert.buffer<32768>, !tert.buffer<32768>, !tert.buffer<2048>, !tert.buffer<2048>, !tert.buffer<0>, !tert.buffer<64>
  return
}
