// RUN: not te-opt %s --pass-pipeline='builtin.module(func.func(te-materialize-transposes{policy=always}))' 2>&1 | FileCheck %s --check-prefix=POLICY
// RUN: not te-opt %s --pass-pipeline='builtin.module(func.func(te-materialize-transposes{policy=budget}))' 2>&1 | FileCheck %s --check-prefix=NO-BUDGET
// RUN: not te-opt %s --pass-pipeline='builtin.module(func.func(te-materialize-transposes{transpose-budget=64}))' 2>&1 | FileCheck %s --check-prefix=NO-POLICY
// RUN: not te-opt %s --pass-pipeline='builtin.module(func.func(te-materialize-transposes{target=sm_80}))' 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not te-opt %s --te-training-pipeline='transpose-policy=budget' 2>&1 | FileCheck %s --check-prefix=PIPELINE
// RUN: not te-opt %s --te-training-pipeline='transpose-policy=budget transpose-budget=64 remat=everything' 2>&1 | FileCheck %s --check-prefix=REMAT
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-materialize-transposes{rows-are-kept=true policy=budget transpose-budget=8199}))' | FileCheck %s --check-prefix=DEMAND
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-materialize-transposes{rows-are-kept=true policy=budget transpose-budget=8200}))' | FileCheck %s --check-prefix=KEPT

// POLICY: expected option 'policy' of 'te-materialize-transposes' to be 'on-demand', 'cached', 'budget' or 'eager', but got 'always'
// NO-BUDGET: expected a 'transpose-budget' exactly with transpose policy 'budget', but got none with 'budget'
// NO-POLICY: expected a 'transpose-budget' exactly with transpose policy 'budget', but got 64 with 'on-demand'
// TARGET: te-materialize-transposes: expected 'target' to be one of sm_90, sm_100, reference, but got 'sm_80'
// PIPELINE: expected 'transpose-budget' with 'transpose-policy=budget' and with no other, but 'transpose-policy' is 'budget' and 'transpose-budget' -1

// REMAT: expected 'remat' to be nothing with 'transpose-policy=budget', whose 'transpose-budget' decides what is recomputed, but got 'everything'

// One op reads two columns of 2 * (64 * 64 + 4) bytes. If less memory is left, neither is cached.
// DEMAND-COUNT-2: te.transpose
// KEPT-NOT: te.transpose
func.func @two_at_once(%w: tensor<64x64xbf16> {te.name = "w", te.weight}, %v: tensor<64x64xbf16> {te.name = "v", te.weight}, %scale: tensor<f32>) -> tensor<64x64xbf16> {
  %wr = te.quantize %w scale %scale : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
  %wc = te.quantize %w scale %scale : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0>
  %vr = te.quantize %v scale %scale : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 1>
  %vc = te.quantize %v scale %scale : tensor<64x64xbf16> -> !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0>
  %y = te.scaled_matmul %wc, %vc fast_accumulation = false : !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0>, !te.scaled<64x64xf8E4M3FN, per_tensor, contract = 0> -> tensor<64x64xbf16>
  return %y : tensor<64x64xbf16>
}
