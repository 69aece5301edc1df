// A layer with a weight [K, N]: the axis of each cast, and the order of the operands of each GEMM.

// DEFINE: %{recipe} = float8_block_scaling
// DEFINE: %{override} = none
// DEFINE: %{target} = sm_90
// DEFINE: %{run} = te-opt %s --pass-pipeline='builtin.module(te-assign-recipe{recipe=%{recipe} backward-override=%{override}},func.func(te-insert-casts{target=%{target}},cse))'

// RUN: %{run} | FileCheck %s --check-prefix=BLOCK
// REDEFINE: %{override} = dequantized
// RUN: %{run} | FileCheck %s --check-prefix=DEQ
// REDEFINE: %{override} = high_precision
// RUN: %{run} | FileCheck %s --check-prefix=HP
// REDEFINE: %{override} = none
// REDEFINE: %{recipe} = delayed_scaling
// REDEFINE: %{target} = sm_100
// RUN: %{run} | FileCheck %s --check-prefix=ROWS

// BLOCK: %[[X:.*]] = te.quantize %{{.*}} -> !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 1>
// BLOCK: %[[W:.*]] = te.quantize %arg1 {{.*}} -> !te.scaled<512x1024xf8E4M3FN, block_128x128, pow2, contract = 0>
// BLOCK: te.scaled_matmul %[[X]], %[[W]] fast_accumulation = false {{.*}} -> tensor<256x1024xbf16>
// BLOCK: %[[DY:.*]] = te.quantize %arg2 {{.*}} contract = 1>
// BLOCK-DAG: %[[WR:.*]] = te.residual %{{.*}} : !te.scaled<512x1024xf8E4M3FN, block_128x128, pow2, contract = 1>
// BLOCK-DAG: %[[XR:.*]] = te.residual %{{.*}} : !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 0>
// BLOCK: te.scaled_matmul %[[DY]], %[[WR]] {{.*}} -> tensor<256x512xbf16>
// BLOCK: %[[DYC:.*]] = te.quantize %arg2 {{.*}} contract = 0>
// BLOCK: te.scaled_matmul %[[XR]], %[[DYC]] {{.*}} -> tensor<512x1024xbf16>

// The casts of the forward are dequantised: the columns of the weight, and x, which is operand a of the wgrad.
// DEQ-DAG: %[[W:.*]] = te.quantize %arg1 {{.*}} block_128x128, pow2, contract = 0>
// DEQ-DAG: %[[X:.*]] = te.quantize %arg0 {{.*}} block_1x128, pow2, contract = 1>
// DEQ: te.scaled_matmul
// DEQ-DAG: %[[WR:.*]] = te.residual %[[W]]
// DEQ-DAG: %[[XR:.*]] = te.residual %[[X]]
// DEQ: %[[WD:.*]] = te.dequantize %[[WR]]
// DEQ: te.matmul %arg2, %[[WD]] contract = [1, 1]
// DEQ: %[[XD:.*]] = te.dequantize %[[XR]]
// DEQ: te.matmul %[[XD]], %arg2 contract = [0, 0]

// HP: te.scaled_matmul
// HP: te.matmul %arg2, %arg1 contract = [1, 1] {{.*}} -> tensor<256x512xbf16>
// HP: te.matmul %arg0, %arg2 contract = [0, 0] {{.*}} -> tensor<512x1024xbf16>

// There is one cast of the rows, which the forward contracts along the other axis, and one history of the weight.
// ROWS: func.func @step
// ROWS-SAME: te.name = "w.w.amax_history"
// ROWS-NOT: "w.w.1
// ROWS: %[[X:.*]] = te.quantize %arg0
// ROWS: %[[W:.*]] = te.quantize %arg1 {{.*}} contract = 1>
// ROWS: te.scaled_matmul %[[X]], %[[W]] fast_accumulation = true contract = [1, 0]

func.func @step(%x: tensor<256x512xbf16>, %w: tensor<512x1024xbf16> {te.name = "w", te.weight}, %dy: tensor<256x1024xbf16>)
    -> (tensor<256x1024xbf16>, tensor<256x512xbf16>, tensor<512x1024xbf16>) {
  %y = te.linear %x, %w {transposed_weight} : tensor<256x512xbf16>, tensor<512x1024xbf16> -> tensor<256x1024xbf16>
  %dx = te.linear_dgrad %dy, %w {transposed_weight} : tensor<256x1024xbf16>, tensor<512x1024xbf16> -> tensor<256x512xbf16>
  %dw = te.linear_wgrad %dy, %x {transposed_weight} : tensor<256x1024xbf16>, tensor<256x512xbf16> -> tensor<512x1024xbf16>
  return %y, %dx, %dw : tensor<256x1024xbf16>, tensor<256x512xbf16>, tensor<512x1024xbf16>
}
