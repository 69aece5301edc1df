// RUN: te-opt %s --te-report-time -o %t.mlir | FileCheck %s
// RUN: te-opt %s --te-report-time="bandwidth=2 tflops8=1 tflops16=0.5" -o %t.mlir | FileCheck %s --check-prefix=RATES
// RUN: te-opt %s --te-report-time=format=json -o %t.mlir | FileCheck %s --check-prefix=JSON
// RUN: not te-opt %s --te-report-time=format=html 2>&1 | FileCheck %s --check-prefix=FORMAT
// RUN: not te-opt %s --te-report-time=bandwidth=0 2>&1 | FileCheck %s --check-prefix=RATE
// FORMAT: expected option 'format' of 'te-report-time' to be 'text' or 'json', but got 'html'
// RATE: expected option 'bandwidth' of 'te-report-time' to be above 0, but got 0

// A GEMM of 1024x1024x1024 has 2.1 GFLOP; 8 sequences of 1024 causal positions have 8 * 1024 * 1025 / 2 pairs, each of 2 * (128 + 128)
// operations in each of 2 heads. Copies of one size are one row. Of a table of 4.2 MB, 16384 tokens read 2.1 MB.
// The gradient of such a table is written as a whole, unless it is added to in place: 1024 tokens then read and write 0.1 MB each, beside
// their own 0.1 MB.
// CHECK: least time of 'step': {{.*}} ms, 7 launches
// CHECK-NEXT: kernel launches MB each GFLOP each floor us each floor us limit
// CHECK-NEXT: attention 1 12.6 4.3 6.1 6.1 arithmetic
// CHECK-NEXT: copy 2 8.4 0.0 2.1 4.2 memory
// CHECK-NEXT: matmul 1 6.3 2.1 3.1 3.1 arithmetic
// CHECK-NEXT: embedding_backward 1 4.3 0.0 1.1 1.1 memory
// CHECK-NEXT: embedding 1 4.3 0.0 1.1 1.1 memory
// CHECK-NEXT: embedding_backward 1 0.4 0.0 0.1 0.1 memory

// RATES: attention 1 12.6 4.3 8598.3 8598.3 arithmetic
// RATES: matmul 1 6.3 2.1 4295.0 4295.0 arithmetic
// RATES: copy 2 8.4 0.0 4.2 8.4 memory

// JSON: "time": [
// JSON: "bytes": 8388608
// JSON: "launches": 2
// JSON: "limit": "memory"
func.func @step(%x: !tert.buffer<4194304>, %y: !tert.buffer<4194304>, %a: !tert.buffer<2097152>, %b: !tert.buffer<2097152>, %c: !tert.buffer<2097152>,
                %lse: !tert.buffer<65536>, %o: !tert.buffer<4194304>, %ids: !tert.buffer<4096>, %dy: !tert.buffer<131072>)
    attributes {tert.signature = [
      {carried = -1 : i64, name = "x", part = "value", role = "argument", type = tensor<2097152xbf16>},
      {carried = -1 : i64, name = "y", part = "value", role = "result", type = tensor<2097152xbf16>},
      {carried = -1 : i64, name = "a", part = "value", role = "argument", type = tensor<1024x1024xbf16>},
      {carried = -1 : i64, name = "b", part = "value", role = "argument", type = tensor<1024x1024xbf16>},
      {carried = -1 : i64, name = "c", part = "value", role = "result", type = tensor<1024x1024xbf16>},
      {carried = -1 : i64, name = "lse", part = "value", role = "result", type = tensor<8192x2xf32>},
      {carried = -1 : i64, name = "o", part = "value", role = "result", type = tensor<8192x256xbf16>},
      {carried = -1 : i64, name = "ids", part = "value", role = "argument", type = tensor<1024xi32>},
      {carried = -1 : i64, name = "dy", part = "value", role = "argument", type = tensor<1024x64xbf16>}]} {
  %null = tert.null : !tert.buffer<0>
  tert.launch "copy" {bytes = 4194304 : i64} (%x, %y) : !tert.buffer<4194304>, !tert.buffer<4194304>
  tert.launch "copy" {bytes = 4194304 : i64} (%x, %o) : !tert.buffer<4194304>, !tert.buffer<4194304>
  tert.launch "matmul" {m = 1024 : i64, n = 1024 : i64, k = 1024 : i64, trans_a = 0 : i32, trans_b = 0 : i32, type = 1 : i32, out_type = 1 : i32}
    (%a, %b, %null, %null, %null, %c) : !tert.buffer<2097152>, !tert.buffer<2097152>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<2097152>
  tert.launch "attention" {tokens = 8192 : i64, sequence = 1024 : i64, heads = 2 : i64, kv_heads = 1 : i64, head_dim = 128 : i64, value_dim = 128 : i64, type = 1 : i32,
                           causal = 1 : i32, window_left = -1 : i64, scale = 0.1 : f32, softcap = 0.0 : f32, has_sinks = 0 : i32, boundaries = 0 : i64, dropout = 0.0 : f32, stream = 0 : i32}
    (%x, %a, %b, %null, %null, %null, %o, %lse) : !tert.buffer<4194304>, !tert.buffer<2097152>, !tert.buffer<2097152>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<4194304>, !tert.buffer<65536>
  tert.launch "embedding_backward" {hidden = 64 : i64, tokens = 1024 : i64, type = 1 : i32, out_type = 1 : i32, vocab = 32768 : i64} (%ids, %dy, %x, %null)
    : !tert.buffer<4096>, !tert.buffer<131072>, !tert.buffer<4194304>, !tert.buffer<0>
  tert.launch "embedding_backward" {hidden = 64 : i64, tokens = 1024 : i64, type = 1 : i32, out_type = 1 : i32, vocab = 32768 : i64} (%ids, %dy, %y, %y)
    : !tert.buffer<4096>, !tert.buffer<131072>, !tert.buffer<4194304>, !tert.buffer<4194304>
  tert.launch "embedding" {hidden = 64 : i64, tokens = 16384 : i64, type = 1 : i32, vocab = 32768 : i64} (%lse, %x, %a) : !tert.buffer<65536>, !tert.buffer<4194304>, !tert.buffer<2097152>
  return
}
