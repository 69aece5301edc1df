// A cast with scales of blocks reads the rows between groups, which are set to zeros unless they are known to be zeros.
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts))' | FileCheck %s

// The rows of te.permute between its own groups are zeros.
// CHECK-LABEL: func.func @routed(
// CHECK-NOT: te.zero_padding
// CHECK: return
func.func @routed(%x: tensor<64x128xbf16>, %ids: tensor<64x2xi32>, %w: tensor<2x128x128xbf16>) -> tensor<256x128xbf16> attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  %r, %s, %ro, %e, %d = te.permute %x, %ids {alignment = 128 : i64} : tensor<64x128xbf16>, tensor<64x2xi32> -> tensor<256x128xbf16>, tensor<2xi32>, tensor<128xi32>, tensor<256xi32>
  %y = te.grouped_linear %r, %w, %s {alignment = 128 : i64} : tensor<256x128xbf16>, tensor<2x128x128xbf16>, tensor<2xi32> -> tensor<256x128xbf16>
  return %y : tensor<256x128xbf16>
}

// CHECK-LABEL: func.func @activated(
// CHECK-NOT: te.zero_padding
// CHECK: return
func.func @activated(%x: tensor<64x128xbf16>, %ids: tensor<64x2xi32>, %w: tensor<2x128x128xbf16>) -> tensor<256x128xbf16> attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  %r, %s, %ro, %e, %d = te.permute %x, %ids {alignment = 128 : i64} : tensor<64x128xbf16>, tensor<64x2xi32> -> tensor<256x128xbf16>, tensor<2xi32>, tensor<128xi32>, tensor<256xi32>
  %a = te.activation <gelu> %r : tensor<256x128xbf16> -> tensor<256x128xbf16>
  %y = te.grouped_linear %a, %w, %s {alignment = 128 : i64} : tensor<256x128xbf16>, tensor<2x128x128xbf16>, tensor<2xi32> -> tensor<256x128xbf16>
  return %y : tensor<256x128xbf16>
}

// CHECK-LABEL: func.func @routed_by_others(
// CHECK: te.zero_padding
// CHECK: return
func.func @routed_by_others(%x: tensor<64x128xbf16>, %ids: tensor<64x2xi32>, %sizes: tensor<2xi32>, %w: tensor<2x128x128xbf16>) -> tensor<256x128xbf16> attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  %r, %s, %ro, %e, %d = te.permute %x, %ids {alignment = 128 : i64} : tensor<64x128xbf16>, tensor<64x2xi32> -> tensor<256x128xbf16>, tensor<2xi32>, tensor<128xi32>, tensor<256xi32>
  %y = te.grouped_linear %r, %w, %sizes {alignment = 128 : i64} : tensor<256x128xbf16>, tensor<2x128x128xbf16>, tensor<2xi32> -> tensor<256x128xbf16>
  return %y : tensor<256x128xbf16>
}

// CHECK-LABEL: func.func @other_alignment(
// CHECK: te.zero_padding
// CHECK: return
func.func @other_alignment(%x: tensor<64x128xbf16>, %ids: tensor<64x2xi32>, %w: tensor<2x128x128xbf16>) -> tensor<256x128xbf16> attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  %r, %s, %ro, %e, %d = te.permute %x, %ids {alignment = 64 : i64} : tensor<64x128xbf16>, tensor<64x2xi32> -> tensor<256x128xbf16>, tensor<2xi32>, tensor<128xi32>, tensor<256xi32>
  %y = te.grouped_linear %r, %w, %s {alignment = 128 : i64} : tensor<256x128xbf16>, tensor<2x128x128xbf16>, tensor<2xi32> -> tensor<256x128xbf16>
  return %y : tensor<256x128xbf16>
}

// CHECK-LABEL: func.func @added(
// CHECK: te.zero_padding
// CHECK: return
func.func @added(%x: tensor<64x128xbf16>, %ids: tensor<64x2xi32>, %b: tensor<256x128xbf16>, %w: tensor<2x128x128xbf16>) -> tensor<256x128xbf16> attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  %r, %s, %ro, %e, %d = te.permute %x, %ids {alignment = 128 : i64} : tensor<64x128xbf16>, tensor<64x2xi32> -> tensor<256x128xbf16>, tensor<2xi32>, tensor<128xi32>, tensor<256xi32>
  %a = arith.addf %r, %b : tensor<256x128xbf16>
  %y = te.grouped_linear %a, %w, %s {alignment = 128 : i64} : tensor<256x128xbf16>, tensor<2x128x128xbf16>, tensor<2xi32> -> tensor<256x128xbf16>
  return %y : tensor<256x128xbf16>
}

// CHECK-LABEL: func.func @argument(
// CHECK: te.zero_padding
// CHECK: return
func.func @argument(%r: tensor<256x128xbf16>, %s: tensor<2xi32>, %w: tensor<2x128x128xbf16>) -> tensor<256x128xbf16> attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  %y = te.grouped_linear %r, %w, %s {alignment = 128 : i64} : tensor<256x128xbf16>, tensor<2x128x128xbf16>, tensor<2xi32> -> tensor<256x128xbf16>
  return %y : tensor<256x128xbf16>
}

// Groups of known sizes may fill all rows.
// CHECK-LABEL: func.func @full(
// CHECK-NOT: te.zero_padding
// CHECK: return
func.func @full(%r: tensor<256x128xbf16>, %w: tensor<2x128x128xbf16>) -> tensor<256x128xbf16> attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  %s = arith.constant dense<128> : tensor<2xi32>
  %y = te.grouped_linear %r, %w, %s {alignment = 128 : i64} : tensor<256x128xbf16>, tensor<2x128x128xbf16>, tensor<2xi32> -> tensor<256x128xbf16>
  return %y : tensor<256x128xbf16>
}

// CHECK-LABEL: func.func @not_full(
// CHECK: te.zero_padding
// CHECK: return
func.func @not_full(%r: tensor<256x128xbf16>, %w: tensor<2x128x128xbf16>) -> tensor<256x128xbf16> attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  %s = arith.constant dense<[128, 0]> : tensor<2xi32>
  %y = te.grouped_linear %r, %w, %s {alignment = 128 : i64} : tensor<256x128xbf16>, tensor<2x128x128xbf16>, tensor<2xi32> -> tensor<256x128xbf16>
  return %y : tensor<256x128xbf16>
}

// CHECK-LABEL: func.func @not_aligned(
// CHECK: te.zero_padding
// CHECK: return
func.func @not_aligned(%r: tensor<256x128xbf16>, %w: tensor<2x128x128xbf16>) -> tensor<256x128xbf16> attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  %s = arith.constant dense<[100, 156]> : tensor<2xi32>
  %y = te.grouped_linear %r, %w, %s {alignment = 128 : i64} : tensor<256x128xbf16>, tensor<2x128x128xbf16>, tensor<2xi32> -> tensor<256x128xbf16>
  return %y : tensor<256x128xbf16>
}

// CHECK-LABEL: func.func @negative(
// CHECK: te.zero_padding
// CHECK: return
func.func @negative(%r: tensor<256x128xbf16>, %w: tensor<2x128x128xbf16>) -> tensor<256x128xbf16> attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  %s = arith.constant dense<[-128, 384]> : tensor<2xi32>
  %y = te.grouped_linear %r, %w, %s {alignment = 128 : i64} : tensor<256x128xbf16>, tensor<2x128x128xbf16>, tensor<2xi32> -> tensor<256x128xbf16>
  return %y : tensor<256x128xbf16>
}
