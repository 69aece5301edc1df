// RUN: te-opt %s --split-input-file --te-insert-casts --cse --mlir-print-local-scope | FileCheck %s

// The forward casts rows of x and square blocks of w. In the backward,
// columns are cast from Hadamard transformed tensors, and gradients are
// rounded with the step's random state. Every cast has its own stream.
module attributes {te.recipe = #te.recipe<nvfp4_block_scaling>} {
  // CHECK-LABEL: func.func @step(
  // CHECK-SAME: %[[X:[^:]*]]: tensor<64x128xbf16>, %[[W:[^:]*]]: tensor<256x128xbf16>, %[[DY:[^:]*]]: tensor<64x256xbf16>,
  // CHECK-SAME: %[[RNG:[^:]*]]: tensor<2xi32> {te.init = 0.000000e+00 : f32, te.name = "rng_state", te.recipe_state})
  func.func @step(%x: tensor<64x128xbf16>, %w: tensor<256x128xbf16>, %dy: tensor<64x256xbf16>)
      -> (tensor<64x256xbf16>, tensor<64x128xbf16>, tensor<256x128xbf16>) {
    // CHECK: %[[AX:.*]] = te.amax %[[X]]
    // CHECK: te.quantize %[[X]] amax %[[AX]] : {{.*}} nv_1x16, contract = 1>
    // CHECK: %[[AW:.*]] = te.amax %[[W]]
    // CHECK: te.quantize %[[W]] amax %[[AW]] : {{.*}} nv_16x16, contract = 1>
    // CHECK: %[[HX:.*]] = te.hadamard %[[X]]
    // CHECK: %[[AHX:.*]] = te.amax %[[HX]]
    // CHECK: te.quantize %[[HX]] amax %[[AHX]] : {{.*}} nv_1x16, hadamard, contract = 0>
    // CHECK: te.scaled_matmul
    %y = te.linear %x, %w : tensor<64x128xbf16>, tensor<256x128xbf16> -> tensor<64x256xbf16>
    // CHECK: te.quantize %[[DY]] amax %{{.*}} rng %[[RNG]] {{.*}} nv_1x16, contract = 1>
    %dx = te.linear_dgrad %dy, %w : tensor<64x256xbf16>, tensor<256x128xbf16> -> tensor<64x128xbf16>
    // CHECK: %[[HDY:.*]] = te.hadamard %[[DY]]
    // CHECK: te.quantize %[[HDY]] amax %{{.*}} rng %[[RNG]] {stream = 1 : i32} {{.*}} nv_1x16, hadamard, contract = 0>
    %dw = te.linear_wgrad %dy, %x : tensor<64x256xbf16>, tensor<64x128xbf16> -> tensor<256x128xbf16>
    // CHECK: %[[NEXT:.*]] = te.rng_advance %[[RNG]]
    // CHECK: return {{.*}}, %[[NEXT]]
    return %y, %dx, %dw : tensor<64x256xbf16>, tensor<64x128xbf16>, tensor<256x128xbf16>
  }
}

// -----

// A name that the program uses is not taken.
module attributes {te.recipe = #te.recipe<nvfp4_block_scaling>} {
  // CHECK-LABEL: func.func @taken(
  // CHECK-SAME: tensor<2xi32> {te.init = 0.000000e+00 : f32, te.name = "rng_state.1", te.recipe_state})
  // CHECK-SAME: te.name = "rng_state.1"
  func.func @taken(%dy: tensor<64x256xbf16> {te.name = "rng_state"}, %w: tensor<256x128xbf16>) -> tensor<64x128xbf16> {
    %dx = te.linear_dgrad %dy, %w : tensor<64x256xbf16>, tensor<256x128xbf16> -> tensor<64x128xbf16>
    return %dx : tensor<64x128xbf16>
  }
}

// -----

// There is an amax for each row of x, and 4over6 for activations with block scales up to 256.
module attributes {te.recipe = #te.recipe<nvfp4_block_scaling, {hadamard = false, stochastic_rounding = false,
    row_scaled_activation = true, four_over_six = activations, backward_override = high_precision}>} {
  // CHECK-LABEL: func.func @row_scaled(
  func.func @row_scaled(%x: tensor<64x128xbf16>, %w: tensor<256x128xbf16>) -> tensor<64x256xbf16> {
    // CHECK: te.amax_rows
    // CHECK: four_over_six = #te.four_over_six<mae>
    // CHECK-SAME: nv_1x16, row_scaled, scale_max_256, contract = 1>
    // CHECK: nv_16x16, contract = 1>
    %y = te.linear %x, %w : tensor<64x128xbf16>, tensor<256x128xbf16> -> tensor<64x256xbf16>
    return %y : tensor<64x256xbf16>
  }
}

// -----

// Each GEMM has its own recipe. The columns of w are cast from its dequantised rows.
module attributes {te.recipe = #te.recipe<custom, {fprop = #te.recipe<mxfp8_block_scaling>,
    dgrad = #te.recipe<float8_current_scaling>, w_col_source = rowwise_dequantized}>} {
  // CHECK-LABEL: func.func @custom(
  // CHECK-SAME: %[[X:[^:]*]]: tensor<64x128xbf16>, %[[W:[^:]*]]: tensor<256x128xbf16>, %[[DY:[^:]*]]: tensor<64x256xbf16>
  func.func @custom(%x: tensor<64x128xbf16>, %w: tensor<256x128xbf16>, %dy: tensor<64x256xbf16>)
      -> (tensor<64x256xbf16>, tensor<64x128xbf16>, tensor<256x128xbf16>) {
    // CHECK: te.quantize %[[X]] : {{.*}} mx_1x32, contract = 1>
    // CHECK: %[[ROW:.*]] = te.quantize %[[W]] : {{.*}} mx_1x32, contract = 1>
    // CHECK: %[[BACK:.*]] = te.dequantize %[[ROW]]
    // CHECK: te.quantize %[[BACK]] scale %{{.*}}, per_tensor, contract = 0>
    %y = te.linear %x, %w : tensor<64x128xbf16>, tensor<256x128xbf16> -> tensor<64x256xbf16>
    // CHECK: te.quantize %[[DY]] scale %{{.*}}f8E5M2, per_tensor, contract = 1>
    %dx = te.linear_dgrad %dy, %w : tensor<64x256xbf16>, tensor<256x128xbf16> -> tensor<64x128xbf16>
    // CHECK: te.matmul %[[DY]], %[[X]]
    %dw = te.linear_wgrad %dy, %x : tensor<64x256xbf16>, tensor<64x128xbf16> -> tensor<256x128xbf16>
    return %y, %dx, %dw : tensor<64x256xbf16>, tensor<64x128xbf16>, tensor<256x128xbf16>
  }
}
