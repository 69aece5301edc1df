// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts),te-report-precision)' -o %t.mlir | FileCheck %s
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts),te-report-precision{target=reference})' -o %t.mlir | FileCheck %s --check-prefix=REFERENCE

// Products of groups are kernels of this project, in FP8 and in bf16.
// CHECK: fprop {{.*}} fast {{.*}} own fp8 tensorwise grouped
// CHECK: fprop {{.*}} own bf16 grouped
// REFERENCE: fprop {{.*}} reference fp8 tensorwise grouped
// REFERENCE: fprop {{.*}} reference bf16 grouped

func.func @step(%x: tensor<512x64xbf16>, %w: tensor<4x96x64xbf16>, %sizes: tensor<4xi32>)
    -> (tensor<512x96xbf16>, tensor<512x96xbf16>) {
  %y = te.grouped_linear %x, %w, %sizes {alignment = 128 : i64, te.recipe = #te.recipe<float8_current_scaling>}
    : tensor<512x64xbf16>, tensor<4x96x64xbf16>, tensor<4xi32> -> tensor<512x96xbf16>
  %z = te.grouped_linear %x, %w, %sizes {alignment = 128 : i64}
    : tensor<512x64xbf16>, tensor<4x96x64xbf16>, tensor<4xi32> -> tensor<512x96xbf16>
  return %y, %z : tensor<512x96xbf16>, tensor<512x96xbf16>
}
