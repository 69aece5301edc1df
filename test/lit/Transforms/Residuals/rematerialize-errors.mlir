// RUN: not te-opt %s --te-rematerialize=policy=all 2>&1 | FileCheck %s --check-prefix=POLICY
// RUN: not te-opt %s --te-rematerialize=policy=ops: 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not te-opt %s --te-rematerialize=policy=budget:1k 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not te-opt %s --te-rematerialize=policy=ops:tanh,silu,attention 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not te-opt %s --te-rematerialize=policy=budget:4095 2>&1 | FileCheck %s --check-prefix=BUDGET
// RUN: te-opt %s --te-rematerialize=policy=budget:4096 | FileCheck %s --check-prefix=SMALLEST
// RUN: te-opt %s --te-rematerialize=policy=budget:8192 --remarks-filter=te-rematerialize 2>&1 | FileCheck %s --check-prefix=ENOUGH
// RUN: te-opt %s --te-rematerialize=policy=ops:tanh --remarks-filter=te-rematerialize 2>&1 | FileCheck %s --check-prefix=MISSED

// POLICY: error: option 'policy' of 'te-rematerialize': expected 'nothing', 'everything', 'ops:<names>' or 'budget:<bytes>', but got 'all'
// EMPTY: error: option 'policy' of 'te-rematerialize': expected a name of an op or layer at every place of 'ops:'
// NUMBER: error: option 'policy' of 'te-rematerialize': expected 'budget:' to have a number of bytes, but got '1k'

// NAME-NOT: called 'tanh'
// NAME: [[@LINE+16]]:1: error: expected 'remat' to name ops or layers of a forward, but nothing is called 'silu'; ops are embedding, sin, tanh
// NAME: error: {{.*}} nothing is called 'attention'

// The layer input %e cannot be recomputed.
// BUDGET: [[@LINE+13]]:3: error: expected the values that 'step' saves for its backward to fit in 4095 bytes, but they need 4096
// BUDGET: note: the smallest 'budget' that works is 4096
// BUDGET: [[@LINE+16]]:{{.*}}: note: 'e' (4096 bytes) is still saved
// BUDGET-NOT: is still saved
// SMALLEST: held_after = 4096 : i64, held_before = 8192 : i64
// ENOUGH: [Analysis] rematerialize{{.*}}'tanh' of 'tanh0' is saved: the budget is met
// ENOUGH: held_after = 8192 : i64, held_before = 8192 : i64, policy = "budget:8192", recomputed = []

// The sine would have to be saved in its place.
// MISSED: [Missed] rematerialize{{.*}}'tanh' of 'tanh0' is not recomputed: that would save 4096 other bytes to free 4096
// MISSED: recomputed = []

module {
  func.func @step(%ids: tensor<32xi32>, %table: tensor<16x64xbf16>, %dy: tensor<32x64xbf16>) -> (tensor<32x64xbf16>, tensor<32x64xbf16>) {
    %e = te.embedding %ids, %table : tensor<32xi32>, tensor<16x64xbf16> -> tensor<32x64xbf16>
    %s = math.sin %e : tensor<32x64xbf16>
    %t = math.tanh %s : tensor<32x64xbf16>
    %y = arith.addf %e, %t : tensor<32x64xbf16>
    %er = te.residual %e "e" : tensor<32x64xbf16>
    %tr = te.residual %t "t" : tensor<32x64xbf16>
    %d = arith.mulf %dy, %tr : tensor<32x64xbf16>
    %dx = arith.mulf %d, %er : tensor<32x64xbf16>
    return %y, %dx : tensor<32x64xbf16>, tensor<32x64xbf16>
  }
}
