// RUN: te-opt %s --split-input-file --te-convert-to-tert | FileCheck %s

// A cast computes its scale from the amax, with the options of te.compute_scale, and nothing else computes it.
// CHECK-LABEL: @folded
// CHECK-NOT: "compute_scale"
// CHECK: tert.launch "amax" {{.*}}(%arg0, %[[AMAX:[0-9]+]],
// CHECK-NOT: "compute_scale"
// CHECK: tert.launch "quantize_tensor" {amax_epsilon = 2.500000e-01 : f32, {{.*}}from_amax = 1 : i32, {{.*}}pow2_scales = 1 : i32, {{.*}}(%arg0, %[[AMAX]],
// CHECK-NOT: "compute_scale"
func.func @folded(%x: tensor<64x64xbf16> {te.name = "x"}) -> (tensor<64x64xbf16> {te.name = "y"}) {
  %amax = te.amax %x : tensor<64x64xbf16>
  %scale = te.compute_scale %amax for f8E4M3FN {pow2_scales = true, amax_epsilon = 2.5e-1 : f32}
  %q = te.quantize %x scale %scale : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
  %y = te.dequantize %q : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1> -> tensor<64x64xbf16>
  return %y : tensor<64x64xbf16>
}

// -----

// The scale is a result too, so it is computed; the cast has the same bits from the amax.
// CHECK-LABEL: @read_elsewhere
// CHECK: tert.launch "compute_scale"
// CHECK: tert.launch "quantize_tensor" {{.*}}from_amax = 1 : i32
func.func @read_elsewhere(%x: tensor<64x64xbf16> {te.name = "x"})
    -> (tensor<64x64xbf16> {te.name = "y"}, tensor<f32> {te.name = "scale"}) {
  %amax = te.amax %x : tensor<64x64xbf16>
  %scale = te.compute_scale %amax for f8E4M3FN
  %q = te.quantize %x scale %scale : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
  %y = te.dequantize %q : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1> -> tensor<64x64xbf16>
  return %y, %scale : tensor<64x64xbf16>, tensor<f32>
}

// -----

// The scale is for another element type than that of the cast.
// CHECK-LABEL: @other_type
// CHECK: tert.launch "compute_scale"
// CHECK: tert.launch "quantize_tensor" {{.*}}from_amax = 0 : i32
func.func @other_type(%x: tensor<64x64xbf16> {te.name = "x"}) -> (tensor<64x64xbf16> {te.name = "y"}) {
  %amax = te.amax %x : tensor<64x64xbf16>
  %scale = te.compute_scale %amax for f8E5M2
  %q = te.quantize %x scale %scale : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
  %y = te.dequantize %q : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1> -> tensor<64x64xbf16>
  return %y : tensor<64x64xbf16>
}
