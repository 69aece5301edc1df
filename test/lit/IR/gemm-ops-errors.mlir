// Each function violates one constraint, whose label the error contains.
// RUN: te-opt %s --split-input-file --verify-diagnostics

func.func @scaled_matmul_c1(%a: !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, %b: !te.scaled<16x64xf8E4M3FN, per_tensor, contract = 0>) {
  // expected-error @below {{expected 'a' and 'b' to agree on the contracted size, but got 64 and 16; 'a' is contracted along axis 1, 'b' along axis 0}}
  %y = te.scaled_matmul %a, %b fast_accumulation = true : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<16x64xf8E4M3FN, per_tensor, contract = 0> -> tensor<32x16xbf16>
  return
}

// -----

func.func @scaled_matmul_c12(%a: !te.scaled<32x48xf8E4M3FN, per_tensor, contract = 1>, %b: !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>) {
  // expected-error @below {{expected 'contract' to hold two axes, each 0 or 1}}
  %y = te.scaled_matmul %a, %b fast_accumulation = true contract = [0, 2] : !te.scaled<32x48xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1> -> tensor<48x64xbf16>
  return
}

// -----

func.func @scaled_matmul_c12_one_axis(%a: !te.scaled<32x48xf8E4M3FN, per_tensor, contract = 1>, %b: !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>) {
  // expected-error @below {{expected 'contract' to hold two axes, each 0 or 1}}
  %y = te.scaled_matmul %a, %b fast_accumulation = true contract = [0] : !te.scaled<32x48xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1> -> tensor<48x64xbf16>
  return
}

// -----

func.func @scaled_matmul_c12_scheme(%a: !te.scaled<32x48xf8E4M3FN, block_1x128, contract = 1>, %b: !te.scaled<32x64xf8E4M3FN, block_1x128, contract = 0>) {
  // expected-error @below {{expected 'a', which is contracted along axis 0 and was made for axis 1, to be 'per_tensor', but got 'block_1x128'}}
  %y = te.scaled_matmul %a, %b fast_accumulation = false contract = [0, 0] : !te.scaled<32x48xf8E4M3FN, block_1x128, contract = 1>, !te.scaled<32x64xf8E4M3FN, block_1x128, contract = 0> -> tensor<48x64xbf16>
  return
}

// -----

func.func @scaled_matmul_c12_size(%a: !te.scaled<32x48xf8E4M3FN, per_tensor, contract = 1>, %b: !te.scaled<32x56xf8E4M3FN, per_tensor, contract = 1>) {
  // expected-error @below {{expected the axis that 'b' was made for to be a multiple of 16, but got 56}}
  %y = te.scaled_matmul %a, %b fast_accumulation = false contract = [0, 0] : !te.scaled<32x48xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<32x56xf8E4M3FN, per_tensor, contract = 1> -> tensor<48x56xbf16>
  return
}

// -----

func.func @scaled_matmul_c2(%a: !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, %b: !te.scaled<16x64xf8E4M3FN, per_tensor, contract = 1>) {
  // expected-error @below {{expected 'out' to have shape 32x16, but got 16x32}}
  %y = te.scaled_matmul %a, %b fast_accumulation = true : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<16x64xf8E4M3FN, per_tensor, contract = 1> -> tensor<16x32xbf16>
  return
}

// -----

func.func @scaled_matmul_c3(%a: !te.scaled<32x64xf8E4M3FN, block_128x128, contract = 1>, %b: !te.scaled<16x64xf8E4M3FN, block_128x128, contract = 1>) {
  // expected-error @below {{expected two schemes that a target multiplies, but got 'block_128x128' and 'block_128x128': tensor cores apply a scale to every row of one operand at least; the nearest supported pair is 'block_1x128' and 'block_128x128'}}
  %y = te.scaled_matmul %a, %b fast_accumulation = false : !te.scaled<32x64xf8E4M3FN, block_128x128, contract = 1>, !te.scaled<16x64xf8E4M3FN, block_128x128, contract = 1> -> tensor<32x16xbf16>
  return
}

// -----

func.func @scaled_matmul_c4(%a: !te.scaled<32x64xf8E5M2, per_tensor, contract = 1>, %b: !te.scaled<16x64xf8E5M2, per_tensor, contract = 1>) {
  // expected-error @below {{expected two element types that a target multiplies, but got 'f8E5M2' and 'f8E5M2': no tensor core multiplies two of 'f8E5M2'; the nearest supported pair is 'f8E4M3FN' and 'f8E5M2'}}
  %y = te.scaled_matmul %a, %b fast_accumulation = false : !te.scaled<32x64xf8E5M2, per_tensor, contract = 1>, !te.scaled<16x64xf8E5M2, per_tensor, contract = 1> -> tensor<32x16xbf16>
  return
}

// -----

func.func @scaled_matmul_c5(%a: !te.scaled<32x64xf8E4M3FN, block_1x128, contract = 1>, %b: !te.scaled<16x64xf8E4M3FN, block_128x128, contract = 1>) {
  // expected-error @below {{expected 'fast_accumulation' to be off for 'block_1x128' and 'block_128x128', which scale every slice of the contracted axis, but got it on}}
  %y = te.scaled_matmul %a, %b fast_accumulation = true : !te.scaled<32x64xf8E4M3FN, block_1x128, contract = 1>, !te.scaled<16x64xf8E4M3FN, block_128x128, contract = 1> -> tensor<32x16xbf16>
  return
}

// -----

func.func @scaled_matmul_c6(%a: !te.scaled<32x40xf8E4M3FN, per_tensor, contract = 1>, %b: !te.scaled<16x40xf8E4M3FN, per_tensor, contract = 1>) {
  // expected-error @below {{expected the contracted size to be a multiple of 16, but got 40; the smallest padded size is 48}}
  %y = te.scaled_matmul %a, %b fast_accumulation = true : !te.scaled<32x40xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<16x40xf8E4M3FN, per_tensor, contract = 1> -> tensor<32x16xbf16>
  return
}

// -----

func.func @scaled_matmul_c7_rows(%a: !te.scaled<20x64xf8E4M3FN, block_1x128, contract = 1>, %b: !te.scaled<16x64xf8E4M3FN, block_128x128, contract = 1>) {
  // expected-error @below {{expected the rows of the result to be a multiple of 8, but got 20; the smallest padded size is 24}}
  %y = te.scaled_matmul %a, %b fast_accumulation = false : !te.scaled<20x64xf8E4M3FN, block_1x128, contract = 1>, !te.scaled<16x64xf8E4M3FN, block_128x128, contract = 1> -> tensor<20x16xbf16>
  return
}

// -----

func.func @scaled_matmul_c7_columns(%a: !te.scaled<3x64xf8E4M3FN, per_tensor, contract = 1>, %b: !te.scaled<20x64xf8E4M3FN, per_tensor, contract = 1>) {
  // expected-error @below {{expected the columns of the result to be a multiple of 8, but got 20; the smallest padded size is 24}}
  %y = te.scaled_matmul %a, %b fast_accumulation = true : !te.scaled<3x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<20x64xf8E4M3FN, per_tensor, contract = 1> -> tensor<3x20xbf16>
  return
}

// -----

func.func @scaled_matmul_c8(%a: !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, %b: !te.scaled<16x64xf8E4M3FN, per_tensor, contract = 1>, %bias: tensor<32xbf16>) {
  // expected-error @below {{expected 'bias' to have shape 16, but got 32}}
  %y = te.scaled_matmul %a, %b bias %bias : tensor<32xbf16> fast_accumulation = true : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<16x64xf8E4M3FN, per_tensor, contract = 1> -> tensor<32x16xbf16>
  return
}

// -----

func.func @scaled_matmul_c8_f16(%a: !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, %b: !te.scaled<16x64xf8E4M3FN, per_tensor, contract = 1>, %bias: tensor<16xbf16>) {
  // expected-error @below {{expected the result of 'per_tensor' and 'per_tensor' with a 'bias' to be 'f32' or 'bf16', but got 'f16'}}
  %y = te.scaled_matmul %a, %b bias %bias : tensor<16xbf16> fast_accumulation = true : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<16x64xf8E4M3FN, per_tensor, contract = 1> -> tensor<32x16xf16>
  return
}

// -----

func.func @scaled_matmul_c8_accumulate(%a: !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, %b: !te.scaled<16x64xf8E4M3FN, per_tensor, contract = 1>, %c: tensor<32x16xf32>) {
  // expected-error @below {{expected 'accumulate' to have the result's type 'tensor<32x16xbf16>', but got 'tensor<32x16xf32>'}}
  %y = te.scaled_matmul %a, %b accumulate %c : tensor<32x16xf32> fast_accumulation = true : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<16x64xf8E4M3FN, per_tensor, contract = 1> -> tensor<32x16xbf16>
  return
}

// -----

func.func @matmul_c1(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) {
  // expected-error @below {{expected 'contract' to hold two axes, each 0 or 1}}
  %y = te.matmul %a, %b contract = [1, 2] : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @matmul_c2(%a: tensor<4x8xf32>, %b: tensor<4x6xf32>) {
  // expected-error @below {{expected 'a' and 'b' to agree on the contracting size, but got 8 and 6}}
  %y = te.matmul %a, %b contract = [1, 1] : tensor<4x8xf32>, tensor<4x6xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @matmul_c2_types(%a: tensor<4x8xf32>, %b: tensor<4x8xbf16>) {
  // expected-error @below {{expected 'a' and 'b' to have one element type, but got 'f32' and 'bf16'}}
  %y = te.matmul %a, %b contract = [1, 1] : tensor<4x8xf32>, tensor<4x8xbf16> -> tensor<4x4xf32>
  return
}

// -----

func.func @matmul_c3(%a: tensor<4x8xf32>, %b: tensor<6x8xf32>) {
  // expected-error @below {{expected 'out' to have shape 4x6, but got 6x4}}
  %y = te.matmul %a, %b contract = [1, 1] : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<6x4xf32>
  return
}

// -----

func.func @matmul_c4(%a: tensor<4x8xf32>, %b: tensor<6x8xf32>, %bias: tensor<6xbf16>) {
  // expected-error @below {{expected 'bias' and 'out' to have one element type, but got 'bf16' and 'f32'}}
  %y = te.matmul %a, %b bias %bias : tensor<6xbf16> contract = [1, 1] : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
  return
}

// -----

func.func @matmul_c4_result(%a: tensor<4x8xbf16>, %b: tensor<6x8xbf16>, %bias: tensor<6xbf16>) {
  // expected-error @below {{expected 'bias' and 'out' to have one element type, but got 'bf16' and 'f32'}}
  %y = te.matmul %a, %b bias %bias : tensor<6xbf16> contract = [1, 1] : tensor<4x8xbf16>, tensor<6x8xbf16> -> tensor<4x6xf32>
  return
}

// -----

func.func @linear_c1(%x: tensor<4x8xf32>, %w: tensor<6x4xf32>) {
  // expected-error @below {{expected 'x' and 'w' to agree on the contracting size, but got 8 and 4}}
  %y = te.linear %x, %w : tensor<4x8xf32>, tensor<6x4xf32> -> tensor<4x6xf32>
  return
}

// -----

func.func @linear_c2(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{expected 'bias' to have shape 6, but got 4}}
  %y = te.linear %x, %w bias %b : tensor<4xf32> : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
  return
}

// -----

func.func @linear_c3(%x: tensor<4x8xf32>, %w: tensor<6x8xbf16>) {
  // expected-error @below {{expected 'x' and 'w' to have one element type, but got 'f32' and 'bf16'}}
  %y = te.linear %x, %w : tensor<4x8xf32>, tensor<6x8xbf16> -> tensor<4x6xf32>
  return
}

// -----

func.func @linear_c5_shape(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>) {
  // expected-error @below {{expected 'x' and 'w' to agree on the contracting size, but got 8 and 6}}
  %y = te.linear %x, %w {transposed_weight} : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
  return
}

// -----

func.func @linear_c5_bias(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %b: tensor<8xf32>) {
  // expected-error @below {{expected 'bias' to have shape 6, but got 8}}
  %y = te.linear %x, %w bias %b : tensor<8xf32> {transposed_weight} : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
  return
}

// -----

func.func @linear_c5_parallel(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) {
  // expected-error @below {{expected no 'parallel' with 'transposed_weight', but got #te.parallel<column, group = 0>}}
  %y = te.linear %x, %w parallel <column, group = 0> {transposed_weight} : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
  return
}

// -----

func.func @linear_dgrad_c4(%dy: tensor<4x6xf32>, %w: tensor<6x8xf32>) {
  // expected-error @below {{expected 'dy' and 'w' to agree on the contracting size, but got 6 and 8}}
  %dx = te.linear_dgrad %dy, %w {transposed_weight} : tensor<4x6xf32>, tensor<6x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @linear_dgrad_c4_parallel(%dy: tensor<4x6xf32>, %w: tensor<8x6xf32>) {
  // expected-error @below {{expected no 'parallel' with 'transposed_weight'}}
  %dx = te.linear_dgrad %dy, %w parallel <row, group = 0> {transposed_weight} : tensor<4x6xf32>, tensor<8x6xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @linear_wgrad_c5(%dy: tensor<4x6xf32>, %x: tensor<4x8xf32>) {
  // expected-error @below {{expected 'dw' to have shape 8x6, but got 6x8}}
  %dw = te.linear_wgrad %dy, %x {transposed_weight} : tensor<4x6xf32>, tensor<4x8xf32> -> tensor<6x8xf32>
  return
}

// -----

func.func @linear_wgrad_c5_parallel(%dy: tensor<4x6xf32>, %x: tensor<4x8xf32>) {
  // expected-error @below {{expected no 'parallel' with 'transposed_weight'}}
  %dw = te.linear_wgrad %dy, %x parallel <row, group = 0> {transposed_weight} : tensor<4x6xf32>, tensor<4x8xf32> -> tensor<8x6xf32>
  return
}

// -----

func.func @linear_dgrad_c1(%dy: tensor<4x6xf32>, %w: tensor<8x6xf32>) {
  // expected-error @below {{expected 'dy' and 'w' to agree on the contracting size, but got 6 and 8}}
  %dx = te.linear_dgrad %dy, %w : tensor<4x6xf32>, tensor<8x6xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @linear_dgrad_c2(%dy: tensor<4x6xf32>, %w: tensor<6x8xbf16>) {
  // expected-error @below {{expected 'dy' and 'w' to have one element type, but got 'f32' and 'bf16'}}
  %dx = te.linear_dgrad %dy, %w : tensor<4x6xf32>, tensor<6x8xbf16> -> tensor<4x8xf32>
  return
}

// -----

func.func @linear_wgrad_c1(%dy: tensor<4x6xf32>, %x: tensor<2x8xf32>) {
  // expected-error @below {{expected 'x' and 'dy' to have the same rows, but got 2 and 4}}
  %dw = te.linear_wgrad %dy, %x : tensor<4x6xf32>, tensor<2x8xf32> -> tensor<6x8xf32>
  return
}

// -----

func.func @linear_wgrad_c2(%dy: tensor<4x6xbf16>, %x: tensor<4x8xbf16>) {
  // expected-error @below {{expected 'dy' and 'dw' to have one element type, but got 'bf16' and 'f16'}}
  %dw = te.linear_wgrad %dy, %x : tensor<4x6xbf16>, tensor<4x8xbf16> -> tensor<6x8xf16>
  return
}

// -----

func.func @bias_grad_c1(%dy: tensor<4x6xbf16>) {
  // expected-error @below {{expected 'db' to have shape 6, but got 4}}
  %db = te.bias_grad %dy : tensor<4x6xbf16> -> tensor<4xbf16>
  return
}

// -----

func.func @scaled_matmul_c9(%a: !te.scaled<32x32xf4E2M1FN, nv_1x16, hadamard, contract = 0>, %b: !te.scaled<32x32xf4E2M1FN, nv_1x16, contract = 0>) {
  // expected-error @below {{expected both operands or neither to be 'hadamard', but got}}
  %y = te.scaled_matmul %a, %b fast_accumulation = false : !te.scaled<32x32xf4E2M1FN, nv_1x16, hadamard, contract = 0>, !te.scaled<32x32xf4E2M1FN, nv_1x16, contract = 0> -> tensor<32x32xbf16>
  return
}

// -----

func.func @scaled_matmul_c10(%a: !te.scaled<32x32xf8E4M3FN, mx_1x32, swizzled, contract = 1>, %b: !te.scaled<32x32xf8E4M3FN, mx_1x32, contract = 1>) {
  // expected-error @below {{expected both operands or neither to be 'swizzled', but got}}
  %y = te.scaled_matmul %a, %b fast_accumulation = false : !te.scaled<32x32xf8E4M3FN, mx_1x32, swizzled, contract = 1>, !te.scaled<32x32xf8E4M3FN, mx_1x32, contract = 1> -> tensor<32x32xbf16>
  return
}

// -----

func.func @scaled_matmul_c11(%a: !te.scaled<32x32xf4E2M1FN, nv_1x16, contract = 1>, %b: !te.scaled<32x32xf4E2M1FN, nv_1x16, row_scaled, contract = 1>) {
  // expected-error @below {{expected 'b' not to be row-scaled, but got}}
  %y = te.scaled_matmul %a, %b fast_accumulation = false : !te.scaled<32x32xf4E2M1FN, nv_1x16, contract = 1>, !te.scaled<32x32xf4E2M1FN, nv_1x16, row_scaled, contract = 1> -> tensor<32x32xbf16>
  return
}

// -----

func.func @linear_wgrad_c3(%dy: tensor<4x6xbf16>, %x: tensor<4x8xbf16>, %sum: tensor<6x8xf32>) {
  // expected-error @below {{expected 'accumulate' to have the result's type 'tensor<6x8xbf16>', but got 'tensor<6x8xf32>'}}
  %dw = te.linear_wgrad %dy, %x accumulate %sum : tensor<6x8xf32> : tensor<4x6xbf16>, tensor<4x8xbf16> -> tensor<6x8xbf16>
  return
}

// -----

func.func @matmul_c1_one_axis(%a: tensor<4x8xf32>) {
  // expected-error @below {{expected 'contract' to hold two axes, each 0 or 1}}
  %y = te.matmul %a, %a contract = [1] : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @matmul_c4_bias(%a: tensor<4x8xf32>, %bias: tensor<8xf32>) {
  // expected-error @below {{expected 'bias' to have shape 4, but got 8}}
  %y = te.matmul %a, %a bias %bias : tensor<8xf32> contract = [1, 1] : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @matmul_c4_operand(%a: tensor<4x8xbf16>, %bias: tensor<4xf32>) {
  // expected-error @below {{expected 'bias' to have element type 'bf16', but got 'f32'}}
  %y = te.matmul %a, %a bias %bias : tensor<4xf32> contract = [1, 1] : tensor<4x8xbf16>, tensor<4x8xbf16> -> tensor<4x4xf32>
  return
}

// -----

func.func @linear_c1_result(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>) {
  // expected-error @below {{expected 'y' to have shape 4x6, but got 4x8}}
  %y = te.linear %x, %w : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @linear_c2_type(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>, %b: tensor<6xbf16>) {
  // expected-error @below {{expected 'bias' to have element type 'f32', but got 'bf16'}}
  %y = te.linear %x, %w bias %b : tensor<6xbf16> : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
  return
}

// -----

func.func @linear_c3_result(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>) {
  // expected-error @below {{expected 'x' and 'y' to have one element type, but got 'f32' and 'bf16'}}
  %y = te.linear %x, %w : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xbf16>
  return
}

// -----

func.func @linear_dgrad_c1_result(%dy: tensor<4x6xf32>, %w: tensor<6x8xf32>) {
  // expected-error @below {{expected 'dx' to have shape 4x8, but got 4x6}}
  %dx = te.linear_dgrad %dy, %w : tensor<4x6xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
  return
}

// -----

func.func @linear_wgrad_c2_operands(%dy: tensor<4x6xbf16>, %x: tensor<4x8xf32>) {
  // expected-error @below {{expected 'dy' and 'x' to have one element type, but got 'bf16' and 'f32'}}
  %dw = te.linear_wgrad %dy, %x : tensor<4x6xbf16>, tensor<4x8xf32> -> tensor<6x8xbf16>
  return
}

// -----

func.func @linear_bias_without_type(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>, %b: tensor<6xf32>) {
  // expected-error @below {{expected 'bias' to be followed by its own type, and the types of the other operands to begin with a second ':', as in 'bias %b : tensor<8xbf16> : tensor<4x16xbf16>, ...'}}
  %y = te.linear %x, %w bias %b : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
  return
}

// -----

func.func @linear_bias_without_colon(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %b: tensor<6xf32>) {
  // expected-error @below {{expected 'bias' to be followed by its own type}}
  %y = te.linear %x, %w bias %b {transposed_weight} : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
  return
}
