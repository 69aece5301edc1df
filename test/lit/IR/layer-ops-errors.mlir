// Each function violates one constraint, whose label the error contains.
// RUN: te-opt %s --split-input-file --verify-diagnostics

func.func @rms_norm_c1(%x: tensor<4x8xf32>, %g: tensor<4xf32>) {
  // expected-error @below {{expected 'gamma' to have shape 8, but got 4}}
  %y = te.rms_norm %x, %g : tensor<4x8xf32>, tensor<4xf32>
  return
}

// -----

func.func @rms_norm_c2(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{expected 'rsigma' to have shape 4, but got 8}}
  %y, %r = te.rms_norm %x, %g : tensor<4x8xf32>, tensor<8xf32> rsigma tensor<8xf32>
  return
}

// -----

func.func @rms_norm_c3(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{expected 'epsilon' to be finite and not negative, but got -1}}
  %y = te.rms_norm %x, %g {epsilon = -1.0 : f32} : tensor<4x8xf32>, tensor<8xf32>
  return
}

// -----

func.func @rms_norm_c4(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{expected operand 'addend' and result 'sum' together, but got only 'addend'}}
  %y = te.rms_norm %x, %g plus %x : tensor<4x8xf32> : tensor<4x8xf32>, tensor<8xf32>
  return
}

// -----

func.func @rms_norm_c4_type(%x: tensor<4x8xf32>, %a: tensor<4x8xbf16>, %g: tensor<8xf32>) {
  // expected-error @below {{expected 'addend' to be 'tensor<4x8xf32>' as 'x' is, but got 'tensor<4x8xbf16>'}}
  %y, %s = te.rms_norm %x, %g plus %a : tensor<4x8xbf16> : tensor<4x8xf32>, tensor<8xf32> sum tensor<4x8xf32>
  return
}

// -----

func.func @rms_norm_c5(%x: tensor<4x8xf32>, %b: tensor<4x8xbf16>, %g: tensor<8xf32>) {
  // expected-error @below {{expected 'base' to be 'tensor<4x8xf32>' as 'x' is, but got 'tensor<4x8xbf16>'}}
  %y = te.rms_norm %x, %g onto %b : tensor<4x8xbf16> : tensor<4x8xf32>, tensor<8xf32>
  return
}

// -----

func.func @layer_norm_c5(%x: tensor<4x8xf32>, %b: tensor<1x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{expected 'base' to be 'tensor<4x8xf32>' as 'x' is, but got 'tensor<1x8xf32>'}}
  %y = te.layer_norm %x, %g, %g onto %b : tensor<1x8xf32> : tensor<4x8xf32>, tensor<8xf32>
  return
}

// -----

func.func @rms_norm_backward_c2(%dy: tensor<4x8xf32>, %a: tensor<4x4xf32>, %g: tensor<8xf32>, %r: tensor<4xf32>) {
  // expected-error @below {{expected 'addend' to be 'tensor<4x8xf32>' as 'x' is, but got 'tensor<4x4xf32>'}}
  %dx, %dg = te.rms_norm_backward %dy, %dy, %g, %r plus %a : tensor<4x4xf32> : tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>
  return
}

// -----

func.func @layer_norm_c4(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{expected operand 'addend' and result 'sum' together, but got only 'sum'}}
  %y, %s = te.layer_norm %x, %g, %g : tensor<4x8xf32>, tensor<8xf32> sum tensor<4x8xf32>
  return
}

// -----

func.func @layer_norm_backward_c2(%dy: tensor<4x8xf32>, %a: tensor<4x4xf32>, %g: tensor<8xf32>, %r: tensor<4xf32>) {
  // expected-error @below {{expected 'addend' to be 'tensor<4x8xf32>' as 'x' is, but got 'tensor<4x4xf32>'}}
  %dx, %dg, %db = te.layer_norm_backward %dy, %dy, %g, %r, %r plus %a : tensor<4x4xf32> : tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>
  return
}

// -----

func.func @rms_norm_backward_c1(%dy: tensor<4x8xf32>, %x: tensor<4x8xf32>, %g: tensor<8xbf16>, %r: tensor<4xf32>) {
  // expected-error @below {{expected 'gamma' and 'x' to have one element type, but got 'bf16' and 'f32'}}
  %dx, %dg = te.rms_norm_backward %dy, %x, %g, %r : tensor<4x8xf32>, tensor<8xbf16>, tensor<4xf32>
  return
}

// -----

func.func @layer_norm_c1(%x: tensor<4x8xf32>, %g: tensor<4xf32>) {
  // expected-error @below {{expected 'gamma' to have shape 8, but got 4}}
  %y = te.layer_norm %x, %g, %g : tensor<4x8xf32>, tensor<4xf32>
  return
}

// -----

func.func @layer_norm_c2(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{expected 'mu' to have shape 4, but got 8}}
  %y, %m, %r = te.layer_norm %x, %g, %g : tensor<4x8xf32>, tensor<8xf32> mu tensor<8xf32> rsigma tensor<4xf32>
  return
}

// -----

func.func @layer_norm_c2_both(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{expected results 'mu' and 'rsigma' together, but got only 'rsigma'}}
  %y, %r = te.layer_norm %x, %g, %g : tensor<4x8xf32>, tensor<8xf32> rsigma tensor<4xf32>
  return
}

// -----

func.func @layer_norm_c3(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{expected 'epsilon' to be finite and not negative, but got -1}}
  %y = te.layer_norm %x, %g, %g {epsilon = -1.0 : f32} : tensor<4x8xf32>, tensor<8xf32>
  return
}

// -----

func.func @layer_norm_backward_c1(%dy: tensor<4x8xf32>, %x: tensor<4x8xf32>, %g: tensor<8xf32>, %m: tensor<8xf32>) {
  // expected-error @below {{expected 'rsigma' to have shape 4, but got 8}}
  %dx, %dg, %db = te.layer_norm_backward %dy, %x, %g, %m, %m : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @activation_c1(%x: tensor<4x8xf32>) {
  // expected-error @below {{expected 'y' to have shape 4x4, but got 4x8}}
  %y = te.activation <swiglu> %x : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @activation_c1_odd(%x: tensor<4x7xf32>) {
  // expected-error @below {{expected 'x' to have an even number of columns for 'swiglu', but got 7}}
  %y = te.activation <swiglu> %x : tensor<4x7xf32> -> tensor<4x3xf32>
  return
}

// -----

func.func @activation_c2(%x: tensor<4x8xf32>) {
  // expected-error @below {{expected 'limit' to be finite and not negative, but got -7}}
  %y = te.activation <clamped_swiglu> %x {limit = -7.0 : f32} : tensor<4x8xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @activation_c2_finite(%x: tensor<4x8xf32>) {
  // expected-error @below {{expected 'alpha' to be finite, but got +Inf}}
  %y = te.activation <clamped_swiglu> %x {alpha = 0x7F800000 : f32} : tensor<4x8xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @activation_c2_kind(%x: tensor<4x8xf32>) {
  // expected-error @below {{expected 'offset' with kind 'clamped_swiglu' only, but got kind 'swiglu'}}
  %y = te.activation <swiglu> %x {offset = 0.0 : f32} : tensor<4x8xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @activation_c3(%x: tensor<4x8xf32>) {
  // expected-error @below {{expected 'gate' with gated kinds only, but got kind 'silu'}}
  %y = te.activation <silu> %x, %x : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @activation_c3_type(%x: tensor<4x8xf32>, %g: tensor<4x4xf32>) {
  // expected-error @below {{expected 'gate' to have the type of 'x', 'tensor<4x8xf32>', but got 'tensor<4x4xf32>'}}
  %y = te.activation <swiglu> %x, %g : tensor<4x8xf32>, tensor<4x4xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @activation_c1_apart(%x: tensor<4x8xf32>) {
  // expected-error @below {{expected 'y' to have shape 4x8, but got 4x4}}
  %y = te.activation <swiglu> %x, %x : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @activation_backward_c3(%x: tensor<4x8xf32>) {
  // expected-error @below {{expected results of 'gate' with it, and without it none, but got none with it}}
  %dx = te.activation_backward <swiglu> %x, %x, %x : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @activation_backward_c3_type(%x: tensor<4x8xf32>) {
  // expected-error @below {{expected 'dgate' to have the type of 'gate', 'tensor<4x8xf32>', but got 'tensor<4x4xf32>'}}
  %dx, %dg = te.activation_backward <swiglu> %x, %x, %x : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32> gate tensor<4x4xf32>
  return
}

// -----

func.func @activation_quantize_c4(%x: tensor<4x32xf32>) {
  // expected-error @below {{expected 'gate' with gated kinds only, but got kind 'gelu'}}
  %q = te.activation_quantize <gelu> %x, %x : tensor<4x32xf32>, tensor<4x32xf32> -> !te.scaled<4x32xf8E4M3FN, block_1x128, contract = 1>
  return
}

// -----

func.func @activation_backward_c1(%dy: tensor<4x8xf32>, %x: tensor<4x8xf32>) {
  // expected-error @below {{expected 'dy' to have shape 4x4, but got 4x8}}
  %dx = te.activation_backward <swiglu> %dy, %x : tensor<4x8xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @activation_backward_c2(%dy: tensor<4x4xf32>, %x: tensor<4x8xf32>) {
  // expected-error @below {{expected 'limit' with kind 'clamped_swiglu' only, but got kind 'geglu'}}
  %dx = te.activation_backward <geglu> %dy, %x {limit = 1.0 : f32} : tensor<4x4xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @activation_quantize_c1(%x: tensor<4x32xf32>) {
  // expected-error @below {{expected results of scheme 'block_1x128' or 'per_tensor', but got 'block_128x128'}}
  %q = te.activation_quantize <gelu> %x : tensor<4x32xf32> -> !te.scaled<4x32xf8E4M3FN, block_128x128, contract = 1>
  return
}

// -----

func.func @activation_quantize_c2(%x: tensor<4x32xf32>) {
  // expected-error @below {{expected 'amax_epsilon' to be finite and not negative, but got -1}}
  %q = te.activation_quantize <gelu> %x {amax_epsilon = -1.0 : f32} : tensor<4x32xf32> -> !te.scaled<4x32xf8E4M3FN, block_1x128, contract = 1>
  return
}

// -----

func.func @activation_quantize_c2_per_tensor(%x: tensor<4x32xf32>, %s: tensor<f32>) {
  // expected-error @below {{expected 'amax_epsilon' only for scheme 'block_1x128', but got it for 'per_tensor'}}
  %q = te.activation_quantize <gelu> %x scale %s {amax_epsilon = 1.0 : f32} : tensor<4x32xf32> -> !te.scaled<4x32xf8E4M3FN, per_tensor, contract = 1>
  return
}

// -----

func.func @activation_quantize_c5_no_scale(%x: tensor<4x32xf32>) {
  // expected-error @below {{expected 'scale' exactly for scheme 'per_tensor', but got none}}
  %q = te.activation_quantize <gelu> %x : tensor<4x32xf32> -> !te.scaled<4x32xf8E4M3FN, per_tensor, contract = 1>
  return
}

// -----

func.func @activation_quantize_c5_scale(%x: tensor<4x32xf32>, %s: tensor<f32>) {
  // expected-error @below {{expected 'scale' exactly for scheme 'per_tensor', but got one for 'block_1x128'}}
  %q = te.activation_quantize <gelu> %x scale %s : tensor<4x32xf32> -> !te.scaled<4x32xf8E4M3FN, block_1x128, contract = 1>
  return
}

// -----

func.func @activation_backward_quantize_c6(%dy: tensor<4x32xf32>, %x: tensor<4x32xf32>) {
  // expected-error @below {{expected one or two scaled results, but got 0}}
  %q = te.activation_backward_quantize <swiglu> %dy, %x, %x : tensor<4x32xf32>, tensor<4x32xf32>, tensor<4x32xf32> -> !te.scaled<4x32xf8E4M3FN, block_1x128, contract = 1>
  return
}

// -----

func.func @activation_backward_quantize_c6_no_gate(%dy: tensor<4x32xf32>, %x: tensor<4x32xf32>) {
  // expected-error @below {{expected results, 'gate_scale' and 'gate_amax' of a second gradient only with 'gate'}}
  %q, %g = te.activation_backward_quantize <gelu> %dy, %x : tensor<4x32xf32>, tensor<4x32xf32> -> !te.scaled<4x32xf8E4M3FN, block_1x128, contract = 1> gate !te.scaled<4x32xf8E4M3FN, block_1x128, contract = 1>
  return
}

// -----

func.func @activation_backward_quantize_c6_types(%dy: tensor<4x32xf32>, %x: tensor<4x32xf32>) {
  // expected-error @below {{expected both gradients to be cast alike, but got '!te.scaled<4x32xf8E4M3FN, block_1x128, contract = 1>' and '!te.scaled<4x32xf8E5M2, block_1x128, contract = 1>'}}
  %q, %g = te.activation_backward_quantize <swiglu> %dy, %x, %x : tensor<4x32xf32>, tensor<4x32xf32>, tensor<4x32xf32> -> !te.scaled<4x32xf8E4M3FN, block_1x128, contract = 1> gate !te.scaled<4x32xf8E5M2, block_1x128, contract = 1>
  return
}

// -----

func.func @activation_backward_quantize_c7(%dy: tensor<4x32xf32>, %x: tensor<4x32xf32>, %s: tensor<f32>) {
  // expected-error @below {{expected 'gate_scale' exactly for scheme 'per_tensor', but got none}}
  %q, %g = te.activation_backward_quantize <swiglu> %dy, %x, %x scale %s : tensor<4x32xf32>, tensor<4x32xf32>, tensor<4x32xf32> -> !te.scaled<4x32xf8E4M3FN, per_tensor, contract = 1> gate !te.scaled<4x32xf8E4M3FN, per_tensor, contract = 1>
  return
}

// -----

func.func @activation_backward_quantize_c5(%dy: tensor<4x32xf32>, %x: tensor<4x32xf32>) {
  // expected-error @below {{expected 'amax' only for scheme 'per_tensor', but got it for 'block_1x128'}}
  %q, %a = te.activation_backward_quantize <gelu> %dy, %x : tensor<4x32xf32>, tensor<4x32xf32> -> !te.scaled<4x32xf8E4M3FN, block_1x128, contract = 1> amax tensor<f32>
  return
}

// -----

func.func @activation_quantize_c3(%x: tensor<4x64xf32>) {
  // expected-error @below {{expected 'limit' to be finite and not negative, but got -1}}
  %q = te.activation_quantize <clamped_swiglu> %x {limit = -1.0 : f32} : tensor<4x64xf32> -> !te.scaled<4x32xf8E4M3FN, block_1x128, contract = 1>
  return
}

// -----

func.func @activation_backward_quantize_c1(%dy: tensor<4x32xf32>, %x: tensor<4x64xf32>) {
  // expected-error @below {{expected every result to have shape 4x64}}
  %q = te.activation_backward_quantize <swiglu> %dy, %x : tensor<4x32xf32>, tensor<4x64xf32> -> !te.scaled<4x32xf8E4M3FN, block_1x128, contract = 1>
  return
}

// -----

func.func @activation_backward_quantize_c2(%dy: tensor<4x64xf32>, %x: tensor<4x64xf32>) {
  // expected-error @below {{expected 'dy' to have shape 4x32, but got 4x64}}
  %q = te.activation_backward_quantize <swiglu> %dy, %x : tensor<4x64xf32>, tensor<4x64xf32> -> !te.scaled<4x64xf8E4M3FN, block_1x128, contract = 1>
  return
}

// -----

func.func @activation_backward_quantize_c3(%dy: tensor<4x32xf32>, %x: tensor<4x64xf32>) {
  // expected-error @below {{expected 'amax_epsilon' to be finite and not negative, but got -1}}
  %q = te.activation_backward_quantize <swiglu> %dy, %x {amax_epsilon = -1.0 : f32} : tensor<4x32xf32>, tensor<4x64xf32> -> !te.scaled<4x64xf8E4M3FN, block_1x128, contract = 1>
  return
}

// -----

func.func @activation_backward_quantize_c4(%dy: tensor<4x32xf32>, %x: tensor<4x64xf32>) {
  // expected-error @below {{expected 'alpha' with kind 'clamped_swiglu' only, but got kind 'swiglu'}}
  %q = te.activation_backward_quantize <swiglu> %dy, %x {alpha = 1.0 : f32} : tensor<4x32xf32>, tensor<4x64xf32> -> !te.scaled<4x64xf8E4M3FN, block_1x128, contract = 1>
  return
}

// -----

func.func @softmax_c1(%x: tensor<4x8xf32>) {
  // expected-error @below {{expected 'scale' to be finite, but got +Inf}}
  %y = te.softmax %x {scale = 0x7F800000 : f32} : tensor<4x8xf32>
  return
}

// -----

func.func @softmax_c2(%x: tensor<1x16777217xbf16>) {
  // expected-error @below {{expected at most 16777216 columns, but got 16777217}}
  %y = te.softmax %x : tensor<1x16777217xbf16>
  return
}

// -----

func.func @softmax_backward_c2(%x: tensor<1x16777217xbf16>) {
  // expected-error @below {{expected at most 16777216 columns, but got 16777217}}
  %y = te.softmax_backward %x, %x : tensor<1x16777217xbf16>
  return
}

// -----

func.func @dropout_c1(%x: tensor<4x8xf32>, %s: tensor<2xi32>) {
  // expected-error @below {{expected 'probability' to be from 0 to 1, but got 1.5}}
  %y = te.dropout %x rng %s {probability = 1.5 : f32} : tensor<4x8xf32>
  return
}

// -----

func.func @dropout_c1_nan(%x: tensor<4x8xf32>, %s: tensor<2xi32>) {
  // expected-error @below {{expected 'probability' to be from 0 to 1, but got NaN}}
  %y = te.dropout %x rng %s {probability = 0x7FC00000 : f32} : tensor<4x8xf32>
  return
}

// -----

func.func @softmax_of_vector(%x: tensor<8xf32>) {
  // expected-error @below {{operand #0 must be 2D tensor}}
  %y = te.softmax %x : tensor<8xf32>
  return
}

// -----

func.func @softmax_backward_c1(%dy: tensor<4x8xf32>, %y: tensor<4x8xf32>) {
  // expected-error @below {{expected 'scale' to be finite, but got NaN}}
  %dx = te.softmax_backward %dy, %y {scale = 0x7FC00000 : f32} : tensor<4x8xf32>
  return
}

// -----

func.func @embedding_c1(%ids: tensor<4xi32>, %t: tensor<10x8xf32>) {
  // expected-error @below {{expected 'y' to have shape 4x8, but got 10x8}}
  %y = te.embedding %ids, %t : tensor<4xi32>, tensor<10x8xf32> -> tensor<10x8xf32>
  return
}

// -----

func.func @embedding_backward_c1(%ids: tensor<4xi32>, %dy: tensor<4x8xf32>) {
  // expected-error @below {{expected 'dy' to have shape 4x6, but got 4x8}}
  %d = te.embedding_backward %ids, %dy : tensor<4xi32>, tensor<4x8xf32> -> tensor<10x6xf32>
  return
}

// -----

func.func @embedding_backward_c1_type(%ids: tensor<4xi32>, %dy: tensor<4x8xf32>) {
  // expected-error @below {{expected 'dy' and 'dtable' to have one element type, but got 'f32' and 'bf16'}}
  %d = te.embedding_backward %ids, %dy : tensor<4xi32>, tensor<4x8xf32> -> tensor<10x8xbf16>
  return
}

// -----

func.func @embedding_backward_c2(%ids: tensor<4xi32>, %dy: tensor<4x8xbf16>, %dw: tensor<10x8xbf16>) {
  // expected-error @below {{expected 'accumulate' to be 'tensor<10x8xf32>' as the result is, but got 'tensor<10x8xbf16>'}}
  %d = te.embedding_backward %ids, %dy accumulate %dw : tensor<10x8xbf16> : tensor<4xi32>, tensor<4x8xbf16> -> tensor<10x8xf32>
  return
}

// -----

func.func @cross_entropy_c1(%l: tensor<4x10xf32>, %t: tensor<5xi32>) {
  // expected-error @below {{expected 'targets' to have shape 4, but got 5}}
  %loss = te.cross_entropy %l, %t : tensor<4x10xf32>, tensor<5xi32>
  return
}

// -----

func.func @cross_entropy_c2(%l: tensor<4x10xf32>, %t: tensor<4xi32>) {
  // expected-error @below {{expected 'vocabulary' to be between 1 and the 10 columns of 'logits', but got 11}}
  %loss = te.cross_entropy %l, %t {vocabulary = 11 : i64} : tensor<4x10xf32>, tensor<4xi32>
  return
}

// -----

func.func @cross_entropy_weight_c1(%t: tensor<4xi32>) {
  // expected-error @below {{expected 'vocabulary' to be positive, but got 0}}
  %w = te.cross_entropy_weight of %t vocabulary 0 : tensor<4xi32>
  return
}

// -----

func.func @cross_entropy_backward_c1(%d: tensor<f32>, %l: tensor<4x10xf32>, %t: tensor<4xi32>, %lse: tensor<5xf32>) {
  // expected-error @below {{expected 'lse' to have shape 4, but got 5}}
  %g = te.cross_entropy_backward %d, %l, %t, %lse : tensor<4x10xf32>, tensor<4xi32>, tensor<5xf32>
  return
}

// -----

func.func @cross_entropy_backward_c2(%d: tensor<f32>, %l: tensor<4x10xf32>, %t: tensor<4xi32>, %lse: tensor<4xf32>) {
  // expected-error @below {{expected 'vocabulary' to be between 1 and the 10 columns of 'logits', but got 0}}
  %g = te.cross_entropy_backward %d, %l, %t, %lse {vocabulary = 0 : i64} : tensor<4x10xf32>, tensor<4xi32>, tensor<4xf32>
  return
}

// -----

func.func @rms_norm_c1_type(%x: tensor<4x8xf32>, %g: tensor<8xbf16>) {
  // expected-error @below {{expected 'gamma' and 'x' to have one element type, but got 'bf16' and 'f32'}}
  %y = te.rms_norm %x, %g : tensor<4x8xf32>, tensor<8xbf16>
  return
}

// -----

func.func @rms_norm_c3_infinite(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{expected 'epsilon' to be finite and not negative, but got +Inf}}
  %y = te.rms_norm %x, %g {epsilon = 0x7F800000 : f32} : tensor<4x8xf32>, tensor<8xf32>
  return
}

// -----

func.func @rms_norm_c4_sum(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{expected 'sum' to be 'tensor<4x8xf32>' as 'x' is, but got 'tensor<4x8xbf16>'}}
  %y, %s = te.rms_norm %x, %g plus %x : tensor<4x8xf32> : tensor<4x8xf32>, tensor<8xf32> sum tensor<4x8xbf16>
  return
}

// -----

func.func @rms_norm_backward_c1_rows(%dy: tensor<4x8xf32>, %g: tensor<8xf32>, %r: tensor<8xf32>) {
  // expected-error @below {{expected 'rsigma' to have shape 4, but got 8}}
  %dx, %dg = te.rms_norm_backward %dy, %dy, %g, %r : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @layer_norm_c2_mean(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{expected results 'mu' and 'rsigma' together, but got only 'mu'}}
  %y, %m = te.layer_norm %x, %g, %g : tensor<4x8xf32>, tensor<8xf32> mu tensor<4xf32>
  return
}

// -----

func.func @layer_norm_c2_deviation(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{expected 'rsigma' to have shape 4, but got 8}}
  %y, %m, %r = te.layer_norm %x, %g, %g : tensor<4x8xf32>, tensor<8xf32> mu tensor<4xf32> rsigma tensor<8xf32>
  return
}

// -----

func.func @layer_norm_backward_c1_gamma(%dy: tensor<4x8xf32>, %g: tensor<4xf32>, %m: tensor<4xf32>) {
  // expected-error @below {{expected 'gamma' to have shape 8, but got 4}}
  %dx, %dg, %db = te.layer_norm_backward %dy, %dy, %g, %m, %m : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>
  return
}

// -----

func.func @activation_c1_type(%x: tensor<4x8xf32>) {
  // expected-error @below {{expected 'y' and 'x' to have one element type, but got 'bf16' and 'f32'}}
  %y = te.activation <gelu> %x : tensor<4x8xf32> -> tensor<4x8xbf16>
  return
}

// -----

func.func @activation_backward_c3_kind(%x: tensor<4x8xf32>) {
  // expected-error @below {{expected 'gate' with gated kinds only, but got kind 'silu'}}
  %dx, %dg = te.activation_backward <silu> %x, %x, %x : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32> gate tensor<4x8xf32>
  return
}

// -----

func.func @activation_backward_c3_no_gate(%x: tensor<4x8xf32>) {
  // expected-error @below {{expected results of 'gate' with it, and without it none, but got 'dgate' without it}}
  %dx, %dg = te.activation_backward <gelu> %x, %x : tensor<4x8xf32>, tensor<4x8xf32> gate tensor<4x8xf32>
  return
}

// -----

func.func @activation_quantize_c1_odd(%x: tensor<4x65xf32>) {
  // expected-error @below {{expected 'x' to have an even number of columns for 'swiglu', but got 65}}
  %q = te.activation_quantize <swiglu> %x : tensor<4x65xf32> -> !te.scaled<4x32xf8E4M3FN, block_1x128, contract = 1>
  return
}

// -----

func.func @activation_backward_quantize_c4_gate(%x: tensor<4x32xf32>) {
  // expected-error @below {{expected 'gate' with gated kinds only, but got kind 'gelu'}}
  %q, %g = te.activation_backward_quantize <gelu> %x, %x, %x : tensor<4x32xf32>, tensor<4x32xf32>, tensor<4x32xf32> -> !te.scaled<4x32xf8E4M3FN, block_1x128, contract = 1> gate !te.scaled<4x32xf8E4M3FN, block_1x128, contract = 1>
  return
}

// -----

func.func @activation_backward_quantize_c6_scale(%x: tensor<4x32xf32>, %s: tensor<f32>) {
  // expected-error @below {{expected results, 'gate_scale' and 'gate_amax' of a second gradient only with 'gate'}}
  %q = te.activation_backward_quantize <gelu> %x, %x gate_scale %s : tensor<4x32xf32>, tensor<4x32xf32> -> !te.scaled<4x32xf8E4M3FN, block_1x128, contract = 1>
  return
}

// -----

func.func @activation_backward_quantize_c6_amax(%x: tensor<4x32xf32>) {
  // expected-error @below {{expected results, 'gate_scale' and 'gate_amax' of a second gradient only with 'gate'}}
  %q, %a = te.activation_backward_quantize <gelu> %x, %x : tensor<4x32xf32>, tensor<4x32xf32> -> !te.scaled<4x32xf8E4M3FN, block_1x128, contract = 1> gate_amax tensor<f32>
  return
}

// -----

func.func @dropout_c1_negative(%x: tensor<4x8xf32>, %s: tensor<2xi32>) {
  // expected-error @below {{expected 'probability' to be from 0 to 1, but got -0.5}}
  %y = te.dropout %x rng %s {probability = -0.5 : f32} : tensor<4x8xf32>
  return
}

// -----

func.func @embedding_c1_type(%ids: tensor<4xi32>, %t: tensor<10x8xf32>) {
  // expected-error @below {{expected 'table' and 'y' to have one element type, but got 'f32' and 'bf16'}}
  %y = te.embedding %ids, %t : tensor<4xi32>, tensor<10x8xf32> -> tensor<4x8xbf16>
  return
}
