// RUN: te-opt %s --te-accumulate-dgrads | FileCheck %s

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
