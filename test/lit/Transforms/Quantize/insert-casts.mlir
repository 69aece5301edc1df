// A training step of a two-layer MLP, differentiated, with every
// recipe and backward override. The test checks the operands of each
// of the six GEMMs, that an override does not change the forward,
// and that the residuals are exactly those that the mode needs.

// DEFINE: %{recipe} = high_precision
// DEFINE: %{override} = none
// DEFINE: %{run} = te-opt %s --pass-pipeline='builtin.module(te-assign-recipe{recipe=%{recipe} backward-override=%{override}},func.func(te-insert-casts,cse))'

// RUN: %{run} | FileCheck %s --check-prefix=HP
// REDEFINE: %{recipe} = float8_block_scaling
// RUN: %{run} | FileCheck %s --check-prefixes=BLOCK,BLOCK-NONE
// REDEFINE: %{override} = high_precision
// RUN: %{run} | FileCheck %s --check-prefixes=BLOCK,BLOCK-HP
// REDEFINE: %{override} = dequantized
// RUN: %{run} | FileCheck %s --check-prefixes=BLOCK,BLOCK-DEQ
// REDEFINE: %{recipe} = float8_current_scaling
// RUN: %{run} | FileCheck %s --check-prefixes=CURRENT,CURRENT-DEQ
// REDEFINE: %{override} = high_precision
// RUN: %{run} | FileCheck %s --check-prefixes=CURRENT,CURRENT-HP
// REDEFINE: %{override} = none
// RUN: %{run} | FileCheck %s --check-prefixes=CURRENT,CURRENT-NONE

// Without cse, a residual without readers is removed at once.
// RUN: te-opt %s --pass-pipeline='builtin.module(te-assign-recipe{recipe=float8_block_scaling},func.func(te-insert-casts))' | FileCheck %s --check-prefix=ALONE
// ALONE: te.residual {{.*}} "linear2.x" : !te.scaled
// ALONE-NOT: "linear2.x"

// Layers are replaced under every recipe.
// HP-NOT: te.linear
// BLOCK-NOT: te.linear
// CURRENT-NOT: te.linear

// HP-LABEL: func.func @step
// HP-SAME: %[[X:[a-z0-9]+]]: tensor<256x512xbf16> {te.name = "x"}
// HP-SAME: %[[W1:[a-z0-9]+]]: tensor<1024x512xbf16>
// HP-SAME: %[[W2:[a-z0-9]+]]: tensor<512x1024xbf16>
// HP-SAME: %[[DY:[a-z0-9]+]]: tensor<256x512xbf16> {te.name = "grad.y"}
// HP-NOT: te.quantize
// HP: %[[H:.*]] = te.matmul %[[X]], %[[W1]] contract = [1, 1]
// HP: %[[A:.*]] = te.activation <silu> %[[H]]
// HP: te.matmul %[[A]], %[[W2]] contract = [1, 1]
// HP: %[[HH:.*]] = te.residual %[[H]] "activation.x"
// HP: %[[HA:.*]] = te.residual %[[A]] "linear2.x"
// HP: te.matmul %[[DY]], %[[W2]] contract = [1, 0]
// HP: te.matmul %[[DY]], %[[HA]] contract = [0, 0]
// HP: %[[DH:.*]] = te.activation_backward <silu> %{{.*}}, %[[HH]]
// HP: te.matmul %[[DH]], %[[W1]] contract = [1, 0]
// HP: te.matmul %[[DH]], %[[X]] contract = [0, 0]

// BLOCK-LABEL: func.func @step
// BLOCK-SAME: %[[X:[a-z0-9]+]]: tensor<256x512xbf16> {te.name = "x"}
// BLOCK-SAME: %[[W1:[a-z0-9]+]]: tensor<1024x512xbf16>
// BLOCK-SAME: %[[W2:[a-z0-9]+]]: tensor<512x1024xbf16>
// BLOCK-SAME: %[[DY:[a-z0-9]+]]: tensor<256x512xbf16> {te.name = "grad.y"}
// BLOCK: %[[XR:.*]] = te.quantize %[[X]] : {{.*}} -> !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 1>
// BLOCK: %[[W1R:.*]] = te.quantize %[[W1]] : {{.*}} -> !te.scaled<1024x512xf8E4M3FN, block_128x128, pow2, contract = 1>
// BLOCK-NONE: %[[W1C:.*]] = te.quantize %[[W1]] : {{.*}}block_128x128, pow2, contract = 0>
// BLOCK-NONE: %[[XC:.*]] = te.quantize %[[X]] : {{.*}}block_1x128, pow2, contract = 0>
// BLOCK: %[[H:.*]] = te.scaled_matmul %[[XR]], %[[W1R]] fast_accumulation = false
// BLOCK: %[[A:.*]] = te.activation <silu> %[[H]]
// BLOCK: %[[AR:.*]] = te.quantize %[[A]] : {{.*}}block_1x128, pow2, contract = 1>
// BLOCK: %[[W2R:.*]] = te.quantize %[[W2]] : {{.*}}block_128x128, pow2, contract = 1>
// BLOCK: te.scaled_matmul %[[AR]], %[[W2R]] fast_accumulation = false

// BLOCK-NONE: %[[HH:.*]] = te.residual %[[H]] "activation.x"
// BLOCK-NONE: %[[AC:.*]] = te.quantize %[[A]] : {{.*}}block_1x128, pow2, contract = 0>
// BLOCK-NONE-NEXT: %[[HA:.*]] = te.residual %[[AC]] "linear2.x"
// BLOCK-NONE-NEXT: %[[HW2:.*]] = te.residual %{{.*}} "w2" : !te.scaled<512x1024xf8E4M3FN, block_128x128, pow2, contract = 0>
// BLOCK-NONE-NEXT: %[[HW1:.*]] = te.residual %[[W1C]] "w1"
// BLOCK-NONE-NEXT: %[[HX:.*]] = te.residual %[[XC]] "x"
// BLOCK-NONE-NOT: te.residual
// BLOCK-NONE: %[[DYR:.*]] = te.quantize %[[DY]] : {{.*}} -> !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 1>
// BLOCK-NONE: te.scaled_matmul %[[DYR]], %[[HW2]] fast_accumulation = false
// BLOCK-NONE: %[[DYC:.*]] = te.quantize %[[DY]] : {{.*}}block_1x128, pow2, contract = 0>
// BLOCK-NONE: te.scaled_matmul %[[DYC]], %[[HA]] fast_accumulation = false
// BLOCK-NONE: %[[DH:.*]] = te.activation_backward <silu> %{{.*}}, %[[HH]]
// BLOCK-NONE: %[[DHR:.*]] = te.quantize %[[DH]] : {{.*}}contract = 1>
// BLOCK-NONE: te.scaled_matmul %[[DHR]], %[[HW1]]
// BLOCK-NONE: %[[DHC:.*]] = te.quantize %[[DH]] : {{.*}}contract = 0>
// BLOCK-NONE: te.scaled_matmul %[[DHC]], %[[HX]]

// BLOCK-HP-NEXT: %[[HH:.*]] = te.residual %[[H]] "activation.x"
// BLOCK-HP-NEXT: %[[HA:.*]] = te.residual %[[A]] "linear2.x" : tensor<256x1024xbf16>
// BLOCK-HP-NEXT: te.matmul %[[DY]], %[[W2]] contract = [1, 0]
// BLOCK-HP-NEXT: te.matmul %[[DY]], %[[HA]] contract = [0, 0]
// BLOCK-HP-NEXT: %[[DH:.*]] = te.activation_backward
// BLOCK-HP-NEXT: te.matmul %[[DH]], %[[W1]] contract = [1, 0]
// BLOCK-HP-NEXT: te.matmul %[[DH]], %[[X]] contract = [0, 0]

// The casts of the forward are saved and dequantised, without other casts.
// BLOCK-DEQ-NEXT: %[[HH:.*]] = te.residual %[[H]] "activation.x"
// BLOCK-DEQ-NEXT: %[[HA:.*]] = te.residual %[[AR]] "linear2.x"
// BLOCK-DEQ-NEXT: %[[HW2:.*]] = te.residual %[[W2R]] "w2"
// BLOCK-DEQ-NEXT: %[[HW1:.*]] = te.residual %[[W1R]] "w1"
// BLOCK-DEQ-NEXT: %[[HX:.*]] = te.residual %[[XR]] "x"
// BLOCK-DEQ-NEXT: %[[DW2:.*]] = te.dequantize %[[HW2]]
// BLOCK-DEQ-NEXT: te.matmul %[[DY]], %[[DW2]] contract = [1, 0]
// BLOCK-DEQ-NEXT: %[[DA:.*]] = te.dequantize %[[HA]]
// BLOCK-DEQ-NEXT: te.matmul %[[DY]], %[[DA]] contract = [0, 0]
// BLOCK-DEQ-NEXT: %[[DH:.*]] = te.activation_backward
// BLOCK-DEQ-NEXT: %[[DW1:.*]] = te.dequantize %[[HW1]]
// BLOCK-DEQ-NEXT: te.matmul %[[DH]], %[[DW1]] contract = [1, 0]
// BLOCK-DEQ-NEXT: %[[DX:.*]] = te.dequantize %[[HX]]
// BLOCK-DEQ-NEXT: te.matmul %[[DH]], %[[DX]] contract = [0, 0]

// CURRENT-LABEL: func.func @step
// CURRENT-SAME: %[[X:[a-z0-9]+]]: tensor<256x512xbf16> {te.name = "x"}
// CURRENT-SAME: %[[W1:[a-z0-9]+]]: tensor<1024x512xbf16>
// CURRENT-SAME: %[[W2:[a-z0-9]+]]: tensor<512x1024xbf16>
// CURRENT-SAME: %[[DY:[a-z0-9]+]]: tensor<256x512xbf16> {te.name = "grad.y"}
// CURRENT: %[[XAMAX:.*]] = te.amax %[[X]]
// CURRENT: %[[XSCALE:.*]] = te.compute_scale %[[XAMAX]] for f8E4M3FN
// CURRENT: %[[XR:.*]] = te.quantize %[[X]] scale %[[XSCALE]] : {{.*}} -> !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>
// CURRENT: %[[W1SCALE:.*]] = te.compute_scale %{{.*}} for f8E4M3FN
// CURRENT: %[[W1R:.*]] = te.quantize %[[W1]] scale %[[W1SCALE]] : {{.*}}contract = 1>
// Both usages of a tensor have one scale.
// CURRENT-NONE: %[[W1C:.*]] = te.quantize %[[W1]] scale %[[W1SCALE]] : {{.*}}contract = 0>
// CURRENT-NONE: %[[XC:.*]] = te.quantize %[[X]] scale %[[XSCALE]] : {{.*}}contract = 0>
// CURRENT: %[[H:.*]] = te.scaled_matmul %[[XR]], %[[W1R]] fast_accumulation = true
// CURRENT: %[[A:.*]] = te.activation <silu> %[[H]]
// CURRENT: te.compute_scale %{{.*}} for f8E4M3FN
// CURRENT: %[[AR:.*]] = te.quantize %[[A]] scale
// CURRENT: te.scaled_matmul %[[AR]], %{{.*}} fast_accumulation = true

// CURRENT-NONE: te.residual %[[H]] "activation.x"
// CURRENT-NONE: %[[HA:.*]] = te.residual %{{.*}} "linear2.x" : !te.scaled<256x1024xf8E4M3FN, per_tensor, contract = 0>
// CURRENT-NONE-NEXT: %[[HW2:.*]] = te.residual %{{.*}} "w2" : !te.scaled<512x1024xf8E4M3FN, per_tensor, contract = 0>
// CURRENT-NONE-NEXT: %[[HW1:.*]] = te.residual %[[W1C]] "w1"
// CURRENT-NONE-NEXT: %[[HX:.*]] = te.residual %[[XC]] "x"
// CURRENT-NONE: %[[DYSCALE:.*]] = te.compute_scale %{{.*}} for f8E5M2
// CURRENT-NONE: %[[DYR:.*]] = te.quantize %[[DY]] scale %[[DYSCALE]] : {{.*}} -> !te.scaled<256x512xf8E5M2, per_tensor, contract = 1>
// CURRENT-NONE: te.scaled_matmul %[[DYR]], %[[HW2]] fast_accumulation = false
// CURRENT-NONE: %[[DYC:.*]] = te.quantize %[[DY]] scale %[[DYSCALE]] : {{.*}}contract = 0>
// CURRENT-NONE: te.scaled_matmul %[[DYC]], %[[HA]] fast_accumulation = false
// CURRENT-NONE: te.scaled_matmul %{{.*}}, %[[HW1]] fast_accumulation = false
// CURRENT-NONE: te.scaled_matmul %{{.*}}, %[[HX]] fast_accumulation = false

// CURRENT-HP: te.residual %[[A]] "linear2.x" : tensor<256x1024xbf16>
// CURRENT-HP-NOT: te.quantize
// CURRENT-HP-COUNT-4: te.matmul
// CURRENT-HP-NOT: te.matmul

// CURRENT-DEQ: te.residual %[[AR]] "linear2.x"
// CURRENT-DEQ: te.residual %[[W1R]] "w1"
// CURRENT-DEQ: te.residual %[[XR]] "x"
// CURRENT-DEQ-NOT: te.quantize
// CURRENT-DEQ-COUNT-4: te.dequantize

func.func @step(%x: tensor<256x512xbf16> {te.name = "x"}, %w1: tensor<1024x512xbf16> {te.name = "w1", te.weight},
                %w2: tensor<512x1024xbf16> {te.name = "w2", te.weight}, %dy: tensor<256x512xbf16> {te.name = "grad.y"})
    -> (tensor<256x512xbf16>, tensor<256x512xbf16>, tensor<1024x512xbf16>, tensor<512x1024xbf16>) {
  %h = te.linear %x, %w1 : tensor<256x512xbf16>, tensor<1024x512xbf16> -> tensor<256x1024xbf16>
  %a = te.activation <silu> %h : tensor<256x1024xbf16> -> tensor<256x1024xbf16>
  %y = te.linear %a, %w2 : tensor<256x1024xbf16>, tensor<512x1024xbf16> -> tensor<256x512xbf16>
  %rh = te.residual %h "activation.x" : tensor<256x1024xbf16>
  %ra = te.residual %a "linear2.x" : tensor<256x1024xbf16>
  %da = te.linear_dgrad %dy, %w2 : tensor<256x512xbf16>, tensor<512x1024xbf16> -> tensor<256x1024xbf16>
  %dw2 = te.linear_wgrad %dy, %ra : tensor<256x512xbf16>, tensor<256x1024xbf16> -> tensor<512x1024xbf16>
  %dh = te.activation_backward <silu> %da, %rh : tensor<256x1024xbf16>, tensor<256x1024xbf16>
  %dx = te.linear_dgrad %dh, %w1 : tensor<256x1024xbf16>, tensor<1024x512xbf16> -> tensor<256x512xbf16>
  %dw1 = te.linear_wgrad %dh, %x : tensor<256x1024xbf16>, tensor<256x512xbf16> -> tensor<1024x512xbf16>
  return %y, %dx, %dw1, %dw2 : tensor<256x512xbf16>, tensor<256x512xbf16>, tensor<1024x512xbf16>, tensor<512x1024xbf16>
}
