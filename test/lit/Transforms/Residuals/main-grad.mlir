// RUN: te-opt %s --te-training-pipeline="vjp=layers recipe=float8_block_scaling main-grad=true cache-weights=true compile-to=quantize" | FileCheck %s
// RUN: te-opt %s --te-training-pipeline="vjp=layers recipe=mxfp8_block_scaling main-grad=true target=sm_90 emulate=true compile-to=quantize" | FileCheck %s --check-prefix=EMULATED
// RUN: te-opt %s --te-training-pipeline="vjp=layers recipe=float8_block_scaling main-grad=true compile-to=schedule" | FileCheck %s --check-prefix=PLACE

// One flag controls casts and gradients.
// CHECK-LABEL: func.func @layers
// CHECK-SAME: %[[SKIP:[^ ]*]]: tensor<f32> {te.init = 0.000000e+00 : f32, te.name = "skip_weight_update"}
// CHECK-DAG: te.quantize %{{[^ ]*}} into %{{[^ ]*}} unless %[[SKIP]]
// CHECK-DAG: te.zero_unless %{{[^ ]*}}, %[[SKIP]] : tensor<2x128x64xf32>
// CHECK-DAG: te.grouped_scaled_wgrad {{.*}} accumulate %{{[^ ]*}} : tensor<2x128x64xf32>
// CHECK-DAG: te.zero_unless %{{[^ ]*}}, %[[SKIP]] : tensor<128x128xf32>
// CHECK-DAG: te.scaled_matmul {{.*}} accumulate %{{[^ ]*}} : tensor<128x128xf32>

// EMULATED-DAG: te.grouped_wgrad {{.*}} accumulate %{{[^ ]*}} : tensor<2x128x64xf32>
// EMULATED-DAG: te.matmul {{.*}} accumulate %{{[^ ]*}} : tensor<128x128xf32>

// Sums are updated in place, without copies of a state. The GEMM of groups reads the flag itself.
// PLACE-LABEL: func.func @layers
// PLACE-NOT: tert.launch "copy"
// PLACE: tert.launch "fill" {{.*}}(%[[SUM:[^ ,]*]], %[[SKIP:[^ ,]*]]) :
// PLACE-NOT: tert.launch "copy"
// PLACE: tert.launch "scaled_matmul" {{.*}} %[[SUM]], %[[SUM]]) :
// PLACE-NOT: tert.launch "{{copy|fill}}"
// PLACE: tert.launch "grouped_scaled_wgrad" {{.*}} %[[GROUPS:[^ ,]*]], %[[GROUPS]], %[[SKIP]]) :
// PLACE-NOT: tert.launch "{{copy|fill}}"
// PLACE: return
func.func @layers(%x: tensor<256x64xbf16> {te.name = "x"}, %w: tensor<2x128x64xbf16> {te.name = "w", te.weight}, %sizes: tensor<2xi32> {te.name = "sizes"},
                  %v: tensor<128x128xbf16> {te.name = "v", te.weight}) -> (tensor<256x128xbf16> {te.name = "y"}) {
  %h = te.grouped_linear %x, %w, %sizes {alignment = 128 : i64} : tensor<256x64xbf16>, tensor<2x128x64xbf16>, tensor<2xi32> -> tensor<256x128xbf16>
  %y = te.linear %h, %v : tensor<256x128xbf16>, tensor<128x128xbf16> -> tensor<256x128xbf16>
  return %y : tensor<256x128xbf16>
}
