// RUN: te-opt %s --te-fuse-residual-add | FileCheck %s

!a = !te.scaled<256x1024xf8E4M3FN, block_1x128, pow2, contract = 1>
!w = !te.scaled<512x1024xf8E4M3FN, block_128x128, pow2, contract = 1>

// The GEMM's result may be either operand of the addition.
// CHECK-LABEL: @takes_either_side
func.func @takes_either_side(%a: !a, %w: !w, %x: tensor<256x512xbf16>) -> (tensor<256x512xbf16>, tensor<256x512xbf16>) {
  %p = te.scaled_matmul %a, %w fast_accumulation = false : !a, !w -> tensor<256x512xbf16>
  // CHECK: %[[Y:.*]] = te.scaled_matmul %arg0, %arg1 accumulate %arg2
  // CHECK-NOT: arith.addf
  %y = arith.addf %x, %p : tensor<256x512xbf16>
  %q = te.scaled_matmul %a, %w fast_accumulation = false : !a, !w -> tensor<256x512xbf16>
  // CHECK: %[[Z:.*]] = te.scaled_matmul %arg0, %arg1 accumulate %[[Y]]
  %z = arith.addf %q, %y : tensor<256x512xbf16>
  // CHECK: return %[[Y]], %[[Z]]
  return %y, %z : tensor<256x512xbf16>, tensor<256x512xbf16>
}

// A residual that is computed after the GEMM is also
// fused: the fused op is at the position of the addition.
// CHECK-LABEL: @residual_after_product
func.func @residual_after_product(%a: !a, %w: !w, %x: tensor<256x512xbf16>) -> tensor<256x512xbf16> {
  %p = te.scaled_matmul %a, %w fast_accumulation = false : !a, !w -> tensor<256x512xbf16>
  // CHECK: %[[N:.*]] = arith.negf
  // CHECK: te.scaled_matmul %arg0, %arg1 accumulate %[[N]]
  %n = arith.negf %x : tensor<256x512xbf16>
  %y = arith.addf %n, %p : tensor<256x512xbf16>
  return %y : tensor<256x512xbf16>
}

// CHECK-LABEL: @keeps_a_product_with_other_uses
func.func @keeps_a_product_with_other_uses(%a: !a, %w: !w, %x: tensor<256x512xbf16>) -> (tensor<256x512xbf16>, tensor<256x512xbf16>) {
  %p = te.scaled_matmul %a, %w fast_accumulation = false : !a, !w -> tensor<256x512xbf16>
  // CHECK: arith.addf
  %y = arith.addf %x, %p : tensor<256x512xbf16>
  return %y, %p : tensor<256x512xbf16>, tensor<256x512xbf16>
}

// A per-tensor GEMM would add before it rounds, which gives other bits.
// CHECK-LABEL: @keeps_per_tensor
func.func @keeps_per_tensor(%a: !te.scaled<256x1024xf8E4M3FN, per_tensor, contract = 1>, %w: !te.scaled<512x1024xf8E4M3FN, per_tensor, contract = 1>, %x: tensor<256x512xbf16>) -> tensor<256x512xbf16> {
  %p = te.scaled_matmul %a, %w fast_accumulation = true : !te.scaled<256x1024xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<512x1024xf8E4M3FN, per_tensor, contract = 1> -> tensor<256x512xbf16>
  // CHECK: arith.addf
  %y = arith.addf %x, %p : tensor<256x512xbf16>
  return %y : tensor<256x512xbf16>
}

// CHECK-LABEL: @keeps_an_epilogue
func.func @keeps_an_epilogue(%a: !a, %w: !w, %x: tensor<256x512xbf16>) -> tensor<256x512xbf16> {
  %p = te.scaled_matmul %a, %w accumulate %x : tensor<256x512xbf16> fast_accumulation = false : !a, !w -> tensor<256x512xbf16>
  // CHECK: arith.addf
  %y = arith.addf %x, %p : tensor<256x512xbf16>
  return %y : tensor<256x512xbf16>
}

// CHECK-LABEL: @keeps_f16
func.func @keeps_f16(%a: !a, %w: !w, %x: tensor<256x512xf16>) -> tensor<256x512xf16> {
  %p = te.scaled_matmul %a, %w fast_accumulation = false : !a, !w -> tensor<256x512xf16>
  // CHECK: arith.addf
  %y = arith.addf %x, %p : tensor<256x512xf16>
  return %y : tensor<256x512xf16>
}

// If the results of two GEMMs are added, the later GEMM adds the other result at its own position, so no operand is alive for longer.
// CHECK-LABEL: func.func @two_products
// CHECK: %[[FIRST:.*]] = te.scaled_matmul %arg0, %arg1 fast
// CHECK-NEXT: %[[SUM:.*]] = te.scaled_matmul %arg2, %arg1 accumulate %[[FIRST]]
// CHECK-NEXT: %[[LATER:.*]] = te.activation
// CHECK-NEXT: return %[[SUM]], %[[LATER]]
func.func @two_products(%a: !te.scaled<32x128xf8E4M3FN, block_1x128, pow2, contract = 1>, %w: !te.scaled<128x128xf8E4M3FN, block_128x128, pow2, contract = 1>,
                        %b: !te.scaled<32x128xf8E4M3FN, block_1x128, pow2, contract = 1>, %x: tensor<32x128xbf16>) -> (tensor<32x128xbf16>, tensor<32x128xbf16>) {
  %y = te.scaled_matmul %a, %w fast_accumulation = false : !te.scaled<32x128xf8E4M3FN, block_1x128, pow2, contract = 1>, !te.scaled<128x128xf8E4M3FN, block_128x128, pow2, contract = 1> -> tensor<32x128xbf16>
  %z = te.scaled_matmul %b, %w fast_accumulation = false : !te.scaled<32x128xf8E4M3FN, block_1x128, pow2, contract = 1>, !te.scaled<128x128xf8E4M3FN, block_128x128, pow2, contract = 1> -> tensor<32x128xbf16>
  %later = te.activation <relu> %x : tensor<32x128xbf16> -> tensor<32x128xbf16>
  %sum = arith.addf %y, %z : tensor<32x128xbf16>
  return %sum, %later : tensor<32x128xbf16>, tensor<32x128xbf16>
}

// A product does not move into a branch's block or out of it.
// CHECK-LABEL: func.func @sum_in_branch
func.func @sum_in_branch(%c: i1, %a: !a, %w: !w, %x: tensor<256x512xbf16>) -> tensor<256x512xbf16> {
  // CHECK-NEXT: scf.if
  // CHECK-NEXT: %[[N:.*]] = arith.negf
  // CHECK-NEXT: te.scaled_matmul %arg1, %arg2 accumulate %[[N]]
  %p = te.scaled_matmul %a, %w fast_accumulation = false : !a, !w -> tensor<256x512xbf16>
  %y = scf.if %c -> tensor<256x512xbf16> {
    %n = arith.negf %x : tensor<256x512xbf16>
    %sum = arith.addf %n, %p : tensor<256x512xbf16>
    scf.yield %sum : tensor<256x512xbf16>
  } else {
    scf.yield %x : tensor<256x512xbf16>
  }
  return %y : tensor<256x512xbf16>
}

// Twice a product is no sum with another value.
// CHECK-LABEL: func.func @twice
func.func @twice(%a: !a, %w: !w) -> tensor<256x512xbf16> {
  // CHECK: arith.addf
  %p = te.scaled_matmul %a, %w fast_accumulation = false : !a, !w -> tensor<256x512xbf16>
  %y = arith.addf %p, %p : tensor<256x512xbf16>
  return %y : tensor<256x512xbf16>
}
