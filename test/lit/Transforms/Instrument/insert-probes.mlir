// Each operand of a GEMM is probed once in each form in which GEMMs read it.

// RUN: te-opt %s --te-training-pipeline="vjp=layers compile-to=fuse recipe=float8_block_scaling probes=*" | FileCheck %s --check-prefixes=ALL,BLOCK
// RUN: te-opt %s --te-training-pipeline="vjp=layers compile-to=fuse recipe=delayed_scaling probes=*" | FileCheck %s --check-prefixes=ALL,TENSOR
// RUN: te-opt %s --te-training-pipeline="vjp=layers compile-to=fuse recipe=nvfp4_block_scaling emulate probes=*" | FileCheck %s --check-prefixes=ALL,NVFP4
// RUN: te-opt %s --te-training-pipeline="vjp=layers compile-to=fuse recipe=float8_block_scaling backward-override=high_precision probes=*" | FileCheck %s --check-prefixes=ALL,HIGH
// RUN: te-opt %s --te-training-pipeline="vjp=layers compile-to=fuse recipe=delayed_scaling calibrate probes=*" | FileCheck %s --check-prefixes=ALL,CALIBRATE
// RUN: te-opt %s --te-training-pipeline="vjp=layers compile-to=fuse recipe=float8_block_scaling probes=a.?,*.dy" | FileCheck %s --check-prefix=SOME
// RUN: te-opt %s --te-training-pipeline="vjp=layers compile-to=fuse recipe=float8_block_scaling" | FileCheck %s --check-prefix=OFF
// RUN: not te-opt %s --te-training-pipeline="vjp=layers compile-to=fuse recipe=delayed_scaling probes=a.x,typo*" 2>&1 | FileCheck %s --check-prefix=TYPO
// RUN: not te-opt %s --te-training-pipeline="vjp=layers compile-to=fuse recipe=delayed_scaling probes=[" 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-probes{patterns=*}))' | FileCheck %s --check-prefix=NONE

// OFF-NOT: te.tensor_stats
// OFF-NOT: te.probe
// NONE-NOT: te.tensor_stats
// TYPO: error: expected 'probes' to name operands of GEMMs, but got 'typo*'; there are 'a.x', 'a.w', 'b.x', 'b.w', 'b.dy', 'a.dy'
// BAD: error: expected 'probes' to be patterns, but got '['

// SOME: te.name = "probe.a.x", te.probe
// SOME-SAME: te.name = "probe.a.w", te.probe
// SOME-SAME: te.name = "probe.b.dy", te.probe
// SOME-SAME: te.name = "probe.a.dy", te.probe
// SOME-NOT: te.name = "probe
// SOME-COUNT-4: te.tensor_stats
// SOME-NOT: te.tensor_stats

// ALL-LABEL: func.func @layers
// BLOCK-SAME: tensor<14xf32> {te.name = "probe.a.x", te.probe = ["amax", "amin", "mean", "std", "zeros%", "nan", "inf", "underflows%", "overflows%", "mse", "snr", "scale_inv_min", "scale_inv_max", "scales_clipped"]}
// BLOCK-SAME: tensor<14xf32> {te.name = "probe.a.w"
// BLOCK-SAME: tensor<14xf32> {te.name = "probe.b.x"
// BLOCK-SAME: tensor<14xf32> {te.name = "probe.b.w"
// BLOCK-SAME: tensor<14xf32> {te.name = "probe.b.dy"
// BLOCK-SAME: tensor<14xf32> {te.name = "probe.b.dy_columnwise"
// BLOCK-SAME: tensor<14xf32> {te.name = "probe.b.x_columnwise"
// BLOCK-SAME: tensor<14xf32> {te.name = "probe.a.dy"
// BLOCK-SAME: tensor<14xf32> {te.name = "probe.a.dy_columnwise"
// BLOCK-SAME: tensor<14xf32> {te.name = "probe.a.x_columnwise"
// BLOCK-NOT: te.name = "probe
// TENSOR-SAME: tensor<14xf32> {te.name = "probe.a.x"
// TENSOR-SAME: tensor<14xf32> {te.name = "probe.a.dy"
// TENSOR-NOT: columnwise
// TENSOR-COUNT-6: te.tensor_stats
// TENSOR-NOT: te.tensor_stats
// NVFP4-SAME: te.name = "probe.a.x"
// NVFP4-SAME: te.name = "probe.a.dy_columnwise"
// NVFP4-SAME: te.name = "probe.a.x_columnwise"
// NVFP4-NOT: te.name = "probe
// NVFP4: te.hadamard
// HIGH-SAME: tensor<14xf32> {te.name = "probe.a.x"
// HIGH-SAME: tensor<7xf32> {te.name = "probe.b.dy", te.probe = ["amax", "amin", "mean", "std", "zeros%", "nan", "inf"]}
// HIGH-NOT: columnwise
// CALIBRATE-SAME: tensor<7xf32> {te.name = "probe.a.x"
// CALIBRATE-NOT: tensor<14xf32>

// The probe reads the tensor directly after its cast, so the activation is stored.
// BLOCK: %[[X:.*]]:2 = te.quantize %[[A:[a-z0-9]+]] :
// BLOCK: te.tensor_stats %[[A]] cast %[[X]]#
// BLOCK: te.tensor_stats
// BLOCK: te.scaled_matmul
// BLOCK: %[[Y:.*]] = te.activation <silu>
// BLOCK: te.tensor_stats %[[Y]] cast
func.func @layers(%x: tensor<128x256xbf16> {te.name = "x"}, %wa: tensor<384x256xbf16> {te.name = "a", te.weight},
                  %wb: tensor<128x384xbf16> {te.name = "b", te.weight}) -> (tensor<128x128xbf16> {te.name = "y"}) {
  %h = te.linear %x, %wa : tensor<128x256xbf16>, tensor<384x256xbf16> -> tensor<128x384xbf16> loc("a")
  %s = te.activation <silu> %h : tensor<128x384xbf16> -> tensor<128x384xbf16>
  %y = te.linear %s, %wb : tensor<128x384xbf16>, tensor<128x384xbf16> -> tensor<128x128xbf16> loc("b")
  return %y : tensor<128x128xbf16>
}
