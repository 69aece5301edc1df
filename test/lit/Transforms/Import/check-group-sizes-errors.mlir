// Group sizes that are constants are checked. The alignment that they need depends on the recipe.
// RUN: te-opt %s --te-check-constraints --split-input-file --verify-diagnostics

func.func @negative(%x: tensor<64x64xbf16>, %w: tensor<2x32x64xbf16>) -> tensor<64x32xbf16> {
  // expected-note @below {{the sizes are written here}}
  %sizes = arith.constant dense<[16, -1]> : tensor<2xi32>
  // expected-error @below {{expected 'group_sizes[1]' to be from 0 to the 48 rows that are left of 64, but got -1}}
  %y = te.grouped_linear %x, %w, %sizes {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x32xbf16>
  return %y : tensor<64x32xbf16>
}

// -----

func.func @too_many(%x: tensor<64x64xbf16>, %w: tensor<2x32x64xbf16>) -> tensor<64x32xbf16> {
  // expected-note @below {{the sizes are written here}}
  %sizes = arith.constant dense<[17, 33]> : tensor<2xi32>
  // expected-error @below {{expected 'group_sizes[1]' to be from 0 to the 32 rows that are left of 64, but got 33}}
  %y = te.grouped_linear %x, %w, %sizes {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x32xbf16>
  return %y : tensor<64x32xbf16>
}

// -----

func.func @fits(%x: tensor<64x64xbf16>, %w: tensor<2x32x64xbf16>) -> tensor<64x32xbf16> {
  %sizes = arith.constant dense<[17, 32]> : tensor<2xi32>
  %y = te.grouped_linear %x, %w, %sizes {alignment = 16 : i64} : tensor<64x64xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<64x32xbf16>
  return %y : tensor<64x32xbf16>
}

// -----

func.func @alignment(%x: tensor<256x64xbf16>, %w: tensor<2x32x64xbf16>, %sizes: tensor<2xi32>) -> tensor<256x32xbf16>
    attributes {te.recipe = #te.recipe<float8_block_scaling>} {
  // expected-error @below {{expected 'alignment' to be a multiple of 128 for 'block_1x128', but got 16; asked for by the fprop of layer}}
  %y = te.grouped_linear %x, %w, %sizes {alignment = 16 : i64} : tensor<256x64xbf16>, tensor<2x32x64xbf16>, tensor<2xi32> -> tensor<256x32xbf16>
  return %y : tensor<256x32xbf16>
}
