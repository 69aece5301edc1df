// The order of amaxes, casts, gathers and GEMMs for each recipe, for a
// column-parallel and a row-parallel layer with sequence parallelism.
// RUN: te-opt %s --te-training-pipeline="vjp=step compile-to=quantize recipe=float8_current_scaling" | FileCheck %s --check-prefixes=CHECK,CURRENT
// RUN: te-opt %s --te-training-pipeline="vjp=step compile-to=quantize recipe=float8_block_scaling" | FileCheck %s --check-prefixes=CHECK,BLOCK
// RUN: te-opt %s --te-training-pipeline="vjp=step compile-to=quantize recipe=mxfp8_block_scaling target=reference" | FileCheck %s --check-prefixes=CHECK,MX
// RUN: te-opt %s --te-training-pipeline="vjp=step compile-to=quantize recipe=nvfp4_block_scaling target=reference" | FileCheck %s --check-prefixes=CHECK,NV
// RUN: te-opt %s --te-training-pipeline="vjp=step compile-to=quantize recipe=delayed_scaling" | FileCheck %s --check-prefix=DELAYED
// RUN: te-opt %s --te-training-pipeline="vjp=step compile-to=quantize recipe=float8_current_scaling backward-override=dequantized" | FileCheck %s --check-prefix=DEQUANTIZED
// RUN: te-opt %s --te-training-pipeline="vjp=step compile-to=quantize recipe=float8_current_scaling backward-override=high_precision" | FileCheck %s --check-prefix=HIGH
// RUN: te-opt %s --te-training-pipeline="vjp=step compile-to=lower recipe=float8_current_scaling" -o /dev/null
// RUN: te-opt %s --te-training-pipeline="vjp=step compile-to=lower recipe=float8_block_scaling remat=everything" -o /dev/null
// RUN: te-opt %s --te-training-pipeline="vjp=step compile-to=lower recipe=mxfp8_block_scaling target=reference" -o /dev/null
// RUN: te-opt %s --te-training-pipeline="vjp=step compile-to=lower recipe=nvfp4_block_scaling target=reference" -o /dev/null
// RUN: te-opt %s --te-training-pipeline="vjp=step compile-to=lower recipe=delayed_scaling" -o /dev/null

// CHECK-LABEL: func.func @step

// Forward, column: the amax is reduced over the group, and the cast is gathered as bytes.
// CURRENT: %[[AMAX:.*]] = te.amax %arg0
// CURRENT: %[[ALL:.*]] = te.amax_reduce %[[AMAX]] group 0
// CURRENT: %[[SCALE:.*]] = te.compute_scale %[[ALL]]
// CURRENT: %[[XQ:.*]] = te.quantize %arg0 scale %[[SCALE]]
// CURRENT: te.all_gather %[[XQ]] group 0 axis 0 : !te.scaled<128x256xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<256x256xf8E4M3FN, per_tensor, contract = 1>
// The scale of the weight is that of this rank only.
// CURRENT-NOT: te.amax_reduce
// CURRENT: te.scaled_matmul
// BLOCK-NOT: te.amax
// BLOCK: %[[X:.*]]:2 = te.quantize %arg0 : tensor<128x256xbf16>
// BLOCK: te.all_gather %[[X]]#0 group 0 axis 0
// BLOCK: te.scaled_matmul
// MX-NOT: te.amax
// MX: %[[X:.*]]:2 = te.quantize %arg0 : tensor<128x256xbf16>
// MX: te.all_gather %[[X]]#0 group 0 axis 0
// MX: te.scaled_matmul
// NV: te.amax_reduce
// NV: te.all_gather %{{.*}} group 0 axis 0 : !te.scaled<128x256xf4E2M1FN, nv_1x16, contract = 1>
// NV: te.scaled_matmul

// Forward, row: the results of both ranks are summed.
// CHECK: te.scaled_matmul
// CHECK: te.reduce_scatter %{{.*}} group 0 axis 0 : tensor<256x256xbf16> -> tensor<128x256xbf16>

// Only this rank's part of x is saved.
// CURRENT: te.residual %[[XQ]]
// BLOCK: te.residual %[[X]]#1
// MX: te.residual %[[X]]#1

// Backward, row: dy is gathered after its cast, which uses the group's amax.
// CURRENT: te.amax_reduce
// CURRENT: %[[DY:.*]] = te.all_gather %{{.*}} : !te.scaled<128x256xf8E5M2, per_tensor, contract = 1>
// CURRENT: te.scaled_matmul %[[DY]]
// CURRENT: te.transpose %[[DY]]
// BLOCK: te.all_gather %{{.*}} : !te.scaled<128x256xf8E4M3FN, block_1x128, pow2, contract = 1>
// BLOCK: te.all_gather %{{.*}} : !te.scaled<128x256xf8E4M3FN, block_1x128, pow2, contract = 0>
// NV: te.amax_reduce
// NV: te.all_gather %{{.*}} : !te.scaled<128x256xf4E2M1FN, nv_1x16, contract = 1>
// NV: te.hadamard
// NV: te.amax_reduce
// NV: te.all_gather %{{.*}} : !te.scaled<128x256xf4E2M1FN, nv_1x16, hadamard, contract = 0>

// Backward, column: dx is computed in high precision, and x is gathered again.
// CHECK: te.reduce_scatter %{{.*}} group 0 axis 0 : tensor<256x256xbf16> -> tensor<128x256xbf16>
// CURRENT: %[[X:.*]] = te.all_gather %{{.*}} : !te.scaled<128x256xf8E4M3FN, per_tensor, contract = 1>
// CURRENT: te.transpose %[[X]]
// BLOCK: te.all_gather %{{.*}} : !te.scaled<128x256xf8E4M3FN, block_1x128, pow2, contract = 0>
// MX: te.all_gather %{{.*}} : !te.scaled<128x256xf8E4M3FN, mx_1x32, contract = 0>

// Every slot is reduced over all ranks at the end, and no gather waits for that.
// DELAYED-LABEL: func.func @step
// DELAYED: te.all_gather %{{.*}} : !te.scaled<128x256xf8E4M3FN, per_tensor, contract = 1>
// DELAYED-NOT: te.amax_reduce %{{.*}} te.all_gather
// DELAYED: te.amax_reduce
// DELAYED-NEXT: te.delayed_scaling_update

// x is dequantised before the gather, because nothing else is saved.
// DEQUANTIZED-LABEL: func.func @step
// DEQUANTIZED: te.amax_reduce
// DEQUANTIZED: te.all_gather %{{.*}} : !te.scaled
// DEQUANTIZED-NOT: te.amax_reduce
// DEQUANTIZED: te.all_gather %{{.*}} : tensor<128x256xbf16> -> tensor<256x256xbf16>
// DEQUANTIZED: %[[D:.*]] = te.dequantize %{{.*}} : <128x256xf8E4M3FN, per_tensor, contract = 1>
// DEQUANTIZED: te.all_gather %[[D]] group 0 axis 0

// HIGH-LABEL: func.func @step
// HIGH: te.amax_reduce
// HIGH: te.all_gather %{{.*}} : !te.scaled
// HIGH-NOT: te.amax_reduce
// HIGH: te.all_gather %{{.*}} : tensor<128x256xbf16> -> tensor<256x256xbf16>
// HIGH: te.all_gather %{{.*}} : tensor<128x256xbf16> -> tensor<256x256xbf16>
// HIGH-NOT: te.amax_reduce

module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  func.func @step(%x: tensor<128x256xbf16> {te.name = "x"}, %w1: tensor<256x256xbf16> {te.name = "w1", te.weight},
                  %w2: tensor<256x256xbf16> {te.name = "w2", te.weight}) -> (tensor<128x256xbf16> {te.name = "y"}) {
    %h = te.linear %x, %w1 parallel <column, group = 0, sequence> : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<256x256xbf16>
    %y = te.linear %h, %w2 parallel <row, group = 0, sequence> : tensor<256x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
    return %y : tensor<128x256xbf16>
  }
}
