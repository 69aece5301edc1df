// RUN: te-opt %s --te-assign-recipe | FileCheck %s
// RUN: te-opt %s --te-assign-recipe=recipe=float8_current_scaling | FileCheck %s --check-prefix=RECIPE
// RUN: te-opt %s --te-assign-recipe=backward-override=none | FileCheck %s --check-prefix=OPTION

// The override of an op keeps the rest of the recipe that applies there. The
// override of a function applies to its ops, except those with their own recipe.
// CHECK: module attributes {te.recipe = #te.recipe<float8_block_scaling, {pow2_scales = false, backward_override = dequantized}>}
// CHECK-LABEL: func.func @of_the_module(
// CHECK-NEXT:    te.linear %arg0, %arg1 : {{.*}}
// CHECK-NEXT:    te.linear {{.*}} {te.recipe = #te.recipe<float8_block_scaling, {pow2_scales = false}>}
// CHECK-LABEL: func.func @of_the_function(
// CHECK-SAME:    te.recipe = #te.recipe<float8_block_scaling, {pow2_scales = false, backward_override = high_precision}>
// CHECK-NEXT:    te.linear %arg0, %arg1 : {{.*}}
// CHECK-NEXT:    te.linear {{.*}} {te.recipe = #te.recipe<float8_current_scaling>}
// CHECK-NEXT:    te.linear {{.*}} {te.recipe = #te.recipe<float8_current_scaling, {backward_override = dequantized}>}
// CHECK-NEXT:    te.linear {{.*}} {te.recipe = #te.recipe<float8_block_scaling, {pow2_scales = false, backward_override = dequantized}>}
// CHECK-NOT: te.backward_override

// The option may replace the module's recipe; overrides stay.
// RECIPE: module attributes {te.recipe = #te.recipe<float8_current_scaling, {backward_override = dequantized}>}
// RECIPE-LABEL: func.func @of_the_function(
// RECIPE-SAME: te.recipe = #te.recipe<float8_current_scaling, {backward_override = high_precision}>

// The option takes precedence over all of them.
// OPTION-NOT: backward_override

!x = tensor<32x64xbf16>
!w = tensor<64x64xbf16>
module attributes {te.recipe = #te.recipe<float8_block_scaling, {pow2_scales = false}>, te.backward_override = "dequantized"} {
  func.func @of_the_module(%x: !x, %w: !w) -> !x {
    %a = te.linear %x, %w : !x, !w -> !x
    %b = te.linear %a, %w {te.backward_override = "none"} : !x, !w -> !x
    return %b : !x
  }
  func.func @of_the_function(%x: !x, %w: !w) -> !x attributes {te.backward_override = "high_precision"} {
    %a = te.linear %x, %w : !x, !w -> !x
    %b = te.linear %a, %w {te.recipe = #te.recipe<float8_current_scaling>} : !x, !w -> !x
    %c = te.linear %b, %w {te.recipe = #te.recipe<float8_current_scaling>, te.backward_override = "dequantized"} : !x, !w -> !x
    %d = te.linear %c, %w {te.backward_override = "dequantized"} : !x, !w -> !x
    return %d : !x
  }
}
