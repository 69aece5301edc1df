// RUN: te-opt %s --te-accumulate-gradients | FileCheck %s

#dgrad = loc(fused<{te.gemm = "dgrad", te.layer = "a", te.reason = ""}>["a"])
#wgrad = loc(fused<{te.gemm = "wgrad", te.layer = "a", te.reason = ""}>["a"])
!dy = tensor<64x256xbf16>
!w = tensor<256x128xbf16>
!dx = tensor<64x128xbf16>

// CHECK-LABEL: @the_later_one_adds
// CHECK:         %[[P:.*]] = te.matmul %arg0, %arg2 contract
// CHECK:         %[[Q:.*]] = te.matmul %arg1, %arg2 accumulate %[[P]]
// CHECK:         return %[[Q]]
func.func @the_later_one_adds(%a: !dy, %b: !dy, %w: !w) -> !dx {
  %p = te.matmul %a, %w contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %q = te.matmul %b, %w contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %sum = arith.addf %q, %p : !dx
  return %sum : !dx
}

// After padding, the sum is cut instead of its terms.
// CHECK-LABEL: @of_padded_layers
// CHECK:         %[[P:.*]] = te.matmul
// CHECK:         %[[Q:.*]] = te.matmul {{.*}} accumulate %[[P]]
// CHECK:         %[[CUT:.*]] = tensor.extract_slice %[[Q]]
// CHECK:         return %[[CUT]]
func.func @of_padded_layers(%a: !dy, %b: !dy, %w: !w) -> tensor<60x128xbf16> {
  %p = te.matmul %a, %w contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %x = tensor.extract_slice %p[0, 0] [60, 128] [1, 1] : !dx to tensor<60x128xbf16>
  %q = te.matmul %b, %w contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %y = tensor.extract_slice %q[0, 0] [60, 128] [1, 1] : !dx to tensor<60x128xbf16>
  %sum = arith.addf %x, %y : tensor<60x128xbf16>
  return %sum : tensor<60x128xbf16>
}

// CHECK-LABEL: @other_parts
// CHECK-NOT:     accumulate
// CHECK:         arith.addf
func.func @other_parts(%a: !dy, %b: !dy, %w: !w) -> tensor<32x128xbf16> {
  %p = te.matmul %a, %w contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %x = tensor.extract_slice %p[0, 0] [32, 128] [1, 1] : !dx to tensor<32x128xbf16>
  %q = te.matmul %b, %w contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %y = tensor.extract_slice %q[32, 0] [32, 128] [1, 1] : !dx to tensor<32x128xbf16>
  %sum = arith.addf %x, %y : tensor<32x128xbf16>
  return %sum : tensor<32x128xbf16>
}

// CHECK-LABEL: @other_gemms
// CHECK-NOT:     accumulate
// CHECK:         arith.addf
func.func @other_gemms(%a: !dy, %b: !dy, %w: !w) -> !dx {
  %p = te.matmul %a, %w contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %q = te.matmul %b, %w contract = [1, 0] : !dy, !w -> !dx loc(#wgrad)
  %sum = arith.addf %p, %q : !dx
  return %sum : !dx
}

// CHECK-LABEL: @read_elsewhere
// CHECK-NOT:     accumulate
// CHECK:         arith.addf
func.func @read_elsewhere(%a: !dy, %b: !dy, %w: !w) -> (!dx, !dx) {
  %p = te.matmul %a, %w contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %q = te.matmul %b, %w contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %sum = arith.addf %p, %q : !dx
  return %sum, %p : !dx, !dx
}

// A GEMM that adds already, or that adds after it rounds, does not add the other one.
// CHECK-LABEL: @adds_already
// CHECK:         te.matmul %arg1, %arg2 accumulate %arg3
// CHECK:         arith.addf
func.func @adds_already(%a: !dy, %b: !dy, %w: !w, %c: !dx) -> !dx {
  %p = te.matmul %a, %w contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %q = te.matmul %b, %w accumulate %c : !dx contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %sum = arith.addf %p, %q : !dx
  return %sum : !dx
}

// CHECK-LABEL: @has_bias
// CHECK-NOT:     accumulate
// CHECK:         arith.addf
func.func @has_bias(%a: !dy, %b: !dy, %w: !w, %c: tensor<128xbf16>) -> !dx {
  %p = te.matmul %a, %w contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %q = te.matmul %b, %w bias %c : tensor<128xbf16> contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %sum = arith.addf %p, %q : !dx
  return %sum : !dx
}

!q = !te.scaled<64x256xf8E5M2, block_1x128, pow2, contract = 1>
!v = !te.scaled<128x256xf8E4M3FN, block_128x128, pow2, contract = 1>
!u = !te.scaled<128x256xf8E4M3FN, block_1x128, pow2, contract = 1>
!p = !te.scaled<64x256xf8E4M3FN, block_128x128, pow2, contract = 1>

// CHECK-LABEL: @block_scales
// CHECK-NOT:     accumulate
// CHECK:         arith.addf
// CHECK-NOT:     accumulate
// CHECK:         arith.addf
func.func @block_scales(%a: !q, %w: !v, %b: !p, %u: !u) -> (!dx, !dx) {
  %p = te.scaled_matmul %a, %w fast_accumulation = false : !q, !v -> !dx loc(#dgrad)
  %q = te.scaled_matmul %a, %w fast_accumulation = false : !q, !v -> !dx loc(#dgrad)
  %sum = arith.addf %p, %q : !dx
  %r = te.scaled_matmul %b, %u fast_accumulation = false : !p, !u -> !dx loc(#dgrad)
  %s = te.scaled_matmul %b, %u fast_accumulation = false : !p, !u -> !dx loc(#dgrad)
  %sum2 = arith.addf %r, %s : !dx
  return %sum, %sum2 : !dx, !dx
}

// GEMMs of two sizes, cut to one.
// CHECK-LABEL: @other_sizes
// CHECK-NOT:     accumulate
// CHECK:         arith.addf
func.func @other_sizes(%a: !dy, %b: tensor<80x256xbf16>, %w: !w) -> tensor<60x128xbf16> {
  %p = te.matmul %a, %w contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %x = tensor.extract_slice %p[0, 0] [60, 128] [1, 1] : !dx to tensor<60x128xbf16>
  %q = te.matmul %b, %w contract = [1, 0] : tensor<80x256xbf16>, !w -> tensor<80x128xbf16> loc(#dgrad)
  %y = tensor.extract_slice %q[0, 0] [60, 128] [1, 1] : tensor<80x128xbf16> to tensor<60x128xbf16>
  %sum = arith.addf %x, %y : tensor<60x128xbf16>
  return %sum : tensor<60x128xbf16>
}

// CHECK-LABEL: @other_steps
// CHECK-NOT:     accumulate
// CHECK:         arith.addf
func.func @other_steps(%a: !dy, %b: !dy, %w: !w) -> tensor<32x128xbf16> {
  %p = te.matmul %a, %w contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %x = tensor.extract_slice %p[0, 0] [32, 128] [2, 1] : !dx to tensor<32x128xbf16>
  %q = te.matmul %b, %w contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %y = tensor.extract_slice %q[0, 0] [32, 128] [1, 1] : !dx to tensor<32x128xbf16>
  %sum = arith.addf %x, %y : tensor<32x128xbf16>
  return %sum : tensor<32x128xbf16>
}

// CHECK-LABEL: @one_is_cut
// CHECK-NOT:     accumulate
// CHECK:         arith.addf
func.func @one_is_cut(%a: tensor<80x256xbf16>, %b: !dy, %w: !w) -> !dx {
  %p = te.matmul %a, %w contract = [1, 0] : tensor<80x256xbf16>, !w -> tensor<80x128xbf16> loc(#dgrad)
  %x = tensor.extract_slice %p[0, 0] [64, 128] [1, 1] : tensor<80x128xbf16> to !dx
  %q = te.matmul %b, %w contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %sum = arith.addf %x, %q : !dx
  return %sum : !dx
}

// CHECK-LABEL: @part_read_elsewhere
// CHECK-NOT:     accumulate
// CHECK:         arith.addf
func.func @part_read_elsewhere(%a: !dy, %b: !dy, %w: !w) -> (tensor<60x128xbf16>, tensor<60x128xbf16>) {
  %p = te.matmul %a, %w contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %x = tensor.extract_slice %p[0, 0] [60, 128] [1, 1] : !dx to tensor<60x128xbf16>
  %q = te.matmul %b, %w contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %y = tensor.extract_slice %q[0, 0] [60, 128] [1, 1] : !dx to tensor<60x128xbf16>
  %sum = arith.addf %x, %y : tensor<60x128xbf16>
  return %sum, %y : tensor<60x128xbf16>, tensor<60x128xbf16>
}

// CHECK-LABEL: @in_a_branch
// CHECK-NOT:     accumulate
// CHECK:         arith.addf
func.func @in_a_branch(%c: i1, %a: !dy, %b: !dy, %w: !w) -> !dx {
  %p = te.matmul %a, %w contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %y = scf.if %c -> !dx {
    %q = te.matmul %b, %w contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
    %sum = arith.addf %p, %q : !dx
    scf.yield %sum : !dx
  } else {
    %z = arith.constant dense<0.0> : !dx
    scf.yield %z : !dx
  }
  return %y : !dx
}

// Only dgrads are added in one.
// CHECK-LABEL: @of_another_op
// CHECK-NOT:     accumulate
// CHECK:         arith.addf
func.func @of_another_op(%a: !dy, %w: !w, %c: !dx) -> !dx {
  %n = arith.negf %c : !dx
  %p = te.matmul %a, %w contract = [1, 0] : !dy, !w -> !dx loc(#dgrad)
  %sum = arith.addf %n, %p : !dx
  return %sum : !dx
}

!ids = tensor<64xi32>
!t = tensor<100x128xbf16>

// The gradient of a table adds the other summand, behind which it moves. Of two such gradients, one adds the other.
// CHECK-LABEL: @table
// CHECK-NEXT:    %[[N:.*]] = arith.negf %arg2
// CHECK-NEXT:    %[[P:.*]] = te.embedding_backward %arg0, %arg1 accumulate %[[N]] : tensor<100x128xbf16>
// CHECK-NEXT:    %[[Q:.*]] = te.embedding_backward %arg0, %arg1 accumulate %[[P]] : tensor<100x128xbf16>
// CHECK-NEXT:    return %[[Q]]
func.func @table(%ids: !ids, %dy: !dx, %dw: !t) -> !t {
  %p = te.embedding_backward %ids, %dy : !ids, !dx -> !t
  %n = arith.negf %dw : !t
  %sum = arith.addf %n, %p : !t
  %q = te.embedding_backward %ids, %dy : !ids, !dx -> !t
  %both = arith.addf %q, %sum : !t
  return %both : !t
}

// CHECK-LABEL: @table_in_f32
// CHECK-NEXT:    te.embedding_backward %arg0, %arg1 accumulate %arg2 : tensor<100x128xf32>
// CHECK-NEXT:    return
func.func @table_in_f32(%ids: !ids, %dy: !dx, %dw: tensor<100x128xf32>) -> tensor<100x128xf32> {
  %p = te.embedding_backward %ids, %dy : !ids, !dx -> tensor<100x128xf32>
  %sum = arith.addf %dw, %p : tensor<100x128xf32>
  return %sum : tensor<100x128xf32>
}

// CHECK-LABEL: @table_read_elsewhere
// CHECK-NOT:     accumulate
// CHECK:         arith.addf
func.func @table_read_elsewhere(%ids: !ids, %dy: !dx, %dw: !t) -> (!t, !t) {
  %p = te.embedding_backward %ids, %dy : !ids, !dx -> !t
  %sum = arith.addf %dw, %p : !t
  return %sum, %p : !t, !t
}

// CHECK-LABEL: @table_twice
// CHECK-NOT:     accumulate
// CHECK:         arith.addf
func.func @table_twice(%ids: !ids, %dy: !dx) -> !t {
  %p = te.embedding_backward %ids, %dy : !ids, !dx -> !t
  %sum = arith.addf %p, %p : !t
  return %sum : !t
}

// CHECK-LABEL: @table_adds_already
// CHECK:         te.embedding_backward %arg0, %arg1 accumulate %arg2
// CHECK:         arith.addf
func.func @table_adds_already(%ids: !ids, %dy: !dx, %dw: !t) -> !t {
  %p = te.embedding_backward %ids, %dy accumulate %dw : !t : !ids, !dx -> !t
  %sum = arith.addf %dw, %p : !t
  return %sum : !t
}

// A gradient in another block may not be computed at all.
// CHECK-LABEL: @table_in_branch
// CHECK-NOT:     accumulate
// CHECK:         arith.addf
func.func @table_in_branch(%c: i1, %ids: !ids, %dy: !dx, %dw: !t) -> !t {
  %p = te.embedding_backward %ids, %dy : !ids, !dx -> !t
  %y = scf.if %c -> !t {
    %sum = arith.addf %dw, %p : !t
    scf.yield %sum : !t
  } else {
    scf.yield %dw : !t
  }
  return %y : !t
}
