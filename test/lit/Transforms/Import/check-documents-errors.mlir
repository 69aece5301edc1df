// Only the reference backend has attention with documents.
// RUN: te-opt %s --te-check-constraints --verify-diagnostics
// RUN: not te-opt %s --te-check-constraints=target=sm_100 2>&1 | FileCheck %s
// RUN: te-opt %s --te-check-constraints=target=reference | FileCheck %s --check-prefix=REFERENCE
// RUN: not te-opt %s --te-training-pipeline -o %t.mlir 2>&1 | FileCheck %s
// CHECK-COUNT-2: error: expected no 'documents'
// REFERENCE-COUNT-3: documents %

func.func @step(%q: tensor<8x8xbf16> {te.name = "q"}, %do: tensor<8x8xbf16> {te.name = "do"}, %s: tensor<2xf32> {te.name = "s"}, %cu: tensor<3xi32> {te.name = "cu"})
    -> (tensor<8x8xbf16> {te.name = "dq"}, tensor<2xf32> {te.name = "ds"}) {
  // expected-error @below {{expected no 'documents', because only 'target=reference' has attention with them}}
  %o, %lse = te.attention %q, %q, %q sinks %s : tensor<2xf32> documents %cu : tensor<3xi32> {heads = 2 : i64, kv_heads = 2 : i64, sequence = 8 : i64}
    : tensor<8x8xbf16>, tensor<8x8xbf16> lse tensor<16xf32>
  // expected-error @below {{expected no 'documents', because only 'target=reference' has attention with them}}
  %dq, %dk, %dv = te.attention_backward %do, %q, %q, %q, %o, %lse documents %cu : tensor<3xi32> {heads = 2 : i64, kv_heads = 2 : i64, sequence = 8 : i64}
    : tensor<8x8xbf16>, tensor<8x8xbf16>, tensor<16xf32>
  %ds = te.attention_sink_grad %do, %o, %lse, %s documents %cu : tensor<3xi32> {sequence = 8 : i64} : tensor<8x8xbf16>, tensor<16xf32>, tensor<2xf32>
  // Without documents, it is no error.
  %p = te.attention %q, %q, %q {heads = 2 : i64, kv_heads = 2 : i64, sequence = 8 : i64} : tensor<8x8xbf16>, tensor<8x8xbf16>
  return %dq, %ds : tensor<8x8xbf16>, tensor<2xf32>
}
