// Each function violates one constraint, whose label the error contains.
// RUN: te-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expected 'groups' to be one or more, but got 0}}
func.func private @scaled_c6(!te.scaled<16x16xf8E4M3FN, per_tensor, contract = 1, groups = 0>)

// -----

// expected-error @below {{expected 'groups' only with rank 2, but got 2 with rank 3}}
func.func private @scaled_c6_stack(!te.scaled<2x16x16xf8E4M3FN, per_tensor, contract = 1, groups = 2>)

// -----

// expected-error @below {{expected no 'swizzled' with groups}}
func.func private @scaled_c6_swizzled(!te.scaled<32x32xf8E4M3FN, mx_1x32, swizzled, contract = 1, groups = 2>)

// -----

// Each kind of value has its own cast op.
func.func @quantize_of_groups(%x: tensor<64x64xbf16>, %s: tensor<2xf32>) {
  // expected-error @below {{must be variadic of a scaled value without 'groups' (of te.grouped_quantize)}}
  %q = te.quantize %x scale %s : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>
  return
}

// -----

func.func @grouped_quantize_without_groups(%x: tensor<64x64xbf16>, %sizes: tensor<1xi32>) {
  // expected-error @below {{must be variadic of a scaled value with 'groups'}}
  %q = te.grouped_quantize %x sizes %sizes {alignment = 16 : i64} : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, block_1x128, contract = 1>
  return
}

// -----

func.func @grouped_quantize_c1(%x: tensor<64x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected one or two scaled results, but got 3}}
  %q:3 = te.grouped_quantize %x sizes %sizes {alignment = 16 : i64} : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, block_1x128, contract = 1, groups = 2>, !te.scaled<64x64xf8E4M3FN, block_1x128, contract = 1, groups = 2>, !te.scaled<64x64xf8E4M3FN, block_1x128, contract = 1, groups = 2>
  return
}

// -----

func.func @grouped_quantize_c2(%x: tensor<64x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected every result to have shape 64x64}}
  %q = te.grouped_quantize %x sizes %sizes {alignment = 16 : i64} : tensor<64x64xbf16> -> !te.scaled<64x32xf8E4M3FN, block_1x128, contract = 1, groups = 2>
  return
}

// -----

func.func @grouped_quantize_c3(%x: tensor<64x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected the two results to differ in nothing but 'contract'}}
  %q, %p = te.grouped_quantize %x sizes %sizes {alignment = 16 : i64} : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, block_1x128, contract = 1, groups = 2>, !te.scaled<64x64xf8E4M3FN, block_1x128, contract = 1, groups = 2>
  return
}

// -----

func.func @grouped_quantize_c4(%x: tensor<64x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'scale' to be given exactly for 'per_tensor' results, but got none with 'per_tensor'}}
  %q = te.grouped_quantize %x sizes %sizes {alignment = 16 : i64} : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>
  return
}

// -----

func.func @grouped_quantize_c4_shape(%x: tensor<64x64xbf16>, %s: tensor<3xf32>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'scale' to have shape 2, but got 3}}
  %q = "te.grouped_quantize"(%x, %s, %sizes) <{alignment = 16 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1>}> : (tensor<64x64xbf16>, tensor<3xf32>, tensor<2xi32>) -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>
  return
}

// -----

func.func @grouped_quantize_c5(%x: tensor<64x64xbf16>, %s: tensor<2xf32>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'amax_epsilon' only for block schemes; for 'per_tensor' it belongs to te.compute_scale}}
  %q = te.grouped_quantize %x scale %s sizes %sizes {alignment = 16 : i64, amax_epsilon = 1.0 : f32} : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>
  return
}

// -----

func.func @grouped_quantize_c6(%x: tensor<64x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'given_amax' to be given exactly for nv schemes, but got none with 'nv_1x16'}}
  %q = te.grouped_quantize %x sizes %sizes {alignment = 16 : i64} : tensor<64x64xbf16> -> !te.scaled<64x64xf4E2M1FN, nv_1x16, contract = 1, groups = 2>
  return
}

// -----

func.func @grouped_quantize_c6_rows(%x: tensor<64x64xbf16>, %m: tensor<2xf32>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'given_amax' to have shape 64, but got 2}}
  %q = "te.grouped_quantize"(%x, %m, %sizes) <{alignment = 16 : i64, operandSegmentSizes = array<i32: 1, 0, 1, 0, 1>}> : (tensor<64x64xbf16>, tensor<2xf32>, tensor<2xi32>) -> !te.scaled<64x64xf4E2M1FN, nv_1x16, row_scaled, contract = 1, groups = 2>
  return
}

// -----

func.func @grouped_quantize_c7(%x: tensor<64x64xbf16>, %r: tensor<2xi32>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'rng' only for nv schemes, but got one with}}
  %q = te.grouped_quantize %x rng %r sizes %sizes {alignment = 16 : i64} : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, block_1x128, contract = 1, groups = 2>
  return
}

// -----

func.func @grouped_quantize_c7_stream(%x: tensor<64x64xbf16>, %m: tensor<2xf32>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'stream' only with 'rng', but got 3 without}}
  %q = te.grouped_quantize %x amax %m sizes %sizes {alignment = 16 : i64, stream = 3 : i32} : tensor<64x64xbf16> -> !te.scaled<64x64xf4E2M1FN, nv_1x16, contract = 1, groups = 2>
  return
}

// -----

func.func @grouped_quantize_c8(%x: tensor<64x64xbf16>, %s: tensor<2xf32>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected the rows to be a multiple of the alignment 48, but got 64}}
  %q = te.grouped_quantize %x scale %s sizes %sizes {alignment = 48 : i64} : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>
  return
}

// -----

func.func @grouped_quantize_c8_sizes(%x: tensor<64x64xbf16>, %s: tensor<2xf32>, %sizes: tensor<3xi32>) {
  // expected-error @below {{expected 'group_sizes' to have shape 2, but got 3}}
  %q = "te.grouped_quantize"(%x, %s, %sizes) <{alignment = 16 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1>}> : (tensor<64x64xbf16>, tensor<2xf32>, tensor<3xi32>) -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>
  return
}

// -----

func.func @quantize_c10(%x: tensor<2x64x64xbf16>, %s: tensor<f32>) {
  // expected-error @below {{expected 'scale' to have shape 2, but got }}
  %q = "te.quantize"(%x, %s) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0>}> : (tensor<2x64x64xbf16>, tensor<f32>) -> !te.scaled<2x64x64xf8E4M3FN, per_tensor, contract = 1>
  return
}

// -----

func.func @quantize_c6_stack(%x: tensor<2x64x64xbf16>, %s: tensor<2xf32>) {
  // expected-error @below {{expected 'amax' only for one matrix}}
  %q, %amax = te.quantize %x scale %s : tensor<2x64x64xbf16> -> !te.scaled<2x64x64xf8E4M3FN, per_tensor, contract = 1> amax tensor<f32>
  return
}

// -----

func.func @dequantize_c4(%q: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>) {
  // expected-error @below {{expected 'group_sizes' exactly for a value with groups, but got none with}}
  %x = te.dequantize %q : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2> -> tensor<64x64xbf16>
  return
}

// -----

func.func @transpose_c5(%q: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>) {
  // expected-error @below {{expected an operand without 'groups', but got}}
  %x = te.transpose %q : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0, groups = 2>
  return
}

// -----

func.func @nvfp4_alpha_c3(%a: !te.scaled<64x64xf4E2M1FN, nv_1x16, contract = 1, groups = 2>, %b: !te.scaled<3x32x64xf4E2M1FN, nv_1x16, contract = 1>) {
  // expected-error @below {{expected 'a' and 'b' to have as many groups, but got 2 and 3}}
  %x = te.nvfp4_alpha %a, %b : !te.scaled<64x64xf4E2M1FN, nv_1x16, contract = 1, groups = 2>, !te.scaled<3x32x64xf4E2M1FN, nv_1x16, contract = 1>
  return
}

// -----

func.func @grouped_amax_c1(%x: tensor<64x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'amax' to have shape 2, but got 3}}
  %a = te.grouped_amax %x, %sizes {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2xi32> -> tensor<3xf32>
  return
}

// -----

func.func @grouped_amax_c2(%x: tensor<64x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'alignment' to be one or more, but got 0}}
  %a = te.grouped_amax %x, %sizes {alignment = 0 : i64} : tensor<64x64xbf16>, tensor<2xi32> -> tensor<2xf32>
  return
}

// -----

func.func @zero_padding_c1(%x: tensor<64x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected the rows to be a multiple of the alignment 48, but got 64}}
  %a = te.zero_padding %x, %sizes {alignment = 48 : i64} : tensor<64x64xbf16>, tensor<2xi32>
  return
}

// -----

func.func @round_group_sizes_c1(%sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'multiple' to be one or more, but got 0}}
  %a = te.round_group_sizes %sizes {multiple = 0 : i64} : tensor<2xi32>
  return
}

// -----

func.func @grouped_scaled_matmul_c1(%a: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 3>, %b: !te.scaled<2x32x64xf8E4M3FN, per_tensor, contract = 1>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'a' to be made for axis 1 with 2 groups, but got}}
  %y = te.grouped_scaled_matmul %a, %b, %sizes fast_accumulation = true {alignment = 16 : i64} : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 3>, !te.scaled<2x32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_scaled_matmul_c1_stack(%a: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>, %b: !te.scaled<3x32x64xf8E4M3FN, per_tensor, contract = 1>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'b' to be a stack of 2 matrices, but got}}
  %y = te.grouped_scaled_matmul %a, %b, %sizes fast_accumulation = true {alignment = 16 : i64} : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>, !te.scaled<3x32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_scaled_matmul_c2(%a: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>, %b: !te.scaled<2x64x32xf8E4M3FN, per_tensor, contract = 1>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected the contracted sizes of 'a' and 'b' to agree, but got 64 and 32}}
  %y = te.grouped_scaled_matmul %a, %b, %sizes fast_accumulation = true {alignment = 16 : i64} : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>, !te.scaled<2x64x32xf8E4M3FN, per_tensor, contract = 1>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_scaled_matmul_c3(%a: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>, %b: !te.scaled<2x32x64xf8E4M3FN, block_128x128, contract = 1>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected two schemes that a target multiplies, but got 'per_tensor' and 'block_128x128'}}
  %y = te.grouped_scaled_matmul %a, %b, %sizes fast_accumulation = true {alignment = 16 : i64} : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>, !te.scaled<2x32x64xf8E4M3FN, block_128x128, contract = 1>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_scaled_matmul_c4(%a: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>, %b: !te.scaled<2x32x64xf8E4M3FN, per_tensor, contract = 1>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'alignment' to be a multiple of 16 for 'per_tensor', but got 8}}
  %y = te.grouped_scaled_matmul %a, %b, %sizes fast_accumulation = true {alignment = 8 : i64} : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>, !te.scaled<2x32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_scaled_matmul_c5(%a: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>, %b: !te.scaled<2x32x64xf8E4M3FN, per_tensor, contract = 1>, %sizes: tensor<2xi32>, %bias: tensor<2x16xbf16>) {
  // expected-error @below {{expected 'bias' to have shape 2x32, but got 2x16}}
  %y = te.grouped_scaled_matmul %a, %b, %sizes bias %bias : tensor<2x16xbf16> fast_accumulation = true {alignment = 16 : i64} : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>, !te.scaled<2x32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_scaled_matmul_c6(%a: !te.scaled<64x64xf4E2M1FN, nv_1x16, contract = 1, groups = 2>, %b: !te.scaled<2x32x64xf4E2M1FN, nv_1x16, hadamard, contract = 1>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected both operands or neither to be 'hadamard'}}
  %y = te.grouped_scaled_matmul %a, %b, %sizes fast_accumulation = true {alignment = 32 : i64} : !te.scaled<64x64xf4E2M1FN, nv_1x16, contract = 1, groups = 2>, !te.scaled<2x32x64xf4E2M1FN, nv_1x16, hadamard, contract = 1>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_scaled_wgrad_c1(%a: !te.scaled<64x32xf8E5M2, per_tensor, contract = 0, groups = 2>, %b: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'b' to be made for axis 0 with 2 groups, but got}}
  %y = te.grouped_scaled_wgrad %a, %b, %sizes fast_accumulation = false {alignment = 16 : i64} : !te.scaled<64x32xf8E5M2, per_tensor, contract = 0, groups = 2>, !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>, tensor<2xi32> -> tensor<2x32x64xbf16>
  return
}

// -----

func.func @grouped_scaled_wgrad_c2(%a: !te.scaled<64x32xf8E5M2, per_tensor, contract = 0, groups = 2>, %b: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0, groups = 2>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'out' to have shape 2x32x64, but got 2x64x32}}
  %y = te.grouped_scaled_wgrad %a, %b, %sizes fast_accumulation = false {alignment = 16 : i64} : !te.scaled<64x32xf8E5M2, per_tensor, contract = 0, groups = 2>, !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0, groups = 2>, tensor<2xi32> -> tensor<2x64x32xbf16>
  return
}

// -----

func.func @grouped_scaled_wgrad_c3(%a: !te.scaled<64x32xf8E5M2, per_tensor, contract = 0, groups = 2>, %b: !te.scaled<64x64xf8E5M2, per_tensor, contract = 0, groups = 2>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected two element types that a target multiplies, but got 'f8E5M2' and 'f8E5M2'}}
  %y = te.grouped_scaled_wgrad %a, %b, %sizes fast_accumulation = false {alignment = 16 : i64} : !te.scaled<64x32xf8E5M2, per_tensor, contract = 0, groups = 2>, !te.scaled<64x64xf8E5M2, per_tensor, contract = 0, groups = 2>, tensor<2xi32> -> tensor<2x32x64xbf16>
  return
}

// -----

func.func @grouped_scaled_wgrad_c4(%a: !te.scaled<64x32xf8E5M2, per_tensor, contract = 0, groups = 2>, %b: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0, groups = 2>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'alignment' to be a multiple of 16 for 'per_tensor', but got 4}}
  %y = te.grouped_scaled_wgrad %a, %b, %sizes fast_accumulation = false {alignment = 4 : i64} : !te.scaled<64x32xf8E5M2, per_tensor, contract = 0, groups = 2>, !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0, groups = 2>, tensor<2xi32> -> tensor<2x32x64xbf16>
  return
}

// -----

func.func @grouped_scaled_wgrad_c5(%a: !te.scaled<64x32xf4E2M1FN, nv_1x16, contract = 0, groups = 2>, %b: !te.scaled<64x64xf4E2M1FN, nv_1x16, hadamard, contract = 0, groups = 2>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected both operands or neither to be 'hadamard'}}
  %y = te.grouped_scaled_wgrad %a, %b, %sizes fast_accumulation = false {alignment = 32 : i64} : !te.scaled<64x32xf4E2M1FN, nv_1x16, contract = 0, groups = 2>, !te.scaled<64x64xf4E2M1FN, nv_1x16, hadamard, contract = 0, groups = 2>, tensor<2xi32> -> tensor<2x32x64xbf16>
  return
}

// -----

func.func @grouped_matmul_c1(%a: tensor<64x64xbf16>, %b: tensor<2x32x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'contract' to be 0 or 1, but got 2}}
  %y = te.grouped_matmul %a, %b, %sizes contract = 2 {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_matmul_c1_sizes(%a: tensor<64x64xbf16>, %b: tensor<2x32x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected the contracted sizes of 'a' and 'b' to agree, but got 64 and 32}}
  %y = te.grouped_matmul %a, %b, %sizes contract = 0 {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_matmul_c2(%a: tensor<64x64xbf16>, %b: tensor<2x32x64xf32>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'a' and 'b' to have one element type, but got 'bf16' and 'f32'}}
  %y = te.grouped_matmul %a, %b, %sizes contract = 1 {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2x32x64xf32>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_matmul_c3(%a: tensor<64x64xbf16>, %b: tensor<2x32x64xbf16>, %sizes: tensor<2xi32>, %alpha: tensor<3xf32>) {
  // expected-error @below {{expected 'alpha' to have shape 2, but got 3}}
  %y = te.grouped_matmul %a, %b, %sizes alpha %alpha : tensor<3xf32> contract = 1 {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_matmul_c4(%a: tensor<64x64xbf16>, %b: tensor<2x32x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected the rows to be a multiple of the alignment 48, but got 64}}
  %y = te.grouped_matmul %a, %b, %sizes contract = 1 {alignment = 48 : i64} : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_wgrad_c1(%a: tensor<64x32xbf16>, %b: tensor<32x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected the rows of 'a' and 'b' to agree, but got 64 and 32}}
  %y = te.grouped_wgrad %a, %b, %sizes {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<32x64xbf16>, tensor<2xi32> -> tensor<2x32x64xbf16>
  return
}

// -----

func.func @grouped_wgrad_c2(%a: tensor<64x32xbf16>, %b: tensor<64x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'a' and 'out' to have one element type, but got 'bf16' and 'f16'}}
  %y = te.grouped_wgrad %a, %b, %sizes {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<64x64xbf16>, tensor<2xi32> -> tensor<2x32x64xf16>
  return
}

// -----

func.func @grouped_wgrad_c3(%a: tensor<64x32xbf16>, %b: tensor<64x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'alignment' to be one or more, but got -16}}
  %y = te.grouped_wgrad %a, %b, %sizes {alignment = -16 : i64} : tensor<64x32xbf16>, tensor<64x64xbf16>, tensor<2xi32> -> tensor<2x32x64xbf16>
  return
}

// -----

func.func @grouped_bias_grad_c1(%x: tensor<64x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'db' to have shape 2x64, but got 3x64}}
  %d = te.grouped_bias_grad %x, %sizes {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2xi32> -> tensor<3x64xbf16>
  return
}

// -----

func.func @grouped_bias_grad_c2(%x: tensor<64x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected the rows to be a multiple of the alignment 48, but got 64}}
  %d = te.grouped_bias_grad %x, %sizes {alignment = 48 : i64} : tensor<64x64xbf16>, tensor<2xi32> -> tensor<2x64xbf16>
  return
}

// -----

func.func @grouped_linear_c1(%x: tensor<64x64xbf16>, %w: tensor<2x32x64xbf16>, %sizes: tensor<3xi32>) {
  // expected-error @below {{expected 'group_sizes' to have shape 2, but got 3}}
  %y = te.grouped_linear %x, %w, %sizes {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<3xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_linear_c1_no_groups(%x: tensor<64x64xbf16>, %w: tensor<0x32x64xbf16>, %sizes: tensor<0xi32>) {
  // expected-error @below {{expected one group or more, but got 0}}
  %y = te.grouped_linear %x, %w, %sizes {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<0x32x64xbf16>, tensor<0xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_linear_dgrad_c1_no_groups(%x: tensor<64x32xbf16>, %w: tensor<0x32x64xbf16>, %sizes: tensor<0xi32>) {
  // expected-error @below {{expected one group or more, but got 0}}
  %y = te.grouped_linear_dgrad %x, %w, %sizes {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<0x32x64xbf16>, tensor<0xi32> -> tensor<64x64xbf16>
  return
}

// -----

func.func @grouped_linear_wgrad_c1_no_groups(%dy: tensor<64x32xbf16>, %x: tensor<64x64xbf16>, %sizes: tensor<0xi32>) {
  // expected-error @below {{expected one group or more, but got 0}}
  %dw = te.grouped_linear_wgrad %dy, %x, %sizes {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<64x64xbf16>, tensor<0xi32> -> tensor<0x32x64xbf16>
  return
}

// -----

func.func @grouped_linear_c2(%x: tensor<64x64xbf16>, %w: tensor<2x32x64xbf16>, %sizes: tensor<2xi32>, %b: tensor<2x64xbf16>) {
  // expected-error @below {{expected 'bias' to have shape 2x32, but got 2x64}}
  %y = te.grouped_linear %x, %w, %sizes bias %b : tensor<2x64xbf16> {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_linear_c3(%x: tensor<64x64xbf16>, %w: tensor<2x32x64xf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'x' and 'w' to have one element type, but got 'bf16' and 'f16'}}
  %y = te.grouped_linear %x, %w, %sizes {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2x32x64xf16>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_linear_c4(%x: tensor<64x64xbf16>, %w: tensor<2x32x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected the rows to be a multiple of the alignment 128, but got 64}}
  %y = te.grouped_linear %x, %w, %sizes {alignment = 128 : i64} : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_linear_dgrad_c1(%x: tensor<64x32xbf16>, %w: tensor<2x32x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'dx' to have shape 64x64, but got 64x32}}
  %y = te.grouped_linear_dgrad %x, %w, %sizes {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_linear_dgrad_c2(%x: tensor<64x32xbf16>, %w: tensor<2x32x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'dy' and 'dx' to have one element type, but got 'bf16' and 'f32'}}
  %y = te.grouped_linear_dgrad %x, %w, %sizes {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x64xf32>
  return
}

// -----

func.func @grouped_linear_dgrad_c3(%x: tensor<64x32xbf16>, %w: tensor<2x32x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'alignment' to be one or more, but got 0}}
  %y = te.grouped_linear_dgrad %x, %w, %sizes {alignment = 0 : i64} : tensor<64x32xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x64xbf16>
  return
}

// -----

func.func @grouped_linear_wgrad_c1(%x: tensor<64x32xbf16>, %w: tensor<64x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'dw' to have shape 2x32x64, but got 3x32x64}}
  %y = te.grouped_linear_wgrad %x, %w, %sizes {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<64x64xbf16>, tensor<2xi32> -> tensor<3x32x64xbf16>
  return
}

// -----

func.func @grouped_linear_wgrad_c2(%x: tensor<64x32xbf16>, %w: tensor<64x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'dy' and 'dw' to have one element type, but got 'bf16' and 'f16'}}
  %y = te.grouped_linear_wgrad %x, %w, %sizes {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<64x64xbf16>, tensor<2xi32> -> tensor<2x32x64xf16>
  return
}

// -----

func.func @grouped_linear_wgrad_c3(%x: tensor<64x32xbf16>, %w: tensor<64x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected the rows to be a multiple of the alignment 48, but got 64}}
  %y = te.grouped_linear_wgrad %x, %w, %sizes {alignment = 48 : i64} : tensor<64x32xbf16>, tensor<64x64xbf16>, tensor<2xi32> -> tensor<2x32x64xbf16>
  return
}

// -----

func.func @grouped_scaled_wgrad_c6(%a: !te.scaled<64x32xf8E5M2, per_tensor, contract = 0, groups = 2>, %b: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0, groups = 2>, %sizes: tensor<2xi32>, %sum: tensor<2x32x64xf32>) {
  // expected-error @below {{expected 'accumulate' to have the result's type 'tensor<2x32x64xbf16>', but got 'tensor<2x32x64xf32>'}}
  %y = te.grouped_scaled_wgrad %a, %b, %sizes accumulate %sum : tensor<2x32x64xf32> fast_accumulation = false {alignment = 16 : i64} : !te.scaled<64x32xf8E5M2, per_tensor, contract = 0, groups = 2>, !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0, groups = 2>, tensor<2xi32> -> tensor<2x32x64xbf16>
  return
}

// -----

func.func @grouped_wgrad_c4(%a: tensor<64x32xbf16>, %b: tensor<64x64xbf16>, %sizes: tensor<2xi32>, %sum: tensor<3x32x64xf32>) {
  // expected-error @below {{expected 'accumulate' to have the result's type 'tensor<2x32x64xf32>', but got 'tensor<3x32x64xf32>'}}
  %y = te.grouped_wgrad %a, %b, %sizes accumulate %sum : tensor<3x32x64xf32> {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<64x64xbf16>, tensor<2xi32> -> tensor<2x32x64xf32>
  return
}

// -----

func.func @grouped_linear_wgrad_c4(%dy: tensor<64x32xbf16>, %x: tensor<64x64xbf16>, %sizes: tensor<2xi32>, %sum: tensor<2x32x64xf32>) {
  // expected-error @below {{expected 'accumulate' to have the result's type 'tensor<2x32x64xbf16>', but got 'tensor<2x32x64xf32>'}}
  %y = te.grouped_linear_wgrad %dy, %x, %sizes accumulate %sum : tensor<2x32x64xf32> {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<64x64xbf16>, tensor<2xi32> -> tensor<2x32x64xbf16>
  return
}

// -----

func.func @wide_sizes(%x: tensor<64x64xbf16>, %sizes: tensor<2xi64>) {
  // expected-error @below {{operand #1 must be sizes of groups, a 1-D tensor of i32 (cast those of i64 before the step takes them), but got 'tensor<2xi64>'}}
  %a = "te.grouped_amax"(%x, %sizes) {alignment = 16 : i64} : (tensor<64x64xbf16>, tensor<2xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @grouped_scaled_matmul_c1_axis(%a: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0, groups = 2>, %b: !te.scaled<2x32x64xf8E4M3FN, per_tensor, contract = 1>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'a' to be made for axis 1 with 2 groups, but got}}
  %y = te.grouped_scaled_matmul %a, %b, %sizes fast_accumulation = true {alignment = 16 : i64} : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0, groups = 2>, !te.scaled<2x32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_scaled_matmul_c1_matrix(%a: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>, %b: !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'b' to be a stack of 2 matrices, but got}}
  %y = te.grouped_scaled_matmul %a, %b, %sizes fast_accumulation = true {alignment = 16 : i64} : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>, !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_scaled_matmul_c2_result(%a: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>, %b: !te.scaled<2x32x64xf8E4M3FN, per_tensor, contract = 1>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'out' to have shape 64x32, but got 32x64}}
  %y = te.grouped_scaled_matmul %a, %b, %sizes fast_accumulation = true {alignment = 16 : i64} : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>, !te.scaled<2x32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<2xi32> -> tensor<32x64xbf16>
  return
}

// -----

func.func @grouped_scaled_matmul_row_scaled(%a: !te.scaled<64x64xf4E2M1FN, nv_1x16, contract = 1, groups = 2>, %b: !te.scaled<2x32x64xf4E2M1FN, nv_1x16, row_scaled, contract = 1>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'b' not to be row-scaled, but got}}
  %y = te.grouped_scaled_matmul %a, %b, %sizes fast_accumulation = false {alignment = 32 : i64} : !te.scaled<64x64xf4E2M1FN, nv_1x16, contract = 1, groups = 2>, !te.scaled<2x32x64xf4E2M1FN, nv_1x16, row_scaled, contract = 1>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_scaled_wgrad_c1_groups(%a: !te.scaled<64x32xf8E5M2, per_tensor, contract = 0, groups = 2>, %b: !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0, groups = 3>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'b' to be made for axis 0 with 2 groups, but got}}
  %y = te.grouped_scaled_wgrad %a, %b, %sizes fast_accumulation = false {alignment = 16 : i64} : !te.scaled<64x32xf8E5M2, per_tensor, contract = 0, groups = 2>, !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0, groups = 3>, tensor<2xi32> -> tensor<2x32x64xbf16>
  return
}

// -----

func.func @grouped_scaled_wgrad_c1_rows(%a: !te.scaled<64x32xf8E5M2, per_tensor, contract = 0, groups = 2>, %b: !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 0, groups = 2>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected the rows of 'a' and 'b' to agree, but got 64 and 32}}
  %y = te.grouped_scaled_wgrad %a, %b, %sizes fast_accumulation = false {alignment = 16 : i64} : !te.scaled<64x32xf8E5M2, per_tensor, contract = 0, groups = 2>, !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 0, groups = 2>, tensor<2xi32> -> tensor<2x32x64xbf16>
  return
}

// -----

func.func @grouped_matmul_c1_groups(%a: tensor<64x64xbf16>, %b: tensor<2x32x64xbf16>, %sizes: tensor<3xi32>) {
  // expected-error @below {{expected the matrices of 'b' and 'group_sizes' to agree, but got 2 and 3}}
  %y = te.grouped_matmul %a, %b, %sizes contract = 1 {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<3xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_matmul_c1_result(%a: tensor<64x64xbf16>, %b: tensor<2x32x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'out' to have shape 64x32, but got 32x64}}
  %y = te.grouped_matmul %a, %b, %sizes contract = 1 {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<32x64xbf16>
  return
}

// -----

func.func @grouped_matmul_c2_result(%a: tensor<64x64xbf16>, %b: tensor<2x32x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'a' and 'out' to have one element type, but got 'bf16' and 'f16'}}
  %y = te.grouped_matmul %a, %b, %sizes contract = 1 {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x32xf16>
  return
}

// -----

func.func @grouped_matmul_c3_bias(%a: tensor<64x64xbf16>, %b: tensor<2x32x64xbf16>, %sizes: tensor<2xi32>, %bias: tensor<2x64xbf16>) {
  // expected-error @below {{expected 'bias' to have shape 2x32, but got 2x64}}
  %y = te.grouped_matmul %a, %b, %sizes bias %bias : tensor<2x64xbf16> contract = 1 {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_matmul_c3_bias_type(%a: tensor<64x64xbf16>, %b: tensor<2x32x64xbf16>, %sizes: tensor<2xi32>, %bias: tensor<2x32xf32>) {
  // expected-error @below {{expected 'bias' and 'a' to have one element type, but got 'f32' and 'bf16'}}
  %y = te.grouped_matmul %a, %b, %sizes bias %bias : tensor<2x32xf32> contract = 1 {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_matmul_c3_bias_result(%a: tensor<64x64xbf16>, %b: tensor<2x32x64xbf16>, %sizes: tensor<2xi32>, %bias: tensor<2x32xbf16>) {
  // expected-error @below {{expected 'bias' and 'out' to have one element type, but got 'bf16' and 'f32'}}
  %y = te.grouped_matmul %a, %b, %sizes bias %bias : tensor<2x32xbf16> contract = 1 {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x32xf32>
  return
}

// -----

func.func @grouped_wgrad_c1_result(%a: tensor<64x32xbf16>, %b: tensor<64x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'out' to have shape 2x32x64, but got 2x64x32}}
  %y = te.grouped_wgrad %a, %b, %sizes {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<64x64xbf16>, tensor<2xi32> -> tensor<2x64x32xbf16>
  return
}

// -----

func.func @grouped_wgrad_c2_operands(%a: tensor<64x32xbf16>, %b: tensor<64x64xf32>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'a' and 'b' to have one element type, but got 'bf16' and 'f32'}}
  %y = te.grouped_wgrad %a, %b, %sizes {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<64x64xf32>, tensor<2xi32> -> tensor<2x32x64xbf16>
  return
}

// -----

func.func @grouped_wgrad_c2_alpha(%a: tensor<64x32xbf16>, %b: tensor<64x64xbf16>, %sizes: tensor<2xi32>, %alpha: tensor<3xf32>) {
  // expected-error @below {{expected 'alpha' to have shape 2, but got 3}}
  %y = te.grouped_wgrad %a, %b, %sizes alpha %alpha : tensor<3xf32> {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<64x64xbf16>, tensor<2xi32> -> tensor<2x32x64xbf16>
  return
}

// -----

func.func @grouped_linear_c1_contracted(%x: tensor<64x32xbf16>, %w: tensor<2x32x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected the contracting sizes of 'x' and 'w' to agree, but got 32 and 64}}
  %y = te.grouped_linear %x, %w, %sizes {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_linear_c1_result(%x: tensor<64x64xbf16>, %w: tensor<2x32x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'y' to have shape 64x32, but got 64x64}}
  %y = te.grouped_linear %x, %w, %sizes {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x64xbf16>
  return
}

// -----

func.func @grouped_linear_c3_result(%x: tensor<64x64xbf16>, %w: tensor<2x32x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'x' and 'y' to have one element type, but got 'bf16' and 'f32'}}
  %y = te.grouped_linear %x, %w, %sizes {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x32xf32>
  return
}

// -----

func.func @grouped_linear_c3_bias(%x: tensor<64x64xbf16>, %w: tensor<2x32x64xbf16>, %sizes: tensor<2xi32>, %b: tensor<2x32xf32>) {
  // expected-error @below {{expected 'x' and 'bias' to have one element type, but got 'bf16' and 'f32'}}
  %y = te.grouped_linear %x, %w, %sizes bias %b : tensor<2x32xf32> {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x32xbf16>
  return
}

// -----

func.func @grouped_linear_dgrad_c1_contracted(%x: tensor<64x64xbf16>, %w: tensor<2x32x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected the contracting sizes of 'dy' and 'w' to agree, but got 64 and 32}}
  %y = te.grouped_linear_dgrad %x, %w, %sizes {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x64xbf16>
  return
}

// -----

func.func @grouped_linear_dgrad_c1_groups(%x: tensor<64x32xbf16>, %w: tensor<2x32x64xbf16>, %sizes: tensor<3xi32>) {
  // expected-error @below {{expected 'group_sizes' to have shape 2, but got 3}}
  %y = te.grouped_linear_dgrad %x, %w, %sizes {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<2x32x64xbf16>, tensor<3xi32> -> tensor<64x64xbf16>
  return
}

// -----

func.func @grouped_linear_dgrad_c2_weight(%x: tensor<64x32xbf16>, %w: tensor<2x32x64xf32>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'dy' and 'w' to have one element type, but got 'bf16' and 'f32'}}
  %y = te.grouped_linear_dgrad %x, %w, %sizes {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<2x32x64xf32>, tensor<2xi32> -> tensor<64x64xbf16>
  return
}

// -----

func.func @grouped_linear_wgrad_c1_rows(%dy: tensor<64x32xbf16>, %x: tensor<32x64xbf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected the rows of 'dy' and 'x' to agree, but got 64 and 32}}
  %y = te.grouped_linear_wgrad %dy, %x, %sizes {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<32x64xbf16>, tensor<2xi32> -> tensor<2x32x64xbf16>
  return
}

// -----

func.func @grouped_linear_wgrad_c2_operands(%dy: tensor<64x32xbf16>, %x: tensor<64x64xf16>, %sizes: tensor<2xi32>) {
  // expected-error @below {{expected 'dy' and 'x' to have one element type, but got 'bf16' and 'f16'}}
  %y = te.grouped_linear_wgrad %dy, %x, %sizes {alignment = 16 : i64} : tensor<64x32xbf16>, tensor<64x64xf16>, tensor<2xi32> -> tensor<2x32x64xbf16>
  return
}
