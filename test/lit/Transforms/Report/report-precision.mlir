// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts,cse,te-materialize-transposes,te-pair-cast-layouts),te-report-precision)' -o %t.mlir | FileCheck %s --match-full-lines --strict-whitespace --check-prefix=TEXT
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts,cse,te-materialize-transposes,te-pair-cast-layouts),te-report-precision{format=json})' -o %t.mlir | FileCheck %s --check-prefix=JSON
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts,cse),te-report-precision{quiet})' -o %t.mlir | count 0
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts,cse),te-report-precision{target=reference})' -o %t.mlir | FileCheck %s --check-prefix=REFERENCE
// RUN: not te-opt %s --te-report-precision=target=sm_80 2>&1 | FileCheck %s --check-prefix=TARGET

// REFERENCE: reference fp8 tensorwise
// REFERENCE: reference bf16
// TARGET: error: te-report-precision: expected 'target' to be one of sm_90, sm_100, reference, but got 'sm_80'

// The formats are those of the operands, and bytes include scales.
// 48x64 in bf16 has 6,144 bytes, and its per-tensor usage 48 * 64 + 4.
//      TEXT:precision of @step
// TEXT-NEXT:  gemm   layer  a                    b                    accumulate  out   kernel                       why
// TEXT-NEXT:  fprop  w      f8E4M3FN per_tensor  f8E4M3FN per_tensor  fast        bf16  cublaslt fp8 tensorwise      recipe 'float8_current_scaling'
// TEXT-NEXT:  fprop  v      f8E4M3FN per_tensor  f8E4M3FN per_tensor  fast        bf16  cublaslt fp8 tensorwise      recipe 'float8_current_scaling', padded: N 4 to 8
// TEXT-NEXT:  dgrad  w      f8E5M2 per_tensor    f8E4M3FN per_tensor  split       bf16  own/cublaslt fp8 tensorwise  recipe 'float8_current_scaling'
// TEXT-NEXT:  wgrad  v      bf16                 bf16                 f32         f32   cublaslt bf16                override 'high_precision'
// TEXT-EMPTY:
// TEXT-NEXT:  cast              tensor         format               read bytes  written bytes
// TEXT-NEXT:  amax              x              bf16                 6144        4
// TEXT-NEXT:  quantize row      x              f8E4M3FN per_tensor  6148        3076
// TEXT-NEXT:  amax              w              bf16                 8192        4
// TEXT-NEXT:  quantize row+col  w              f8E4M3FN per_tensor  8196        8200
// TEXT-NEXT:  amax              scaled_matmul  bf16                 6144        4
// TEXT-NEXT:  quantize row      scaled_matmul  f8E4M3FN per_tensor  6148        3076
// TEXT-NEXT:  amax              v              bf16                 512         4
// TEXT-NEXT:  quantize row      v              f8E4M3FN per_tensor  1028        516
// TEXT-NEXT:  amax              dh             bf16                 6144        4
// TEXT-NEXT:  quantize row      dh             f8E5M2 per_tensor    6148        3076
// TEXT-NEXT:  total                                                 54804       17964
//  TEXT-NOT:{{.+}}

// JSON: "precision": [
// JSON: "casts": [
// JSON: "cast": "amax",
// JSON-NEXT: "format": "bf16",
// JSON-NEXT: "read_bytes": 6144,
// JSON-NEXT: "tensor": "x",
// JSON-NEXT: "written_bytes": 4
// JSON: "function": "step",
// JSON: "gemms": [
// JSON: "a": "f8E4M3FN per_tensor",
// JSON-NEXT: "accumulate": "fast",
// JSON-NEXT: "b": "f8E4M3FN per_tensor",
// JSON-NEXT: "fallback": false,
// JSON-NEXT: "gemm": "fprop",
// JSON-NEXT: "kernel": "cublaslt fp8 tensorwise",
// JSON-NEXT: "layer": "w",
// JSON-NEXT: "out": "bf16",
// JSON-NEXT: "why": "recipe 'float8_current_scaling'"
// JSON: "why": "recipe 'float8_current_scaling', padded: N 4 to 8"

func.func @step(%x: tensor<48x64xbf16> {te.name = "x"}, %w: tensor<64x64xbf16> {te.name = "w", te.weight},
    %v: tensor<4x64xbf16> {te.name = "v", te.weight}, %dy: tensor<48x4xbf16> {te.name = "dy"}, %dh: tensor<48x64xbf16> {te.name = "dh"})
    -> (tensor<48x4xbf16>, tensor<48x64xbf16>, tensor<4x64xf32>)
    attributes {te.recipe = #te.recipe<float8_current_scaling>} {
  %h = te.linear %x, %w : tensor<48x64xbf16>, tensor<64x64xbf16> -> tensor<48x64xbf16>
  %y = te.linear %h, %v : tensor<48x64xbf16>, tensor<4x64xbf16> -> tensor<48x4xbf16> loc("v")
  %dx = te.linear_dgrad %dh, %w : tensor<48x64xbf16>, tensor<64x64xbf16> -> tensor<48x64xbf16>
  %dv = te.linear_wgrad %dy, %x {te.recipe = #te.recipe<float8_current_scaling, {backward_override = high_precision}>} : tensor<48x4xbf16>, tensor<48x64xbf16> -> tensor<4x64xf32> loc("v")
  return %y, %dx, %dv : tensor<48x4xbf16>, tensor<48x64xbf16>, tensor<4x64xf32>
}
