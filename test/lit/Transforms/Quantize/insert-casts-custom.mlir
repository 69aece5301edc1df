// RUN: te-opt %s --split-input-file --te-insert-casts --cse --mlir-print-local-scope | FileCheck %s

// GEMMs of one delayed recipe share the states of a tensor. Other GEMMs have their own, or none.
module attributes {te.recipe = #te.recipe<custom, {fprop = #te.recipe<delayed_scaling, {amax_history_len = 4}>,
    dgrad = #te.recipe<delayed_scaling, {amax_history_len = 4}>, wgrad = #te.recipe<delayed_scaling, {fp8_format = e4m3, amax_history_len = 2}>}>} {
  // CHECK-LABEL: func.func @states(
  // CHECK-SAME: te.name = "w.x.amax_history"
  // CHECK-SAME: te.name = "w.w.amax_history"
  // CHECK-SAME: te.name = "w.dy.amax_history"
  // CHECK-SAME: tensor<2xf32> {te.init = 0.000000e+00 : f32, te.name = "w.dy.1.amax_history", te.recipe_state}
  // CHECK-SAME: tensor<2xf32> {te.init = 0.000000e+00 : f32, te.name = "w.x.1.amax_history", te.recipe_state}
  // CHECK-NOT: te.name = "w.w.1.amax_history"
  func.func @states(%x: tensor<64x128xbf16>, %w: tensor<256x128xbf16> {te.name = "w"}, %dy: tensor<64x256xbf16>)
      -> (tensor<64x256xbf16>, tensor<64x128xbf16>, tensor<256x128xbf16>) {
    %y = te.linear %x, %w : tensor<64x128xbf16>, tensor<256x128xbf16> -> tensor<64x256xbf16> loc("w")
    // CHECK: te.quantize %{{.*}} scale %{{.*}} -> !te.scaled<64x256xf8E5M2, per_tensor, contract = 1>
    %dx = te.linear_dgrad %dy, %w : tensor<64x256xbf16>, tensor<256x128xbf16> -> tensor<64x128xbf16> loc("w")
    // CHECK: te.quantize %{{.*}} scale %{{.*}} -> !te.scaled<64x256xf8E4M3FN, per_tensor, contract = 0>
    %dw = te.linear_wgrad %dy, %x : tensor<64x256xbf16>, tensor<64x128xbf16> -> tensor<256x128xbf16> loc("w")
    // CHECK: te.delayed_scaling_update {{.*}} : tensor<f32>, tensor<4xf32>
    // CHECK-COUNT-2: te.delayed_scaling_update {{.*}} : tensor<f32>, tensor<{{[24]}}xf32>
    return %y, %dx, %dw : tensor<64x256xbf16>, tensor<64x128xbf16>, tensor<256x128xbf16>
  }
}

// -----

// The forward has row scales. The backward has another format, whose columns are cast from the dequantised rows of the forward.
module attributes {te.recipe = #te.recipe<custom, {
    fprop = #te.recipe<nvfp4_block_scaling, {hadamard = false, stochastic_rounding = false, row_scaled_activation = true}>,
    dgrad = #te.recipe<mxfp8_block_scaling>, wgrad = #te.recipe<mxfp8_block_scaling>, x_col_source = rowwise_dequantized}>} {
  // CHECK-LABEL: func.func @rows(
  func.func @rows(%x: tensor<64x128xbf16>, %w: tensor<256x128xbf16>, %dy: tensor<64x256xbf16>)
      -> (tensor<64x256xbf16>, tensor<64x128xbf16>, tensor<256x128xbf16>) {
    // CHECK-DAG: %[[ROW:.*]] = te.quantize {{.*}} nv_1x16, row_scaled, contract = 1>
    // CHECK-DAG: %[[BACK:.*]] = te.dequantize %[[ROW]]
    // CHECK-DAG: te.quantize %[[BACK]] : {{.*}}<64x128xf8E4M3FN, mx_1x32, contract = 0>
    // CHECK-DAG: te.quantize %arg1 : {{.*}}<256x128xf8E4M3FN, mx_1x32, contract = 0>
    %y = te.linear %x, %w : tensor<64x128xbf16>, tensor<256x128xbf16> -> tensor<64x256xbf16>
    %dx = te.linear_dgrad %dy, %w : tensor<64x256xbf16>, tensor<256x128xbf16> -> tensor<64x128xbf16>
    %dw = te.linear_wgrad %dy, %x : tensor<64x256xbf16>, tensor<64x128xbf16> -> tensor<256x128xbf16>
    return %y, %dx, %dw : tensor<64x256xbf16>, tensor<64x128xbf16>, tensor<256x128xbf16>
  }
}

// -----

// Blocks of weights may map their amax to 4 although activations are transformed.
module attributes {te.recipe = #te.recipe<nvfp4_block_scaling, {four_over_six = weights}>} {
  // CHECK-LABEL: func.func @weights(
  func.func @weights(%x: tensor<64x128xbf16>, %w: tensor<256x128xbf16>, %dy: tensor<64x256xbf16>) -> (tensor<64x256xbf16>, tensor<256x128xbf16>) {
    // CHECK-DAG: te.quantize %arg0 amax %{{.*}} : {{.*}} nv_1x16, contract = 1>
    // CHECK-DAG: te.quantize %arg1 amax %{{.*}} {four_over_six = #te.four_over_six<mae>} : {{.*}} nv_16x16, scale_max_256, contract = 1>
    // CHECK-DAG: te.quantize %{{.*}} amax %{{.*}} : {{.*}}<64x128xf4E2M1FN, nv_1x16, hadamard, contract = 0>
    %y = te.linear %x, %w : tensor<64x128xbf16>, tensor<256x128xbf16> -> tensor<64x256xbf16>
    %dw = te.linear_wgrad %dy, %x : tensor<64x256xbf16>, tensor<64x128xbf16> -> tensor<256x128xbf16>
    return %y, %dw : tensor<64x256xbf16>, tensor<256x128xbf16>
  }
}

// -----

// Also for a weight [K, N], each cast follows the recipe of the GEMM that reads it, and the second is cast from the first.
module attributes {te.recipe = #te.recipe<custom, {fprop = #te.recipe<mxfp8_block_scaling>,
    dgrad = #te.recipe<float8_current_scaling>, wgrad = #te.recipe<float8_current_scaling>, w_col_source = rowwise_dequantized}>} {
  // CHECK-LABEL: func.func @transposed(
  func.func @transposed(%x: tensor<64x128xbf16>, %w: tensor<128x256xbf16>, %dy: tensor<64x256xbf16>)
      -> (tensor<64x256xbf16>, tensor<64x128xbf16>, tensor<128x256xbf16>) {
    // CHECK: %[[FIRST:.*]] = te.quantize %arg1 : {{.*}} -> !te.scaled<128x256xf8E4M3FN, mx_1x32, contract = 0>
    // CHECK: %[[BACK:.*]] = te.dequantize %[[FIRST]]
    // CHECK: te.quantize %[[BACK]] scale {{.*}} -> !te.scaled<128x256xf8E4M3FN, per_tensor, contract = 1>
    %y = te.linear %x, %w {transposed_weight} : tensor<64x128xbf16>, tensor<128x256xbf16> -> tensor<64x256xbf16>
    %dx = te.linear_dgrad %dy, %w {transposed_weight} : tensor<64x256xbf16>, tensor<128x256xbf16> -> tensor<64x128xbf16>
    // CHECK: te.scaled_matmul {{.*}} : <64x128xf8E4M3FN, per_tensor, contract = 0>, <64x256xf8E5M2, per_tensor, contract = 0> -> tensor<128x256xbf16>
    %dw = te.linear_wgrad %dy, %x {transposed_weight} : tensor<64x256xbf16>, tensor<64x128xbf16> -> tensor<128x256xbf16>
    return %y, %dx, %dw : tensor<64x256xbf16>, tensor<64x128xbf16>, tensor<128x256xbf16>
  }
}
