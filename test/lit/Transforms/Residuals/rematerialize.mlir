// RUN: te-opt %s --te-rematerialize=policy=ops:rms_norm | FileCheck %s --check-prefixes=CHECK,NORM
// RUN: te-opt %s --te-rematerialize=policy=everything | FileCheck %s --check-prefixes=CHECK,ALL
// RUN: te-opt %s --te-rematerialize=policy=everything --cse --te-pair-cast-layouts --canonicalize | FileCheck %s --check-prefixes=CHECK,MERGE
// RUN: te-opt %s --te-rematerialize | FileCheck %s --check-prefix=NOTHING
// RUN: te-opt %s --te-rematerialize=policy=ops:rms_norm --remarks-filter='te-rematerialize' 2>&1 | FileCheck %s --check-prefix=REMARK

!row = !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>
!col = !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 0>
!wrow = !te.scaled<48x64xf8E4M3FN, per_tensor, contract = 1>
!wcol = !te.scaled<48x64xf8E4M3FN, per_tensor, contract = 0>
!x = tensor<32x64xbf16>
!w = tensor<48x64xbf16>
!y = tensor<32x48xbf16>

// NOTHING-NOT: tert.remat
// REMARK: [Passed] rematerialize{{.*}}'rms_norm' of 'rms_norm0' is recomputed: frees 2180 bytes, moves {{[0-9]+}} bytes and does 0 operations

// A cast is repeated with the scale of the first one, and does not measure
// again, so the state counts the amax once. Both the cast and the norm
// read arguments through residuals. Only the columns are computed again.
// CHECK-LABEL: func.func @keeps_the_scale(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<32x64xbf16> {te.name = "x"}, %[[GAMMA:[a-z0-9]+]]: {{.*}}, %[[SCALE:[a-z0-9]+]]: tensor<f32>,
// CHECK-SAME:    tert.remat = {held_after = 0 : i64, held_before = 2180 : i64,
// CHECK:         te.rms_norm %[[X]], %[[GAMMA]]
// CHECK:         te.quantize {{.*}} scale %[[SCALE]] : tensor<32x64xbf16> -> !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1> amax tensor<f32>
// CHECK-NOT:     te.quantize
// CHECK-DAG:     %[[XR:.*]] = te.residual %[[X]] "x"
// CHECK-DAG:     %[[GR:.*]] = te.residual %[[GAMMA]] "gamma"
// CHECK:         %[[N:[a-z0-9_]+]], %[[RSIGMA:.*]] = te.rms_norm %[[XR]], %[[GR]]
// CHECK-NEXT:    %[[COL:.*]] = te.quantize %[[N]] scale %[[SCALE]] : tensor<32x64xbf16> -> !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 0>
// CHECK-NEXT:    te.scaled_matmul {{.*}}, %[[COL]]
// CHECK-NEXT:    te.rms_norm_backward {{.*}}, %[[RSIGMA]]
// CHECK-NEXT:    return
func.func @keeps_the_scale(%x: !x {te.name = "x"}, %gamma: tensor<64xbf16> {te.name = "gamma"}, %scale: tensor<f32>,
    %dy: !te.scaled<32x48xf8E5M2, per_tensor, contract = 0>, %dn: !x) -> (!row, tensor<f32>, tensor<48x64xbf16>, !x, tensor<64xbf16>) {
  %n, %rsigma = te.rms_norm %x, %gamma : !x, tensor<64xbf16> rsigma tensor<32xf32>
  %row, %col, %amax = te.quantize %n scale %scale : !x -> !row, !col amax tensor<f32>
  %held = te.residual %col "linear0.x" : !col
  %r = te.residual %rsigma "rms_norm0.rsigma" : tensor<32xf32>
  %dw = te.scaled_matmul %dy, %held fast_accumulation = false : !te.scaled<32x48xf8E5M2, per_tensor, contract = 0>, !col -> tensor<48x64xbf16>
  %dx, %dgamma = te.rms_norm_backward %dn, %x, %gamma, %r : !x, tensor<64xbf16>, tensor<32xf32>
  return %row, %amax, %dw, %dx, %dgamma : !row, tensor<f32>, tensor<48x64xbf16>, !x, tensor<64xbf16>
}

// A cast with stochastic rounding uses the random state and the stream of the first one.
// CHECK-LABEL: func.func @keeps_the_random_bits(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: {{.*}}, %[[RNG:[a-z0-9]+]]: tensor<2xi32>
// CHECK:         %[[AMAX:.*]] = te.amax
// CHECK-NOT:     te.amax
// NORM:          te.quantize {{.*}} rng %[[RNG]] {stream = 7 : i32}
// NORM:          te.residual
// ALL-DAG:       %[[R:.*]] = te.residual %[[RNG]]
// ALL-DAG:       %[[XR:.*]] = te.residual %[[X]]
// ALL:           te.quantize %{{.*}} amax %[[AMAX]] rng %[[R]] {stream = 7 : i32}
// ALL:           return
func.func @keeps_the_random_bits(%x: !x, %rng: tensor<2xi32>) -> !x {
  %a = te.activation <gelu> %x : !x -> !x
  %amax = te.amax %a : !x
  %q = te.quantize %a amax %amax rng %rng {stream = 7 : i32} : !x -> !te.scaled<32x64xf4E2M1FN, nv_1x16, contract = 1>
  %held = te.residual %q "q" : !te.scaled<32x64xf4E2M1FN, nv_1x16, contract = 1>
  %d = te.dequantize %held : !te.scaled<32x64xf4E2M1FN, nv_1x16, contract = 1> -> !x
  return %d : !x
}

// The input of a residual block is saved, so only the block is computed
// again, not the whole forward. A GEMM is repeated with its casts.
// CHECK-LABEL: func.func @stops_at_layer_inputs(
// ALL:           %[[E:.*]] = te.embedding
// ALL:           te.matmul
// ALL:           %[[HELD:.*]] = te.residual %[[E]] "rms_norm.x"
// ALL-NOT:       te.embedding
// ALL:           te.rms_norm %[[HELD]]
// ALL:           te.matmul
// MERGE:         %[[E:.*]] = te.embedding
// MERGE:         te.rms_norm %[[E]]
// MERGE:         te.residual
// MERGE:         te.rms_norm
// MERGE:         te.matmul
// MERGE:         te.activation_backward
func.func @stops_at_layer_inputs(%ids: tensor<32xi32>, %table: tensor<16x64xbf16>, %gamma: tensor<64xbf16>, %w: tensor<64x64xbf16>, %dy: !x) -> (!x, !x, !x) {
  %e = te.embedding %ids, %table : tensor<32xi32>, tensor<16x64xbf16> -> !x
  %n = te.rms_norm %e, %gamma : !x, tensor<64xbf16>
  %h = te.matmul %n, %w contract = [1, 1] : !x, tensor<64x64xbf16> -> !x
  %a = te.activation <gelu> %h : !x -> !x
  %y = arith.addf %e, %a : !x
  %xr = te.residual %e "rms_norm.x" : !x
  %hr = te.residual %h "activation.x" : !x
  %dh = te.activation_backward <gelu> %dy, %hr : !x, !x
  %dx = arith.mulf %dh, %xr : !x
  return %y, %dh, %dx : !x, !x, !x
}
