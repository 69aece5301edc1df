// RUN: te-opt %s --te-training-pipeline="recipe=float8_block_scaling cache-weights=true compile-to=quantize" | FileCheck %s
// RUN: te-opt %s --te-training-pipeline="recipe=float8_block_scaling cache-weights=true compile-to=schedule" | FileCheck %s --check-prefix=PLACE

// The pipeline caches casts and checks the step. Casts are in place, so nothing is copied.
// CHECK-LABEL: func.func @made
// CHECK: te.quantize {{.*}} into {{.*}} unless
func.func @made(%x: tensor<256x512xbf16> {te.name = "x"}, %w: tensor<128x512xbf16> {te.name = "w", te.weight})
    -> (tensor<256x128xbf16> {te.name = "y"}) {
  %y = te.linear %x, %w : tensor<256x512xbf16>, tensor<128x512xbf16> -> tensor<256x128xbf16>
  return %y : tensor<256x128xbf16>
}
// PLACE-LABEL: func.func @made(
// PLACE-NOT: tert.launch "copy"
// PLACE: tert.launch "quantize_block" {{.*}}(%{{[^ ]*}}, %[[ROW:[^ ]*]], %[[SCALE:[^ ]*]], %{{[^ ]*}}, %{{[^ ]*}}, %[[SKIP:[^ ]*]])
// PLACE-NOT: tert.launch "copy"
// PLACE: return
