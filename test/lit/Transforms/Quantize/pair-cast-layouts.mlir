// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-pair-cast-layouts))' | FileCheck %s

// The first result has the rows, for either order of the casts, and the pair is at the position of the first cast.
// CHECK-LABEL: func.func @both_usages_in_one_read
// CHECK-NEXT: %[[Q:.*]]:2 = te.quantize %{{.*}} -> !te.scaled<{{.*}}contract = 1>, !te.scaled<{{.*}}contract = 0>
// CHECK-NEXT: te.dequantize %[[Q]]#1
// CHECK-NEXT: te.dequantize %[[Q]]#0
// CHECK-NOT: te.quantize
func.func @both_usages_in_one_read(%x: tensor<256x512xbf16>) -> (tensor<256x512xbf16>, tensor<256x512xbf16>) {
  %col = te.quantize %x : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 0>
  %c = te.dequantize %col : !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 0> -> tensor<256x512xbf16>
  %row = te.quantize %x : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 1>
  %r = te.dequantize %row : !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 1> -> tensor<256x512xbf16>
  return %c, %r : tensor<256x512xbf16>, tensor<256x512xbf16>
}

// Casts with another scale, format, epsilon or scheme are not paired.
// CHECK-LABEL: func.func @different_casts_stay
// CHECK-NOT: :2 = te.quantize
// CHECK-COUNT-6: te.quantize
func.func @different_casts_stay(%x: tensor<256x512xbf16>, %s: tensor<f32>, %t: tensor<f32>)
    -> (!te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0>,
        !te.scaled<256x512xf8E5M2, per_tensor, contract = 0>, !te.scaled<256x512xf8E4M3FN, block_1x128, contract = 1>,
        !te.scaled<256x512xf8E4M3FN, block_1x128, contract = 0>, !te.scaled<256x512xf8E4M3FN, block_128x128, contract = 0>) {
  %a = te.quantize %x scale %s : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>
  %b = te.quantize %x scale %t : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0>
  %c = te.quantize %x scale %s : tensor<256x512xbf16> -> !te.scaled<256x512xf8E5M2, per_tensor, contract = 0>
  %d = te.quantize %x : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_1x128, contract = 1>
  %e = te.quantize %x {amax_epsilon = 1.0e-3 : f32} : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_1x128, contract = 0>
  %f = te.quantize %x : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_128x128, contract = 0>
  return %a, %b, %c, %d, %e, %f : !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0>,
        !te.scaled<256x512xf8E5M2, per_tensor, contract = 0>, !te.scaled<256x512xf8E4M3FN, block_1x128, contract = 1>,
        !te.scaled<256x512xf8E4M3FN, block_1x128, contract = 0>, !te.scaled<256x512xf8E4M3FN, block_128x128, contract = 0>
}

// A cast with both usages replaces one with a single usage.
// CHECK-LABEL: func.func @joins_an_existing_pair
// CHECK-NEXT: %[[Q:.*]]:2 = te.quantize
// CHECK-NEXT: return %[[Q]]#0, %[[Q]]#1, %[[Q]]#1
func.func @joins_an_existing_pair(%x: tensor<256x512xbf16>)
    -> (!te.scaled<256x512xf8E4M3FN, block_1x128, contract = 1>, !te.scaled<256x512xf8E4M3FN, block_1x128, contract = 0>,
        !te.scaled<256x512xf8E4M3FN, block_1x128, contract = 0>) {
  %a:2 = te.quantize %x : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_1x128, contract = 1>, !te.scaled<256x512xf8E4M3FN, block_1x128, contract = 0>
  %b = te.quantize %x : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_1x128, contract = 0>
  return %a#0, %a#1, %b : !te.scaled<256x512xf8E4M3FN, block_1x128, contract = 1>, !te.scaled<256x512xf8E4M3FN, block_1x128, contract = 0>,
        !te.scaled<256x512xf8E4M3FN, block_1x128, contract = 0>
}

// If one of the casts measures an amax, the pair does, too.
// CHECK-LABEL: func.func @keeps_the_amax
// CHECK-NEXT: %[[Q:.*]]:2, %[[AMAX:.*]] = te.quantize {{.*}} amax tensor<f32>
// CHECK-NEXT: return %[[Q]]#0, %[[Q]]#1, %[[AMAX]]
func.func @keeps_the_amax(%x: tensor<32x32xbf16>, %s: tensor<f32>)
    -> (!te.scaled<32x32xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<32x32xf8E4M3FN, per_tensor, contract = 0>, tensor<f32>) {
  %row = te.quantize %x scale %s : tensor<32x32xbf16> -> !te.scaled<32x32xf8E4M3FN, per_tensor, contract = 1>
  %col, %amax = te.quantize %x scale %s : tensor<32x32xbf16> -> !te.scaled<32x32xf8E4M3FN, per_tensor, contract = 0> amax tensor<f32>
  return %row, %col, %amax : !te.scaled<32x32xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<32x32xf8E4M3FN, per_tensor, contract = 0>, tensor<f32>
}

// Nv casts with the same amax, state and stream become a pair with these operands.
// CHECK-LABEL: func.func @fp4_pair
// CHECK: %[[Q:.*]]:2 = te.quantize %{{.*}} amax %{{.*}} rng %{{.*}} {stream = 3 : i32} : {{.*}}nv_1x16, contract = 1>, {{.*}}nv_1x16, contract = 0>
// CHECK-NEXT: return %[[Q]]#0, %[[Q]]#1
func.func @fp4_pair(%x: tensor<32x64xbf16>, %amax: tensor<f32>, %state: tensor<2xi32>)
    -> (!te.scaled<32x64xf4E2M1FN, nv_1x16, contract = 1>, !te.scaled<32x64xf4E2M1FN, nv_1x16, contract = 0>) {
  %a = te.quantize %x amax %amax rng %state {stream = 3 : i32} : tensor<32x64xbf16> -> !te.scaled<32x64xf4E2M1FN, nv_1x16, contract = 1>
  %b = te.quantize %x amax %amax rng %state {stream = 3 : i32} : tensor<32x64xbf16> -> !te.scaled<32x64xf4E2M1FN, nv_1x16, contract = 0>
  return %a, %b : !te.scaled<32x64xf4E2M1FN, nv_1x16, contract = 1>, !te.scaled<32x64xf4E2M1FN, nv_1x16, contract = 0>
}

// Casts with another amax, state, stream or rule of block scales are not paired. Row-scaled casts have no columns.
// CHECK-LABEL: func.func @different_fp4_casts_stay
// CHECK-NOT: :2 = te.quantize
// CHECK-COUNT-6: te.quantize
func.func @different_fp4_casts_stay(%x: tensor<32x64xbf16>, %amax: tensor<f32>, %other: tensor<f32>, %rows: tensor<32xf32>,
                                    %state: tensor<2xi32>) {
  %a = te.quantize %x amax %amax rng %state {stream = 3 : i32} : tensor<32x64xbf16> -> !te.scaled<32x64xf4E2M1FN, nv_1x16, contract = 1>
  %b = te.quantize %x amax %amax rng %state {stream = 4 : i32} : tensor<32x64xbf16> -> !te.scaled<32x64xf4E2M1FN, nv_1x16, contract = 0>
  %c = te.quantize %x amax %amax : tensor<32x64xbf16> -> !te.scaled<32x64xf4E2M1FN, nv_1x16, contract = 0>
  %d = te.quantize %x amax %other : tensor<32x64xbf16> -> !te.scaled<32x64xf4E2M1FN, nv_1x16, contract = 1>
  %e = te.quantize %x amax %amax {four_over_six = #te.four_over_six<mae>} : tensor<32x64xbf16> -> !te.scaled<32x64xf4E2M1FN, nv_1x16, contract = 1>
  %f = te.quantize %x amax %rows : tensor<32x64xbf16> -> !te.scaled<32x64xf4E2M1FN, nv_1x16, row_scaled, contract = 1>
  return
}

// A cast that the program caches with its own flag keeps it, and other casts do not get it.
// CHECK-LABEL: func.func @kept_rows
// CHECK-NEXT: te.quantize %{{.*}} into %{{.*}} unless %{{.*}} : tensor<128x128xbf16> -> !te.scaled<{{.*}}contract = 1>
// CHECK-NEXT: te.quantize %{{.*}} : tensor<128x128xbf16> -> !te.scaled<{{.*}}contract = 0>
!rows = !te.scaled<128x128xf8E4M3FN, block_128x128, pow2, contract = 1>
!columns = !te.scaled<128x128xf8E4M3FN, block_128x128, pow2, contract = 0>
func.func @kept_rows(%w: tensor<128x128xbf16>, %old: !rows, %flag: tensor<f32>) -> (!rows, !columns) {
  %q = te.quantize %w into %old unless %flag : tensor<128x128xbf16> -> !rows
  %k = te.quantize %w : tensor<128x128xbf16> -> !columns
  return %q, %k : !rows, !columns
}
