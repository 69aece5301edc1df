// Layers of groups have a scale for each group. Padding is zeroed only if a cast reads it.
// RUN: te-opt %s --te-training-pipeline="vjp=layer recipe=float8_current_scaling compile-to=quantize" | FileCheck %s --check-prefix=TENSOR
// RUN: te-opt %s --te-training-pipeline="vjp=layer recipe=float8_block_scaling compile-to=quantize" | FileCheck %s --check-prefix=BLOCK
// RUN: te-opt %s --te-training-pipeline="vjp=layer recipe=delayed_scaling compile-to=quantize" | FileCheck %s --check-prefix=DELAYED
// RUN: te-opt %s --te-training-pipeline="vjp=layer recipe=float8_current_scaling backward-override=dequantized compile-to=quantize" | FileCheck %s --check-prefix=DEQUANTIZED
// RUN: te-opt %s --te-training-pipeline="vjp=layer recipe=nvfp4_block_scaling target=reference compile-to=quantize" | FileCheck %s --check-prefix=NVFP4
// RUN: te-opt %s --te-training-pipeline="vjp=layer recipe=float8_current_scaling report=precision compile-to=fuse" -o /dev/null | FileCheck %s --check-prefix=LEDGER

// Each group has an amax. The padding is not read, so it is not zeroed.
// TENSOR-LABEL: func.func @layer
// TENSOR-NOT: te.zero_padding
// TENSOR: te.grouped_amax
// TENSOR: te.compute_scale {{.*}} for f8E4M3FN : tensor<2xf32>
// TENSOR: te.grouped_quantize {{.*}} groups = 2
// TENSOR: te.amax_rows {{.*}} : tensor<2x524288xbf16> -> tensor<2xf32>
// TENSOR: te.quantize {{.*}} !te.scaled<2x1024x512xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<2x1024x512xf8E4M3FN, per_tensor, contract = 0>
// TENSOR: te.grouped_scaled_matmul
// TENSOR-SAME: fast_accumulation = true
// TENSOR: te.grouped_scaled_matmul
// TENSOR: te.grouped_scaled_wgrad
// TENSOR-NOT: te.zero_padding

// A block may extend beyond the end of a group, and the values in the padding are unknown.
// BLOCK-LABEL: func.func @layer
// BLOCK: te.zero_padding %[[X:.*]], %[[SIZES:.*]] {alignment = 128 : i64}
// BLOCK: te.grouped_quantize {{.*}} sizes %[[SIZES]] {alignment = 128 : i64}
// BLOCK: te.grouped_scaled_matmul
// The rows of the activation in the padding are zeros, because those of its input are.
// BLOCK-NOT: te.zero_padding
// BLOCK: te.grouped_scaled_matmul

// Each group has a state.
// DELAYED-LABEL: func.func @layer
// DELAYED-SAME: tensor<1024x2xf32> {te.init = {{.*}}, te.name = "up.x.amax_history", te.recipe_state}
// DELAYED-SAME: tensor<2xf32> {te.init = {{.*}}, te.name = "up.x.scale", te.recipe_state}
// DELAYED: te.delayed_scaling_update {{.*}} : tensor<2xf32>, tensor<1024x2xf32>

// DEQUANTIZED-LABEL: func.func @layer
// DEQUANTIZED: te.dequantize {{.*}} <2x512x1024xf8E4M3FN, per_tensor, contract = 1>
// DEQUANTIZED: te.grouped_matmul {{.*}} contract = 0
// DEQUANTIZED: te.dequantize {{.*}} sizes {{.*}} groups = 2
// DEQUANTIZED: te.grouped_wgrad

// The Hadamard transform mixes runs of 16 rows, so groups end at multiples of 16 in the weight gradient.
// NVFP4-LABEL: func.func @layer
// NVFP4: %[[ROUNDED:.*]] = te.round_group_sizes {{.*}} {multiple = 16 : i64}
// NVFP4: te.hadamard
// NVFP4: te.grouped_amax {{.*}}, %[[ROUNDED]]
// NVFP4: te.grouped_scaled_wgrad

// LEDGER: fprop{{ +}}up{{.*}}grouped
// LEDGER: wgrad{{ +}}up{{.*}}grouped
func.func @layer(%x: tensor<512x512xbf16> {te.name = "x"}, %up: tensor<2x1024x512xbf16> {te.name = "up", te.weight},
                 %down: tensor<2x512x1024xbf16> {te.name = "down", te.weight}, %sizes: tensor<2xi32> {te.name = "sizes"})
    -> (tensor<512x512xbf16> {te.name = "y"}) {
  %u = te.grouped_linear %x, %up, %sizes {alignment = 128 : i64}
    : tensor<512x512xbf16>, tensor<2x1024x512xbf16>, tensor<2xi32> -> tensor<512x1024xbf16>
  %a = te.activation <silu> %u : tensor<512x1024xbf16> -> tensor<512x1024xbf16>
  %y = te.grouped_linear %a, %down, %sizes {alignment = 128 : i64}
    : tensor<512x1024xbf16>, tensor<2x512x1024xbf16>, tensor<2xi32> -> tensor<512x512xbf16>
  return %y : tensor<512x512xbf16>
}
