// RUN: te-opt %s --split-input-file --te-convert-to-tert --verify-diagnostics

// Every op without a kernel is reported.
func.func @no_kernel(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error @below {{the runtime has no kernel for 'te.linear'}}
  %y = te.linear %x, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  // expected-error @below {{the runtime has no kernel for 'math.log'}}
  %z = math.log %y : tensor<8x8xf32>
  return %z : tensor<8x8xf32>
}

// -----

func.func @no_buffer(
    // expected-error @below {{the runtime has no buffer for argument 'x' of type 'tensor<8xf64>'}}
    %x: tensor<8xf64> {te.name = "x"}) {
  return
}

// -----

func.func @not_a_splat() -> tensor<2xf32> {
  // expected-error @below {{expected a constant to be a splat of a float, but its type is 'tensor<2xf32>'}}
  %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  return %c : tensor<2xf32>
}

// -----

func.func @not_in_a_region(%x: tensor<8xf32>) -> tensor<8xbf16> {
  // expected-error @below {{expected layers to be replaced with casts and GEMMs, and elementwise ops to be formed into regions before}}
  %y = arith.truncf %x : tensor<8xf32> to tensor<8xbf16>
  return %y : tensor<8xbf16>
}

// -----

func.func @carried_type(%w: tensor<8xf32> {te.name = "w"}, %x: tensor<4xf32>) -> (tensor<4xf32> {te.name = "w"}) {
  // expected-error @below {{expected result 'w' to have the type of the argument it is named after}}
  return %x : tensor<4xf32>
}

// -----

// The numbers of bytes do not fit in 63 bits.
func.func @overflow(
    // expected-error @below {{the runtime has no buffer for argument 'x' of type 'tensor<4294967296x1073741824xf32>'}}
    %x: tensor<4294967296x1073741824xf32> {te.name = "x"},
    // expected-error @below {{the runtime has no buffer for argument 'q'}}
    %q: !te.scaled<4294967296x4294967296xf8E4M3FN, per_tensor, contract = 1> {te.name = "q"}) {
  return
}

// -----

func.func @scratch_overflow(%x: tensor<4611686018427387904x0xf32>, %g: tensor<0xf32>) {
  // expected-error @below {{the runtime has no buffer for 4611686018427387904 f32 beside the results}}
  %y = te.rms_norm %x, %g : tensor<4611686018427387904x0xf32>, tensor<0xf32>
  return
}
