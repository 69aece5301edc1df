// Each function violates one constraint, whose label the error contains.
// RUN: te-opt %s --split-input-file --verify-diagnostics

func.func @count_nonfinite_c1(%x: tensor<8xf32>, %n: tensor<2x4xi32>) {
  // expected-error @+1 {{expected 'counts' to have 3 columns, but got 4}}
  %0 = te.count_nonfinite %x into %n[0] : tensor<8xf32>, tensor<2x4xi32>
  return
}

// -----

func.func @count_nonfinite_c2(%x: tensor<8xf32>, %n: tensor<2x3xi32>) {
  // expected-error @+1 {{expected 'index' to be a row of 'counts', which has 2, but got 2}}
  %0 = te.count_nonfinite %x into %n[2] : tensor<8xf32>, tensor<2x3xi32>
  return
}

// -----

func.func @count_nonfinite_c3(%x: tensor<8xf32>, %s: tensor<f32>, %n: tensor<2x3xi32>) {
  // expected-error @+1 {{expected 'element_type' to be 'f8E4M3FN' or 'f8E5M2', but got 'f4E2M1FN'}}
  %0 = te.count_nonfinite %x scale %s for f4E2M1FN into %n[0] : tensor<8xf32>, tensor<2x3xi32>
  return
}

// -----

func.func @count_nonfinite_c3_alone(%x: tensor<8xf32>, %n: tensor<2x3xi32>) {
  // expected-error @+1 {{expected 'element_type' to be given with 'scale', but got one without}}
  %0 = "te.count_nonfinite"(%x, %n) {element_type = f8E5M2, index = 0 : i64} : (tensor<8xf32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  return
}

// -----

func.func @tensor_stats_c1(%x: tensor<32x64xbf16>, %q: !te.scaled<64x32xf8E4M3FN, per_tensor, contract = 1>) {
  // expected-error @+1 {{expected 'x' to have shape 64x32, but got 32x64}}
  %0 = te.tensor_stats %x cast %q : tensor<32x64xbf16>, !te.scaled<64x32xf8E4M3FN, per_tensor, contract = 1> -> tensor<14xf32>
  return
}

// -----

func.func @tensor_stats_c2(%x: tensor<32x64xbf16>, %q: !te.scaled<32x64xf8E4M3FN, mx_1x32, swizzled, contract = 1>) {
  // expected-error @+1 {{expected 'q' not to be swizzled, but got}}
  %0 = te.tensor_stats %x cast %q : tensor<32x64xbf16>, !te.scaled<32x64xf8E4M3FN, mx_1x32, swizzled, contract = 1> -> tensor<14xf32>
  return
}

// -----

func.func @tensor_stats_c3(%x: tensor<32x64xbf16>) {
  // expected-error @+1 {{expected 'stats' to have shape 7, but got 14}}
  %0 = te.tensor_stats %x : tensor<32x64xbf16> -> tensor<14xf32>
  return
}

// -----

// expected-error @+1 {{expected 'te.probe' to be an array of 7 for a result of type 'tensor<7xf32>', but got "amax"}}
func.func @probe_c1(%x: tensor<7xf32>) -> (tensor<7xf32> {te.probe = "amax"}) {
  return %x : tensor<7xf32>
}

// -----

// expected-error @+1 {{expected 'te.probe' to be an array of 2 for a result of type 'tensor<2x3xi32>', but got ["a"]}}
func.func @probe_c1_length(%x: tensor<2x3xi32>) -> (tensor<2x3xi32> {te.probe = ["a"]}) {
  return %x : tensor<2x3xi32>
}
