// RUN: te-opt %s --te-assign-recipe='recipe=float8_block_scaling backward-override=dequantized' | FileCheck %s --check-prefix=BOTH
// RUN: te-opt %s --pass-pipeline='builtin.module(te-assign-recipe{recipe="float8_current_scaling, {pow2_scales = true}"})' | FileCheck %s --check-prefix=TEXT
// RUN: te-opt %s --te-assign-recipe='backward-override=high_precision' | FileCheck %s --check-prefix=OVERRIDE
// RUN: te-opt %s --te-assign-recipe | FileCheck %s --check-prefix=NONE
// RUN: te-opt %s --te-assign-recipe='recipe=high_precision' --remarks-filter='.*' 2>&1 | FileCheck %s --check-prefix=REMARK

// The module gets the recipe, and ops with their own recipe keep it. The
// override applies to every quantised recipe, but not to high precision.
// BOTH: module attributes {te.recipe = #te.recipe<float8_block_scaling, {backward_override = dequantized}>}
// BOTH: te.linear {{.*}} {te.recipe = #te.recipe<high_precision>}
// BOTH: te.linear {{.*}} {te.recipe = #te.recipe<float8_current_scaling, {backward_override = dequantized}>}

// TEXT: module attributes {te.recipe = #te.recipe<float8_current_scaling, {pow2_scales = true}>}

// OVERRIDE: module attributes {te.recipe = #te.recipe<float8_current_scaling, {backward_override = high_precision}>}
// OVERRIDE: te.linear {{.*}} {te.recipe = #te.recipe<high_precision>}
// OVERRIDE: te.linear {{.*}} {te.recipe = #te.recipe<float8_current_scaling, {backward_override = high_precision}>}

// NONE: module attributes {te.recipe = #te.recipe<float8_current_scaling>}

// REMARK: [Analysis] own-recipe{{.*}}keeps its own recipe 'float8_current_scaling'
// REMARK: module attributes {te.recipe = #te.recipe<high_precision>}

module attributes {te.recipe = #te.recipe<float8_current_scaling>} {
  func.func @f(%x: tensor<32x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<32x64xbf16> {
    %h = te.linear %x, %w {te.recipe = #te.recipe<high_precision>} : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
    %y = te.linear %h, %w {te.recipe = #te.recipe<float8_current_scaling>} : tensor<32x64xbf16>, tensor<64x64xbf16> -> tensor<32x64xbf16>
    return %y : tensor<32x64xbf16>
  }
}
