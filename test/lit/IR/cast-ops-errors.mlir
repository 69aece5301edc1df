// Each function violates one constraint, whose label the error contains.
// RUN: te-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expected a scaled type of rank 2, or 3 for the weights of groups, but got rank 1}}
func.func private @scaled_c1(!te.scaled<16xf8E4M3FN, per_tensor, contract = 1>)

// -----

// expected-error @below {{expected elements of 'per_tensor' to be 'f8E4M3FN' or 'f8E5M2', but got 'bf16'}}
func.func private @scaled_c2(!te.scaled<16x16xbf16, per_tensor, contract = 1>)

// -----

// expected-error @below {{expected 'contract' to be 0 or 1, but got 2}}
func.func private @scaled_c3(!te.scaled<16x16xf8E4M3FN, per_tensor, contract = 2>)

// -----

// expected-error @below {{expected a scheme ('per_tensor', 'block_1x128', 'block_128x128', 'mx_1x32', 'mx_32x32', 'nv_1x16', 'nv_16x16'), but got 'per_row'}}
func.func private @scaled_unknown_scheme(!te.scaled<16x16xf8E4M3FN, per_row, contract = 1>)

// -----

// expected-error @below {{expected no 'pow2' with scheme 'mx_1x32'}}
func.func private @scaled_c4(!te.scaled<32x32xf8E4M3FN, mx_1x32, pow2, contract = 1>)

// -----

// expected-error @below {{expected 'row_scaled' only with 'contract = 1' and without 'hadamard'}}
func.func private @scaled_c4_rows(!te.scaled<32x32xf4E2M1FN, nv_1x16, row_scaled, contract = 0>)

// -----

// expected-error @below {{expected the rows to be a multiple of 32, but got 48; the smallest padded size is 64}}
func.func private @scaled_c5(!te.scaled<48x32xf8E4M3FN, mx_1x32, contract = 1>)

// -----

// expected-error @below {{unknown attribute 'te.recepi'; the te dialect knows 'te.recipe', 'te.backward_override', 'te.no_gradient' and 'te.chunk' on ops, 'te.groups' and 'te.ranks' on modules}}
func.func private @unknown_attribute() attributes {te.recepi}

// -----

func.func private @no_gradient_c1(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected 'te.no_gradient' to have no value, but got true}}
  %y = math.absf %x {te.no_gradient = true} : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func private @chunk_c1(%x: tensor<4x2xf32>) -> tensor<2x2xf32> {
  // expected-error @below {{expected 'te.chunk' to have no value, but got true}}
  %y = tensor.extract_slice %x[0, 0] [2, 2] [1, 1] {te.chunk = true} : tensor<4x2xf32> to tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// expected-error @below {{expected 'te.name' to be a string that is not empty}}
func.func private @argument_name(tensor<f32> {te.name = ""})

// -----

// expected-error @below {{unknown attribute 'te.weights'; the te dialect knows 'te.name', 'te.sharding', 'te.weight', 'te.overwrite_main_grad', 'te.recipe_state' and 'te.init' on arguments}}
func.func private @argument_unknown(tensor<f32> {te.weights})

// -----

// expected-error @below {{expected 'te.recipe_state' to have no value, but got true}}
func.func private @argument_recipe_state(tensor<f32> {te.recipe_state = true})

// -----

// expected-error @below {{expected 'te.init' to be a float or a splat, but got "0"}}
func.func private @init_c1(tensor<f32> {te.init = "0"})

// -----

// expected-error @below {{expected 'te.init' to be a float or a splat, but got dense<[0.000000e+00, 1.000000e+00]>}}
func.func private @init_c1_not_splat(tensor<2xf32> {te.init = dense<[0.0, 1.0]> : tensor<2xf32>})

// -----

// expected-error @below {{expected an argument with 'te.init' to be a tensor of floats or integers, but got 'f32'}}
func.func private @init_c2(f32 {te.init = 0.0 : f32})

// -----

// expected-error @below {{expected 'te.init' to have the type of its argument, but got 'tensor<3xf32>' and 'tensor<2xf32>'}}
func.func private @init_c2_type(tensor<2xf32> {te.init = dense<0.0> : tensor<3xf32>})

// -----

// expected-error @below {{unknown attribute 'te.init'; the te dialect knows 'te.name' and 'te.sharding' on results}}
func.func private @init_of_result() -> (tensor<f32> {te.init = 0.0 : f32})

// -----

func.func @compute_scale_c1(%a: tensor<f32>) {
  // expected-error @below {{expected 'element_type' to be 'f8E4M3FN' or 'f8E5M2', but got 'bf16'}}
  %s = te.compute_scale %a for bf16
  return
}

// -----

func.func @compute_scale_c2(%a: tensor<f32>) {
  // expected-error @below {{expected 'amax_epsilon' to be finite and not negative, but got -1}}
  %s = te.compute_scale %a for f8E4M3FN {amax_epsilon = -1.0 : f32}
  return
}

// -----

func.func @quantize_c1(%x: tensor<32x32xbf16>) {
  // expected-error @below {{expected one or two scaled results, but got 3}}
  %a, %b, %c = te.quantize %x : tensor<32x32xbf16> -> !te.scaled<32x32xf8E4M3FN, block_1x128, contract = 1>, !te.scaled<32x32xf8E4M3FN, block_1x128, contract = 0>, !te.scaled<32x32xf8E4M3FN, block_1x128, contract = 1>
  return
}

// -----

func.func @quantize_c2(%x: tensor<32x32xbf16>) {
  // expected-error @below {{expected every result to have shape 32x32, but got '!te.scaled<32x16xf8E4M3FN, block_1x128, contract = 1>'}}
  %a = te.quantize %x : tensor<32x32xbf16> -> !te.scaled<32x16xf8E4M3FN, block_1x128, contract = 1>
  return
}

// -----

func.func @quantize_c3(%x: tensor<32x32xbf16>) {
  // expected-error @below {{expected the two results to differ in nothing but 'contract'}}
  %a, %b = te.quantize %x : tensor<32x32xbf16> -> !te.scaled<32x32xf8E4M3FN, block_1x128, contract = 1>, !te.scaled<32x32xf8E4M3FN, block_128x128, contract = 0>
  return
}

// -----

func.func @quantize_c4_missing(%x: tensor<32x32xbf16>) {
  // expected-error @below {{expected 'scale' to be given exactly for 'per_tensor' results, but got none with 'per_tensor'}}
  %a = te.quantize %x : tensor<32x32xbf16> -> !te.scaled<32x32xf8E4M3FN, per_tensor, contract = 1>
  return
}

// -----

func.func @quantize_c4_extra(%x: tensor<32x32xbf16>, %s: tensor<f32>) {
  // expected-error @below {{expected 'scale' to be given exactly for 'per_tensor' results, but got one with 'block_1x128'}}
  %a = te.quantize %x scale %s : tensor<32x32xbf16> -> !te.scaled<32x32xf8E4M3FN, block_1x128, contract = 1>
  return
}

// -----

func.func @quantize_c5(%x: tensor<32x32xbf16>, %s: tensor<f32>) {
  // expected-error @below {{expected 'amax_epsilon' only for block schemes}}
  %a = te.quantize %x scale %s {amax_epsilon = 1.0 : f32} : tensor<32x32xbf16> -> !te.scaled<32x32xf8E4M3FN, per_tensor, contract = 1>
  return
}

// -----

func.func @quantize_c6(%x: tensor<32x32xbf16>) {
  // expected-error @below {{expected 'amax' only for 'per_tensor' results, but got one with 'block_1x128'}}
  %a, %amax = te.quantize %x : tensor<32x32xbf16> -> !te.scaled<32x32xf8E4M3FN, block_1x128, contract = 1> amax tensor<f32>
  return
}

// -----

func.func @delayed_scaling_update_c1(%a: tensor<3xf32>, %h: tensor<8x2xf32>, %s: tensor<3xf32>) {
  // expected-error @below {{expected 'history' to have one row or more, each of the shape of 'amax', but got 'tensor<8x2xf32>' and 'tensor<3xf32>'}}
  %h1, %s1 = te.delayed_scaling_update %a, %h, %s for f8E4M3FN : tensor<3xf32>, tensor<8x2xf32>
  return
}

// -----

func.func @delayed_scaling_update_c1_scalar(%a: tensor<f32>, %h: tensor<f32>, %s: tensor<f32>) {
  // expected-error @below {{expected 'history' to have one row or more}}
  %h1, %s1 = te.delayed_scaling_update %a, %h, %s for f8E4M3FN : tensor<f32>, tensor<f32>
  return
}

// -----

func.func @delayed_scaling_update_c1_empty(%a: tensor<f32>, %h: tensor<0xf32>, %s: tensor<f32>) {
  // expected-error @below {{expected 'history' to have one row or more}}
  %h1, %s1 = te.delayed_scaling_update %a, %h, %s for f8E4M3FN : tensor<f32>, tensor<0xf32>
  return
}

// -----

func.func @delayed_scaling_update_c2(%a: tensor<f32>, %h: tensor<8xf32>, %s: tensor<f32>) {
  // expected-error @below {{expected 'element_type' to be 'f8E4M3FN' or 'f8E5M2', but got 'bf16'}}
  %h1, %s1 = te.delayed_scaling_update %a, %h, %s for bf16 : tensor<f32>, tensor<8xf32>
  return
}

// -----

func.func @delayed_scaling_update_c3(%a: tensor<f32>, %h: tensor<8xf32>, %s: tensor<f32>) {
  // expected-error @below {{expected 'margin' to be from -100 to 100, but got -101}}
  %h1, %s1 = te.delayed_scaling_update %a, %h, %s for f8E4M3FN {margin = -101 : i32} : tensor<f32>, tensor<8xf32>
  return
}

// -----

func.func @dequantize_c1(%q: !te.scaled<32x16xf8E4M3FN, per_tensor, contract = 0>) {
  // expected-error @below {{expected 'x' to have shape 32x16, but got 16x32}}
  %x = te.dequantize %q : !te.scaled<32x16xf8E4M3FN, per_tensor, contract = 0> -> tensor<16x32xbf16>
  return
}

// -----

func.func @rescale_c1(%q: !te.scaled<32x32xf8E4M3FN, mx_1x32, contract = 1>, %f: tensor<f32>) {
  // expected-error @below {{expected a matrix with f32 scales, which 'per_tensor', 'block_1x128' and 'block_128x128' have, but got '!te.scaled<32x32xf8E4M3FN, mx_1x32, contract = 1>'}}
  %r = te.rescale %q by %f : !te.scaled<32x32xf8E4M3FN, mx_1x32, contract = 1> -> !te.scaled<32x32xf8E4M3FN, mx_1x32, contract = 1>
  return
}

// -----

func.func @rescale_c2(%q: !te.scaled<32x32xf8E4M3FN, block_1x128, pow2, contract = 1>, %f: tensor<f32>) {
  // expected-error @below {{expected the result to be '!te.scaled<32x32xf8E4M3FN, block_1x128, contract = 1>', whose scales may have any value, but got '!te.scaled<32x32xf8E4M3FN, block_1x128, pow2, contract = 1>'}}
  %r = te.rescale %q by %f : !te.scaled<32x32xf8E4M3FN, block_1x128, pow2, contract = 1> -> !te.scaled<32x32xf8E4M3FN, block_1x128, pow2, contract = 1>
  return
}

// -----

func.func @transpose_c1(%q: !te.scaled<32x16xf8E4M3FN, block_1x128, contract = 1>) {
  // expected-error @below {{expected a scheme with an exact transpose ('per_tensor', 'block_128x128', 'mx_32x32', 'nv_16x16'), but got 'block_1x128': its blocks run along one axis, and those of the other usage have other maxima; quantise the high-precision tensor for 'contract = 0' instead}}
  %t = te.transpose %q : !te.scaled<32x16xf8E4M3FN, block_1x128, contract = 1> -> !te.scaled<32x16xf8E4M3FN, block_1x128, contract = 0>
  return
}

// -----

func.func @transpose_c2(%q: !te.scaled<32x16xf8E4M3FN, per_tensor, contract = 1>) {
  // expected-error @below {{expected the result to be '!te.scaled<32x16xf8E4M3FN, per_tensor, contract = 0>'}}
  %t = te.transpose %q : !te.scaled<32x16xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<16x32xf8E4M3FN, per_tensor, contract = 1>
  return
}

// -----

func.func @transpose_c3(%q: !te.scaled<32x16xf8E4M3FN, per_tensor, contract = 0>) {
  // expected-error @below {{expected an operand made for axis 1}}
  %t = te.transpose %q : !te.scaled<32x16xf8E4M3FN, per_tensor, contract = 0> -> !te.scaled<32x16xf8E4M3FN, per_tensor, contract = 1>
  return
}

// -----

func.func @amax_rows_c1(%x: tensor<32x32xbf16>) {
  // expected-error @below {{expected 'amax' to have shape 32, but got 16}}
  %a = te.amax_rows %x : tensor<32x32xbf16> -> tensor<16xf32>
  return
}

// -----

func.func @hadamard_c1(%x: tensor<24x32xbf16>) {
  // expected-error @below {{expected the rows to be a multiple of 16, but got 24}}
  %y = te.hadamard %x : tensor<24x32xbf16>
  return
}

// -----

func.func @quantize_c5_mx(%x: tensor<32x32xbf16>) {
  // expected-error @below {{expected 'amax_epsilon' only for block schemes, but got one with 'mx_1x32'}}
  %a = te.quantize %x {amax_epsilon = 1.0 : f32} : tensor<32x32xbf16> -> !te.scaled<32x32xf8E4M3FN, mx_1x32, contract = 1>
  return
}

// -----

func.func @quantize_c7_missing(%x: tensor<32x32xbf16>) {
  // expected-error @below {{expected 'given_amax' to be given exactly for nv schemes, but got none with 'nv_1x16'}}
  %a = te.quantize %x : tensor<32x32xbf16> -> !te.scaled<32x32xf4E2M1FN, nv_1x16, contract = 1>
  return
}

// -----

func.func @quantize_c7_extra(%x: tensor<32x32xbf16>, %m: tensor<f32>) {
  // expected-error @below {{expected 'given_amax' to be given exactly for nv schemes, but got one with 'mx_1x32'}}
  %a = te.quantize %x amax %m : tensor<32x32xbf16> -> !te.scaled<32x32xf8E4M3FN, mx_1x32, contract = 1>
  return
}

// -----

func.func @quantize_c7_shape(%x: tensor<32x32xbf16>, %m: tensor<16xf32>) {
  // expected-error @below {{expected 'given_amax' to have shape 32, but got 16}}
  %a = "te.quantize"(%x, %m) <{operandSegmentSizes = array<i32: 1, 0, 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0>}> : (tensor<32x32xbf16>, tensor<16xf32>) -> !te.scaled<32x32xf4E2M1FN, nv_1x16, row_scaled, contract = 1>
  return
}

// -----

func.func @quantize_c7_scalar(%x: tensor<32x32xbf16>, %m: tensor<f32>) {
  // expected-error @below {{expected 'given_amax' to have shape 32, but got ()}}
  %a = "te.quantize"(%x, %m) <{operandSegmentSizes = array<i32: 1, 0, 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0>}> : (tensor<32x32xbf16>, tensor<f32>) -> !te.scaled<32x32xf4E2M1FN, nv_1x16, row_scaled, contract = 1>
  return
}

// -----

func.func @quantize_c8_rng(%x: tensor<32x32xbf16>, %r: tensor<2xi32>) {
  // expected-error @below {{expected 'rng' only for nv schemes, but got one with '!te.scaled<}}
  %a = te.quantize %x rng %r : tensor<32x32xbf16> -> !te.scaled<32x32xf8E4M3FN, mx_1x32, contract = 1>
  return
}

// -----

func.func @quantize_c8_compared(%x: tensor<32x32xbf16>, %m: tensor<f32>, %r: tensor<2xi32>) {
  // expected-error @below {{expected 'four_over_six' to be off with 'rng', as the errors it compares are those of nearest values, but got 'mae'}}
  %a = te.quantize %x amax %m rng %r {four_over_six = #te.four_over_six<mae>} : tensor<32x32xbf16> -> !te.scaled<32x32xf4E2M1FN, nv_1x16, contract = 1>
  return
}

// -----

func.func @quantize_c8_rows(%x: tensor<32x32xbf16>, %m: tensor<32xf32>, %r: tensor<2xi32>) {
  // expected-error @below {{expected 'rng' only for values with one amax, but got one with '!te.scaled<32x32xf4E2M1FN, nv_1x16, row_scaled, contract = 1>'}}
  %a = te.quantize %x amax %m rng %r : tensor<32x32xbf16> -> !te.scaled<32x32xf4E2M1FN, nv_1x16, row_scaled, contract = 1>
  return
}

// -----

func.func @quantize_c8_four_over_six(%x: tensor<32x32xbf16>) {
  // expected-error @below {{expected 'four_over_six' only for nv schemes, but got one with '!te.scaled<}}
  %a = te.quantize %x {four_over_six = #te.four_over_six<mae>} : tensor<32x32xbf16> -> !te.scaled<32x32xf8E4M3FN, mx_1x32, contract = 1>
  return
}

// -----

func.func @quantize_c8_stream(%x: tensor<32x32xbf16>, %m: tensor<f32>) {
  // expected-error @below {{expected 'stream' only with 'rng', but got 3 without}}
  %a = te.quantize %x amax %m {stream = 3 : i32} : tensor<32x32xbf16> -> !te.scaled<32x32xf4E2M1FN, nv_1x16, contract = 1>
  return
}

// -----

func.func @quantize_c12(%x: tensor<32x32xbf16>) {
  // expected-error @below {{expected 'rounded' to be bf16, for an 'x' of f32 and results of f8E4M3FN, 'per_tensor' or 'block_128x128', but got 'bf16' for 'tensor<32x32xbf16>' and}}
  %a = te.quantize %x {rounded = bf16} : tensor<32x32xbf16> -> !te.scaled<32x32xf8E4M3FN, block_128x128, contract = 1>
  return
}

// -----

func.func @quantize_c12_scheme(%x: tensor<32x32xf32>) {
  // expected-error @below {{expected 'rounded' to be bf16, for an 'x' of f32 and results of f8E4M3FN, 'per_tensor' or 'block_128x128', but got 'bf16' for 'tensor<32x32xf32>' and}}
  %a = te.quantize %x {rounded = bf16} : tensor<32x32xf32> -> !te.scaled<32x32xf8E4M3FN, block_1x128, contract = 1>
  return
}

// -----

func.func @quantize_c12_type(%x: tensor<32x32xf32>) {
  // expected-error @below {{but got 'f16' for 'tensor<32x32xf32>' and}}
  %a = te.quantize %x {rounded = f16} : tensor<32x32xf32> -> !te.scaled<32x32xf8E4M3FN, block_128x128, contract = 1>
  return
}

// -----

func.func @amax_c1(%x: tensor<32xbf16>) {
  // expected-error @below {{expected 'rounded' to be bf16, for an 'x' of f32, but got 'bf16' for 'tensor<32xbf16>'}}
  %a = te.amax %x {rounded = bf16} : tensor<32xbf16>
  return
}

// -----

func.func @quantize_c9(%x: tensor<32x32xbf16>) {
  // expected-error @below {{expected 'usages' not to be swizzled, but got}}
  %a = te.quantize %x : tensor<32x32xbf16> -> !te.scaled<32x32xf8E4M3FN, mx_1x32, swizzled, contract = 1>
  return
}

// -----

func.func @dequantize_c2(%q: !te.scaled<32x32xf8E4M3FN, mx_1x32, contract = 1>) {
  // expected-error @below {{expected 'without_amax' only for nv schemes, but got it with 'mx_1x32'}}
  %x = te.dequantize %q {without_amax} : !te.scaled<32x32xf8E4M3FN, mx_1x32, contract = 1> -> tensor<32x32xbf16>
  return
}

// -----

func.func @dequantize_c3(%q: !te.scaled<32x32xf8E4M3FN, mx_1x32, swizzled, contract = 1>) {
  // expected-error @below {{expected 'q' not to be swizzled, but got}}
  %x = te.dequantize %q : !te.scaled<32x32xf8E4M3FN, mx_1x32, swizzled, contract = 1> -> tensor<32x32xbf16>
  return
}

// -----

func.func @transpose_c4(%q: !te.scaled<32x32xf8E4M3FN, mx_32x32, swizzled, contract = 1>) {
  // expected-error @below {{expected 'q' not to be swizzled, but got}}
  %x = te.transpose %q : !te.scaled<32x32xf8E4M3FN, mx_32x32, swizzled, contract = 1> -> !te.scaled<32x32xf8E4M3FN, mx_32x32, swizzled, contract = 0>
  return
}

// -----

func.func @swizzle_scales_c1(%q: !te.scaled<32x32xf8E4M3FN, block_1x128, contract = 1>) {
  // expected-error @below {{expected 'q' to have an mx or nv scheme, but got}}
  %s = te.swizzle_scales %q : !te.scaled<32x32xf8E4M3FN, block_1x128, contract = 1> -> !te.scaled<32x32xf8E4M3FN, block_1x128, contract = 1>
  return
}

// -----

func.func @swizzle_scales_c1_twice(%q: !te.scaled<32x32xf8E4M3FN, mx_1x32, swizzled, contract = 1>) {
  // expected-error @below {{expected 'q' not to be swizzled, but got}}
  %s = te.swizzle_scales %q : !te.scaled<32x32xf8E4M3FN, mx_1x32, swizzled, contract = 1> -> !te.scaled<32x32xf8E4M3FN, mx_1x32, swizzled, contract = 1>
  return
}

// -----

func.func @swizzle_scales_c2(%q: !te.scaled<32x32xf8E4M3FN, mx_1x32, contract = 1>) {
  // expected-error @below {{expected the result to be '!te.scaled<32x32xf8E4M3FN, mx_1x32, swizzled, contract = 1>', but got}}
  %s = te.swizzle_scales %q : !te.scaled<32x32xf8E4M3FN, mx_1x32, contract = 1> -> !te.scaled<32x32xf8E4M3FN, mx_1x32, contract = 1>
  return
}

// -----

func.func @nvfp4_alpha_c1(%a: !te.scaled<32x32xf4E2M1FN, nv_1x16, contract = 1>, %b: !te.scaled<32x32xf8E4M3FN, mx_1x32, contract = 1>) {
  // expected-error @below {{expected 'b' to have an nv scheme, but got}}
  %s = te.nvfp4_alpha %a, %b : !te.scaled<32x32xf4E2M1FN, nv_1x16, contract = 1>, !te.scaled<32x32xf8E4M3FN, mx_1x32, contract = 1>
  return
}

// -----

func.func @nvfp4_alpha_c2(%a: !te.scaled<32x32xf4E2M1FN, nv_1x16, row_scaled, contract = 1>, %b: !te.scaled<32x32xf4E2M1FN, nv_1x16, contract = 1>) {
  // expected-error @below {{expected 'a' not to be row-scaled, but got}}
  %s = te.nvfp4_alpha %a, %b : !te.scaled<32x32xf4E2M1FN, nv_1x16, row_scaled, contract = 1>, !te.scaled<32x32xf4E2M1FN, nv_1x16, contract = 1>
  return
}

// -----

func.func @rng_state(%s: tensor<3xi32>) {
  // expected-error @below {{must be 1D tensor of 2 32-bit signless integer values, but got 'tensor<3xi32>'}}
  %n = "te.rng_advance"(%s) : (tensor<3xi32>) -> tensor<3xi32>
  return
}

// -----

func.func @quantize_c11(%w: tensor<256x512xbf16>, %old: !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>) {
  // expected-error @below {{expected 'into' exactly with 'skip', but got a cached value without a flag}}
  %q = te.quantize %w into %old : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  return
}

// -----

func.func @quantize_c11_flag(%w: tensor<256x512xbf16>, %skip: tensor<f32>) {
  // expected-error @below {{expected 'into' exactly with 'skip', but got a flag without a cached value}}
  %q = te.quantize %w unless %skip : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
  return
}

// -----

func.func @quantize_c11_count(%w: tensor<256x512xbf16>, %skip: tensor<f32>, %old: !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>) {
  // expected-error @below {{expected 'into' to have the types}}
  %row, %col = te.quantize %w into %old unless %skip : tensor<256x512xbf16>
    -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>, !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 0>
  return
}

// -----

func.func @transpose_c6(%q: !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, %skip: tensor<f32>) {
  // expected-error @below {{expected 'into' exactly with 'skip', but got a flag without a cached value}}
  %t = te.transpose %q unless %skip : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 0>
  return
}

// -----

// expected-error @below {{expected 'te.init' of a scaled value to be NaN, which no run may read, but got 0.000000e+00 : f32}}
func.func private @init_c3(!te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1> {te.init = 0.0 : f32})

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @quantize_shard_c1(%x: tensor<5196xbf16>, %amax: tensor<2x1xf32>) {
    // expected-error @below {{expected 'x' to have shape 5197, but got 5196}}
    %q = te.quantize_shard %x amax %amax group 0 : tensor<5196xbf16> -> !te.scaled<160x128xf8E4M3FN, block_128x128, contract = 1, shard = 5197>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @quantize_shard_of_two(%x: tensor<5197xbf16>, %scale: tensor<f32>) {
    // expected-error @below {{expected one result with 'shard', but got 2}}
    %q, %p = te.quantize_shard %x scale %scale : tensor<5197xbf16> -> !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1, shard = 5197>, !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1, shard = 5197>
    return
  }
}

// -----

func.func @quantize_shard_without_shard(%x: tensor<5197xbf16>, %scale: tensor<f32>) {
  // expected-error @below {{must be a scaled value with 'shard'}}
  %q = te.quantize_shard %x scale %scale : tensor<5197xbf16> -> !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1>
  return
}

// -----

func.func @quantize_of_a_shard(%x: tensor<160x128xbf16>, %scale: tensor<f32>) {
  // expected-error @below {{must be variadic of a scaled value without 'groups' (of te.grouped_quantize) and 'shard' (of te.quantize_shard)}}
  %q = te.quantize %x scale %scale : tensor<160x128xbf16> -> !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1, shard = 5197>
  return
}

// -----

func.func @quantize_shard_c2(%x: tensor<5197xbf16>) {
  // expected-error @below {{expected 'scale' to be given exactly for 'per_tensor' results, but got none with 'per_tensor'}}
  %q = te.quantize_shard %x : tensor<5197xbf16> -> !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1, shard = 5197>
  return
}

// -----

// The amax of the tensor is not that of each block.
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @quantize_shard_c3(%x: tensor<5197xbf16>) {
    // expected-error @below {{expected 'given_amax' to be given exactly for schemes with blocks, but got none with 'block_128x128'}}
    %q = te.quantize_shard %x group 0 : tensor<5197xbf16> -> !te.scaled<160x128xf8E4M3FN, block_128x128, contract = 1, shard = 5197>
    return
  }
}

// -----

// This also holds for mx schemes.
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @quantize_shard_c3_mx(%x: tensor<5197xbf16>) {
    // expected-error @below {{expected 'given_amax' to be given exactly for schemes with blocks, but got none with 'mx_1x32'}}
    %q = te.quantize_shard %x group 0 : tensor<5197xbf16> -> !te.scaled<160x128xf8E4M3FN, mx_1x32, contract = 0, shard = 5197>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @quantize_shard_c3_mx_shape(%x: tensor<5197xbf16>, %amax: tensor<160x4xf32>) {
    // expected-error @below {{expected 'given_amax' to have shape 5x128, but got 160x4}}
    %q = "te.quantize_shard"(%x, %amax) <{group = 0 : i64, operandSegmentSizes = array<i32: 1, 0, 1, 0, 0>}> : (tensor<5197xbf16>, tensor<160x4xf32>) -> !te.scaled<160x128xf8E4M3FN, mx_1x32, contract = 0, shard = 5197>
    return
  }
}

// -----

// The op needs the amaxes of all blocks, not that of the tensor.
module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @quantize_shard_c3_nv_shape(%x: tensor<5198xbf16>, %amax: tensor<1x1xf32>) {
    // expected-error @below {{expected 'given_amax' to have shape 10x8, but got 1x1}}
    %q = "te.quantize_shard"(%x, %amax) <{group = 0 : i64, operandSegmentSizes = array<i32: 1, 0, 1, 0, 0>}> : (tensor<5198xbf16>, tensor<1x1xf32>) -> !te.scaled<160x128xf4E2M1FN, nv_16x16, contract = 1, shard = 5198>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @quantize_shard_c4(%x: tensor<5197xbf16>, %amax: tensor<2x1xf32>) {
    // expected-error @below {{expected 'group' to be given exactly for a shard of blocks, but got none with}}
    %q = te.quantize_shard %x amax %amax : tensor<5197xbf16> -> !te.scaled<160x128xf8E4M3FN, block_128x128, contract = 1, shard = 5197>
    return
  }
}

// -----

func.func @quantize_shard_c4_undeclared(%x: tensor<5197xbf16>, %amax: tensor<2x1xf32>) {
  // expected-error @below {{expected group 0 to be declared}}
  %q = te.quantize_shard %x amax %amax group 0 : tensor<5197xbf16> -> !te.scaled<160x128xf8E4M3FN, block_128x128, contract = 1, shard = 5197>
  return
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @quantize_shard_c4_too_few(%x: tensor<5000xbf16>, %amax: tensor<2x1xf32>) {
    // expected-error @below {{expected a shard of the 20480 elements of the matrix to have from 5120 to 20480 of them for a group of 4, but got 5000}}
    %q = te.quantize_shard %x amax %amax group 0 : tensor<5000xbf16> -> !te.scaled<160x128xf8E4M3FN, block_128x128, contract = 1, shard = 5000>
    return
  }
}

// -----

func.func @quantize_shard_c5(%x: tensor<5197xbf16>, %scale: tensor<f32>) {
  // expected-error @below {{expected 'amax_epsilon' only for block schemes; for 'per_tensor' it belongs to te.compute_scale}}
  %q = te.quantize_shard %x scale %scale {amax_epsilon = 1.0 : f32} : tensor<5197xbf16> -> !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1, shard = 5197>
  return
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @quantize_shard_c6(%x: tensor<5197xbf16>, %amax: tensor<2x1xf32>) {
    // expected-error @below {{expected 'amax' only for 'per_tensor' results, but got one with 'block_128x128'}}
    %q, %m = te.quantize_shard %x amax %amax group 0 : tensor<5197xbf16> -> !te.scaled<160x128xf8E4M3FN, block_128x128, contract = 1, shard = 5197> amax tensor<f32>
    return
  }
}

// -----

func.func @quantize_shard_c7(%x: tensor<5197xbf16>, %scale: tensor<f32>, %old: !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1, shard = 5197>) {
  // expected-error @below {{expected 'into' exactly with 'skip', but got a cached value without a flag}}
  %q = te.quantize_shard %x scale %scale into %old : tensor<5197xbf16> -> !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1, shard = 5197>
  return
}

// -----

func.func @quantize_shard_c7_flag(%x: tensor<5197xbf16>, %scale: tensor<f32>, %skip: tensor<f32>) {
  // expected-error @below {{expected 'into' exactly with 'skip', but got a flag without a cached value}}
  %q = te.quantize_shard %x scale %scale unless %skip : tensor<5197xbf16> -> !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1, shard = 5197>
  return
}

// -----

func.func @partial_amax_c1(%x: tensor<5197xbf16>) {
  // expected-error @below {{expected group 0 to be declared}}
  %amax = te.partial_amax %x group 0 of [160, 128] blocks [128, 128] : tensor<5197xbf16> -> tensor<2x1xf32>
  return
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @partial_amax_c2(%x: tensor<5197xbf16>) {
    // expected-error @below {{expected 'shape' to be that of a matrix, but got 20480}}
    %amax = te.partial_amax %x group 0 of [20480] blocks [128, 128] : tensor<5197xbf16> -> tensor<2x1xf32>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @partial_amax_c2_too_few(%x: tensor<5000xbf16>) {
    // expected-error @below {{expected a shard of the 20480 elements of the matrix to have from 5120 to 20480 of them for a group of 4, but got 5000}}
    %amax = te.partial_amax %x group 0 of [160, 128] blocks [128, 128] : tensor<5000xbf16> -> tensor<2x1xf32>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @partial_amax_c3(%x: tensor<5197xbf16>) {
    // expected-error @below {{expected 'blocks' to be [128, 128], [1, 32], [32, 1], [32, 32], [1, 16] or [16, 16], but got [1, 128]}}
    %amax = te.partial_amax %x group 0 of [160, 128] blocks [1, 128] : tensor<5197xbf16> -> tensor<160x1xf32>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @partial_amax_c3_none(%x: tensor<5197xbf16>) {
    // expected-error @below {{expected 'blocks' to be [128, 128], [1, 32], [32, 1], [32, 32], [1, 16] or [16, 16], but got []}}
    %amax = te.partial_amax %x group 0 of [160, 128] blocks [] : tensor<5197xbf16> -> tensor<160x4xf32>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @partial_amax_c4_mx(%x: tensor<5197xbf16>) {
    // expected-error @below {{expected 'amax' to have shape 5x128, but got 160x4}}
    %amax = te.partial_amax %x group 0 of [160, 128] blocks [32, 1] : tensor<5197xbf16> -> tensor<160x4xf32>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @partial_amax_c4(%x: tensor<5197xbf16>) {
    // expected-error @below {{expected 'amax' to have shape 2x1, but got 1x2}}
    %amax = te.partial_amax %x group 0 of [160, 128] blocks [128, 128] : tensor<5197xbf16> -> tensor<1x2xf32>
    return
  }
}

// -----

// expected-error @below {{expected 'shard' only with rank 2, no 'groups', and 'per_tensor', 'block_128x128' or an nv scheme with 'contract = 1' and neither 'row_scaled' nor 'hadamard', or an mx scheme, but got 'block_1x128' with 'contract = 1'}}
func.func private @scaled_c7(!te.scaled<160x128xf8E4M3FN, block_1x128, contract = 1, shard = 5197>)

// -----

// expected-error @below {{or an mx scheme, but got 'block_128x128' with 'contract = 0'}}
func.func private @scaled_c7_columns(!te.scaled<160x128xf8E4M3FN, block_128x128, contract = 0, shard = 5197>)

// -----

// The data of this scheme are stored transposed for axis 0.
// expected-error @below {{or an mx scheme, but got 'nv_1x16' with 'contract = 0'}}
func.func private @scaled_c7_nv_columns(!te.scaled<160x128xf4E2M1FN, nv_1x16, contract = 0, shard = 5198>)

// -----

// expected-error @below {{and neither 'row_scaled' nor 'hadamard', or an mx scheme, but got 'nv_1x16' with 'contract = 1'}}
func.func private @scaled_c7_row_scaled(!te.scaled<160x128xf4E2M1FN, nv_1x16, row_scaled, contract = 1, shard = 5198>)

// -----

// expected-error @below {{expected 'shard' to be even, as FP4 packs two elements a byte, but got 5197}}
func.func private @scaled_c7_nv_odd(!te.scaled<160x128xf4E2M1FN, nv_16x16, contract = 1, shard = 5197>)

// -----

// expected-error @below {{expected no 'swizzled' with 'shard'}}
func.func private @scaled_c7_swizzled(!te.scaled<160x128xf8E4M3FN, mx_1x32, swizzled, contract = 1, shard = 5197>)

// -----

// expected-error @below {{expected 'shard' to be at most the 20480 elements, but got 20481}}
func.func private @scaled_c7_too_many(!te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1, shard = 20481>)

// -----

// expected-error @below {{expected 'shard' to be one or more, but got 0}}
func.func private @scaled_c7_none(!te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1, shard = 0>)

// -----

// Only te.all_gather reads a shard.
func.func @shards_are_gathered_first(%q: !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1, shard = 5197>) {
  // expected-error @below {{'te.dequantize' op operand #0 must be a scaled value without 'shard', which te.all_gather puts together}}
  %x = te.dequantize %q : !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1, shard = 5197> -> tensor<160x128xbf16>
  return
}

// -----

// expected-error @below {{expected 'row_scaled' only with 'contract = 1' and without 'hadamard'}}
func.func private @scaled_c4_hadamard(!te.scaled<32x32xf4E2M1FN, nv_1x16, hadamard, row_scaled, contract = 1>)

// -----

// expected-error @below {{expected the columns to be a multiple of 32, but got 48}}
func.func private @scaled_c5_columns(!te.scaled<32x48xf8E4M3FN, mx_1x32, contract = 1>)

// -----

// expected-error @below {{expected the first of three sizes to be one or more, but got 0}}
func.func private @scaled_c6_empty(!te.scaled<0x32x32xf8E4M3FN, per_tensor, contract = 1>)

// -----

// expected-error @below {{expected 'shard' only with rank 2, no 'groups', and}}
func.func private @scaled_c7_hadamard(!te.scaled<32x32xf4E2M1FN, nv_1x16, hadamard, contract = 1, shard = 64>)

// -----

// expected-error @below {{expected 'shard' only with rank 2, no 'groups', and}}
func.func private @scaled_c7_stack(!te.scaled<2x32x32xf8E4M3FN, per_tensor, contract = 1, shard = 64>)

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @partial_amax_c2_negative(%x: tensor<5197xbf16>) {
    // expected-error @below {{expected 'shape' to be that of a matrix, but got -160x128}}
    %amax = te.partial_amax %x group 0 of [-160, 128] blocks [128, 128] : tensor<5197xbf16> -> tensor<2x1xf32>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @partial_amax_c2_columns(%x: tensor<5197xbf16>) {
    // expected-error @below {{expected 'shape' to be that of a matrix, but got 160x-128}}
    %amax = te.partial_amax %x group 0 of [160, -128] blocks [128, 128] : tensor<5197xbf16> -> tensor<2x1xf32>
    return
  }
}

// -----

module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 4>]} {
  func.func @partial_amax_c2_too_many(%x: tensor<20481xbf16>) {
    // expected-error @below {{to have from 5120 to 20480 of them for a group of 4, but got 20481}}
    %amax = te.partial_amax %x group 0 of [160, 128] blocks [128, 128] : tensor<20481xbf16> -> tensor<2x1xf32>
    return
  }
}

// -----

func.func @amax_reduce_c2_none() {
  // expected-error @below {{expected one amax or more and a result of the type of each, but got 0 amaxes and 0 results}}
  "te.amax_reduce"() {group_id = 0 : i32} : () -> ()
  return
}

// -----

func.func @delayed_scaling_update_c3_large(%a: tensor<f32>, %h: tensor<8xf32>, %s: tensor<f32>) {
  // expected-error @below {{expected 'margin' to be from -100 to 100, but got 101}}
  %h1, %s1 = te.delayed_scaling_update %a, %h, %s for f8E4M3FN {margin = 101 : i32} : tensor<f32>, tensor<8xf32>
  return
}

// -----

func.func @dequantize_c4_sizes(%q: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'group_sizes' exactly for a value with groups, but got them with}}
  %x = "te.dequantize"(%q, %sizes) : (!te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>, tensor<2xi32>) -> tensor<64x64xbf16>
  return
}

// -----

func.func @dequantize_c4_alignment(%q: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>) {
  // expected-error @below {{expected 'alignment' only for a value with groups, but got 16 with}}
  %x = te.dequantize %q {alignment = 16 : i64} : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1> -> tensor<64x64xbf16>
  return
}

// -----

func.func @dequantize_c4_groups(%q: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>, %sizes: tensor<3xi32>) {
  // expected-error @below {{expected 'group_sizes' to have shape 2, but got 3}}
  %x = "te.dequantize"(%q, %sizes) {alignment = 16 : i64} : (!te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>, tensor<3xi32>) -> tensor<64x64xbf16>
  return
}

// -----

func.func @rescale_c1_stack(%q: !te.scaled<2x32x32xf8E4M3FN, per_tensor, contract = 1>, %f: tensor<f32>) {
  // expected-error @below {{expected a matrix with f32 scales, which 'per_tensor', 'block_1x128' and 'block_128x128' have, but got}}
  %r = te.rescale %q by %f : !te.scaled<2x32x32xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<2x32x32xf8E4M3FN, per_tensor, contract = 1>
  return
}

// -----

// expected-error @below {{expected 'te.name' to be a string that is not empty, but got 1 : i64}}
func.func private @argument_number(tensor<f32> {te.name = 1})

// -----

// expected-error @below {{expected an argument with 'te.init' to be a tensor of floats or integers, but got 'f32'}}
func.func private @init_c2_scalar(f32 {te.init = 1.0 : f32})

// -----

// expected-error @below {{expected an argument with 'te.init' to be a tensor of floats or integers, but got 'tensor<4xcomplex<f32>>'}}
func.func private @init_c2_complex(tensor<4xcomplex<f32>> {te.init = 1.0 : f32})

// -----

// expected-error @below {{expected 'te.init' of a scaled value to be NaN, which no run may read, but got dense<}}
func.func private @init_c3_splat(!te.scaled<16x16xf8E4M3FN, per_tensor, contract = 1> {te.init = dense<0x7FC00000> : tensor<4xf32>})
