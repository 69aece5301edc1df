// RUN: te-opt %s --te-training-pipeline="vjp=two recipe=float8_current_scaling compile-to=quantize" | FileCheck %s --check-prefixes=CHECK,TENSOR
// RUN: te-opt %s --te-training-pipeline="vjp=two recipe=high_precision compile-to=quantize" | FileCheck %s --check-prefixes=CHECK,PLAIN
// RUN: te-opt %s --te-training-pipeline="vjp=two recipe=float8_block_scaling compile-to=quantize" | FileCheck %s --check-prefix=BLOCK
// RUN: te-opt %s --te-training-pipeline="vjp=three recipe=float8_current_scaling compile-to=quantize" | FileCheck %s --check-prefix=THREE
// RUN: te-opt %s --te-training-pipeline="vjp=residual recipe=float8_current_scaling compile-to=quantize" | FileCheck %s --check-prefix=RESIDUAL
// RUN: te-opt %s --te-training-pipeline="vjp=tied recipe=float8_current_scaling compile-to=quantize" | FileCheck %s --check-prefix=TIED
// RUN: te-opt %s --te-training-pipeline="vjp=tied recipe=float8_block_scaling compile-to=fuse" | FileCheck %s --check-prefix=TIED
// RUN: te-opt %s --te-training-pipeline="vjp=tied recipe=high_precision fuse=false compile-to=fuse" | FileCheck %s --check-prefix=TIED
// RUN: te-opt %s --te-training-pipeline="vjp=two recipe=float8_current_scaling fuse=false compile-to=fuse" | FileCheck %s --check-prefixes=CHECK,TENSOR

// CHECK-LABEL: func.func @two(
// TENSOR:   %[[DX:.*]] = te.scaled_matmul {{.*}} -> tensor<64x128xbf16>
// TENSOR:   te.scaled_matmul {{.*}} accumulate %[[DX]] : tensor<64x128xbf16>
// PLAIN:    %[[DX:.*]] = te.matmul {{.*}} contract = [1, 0] {{.*}} -> tensor<64x128xbf16>
// PLAIN:    te.matmul {{.*}} accumulate %[[DX]] : tensor<64x128xbf16>
// CHECK-NOT: arith.addf
// CHECK:     return

// A GEMM of scaled blocks rounds before it adds; te-fuse-residual-add does that.
// BLOCK-LABEL: func.func @two(
// BLOCK-NOT: accumulate
// BLOCK:     arith.addf
// BLOCK:     return
func.func @two(%x: tensor<64x128xbf16> {te.name = "x"}, %a: tensor<256x128xbf16> {te.name = "a", te.weight}, %b: tensor<512x128xbf16> {te.name = "b", te.weight})
    -> (tensor<64x256xbf16> {te.name = "y"}, tensor<64x512xbf16> {te.name = "z"}) {
  %y = te.linear %x, %a : tensor<64x128xbf16>, tensor<256x128xbf16> -> tensor<64x256xbf16>
  %z = te.linear %x, %b : tensor<64x128xbf16>, tensor<512x128xbf16> -> tensor<64x512xbf16>
  return %y, %z : tensor<64x256xbf16>, tensor<64x512xbf16>
}

// THREE-LABEL: func.func @three(
// THREE:     te.scaled_matmul {{.*}} accumulate
// THREE:     te.scaled_matmul {{.*}} accumulate
// THREE-NOT: arith.addf
// THREE:     return
func.func @three(%x: tensor<64x128xbf16> {te.name = "x"}, %a: tensor<128x128xbf16> {te.name = "a", te.weight}, %b: tensor<256x128xbf16> {te.name = "b", te.weight},
                 %c: tensor<512x128xbf16> {te.name = "c", te.weight})
    -> (tensor<64x128xbf16> {te.name = "u"}, tensor<64x256xbf16> {te.name = "v"}, tensor<64x512xbf16> {te.name = "w"}) {
  %u = te.linear %x, %a : tensor<64x128xbf16>, tensor<128x128xbf16> -> tensor<64x128xbf16>
  %v = te.linear %x, %b : tensor<64x128xbf16>, tensor<256x128xbf16> -> tensor<64x256xbf16>
  %w = te.linear %x, %c : tensor<64x128xbf16>, tensor<512x128xbf16> -> tensor<64x512xbf16>
  return %u, %v, %w : tensor<64x128xbf16>, tensor<64x256xbf16>, tensor<64x512xbf16>
}

// The gradient that passes around a layer is no dgrad: its sum keeps the rounding of both.
// RESIDUAL-LABEL: func.func @residual(
// RESIDUAL-NOT: accumulate
// RESIDUAL:     arith.addf
func.func @residual(%x: tensor<64x128xbf16> {te.name = "x"}, %a: tensor<128x128xbf16> {te.name = "a", te.weight}) -> (tensor<64x128xbf16> {te.name = "y"}) {
  %y = te.linear %x, %a : tensor<64x128xbf16>, tensor<128x128xbf16> -> tensor<64x128xbf16>
  %z = arith.addf %x, %y : tensor<64x128xbf16>
  return %z : tensor<64x128xbf16>
}

// The table of an embedding is the weight of the head; its two gradients are added in the rows of tokens.
// TIED-LABEL: func.func @tied(
// TIED:     %[[DW:.*]] = te.{{(scaled_)?}}matmul {{.*}} -> tensor<96x128xbf16>
// TIED:     te.embedding_backward {{.*}} accumulate %[[DW]] : tensor<96x128xbf16>
// TIED-NOT: arith.addf
// TIED:     return
func.func @tied(%ids: tensor<64xi32> {te.name = "ids"}, %w: tensor<96x128xbf16> {te.name = "w", te.weight}) -> (tensor<64x96xbf16> {te.name = "y"}) {
  %x = te.embedding %ids, %w : tensor<64xi32>, tensor<96x128xbf16> -> tensor<64x128xbf16>
  %y = te.linear %x, %w : tensor<64x128xbf16>, tensor<96x128xbf16> -> tensor<64x96xbf16>
  return %y : tensor<64x96xbf16>
}
