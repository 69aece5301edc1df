// RUN: te-opt %s --split-input-file --verify-diagnostics

// The constraints of te.by_rows.

func.func @by_rows_c1(%x: tensor<256x64xbf16>, %w: tensor<32x64xbf16>) {
  // expected-error @below {{expected the body to have an argument for each operand, of its type}}
  %y = te.by_rows (%x) with (%w) rows 128 : (tensor<256x64xbf16>, tensor<32x64xbf16>) -> tensor<256x64xbf16> {
  ^bb0(%a: tensor<256x64xbf16>, %b: tensor<64x64xbf16>):
    %c = te.matmul %a, %b contract = [1, 1] : tensor<256x64xbf16>, tensor<64x64xbf16> -> tensor<256x64xbf16>
    te.yield %c : tensor<256x64xbf16>
  }
  return
}

// -----

func.func @by_rows_c2(%x: tensor<256x64xbf16>, %t: tensor<128xi32>, %w: tensor<32x64xbf16>) {
  // expected-error @below {{expected input 1 to be 256 rows of a tensor, or of a scaled value for axis 1, but got 'tensor<128xi32>'}}
  %y = te.by_rows (%x, %t) with (%w) rows 128 : (tensor<256x64xbf16>, tensor<128xi32>, tensor<32x64xbf16>) -> tensor<256x32xbf16> {
  ^bb0(%a: tensor<256x64xbf16>, %u: tensor<128xi32>, %b: tensor<32x64xbf16>):
    %c = te.matmul %a, %b contract = [1, 1] : tensor<256x64xbf16>, tensor<32x64xbf16> -> tensor<256x32xbf16>
    te.yield %c : tensor<256x32xbf16>
  }
  return
}

// -----

func.func @by_rows_c2_scheme(%x: !te.scaled<256x64xf8E4M3FN, mx_1x32, contract = 1>, %w: !te.scaled<32x64xf8E4M3FN, mx_1x32, contract = 1>) {
  // expected-error @below {{of a scaled value for axis 1, but got '!te.scaled<256x64xf8E4M3FN, mx_1x32, contract = 1>'}}
  %y = te.by_rows (%x) with (%w) rows 128
      : (!te.scaled<256x64xf8E4M3FN, mx_1x32, contract = 1>, !te.scaled<32x64xf8E4M3FN, mx_1x32, contract = 1>) -> tensor<256x32xbf16> {
  ^bb0(%a: !te.scaled<256x64xf8E4M3FN, mx_1x32, contract = 1>, %b: !te.scaled<32x64xf8E4M3FN, mx_1x32, contract = 1>):
    %c = te.scaled_matmul %a, %b fast_accumulation = false
      : !te.scaled<256x64xf8E4M3FN, mx_1x32, contract = 1>, !te.scaled<32x64xf8E4M3FN, mx_1x32, contract = 1> -> tensor<256x32xbf16>
    te.yield %c : tensor<256x32xbf16>
  }
  return
}

// -----

func.func @by_rows_c3(%x: tensor<256x64xbf16>, %w: tensor<32x64xbf16>) {
  // expected-error @below {{expected 'rows' to be a positive multiple of 128, but got 64}}
  %y = te.by_rows (%x) with (%w) rows 64 : (tensor<256x64xbf16>, tensor<32x64xbf16>) -> tensor<256x32xbf16> {
  ^bb0(%a: tensor<256x64xbf16>, %b: tensor<32x64xbf16>):
    %c = te.matmul %a, %b contract = [1, 1] : tensor<256x64xbf16>, tensor<32x64xbf16> -> tensor<256x32xbf16>
    te.yield %c : tensor<256x32xbf16>
  }
  return
}

// -----

func.func @by_rows_c4_slice(%x: tensor<256x64xbf16>) {
  %y = te.by_rows (%x) rows 128 : (tensor<256x64xbf16>) -> tensor<128x64xbf16> {
  ^bb0(%a: tensor<256x64xbf16>):
    // expected-error @below {{expected an op that computes each row by itself, but it does not take the first columns}}
    %c = tensor.extract_slice %a[0, 0] [128, 64] [1, 1] : tensor<256x64xbf16> to tensor<128x64xbf16>
    te.yield %c : tensor<128x64xbf16>
  }
  return
}

// -----

func.func @by_rows_c4_concat(%x: tensor<256x64xbf16>) {
  %y = te.by_rows (%x) rows 128 : (tensor<256x64xbf16>) -> tensor<512x64xbf16> {
  ^bb0(%a: tensor<256x64xbf16>):
    // expected-error @below {{expected an op that computes each row by itself, but it does not concatenate columns}}
    %c = tensor.concat dim(0) %a, %a : (tensor<256x64xbf16>, tensor<256x64xbf16>) -> tensor<512x64xbf16>
    te.yield %c : tensor<512x64xbf16>
  }
  return
}

// -----

func.func @by_rows_c4_rank(%x: tensor<256x8x8xf32>) {
  %y = te.by_rows (%x) rows 128 : (tensor<256x8x8xf32>) -> tensor<256x8x8xf32> {
  ^bb0(%a: tensor<256x8x8xf32>):
    // expected-error @below {{expected an op that computes each row by itself, but it has other rows}}
    %c = math.tanh %a : tensor<256x8x8xf32>
    te.yield %c : tensor<256x8x8xf32>
  }
  return
}

// -----

func.func @by_rows_c4_reshape(%x: tensor<256x64xf32>) {
  %y = te.by_rows (%x) rows 128 : (tensor<256x64xf32>) -> tensor<2x128x64xf32> {
  ^bb0(%a: tensor<256x64xf32>):
    // expected-error @below {{expected an op that computes each row by itself, but it reshapes rows}}
    %c = tensor.expand_shape %a [[0, 1], [2]] output_shape [2, 128, 64] : tensor<256x64xf32> into tensor<2x128x64xf32>
    te.yield %c : tensor<2x128x64xf32>
  }
  return
}

// -----

func.func @by_rows_c6_elementwise(%x: tensor<256x64xf32>) {
  %y = te.by_rows (%x) rows 128 : (tensor<256x64xf32>) -> tensor<256x64xf32> {
  ^bb0(%a: tensor<256x64xf32>):
    %c = math.tanh %a : tensor<256x64xf32>
    // expected-error @below {{expected a result of a GEMM or a loss, a bias gradient, a cast for axis 0 or an amax that the body computes, but got a value of type 'tensor<256x64xf32>'}}
    te.yield %c : tensor<256x64xf32>
  }
  return
}

// -----

func.func @by_rows_c4_reduction(%x: tensor<256x64xf32>, %init: tensor<256xf32>) {
  %y = te.by_rows (%x, %init) rows 128 : (tensor<256x64xf32>, tensor<256xf32>) -> tensor<256xf32> {
  ^bb0(%a: tensor<256x64xf32>, %i: tensor<256xf32>):
    // expected-error @below {{expected an op that computes each row by itself, but it is not a loop over all elements}}
    %c = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
        ins(%a : tensor<256x64xf32>) outs(%i : tensor<256xf32>) {
    ^bb1(%e: f32, %o: f32):
      %s = arith.addf %e, %o : f32
      linalg.yield %s : f32
    } -> tensor<256xf32>
    te.yield %c : tensor<256xf32>
  }
  return
}

// -----

func.func @by_rows_c4(%x: tensor<256x64xbf16>) {
  %y = te.by_rows (%x) rows 128 : (tensor<256x64xbf16>) -> tensor<256x64xbf16> {
  ^bb0(%a: tensor<256x64xbf16>):
    // expected-error @below {{in 'te.by_rows': expected a GEMM of rows, te.cross_entropy, te.cross_entropy_backward, te.bias_grad, te.quantize or an elementwise op}}
    %c = te.softmax %a : tensor<256x64xbf16>
    te.yield %c : tensor<256x64xbf16>
  }
  return
}

// -----

func.func @by_rows_c4_sum(%x: tensor<256x64xbf16>, %w: tensor<256x32xbf16>) {
  %y = te.by_rows (%x) with (%w) rows 128 : (tensor<256x64xbf16>, tensor<256x32xbf16>) -> tensor<64x32xbf16> {
  ^bb0(%a: tensor<256x64xbf16>, %b: tensor<256x32xbf16>):
    // expected-error @below {{expected an op that computes each row by itself, but it sums over its rows}}
    %c = te.matmul %a, %b contract = [0, 0] : tensor<256x64xbf16>, tensor<256x32xbf16> -> tensor<64x32xbf16>
    te.yield %c : tensor<64x32xbf16>
  }
  return
}

// -----

func.func @by_rows_c4_scheme(%x: tensor<256x128xbf16>) {
  %y = te.by_rows (%x) rows 128 : (tensor<256x128xbf16>) -> !te.scaled<256x128xf8E4M3FN, block_128x128, pow2, contract = 0> {
  ^bb0(%a: tensor<256x128xbf16>):
    // expected-error @below {{expected an op that computes each row by itself, but its scheme is 'block_128x128'}}
    %c = te.quantize %a : tensor<256x128xbf16> -> !te.scaled<256x128xf8E4M3FN, block_128x128, pow2, contract = 0>
    te.yield %c : !te.scaled<256x128xf8E4M3FN, block_128x128, pow2, contract = 0>
  }
  return
}

// -----

func.func @by_rows_c5(%x: tensor<256x64xbf16>, %w: tensor<32x64xbf16>) {
  %y = te.by_rows (%x, %x) with (%w) rows 128 : (tensor<256x64xbf16>, tensor<256x64xbf16>, tensor<32x64xbf16>) -> tensor<256x256xbf16> {
  ^bb0(%a: tensor<256x64xbf16>, %b: tensor<256x64xbf16>, %w_: tensor<32x64xbf16>):
    // expected-error @below {{expected an operand of type 'tensor<256x64xbf16>' to be an argument for 'with'}}
    %c = te.matmul %a, %b contract = [1, 1] : tensor<256x64xbf16>, tensor<256x64xbf16> -> tensor<256x256xbf16>
    te.yield %c : tensor<256x256xbf16>
  }
  return
}

// -----

func.func @by_rows_c5_whole(%x: tensor<256x64xbf16>, %w: tensor<32x64xbf16>) {
  %y = te.by_rows (%x) with (%w) rows 128 : (tensor<256x64xbf16>, tensor<32x64xbf16>) -> tensor<32x32xbf16> {
  ^bb0(%a: tensor<256x64xbf16>, %b: tensor<32x64xbf16>):
    // expected-error @below {{expected an operand of type 'tensor<32x64xbf16>' to be computed by rows, but it is computed for all rows}}
    %c = te.matmul %b, %b contract = [1, 1] : tensor<32x64xbf16>, tensor<32x64xbf16> -> tensor<32x32xbf16>
    te.yield %c : tensor<32x32xbf16>
  }
  return
}

// -----

func.func @by_rows_c5_yield(%x: tensor<256x128xbf16>) {
  %y = te.by_rows (%x) rows 128 : (tensor<256x128xbf16>) -> !te.scaled<256x128xf8E4M3FN, block_1x128, pow2, contract = 1> {
  ^bb0(%a: tensor<256x128xbf16>):
    %c = te.quantize %a : tensor<256x128xbf16> -> !te.scaled<256x128xf8E4M3FN, block_1x128, pow2, contract = 1>
    // expected-error @below {{expected a result of a GEMM or a loss, a bias gradient, a cast for axis 0 or an amax that the body computes, but got a value of type '!te.scaled<256x128xf8E4M3FN, block_1x128, pow2, contract = 1>'}}
    te.yield %c : !te.scaled<256x128xf8E4M3FN, block_1x128, pow2, contract = 1>
  }
  return
}

// -----

func.func @by_rows_c6(%x: tensor<256x64xbf16>, %w: tensor<32x64xbf16>) {
  // expected-error @below {{expected the results to have the types of what te.yield returns}}
  %y = te.by_rows (%x) with (%w) rows 128 : (tensor<256x64xbf16>, tensor<32x64xbf16>) -> tensor<256x64xbf16> {
  ^bb0(%a: tensor<256x64xbf16>, %b: tensor<32x64xbf16>):
    %c = te.matmul %a, %b contract = [1, 1] : tensor<256x64xbf16>, tensor<32x64xbf16> -> tensor<256x32xbf16>
    te.yield %c : tensor<256x32xbf16>
  }
  return
}

// -----

func.func @by_rows_c2_none(%w: tensor<32x64xbf16>) {
  // expected-error @below {{expected inputs}}
  "te.by_rows"(%w) <{operandSegmentSizes = array<i32: 0, 1>, rows = 128 : i64}> ({
  ^bb0(%b: tensor<32x64xbf16>):
    "te.yield"() : () -> ()
  }) : (tensor<32x64xbf16>) -> ()
  return
}

// -----

func.func @by_rows_c2_axis(%x: !te.scaled<256x64xf8E4M3FN, per_tensor, contract = 0>) {
  // expected-error @below {{of a scaled value for axis 1, but got '!te.scaled<256x64xf8E4M3FN, per_tensor, contract = 0>'}}
  te.by_rows (%x) rows 128 : (!te.scaled<256x64xf8E4M3FN, per_tensor, contract = 0>) -> () {
  ^bb0(%a: !te.scaled<256x64xf8E4M3FN, per_tensor, contract = 0>):
    "te.yield"() : () -> ()
  }
  return
}

// -----

func.func @by_rows_c2_groups(%x: !te.scaled<256x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>) {
  // expected-error @below {{of a scaled value for axis 1, but got '!te.scaled<256x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>'}}
  te.by_rows (%x) rows 128 : (!te.scaled<256x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>) -> () {
  ^bb0(%a: !te.scaled<256x64xf8E4M3FN, per_tensor, contract = 1, groups = 2>):
    "te.yield"() : () -> ()
  }
  return
}

// -----

func.func @by_rows_c2_scalar(%x: tensor<f32>) {
  // expected-error @below {{of a scaled value for axis 1, but got 'tensor<f32>'}}
  te.by_rows (%x) rows 128 : (tensor<f32>) -> () {
  ^bb0(%a: tensor<f32>):
    "te.yield"() : () -> ()
  }
  return
}

// -----

func.func @by_rows_c3_negative(%x: tensor<256x64xbf16>) {
  // expected-error @below {{expected 'rows' to be a positive multiple of 128, but got 0}}
  te.by_rows (%x) rows 0 : (tensor<256x64xbf16>) -> () {
  ^bb0(%a: tensor<256x64xbf16>):
    "te.yield"() : () -> ()
  }
  return
}

// -----

func.func @by_rows_c4_accumulate(%x: tensor<256x64xbf16>, %w: tensor<32x64xbf16>, %sum: tensor<256x32xbf16>) {
  %y = te.by_rows (%x) with (%w, %sum) rows 128 : (tensor<256x64xbf16>, tensor<32x64xbf16>, tensor<256x32xbf16>) -> tensor<256x32xbf16> {
  ^bb0(%a: tensor<256x64xbf16>, %b: tensor<32x64xbf16>, %s: tensor<256x32xbf16>):
    // expected-error @below {{expected an op that computes each row by itself, but it has 'accumulate'}}
    %c = te.matmul %a, %b accumulate %s : tensor<256x32xbf16> contract = [1, 1] : tensor<256x64xbf16>, tensor<32x64xbf16> -> tensor<256x32xbf16>
    te.yield %c : tensor<256x32xbf16>
  }
  return
}

// -----

func.func @by_rows_c5_bias(%x: tensor<256x64xbf16>, %w: tensor<256x64xbf16>, %bias: tensor<256xbf16>) {
  %y = te.by_rows (%x, %bias) with (%w) rows 128 : (tensor<256x64xbf16>, tensor<256xbf16>, tensor<256x64xbf16>) -> tensor<256x256xbf16> {
  ^bb0(%a: tensor<256x64xbf16>, %d: tensor<256xbf16>, %b: tensor<256x64xbf16>):
    // expected-error @below {{expected an operand of type 'tensor<256xbf16>' to be an argument for 'with'}}
    %c = te.matmul %a, %b bias %d : tensor<256xbf16> contract = [1, 1] : tensor<256x64xbf16>, tensor<256x64xbf16> -> tensor<256x256xbf16>
    te.yield %c : tensor<256x256xbf16>
  }
  return
}

// -----

func.func @by_rows_c5_computed(%x: tensor<256x64xbf16>, %w: tensor<256x64xbf16>) {
  %y = te.by_rows (%x) with (%w) rows 128 : (tensor<256x64xbf16>, tensor<256x64xbf16>) -> tensor<256x256xbf16> {
  ^bb0(%a: tensor<256x64xbf16>, %b: tensor<256x64xbf16>):
    %c = te.matmul %a, %b contract = [1, 1] : tensor<256x64xbf16>, tensor<256x64xbf16> -> tensor<256x256xbf16>
    // expected-error @below {{expected an operand of type 'tensor<256x256xbf16>' to be an argument for 'with'}}
    %d = te.matmul %c, %c contract = [1, 1] : tensor<256x256xbf16>, tensor<256x256xbf16> -> tensor<256x256xbf16>
    te.yield %d : tensor<256x256xbf16>
  }
  return
}

// -----

func.func @by_rows_c5_argument(%x: tensor<256x64xbf16>) {
  %y = te.by_rows (%x) rows 128 : (tensor<256x64xbf16>) -> tensor<256x64xbf16> {
  ^bb0(%a: tensor<256x64xbf16>):
    // expected-error @below {{expected a result of a GEMM or a loss, a bias gradient, a cast for axis 0 or an amax that the body computes, but got a value of type 'tensor<256x64xbf16>'}}
    te.yield %a : tensor<256x64xbf16>
  }
  return
}

// -----

// A sum over all rows is not known before the last of them.
func.func @by_rows_c5_sum(%x: tensor<256x64xbf16>, %w: tensor<32x64xbf16>) {
  %y = te.by_rows (%x) with (%w) rows 128 : (tensor<256x64xbf16>, tensor<32x64xbf16>) -> tensor<256x32xbf16> {
  ^bb0(%a: tensor<256x64xbf16>, %b: tensor<32x64xbf16>):
    // expected-error @below {{expected an operand of type 'tensor<32x64xbf16>' to be computed by rows, but it is computed for all rows}}
    %sum = te.bias_grad %b : tensor<32x64xbf16> -> tensor<64xbf16>
    %c = te.matmul %a, %b contract = [1, 1] : tensor<256x64xbf16>, tensor<32x64xbf16> -> tensor<256x32xbf16>
    te.yield %c : tensor<256x32xbf16>
  }
  return
}

// -----

func.func @by_rows_c5_of_sum(%x: tensor<256x64xbf16>, %w: tensor<32x64xbf16>, %v: tensor<64x64xbf16>) {
  %y = te.by_rows (%x) with (%w, %v) rows 128 : (tensor<256x64xbf16>, tensor<32x64xbf16>, tensor<64x64xbf16>) -> tensor<256x32xbf16> {
  ^bb0(%a: tensor<256x64xbf16>, %b: tensor<32x64xbf16>, %w2: tensor<64x64xbf16>):
    %sum = te.bias_grad %a : tensor<256x64xbf16> -> tensor<64xbf16>
    %rows = te.matmul %a, %b contract = [1, 1] : tensor<256x64xbf16>, tensor<32x64xbf16> -> tensor<256x32xbf16>
    // expected-error @below {{expected an operand of type 'tensor<64xbf16>' to be an argument for 'with'}}
    %c = te.matmul %a, %w2 bias %sum : tensor<64xbf16> contract = [1, 1] : tensor<256x64xbf16>, tensor<64x64xbf16> -> tensor<256x64xbf16>
    te.yield %rows : tensor<256x32xbf16>
  }
  return
}

// -----

func.func @by_rows_c4_rounded(%w: tensor<256x64xf32>, %s: tensor<f32>) {
  %y = te.by_rows (%w) with (%s) rows 128 : (tensor<256x64xf32>, tensor<f32>) -> !te.scaled<256x64xf8E4M3FN, per_tensor, contract = 1> {
  ^bb0(%a: tensor<256x64xf32>, %t: tensor<f32>):
    // expected-error @below {{it rounds first}}
    %q = te.quantize %a scale %t {rounded = bf16} : tensor<256x64xf32> -> !te.scaled<256x64xf8E4M3FN, per_tensor, contract = 1>
    te.yield %q : !te.scaled<256x64xf8E4M3FN, per_tensor, contract = 1>
  }
  return
}
