// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts,cse))' --remarks-filter='.*' 2>&1 | FileCheck %s

// CHECK-DAG: [Passed] gemm-precision{{.*}}Reason="recipe 'float8_block_scaling', padded: M 68 to 80, N 3 to 8, K 100 to 112", Remark="wgrad of 'w' became te.scaled_matmul"
// CHECK-DAG: [Passed] gemm-precision{{.*}}Reason="recipe 'float8_current_scaling', padded: N 12 to 16", Remark="fprop of 'inference.w' became te.scaled_matmul"
// CHECK-DAG: [Missed] gather-precision{{.*}}Reason="the cast of the gathered tensor is padded", Remark="'part' is gathered in high precision"

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  // Casts read zeros after the rows and the columns, and results are cut. Both usages of x have the padding that wgrad needs.
  // CHECK-LABEL: func.func @layer
  // CHECK: %[[COLUMNS:.*]] = tensor.concat dim(1) %arg0, %{{.*}} : (tensor<68x100xbf16>, tensor<68x12xbf16>)
  // CHECK: %[[X:.*]] = tensor.concat dim(0) %[[COLUMNS]], %{{.*}} : (tensor<68x112xbf16>, tensor<12x112xbf16>)
  // CHECK: te.quantize %[[X]] : {{.*}} -> !te.scaled<80x112xf8E4M3FN, block_1x128, pow2, contract = 1>
  // CHECK: te.quantize %{{.*}} -> !te.scaled<8x112xf8E4M3FN, block_128x128, pow2, contract = 1>
  // CHECK: %[[BIAS:.*]] = tensor.concat dim(0) %arg2, %{{.*}} : (tensor<3xbf16>, tensor<5xbf16>)
  // CHECK: te.quantize %[[X]] : {{.*}} -> !te.scaled<80x112xf8E4M3FN, block_1x128, pow2, contract = 0>
  // CHECK: %[[Y:.*]] = te.scaled_matmul {{.*}} bias %[[BIAS]]
  // CHECK: tensor.extract_slice %[[Y]][0, 0] [68, 3] [1, 1] : tensor<80x8xbf16> to tensor<68x3xbf16>
  // CHECK: %[[SUM:.*]] = tensor.concat dim(0) %{{.*}}, %{{.*}} : (tensor<3x112xf32>, tensor<5x112xf32>)
  // CHECK: %[[DW:.*]] = te.scaled_matmul {{.*}} accumulate %[[SUM]]
  // CHECK: tensor.extract_slice %[[DW]][0, 0] [3, 100] [1, 1] : tensor<8x112xf32> to tensor<3x100xf32>
  func.func @layer(%x: tensor<68x100xbf16>, %w: tensor<3x100xbf16> {te.name = "w"}, %b: tensor<3xbf16>, %dy: tensor<68x3xbf16>, %sum: tensor<3x100xf32>)
      -> (tensor<68x3xbf16>, tensor<3x100xf32>) attributes {te.recipe = #te.recipe<float8_block_scaling>} {
    %y = te.linear %x, %w bias %b : tensor<3xbf16> : tensor<68x100xbf16>, tensor<3x100xbf16> -> tensor<68x3xbf16> loc("w")
    %dw = te.linear_wgrad %dy, %x accumulate %sum : tensor<3x100xf32> : tensor<68x3xbf16>, tensor<68x100xbf16> -> tensor<3x100xf32> loc("w")
    return %y, %dw : tensor<68x3xbf16>, tensor<3x100xf32>
  }

  // Only what a GEMM needs is padded: fprop needs no multiple of rows here. The amax is that of the tensor.
  // CHECK-LABEL: func.func @inference
  // CHECK: te.amax %arg0
  // CHECK: te.quantize %arg0 {{.*}} -> !te.scaled<33x64x
  // CHECK: te.amax %arg1
  // CHECK: te.quantize %{{.*}} -> !te.scaled<16x64x
  func.func @inference(%x: tensor<33x64xbf16>, %w: tensor<12x64xbf16> {te.name = "inference.w"}) -> tensor<33x12xbf16>
      attributes {te.recipe = #te.recipe<float8_current_scaling>} {
    %y = te.linear %x, %w : tensor<33x64xbf16>, tensor<12x64xbf16> -> tensor<33x12xbf16>
    return %y : tensor<33x12xbf16>
  }

  // A result without elements has another shape, and is no slice.
  // CHECK-LABEL: func.func @empty
  // CHECK: %[[Y:.*]] = te.scaled_matmul {{.*}} -> tensor<0x16xbf16>
  // CHECK: %[[NONE:.*]] = tensor.collapse_shape %[[Y]] {{\[\[}}0, 1]] : tensor<0x16xbf16> into tensor<0xbf16>
  // CHECK: tensor.expand_shape %[[NONE]] {{\[\[}}0, 1]] output_shape [0, 12]
  func.func @empty(%x: tensor<0x64xbf16>, %w: tensor<12x64xbf16>) -> tensor<0x12xbf16>
      attributes {te.recipe = #te.recipe<float8_current_scaling>} {
    %y = te.linear %x, %w : tensor<0x64xbf16>, tensor<12x64xbf16> -> tensor<0x12xbf16>
    return %y : tensor<0x12xbf16>
  }

  // The backward multiplies the dequantised casts without their padding.
  // CHECK-LABEL: func.func @dequantized
  // CHECK: %[[W:.*]] = te.dequantize %{{.*}} -> tensor<32x64xbf16>
  // CHECK: %[[CUT:.*]] = tensor.extract_slice %[[W]][0, 0] [20, 50] [1, 1]
  // CHECK: te.matmul %{{.*}}, %[[CUT]]
  func.func @dequantized(%x: tensor<32x50xbf16>, %w: tensor<20x50xbf16>, %dy: tensor<32x20xbf16>) -> (tensor<32x20xbf16>, tensor<32x50xbf16>)
      attributes {te.recipe = #te.recipe<mxfp8_block_scaling, {backward_override = dequantized}>} {
    %y = te.linear %x, %w : tensor<32x50xbf16>, tensor<20x50xbf16> -> tensor<32x20xbf16>
    %dx = te.linear_dgrad %dy, %w : tensor<32x20xbf16>, tensor<20x50xbf16> -> tensor<32x50xbf16>
    return %y, %dx : tensor<32x20xbf16>, tensor<32x50xbf16>
  }

  // Groups have their alignment; the columns are padded.
  // CHECK-LABEL: func.func @groups
  // CHECK: te.grouped_quantize {{.*}} -> !te.scaled<64x48x{{.*}}groups = 2>
  // CHECK: te.quantize {{.*}} -> !te.scaled<2x16x48x
  // CHECK: te.grouped_scaled_matmul {{.*}} -> tensor<64x16xbf16>
  func.func @groups(%x: tensor<64x36xbf16>, %w: tensor<2x12x36xbf16>, %sizes: tensor<2xi32>) -> tensor<64x12xbf16>
      attributes {te.recipe = #te.recipe<float8_current_scaling>} {
    %y = te.grouped_linear %x, %w, %sizes {alignment = 16 : i64} : tensor<64x36xbf16>, tensor<2x12x36xbf16>, tensor<2xi32> -> tensor<64x12xbf16>
    return %y : tensor<64x12xbf16>
  }

  // Zeros at the end of a part would be in the middle of the gathered tensor.
  // CHECK-LABEL: func.func @gathered
  // CHECK: %[[WHOLE:.*]] = te.all_gather %arg1
  // CHECK: tensor.concat dim(1) %[[WHOLE]]
  func.func @gathered(%x: tensor<32x50xbf16>, %part: tensor<16x50xbf16> {te.name = "part", te.weight}) -> tensor<32x32xbf16>
      attributes {te.recipe = #te.recipe<float8_block_scaling>} {
    %w = te.all_gather %part group 0 axis 0 : tensor<16x50xbf16> -> tensor<32x50xbf16>
    %y = te.linear %x, %w : tensor<32x50xbf16>, tensor<32x50xbf16> -> tensor<32x32xbf16>
    return %y : tensor<32x32xbf16>
  }
}
