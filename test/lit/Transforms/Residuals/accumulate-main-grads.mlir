// RUN: te-opt %s --split-input-file --te-accumulate-main-grads --mlir-print-local-scope | FileCheck %s

// The GEMM of a wgrad adds in f32 to a state, which is set to zero before unless the flag is set.
// CHECK-LABEL: func.func @product(
// CHECK-SAME: %[[SKIP:[^:]*]]: tensor<f32> {te.init = 0.000000e+00 : f32, te.name = "skip_weight_update"}
// CHECK-SAME: %[[SUM:[^:]*]]: tensor<128x64xf32> {te.init = 0.000000e+00 : f32, te.name = "grad.w"}
// CHECK-SAME: -> (tensor<128x64xf32> {te.name = "grad.w"})
// CHECK-NEXT: %[[FROM:.*]] = te.zero_unless %[[SUM]], %[[SKIP]] : tensor<128x64xf32>
// CHECK-NEXT: %[[DW:.*]] = te.linear_wgrad %{{.*}}, %{{.*}} accumulate %[[FROM]] : tensor<128x64xf32> : {{.*}} -> tensor<128x64xf32>
// CHECK-NEXT: return %[[DW]] : tensor<128x64xf32>
func.func @product(%dy: tensor<32x128xbf16>, %x: tensor<32x64xbf16>, %w: tensor<128x64xbf16> {te.name = "w", te.weight})
    -> (tensor<128x64xbf16> {te.name = "grad.w"}) {
  %dw = te.linear_wgrad %dy, %x : tensor<32x128xbf16>, tensor<32x64xbf16> -> tensor<128x64xbf16>
  return %dw : tensor<128x64xbf16>
}

// -----

// So does a wgrad of groups. The step's own flag is used.
// CHECK-LABEL: func.func @groups(
// CHECK-SAME: %[[SKIP:[^:]*]]: tensor<f32> {te.name = "skip_weight_update"}
// CHECK-SAME: %[[SUM:[^:]*]]: tensor<2x128x64xf32> {te.init
// CHECK-NEXT: %[[FROM:.*]] = te.zero_unless %[[SUM]], %[[SKIP]]
// CHECK-NEXT: te.grouped_linear_wgrad %{{.*}} accumulate %[[FROM]] : tensor<2x128x64xf32> {alignment = 16 : i64}
func.func @groups(%dy: tensor<32x128xbf16>, %x: tensor<32x64xbf16>, %sizes: tensor<2xi32>, %w: tensor<2x128x64xbf16> {te.name = "w", te.weight},
                  %skip: tensor<f32> {te.name = "skip_weight_update"}) -> (tensor<2x128x64xbf16> {te.name = "grad.w"}) {
  %dw = te.grouped_linear_wgrad %dy, %x, %sizes {alignment = 16 : i64} : tensor<32x128xbf16>, tensor<32x64xbf16>, tensor<2xi32> -> tensor<2x128x64xbf16>
  return %dw : tensor<2x128x64xbf16>
}

// -----

// The gradient of a weight with several uses, and a cast: each summand is added to the state in program order.
// CHECK-LABEL: func.func @uses(
// CHECK-NOT: arith
// CHECK: %[[FROM:.*]] = te.zero_unless
// CHECK-NEXT: %[[FIRST:.*]] = te.linear_wgrad %arg0, %arg1 accumulate %[[FROM]]
// CHECK-NEXT: %[[SECOND:.*]] = te.linear_wgrad %arg2, %arg3 accumulate %[[FIRST]]
// CHECK-NEXT: %[[THIRD:.*]] = te.linear_wgrad %arg0, %arg3 accumulate %[[SECOND]]
// CHECK-NEXT: return %[[THIRD]]
func.func @uses(%dy: tensor<32x128xbf16>, %x: tensor<32x64xbf16>, %dz: tensor<32x128xbf16>, %y: tensor<32x64xbf16>,
                %w: tensor<128x64xf32> {te.name = "w", te.weight}) -> (tensor<128x64xf32> {te.name = "grad.w"}) {
  %a = te.linear_wgrad %dy, %x : tensor<32x128xbf16>, tensor<32x64xbf16> -> tensor<128x64xbf16>
  %b = te.linear_wgrad %dz, %y : tensor<32x128xbf16>, tensor<32x64xbf16> -> tensor<128x64xbf16>
  %ab = arith.addf %b, %a : tensor<128x64xbf16>
  %wide = arith.extf %ab : tensor<128x64xbf16> to tensor<128x64xf32>
  %c = te.linear_wgrad %dy, %y : tensor<32x128xbf16>, tensor<32x64xbf16> -> tensor<128x64xf32>
  %dw = arith.addf %wide, %c : tensor<128x64xf32>
  return %dw : tensor<128x64xf32>
}

// -----

// The gradient of a table adds to the state, and to the gradient that a head has of it.
// CHECK-LABEL: func.func @table(
// CHECK-SAME: -> (tensor<96x64xf32> {te.name = "grad.t"}, tensor<96x64xf32> {te.name = "grad.w"}, tensor<96x64xf32> {te.name = "grad.o"})
// CHECK-NEXT: %[[FROM:.*]] = te.zero_unless
// CHECK-NEXT: %[[DT:.*]] = te.embedding_backward %arg0, %arg1 accumulate %[[FROM]] : tensor<96x64xf32> : tensor<32xi32>, tensor<32x64xbf16> -> tensor<96x64xf32>
// CHECK-NEXT: %[[FROM2:.*]] = te.zero_unless
// CHECK-NEXT: %[[DW:.*]] = te.linear_wgrad {{.*}} accumulate %[[FROM2]] : tensor<96x64xf32>
// CHECK-NEXT: %[[BOTH:.*]] = te.embedding_backward %arg0, %arg1 accumulate %[[DW]] : tensor<96x64xf32>
// CHECK-NEXT: %[[DO:.*]] = te.embedding_backward %arg0, %arg1 : tensor<32xi32>, tensor<32x64xbf16> -> tensor<96x64xf32>
// CHECK-NEXT: return %[[DT]], %[[BOTH]], %[[DO]]
func.func @table(%ids: tensor<32xi32>, %dx: tensor<32x64xbf16>, %dy: tensor<32x96xbf16>, %x: tensor<32x64xbf16>,
                 %t: tensor<96x64xbf16> {te.name = "t", te.weight}, %w: tensor<96x64xbf16> {te.name = "w", te.weight},
                 %o: tensor<96x64xbf16> {te.name = "o", te.weight, te.overwrite_main_grad})
    -> (tensor<96x64xbf16> {te.name = "grad.t"}, tensor<96x64xbf16> {te.name = "grad.w"}, tensor<96x64xbf16> {te.name = "grad.o"}) {
  %dt = te.embedding_backward %ids, %dx : tensor<32xi32>, tensor<32x64xbf16> -> tensor<96x64xbf16>
  %dw = te.linear_wgrad %dy, %x : tensor<32x96xbf16>, tensor<32x64xbf16> -> tensor<96x64xbf16>
  %de = te.embedding_backward %ids, %dx : tensor<32xi32>, tensor<32x64xbf16> -> tensor<96x64xbf16>
  %sum = arith.addf %dw, %de : tensor<96x64xbf16>
  %do = te.embedding_backward %ids, %dx : tensor<32xi32>, tensor<32x64xbf16> -> tensor<96x64xbf16>
  return %dt, %sum, %do : tensor<96x64xbf16>, tensor<96x64xbf16>, tensor<96x64xbf16>
}

// -----

// A gradient that no GEMM computes, or that has another reader, is widened and added. Other results do not change.
// CHECK-LABEL: func.func @others(
// CHECK-SAME: -> (tensor<128xf32> {te.name = "grad.g"}, tensor<128x64xf32> {te.name = "grad.w"}, tensor<f32>, tensor<128xbf16> {te.name = "grad.b"})
// CHECK: %[[DB:.*]] = te.bias_grad
// CHECK: %[[WIDE:.*]] = arith.extf %[[DB]] : tensor<128xbf16> to tensor<128xf32>
// CHECK: %[[FROM:.*]] = te.zero_unless
// CHECK: %[[DG:.*]] = arith.addf %[[FROM]], %[[WIDE]] : tensor<128xf32>
// CHECK: %[[DW:.*]] = te.linear_wgrad %{{.*}}, %{{.*}} : {{.*}} -> tensor<128x64xbf16>
// CHECK: %[[SUM:.*]] = arith.addf %{{.*}}, %{{.*}} : tensor<128x64xf32>
// CHECK: te.amax %[[DW]]
// CHECK: return %[[DG]], %[[SUM]], %{{.*}}, %[[DB]] :
func.func @others(%dy: tensor<32x128xbf16>, %x: tensor<32x64xbf16>, %g: tensor<128xbf16> {te.name = "g", te.weight},
                  %w: tensor<128x64xbf16> {te.name = "w", te.weight}, %b: tensor<128xbf16> {te.name = "b"})
    -> (tensor<128xbf16> {te.name = "grad.g"}, tensor<128x64xbf16> {te.name = "grad.w"}, tensor<f32>, tensor<128xbf16> {te.name = "grad.b"}) {
  %db = te.bias_grad %dy : tensor<32x128xbf16> -> tensor<128xbf16>
  %dw = te.linear_wgrad %dy, %x : tensor<32x128xbf16>, tensor<32x64xbf16> -> tensor<128x64xbf16>
  %amax = te.amax %dw : tensor<128x64xbf16>
  return %db, %dw, %amax, %db : tensor<128xbf16>, tensor<128x64xbf16>, tensor<f32>, tensor<128xbf16>
}

// -----

// The gradient of a weight with te.overwrite_main_grad is f32 and reads neither the flag nor the old state. Of two uses, the second adds to the first.
// CHECK-LABEL: func.func @overwrite(
// CHECK-SAME: tensor<128x64xf32> {te.init = 0.000000e+00 : f32, te.name = "grad.w"}
// CHECK-NOT: te.zero_unless
// CHECK: %[[FIRST:.*]] = te.linear_wgrad %arg0, %arg1 : {{.*}} -> tensor<128x64xf32>
// CHECK-NEXT: %[[SECOND:.*]] = te.linear_wgrad %arg0, %arg2 accumulate %[[FIRST]] : tensor<128x64xf32>
// CHECK-NEXT: %[[WIDE:.*]] = arith.extf %arg4 : tensor<64xbf16> to tensor<64xf32>
// CHECK-NEXT: return %[[SECOND]], %[[WIDE]]
func.func @overwrite(%dy: tensor<32x128xbf16>, %x: tensor<32x64xbf16>, %z: tensor<32x64xbf16>,
                     %w: tensor<128x64xbf16> {te.name = "w", te.overwrite_main_grad, te.weight}, %dg: tensor<64xbf16>,
                     %g: tensor<64xbf16> {te.name = "g", te.overwrite_main_grad, te.weight})
    -> (tensor<128x64xbf16> {te.name = "grad.w"}, tensor<64xbf16> {te.name = "grad.g"}) {
  %first = te.linear_wgrad %dy, %x : tensor<32x128xbf16>, tensor<32x64xbf16> -> tensor<128x64xbf16>
  %second = te.linear_wgrad %dy, %z : tensor<32x128xbf16>, tensor<32x64xbf16> -> tensor<128x64xbf16>
  %dw = arith.addf %first, %second : tensor<128x64xbf16>
  return %dw, %dg : tensor<128x64xbf16>, tensor<64xbf16>
}

// -----

// A summand that is computed before the sum it is added to moves behind it.
// CHECK-LABEL: func.func @moved(
// CHECK: %[[FROM:.*]] = te.zero_unless
// CHECK-NEXT: %[[B:.*]] = te.linear_wgrad %arg2, %arg3 accumulate %[[FROM]]
// CHECK-NEXT: %[[A:.*]] = te.linear_wgrad %arg0, %arg1 accumulate %[[B]]
// CHECK-NEXT: %[[C:.*]] = te.linear_wgrad %arg0, %arg3 accumulate %[[A]]
// CHECK-NEXT: return %[[C]]
func.func @moved(%dy: tensor<32x128xbf16>, %x: tensor<32x64xbf16>, %dz: tensor<32x128xbf16>, %y: tensor<32x64xbf16>,
                 %w: tensor<128x64xf32> {te.name = "w", te.weight}) -> (tensor<128x64xbf16> {te.name = "grad.w"}) {
  %a = te.linear_wgrad %dy, %x : tensor<32x128xbf16>, tensor<32x64xbf16> -> tensor<128x64xbf16>
  %b = te.linear_wgrad %dz, %y : tensor<32x128xbf16>, tensor<32x64xbf16> -> tensor<128x64xbf16>
  %c = te.linear_wgrad %dy, %y : tensor<32x128xbf16>, tensor<32x64xbf16> -> tensor<128x64xbf16>
  %ac = arith.addf %a, %c : tensor<128x64xbf16>
  %dw = arith.addf %ac, %b : tensor<128x64xbf16>
  return %dw : tensor<128x64xbf16>
}

// -----

// A GEMM that adds something else already keeps that, and its result is added.
// CHECK-LABEL: func.func @adds_already(
// CHECK: %[[DW:.*]] = te.linear_wgrad {{.*}} accumulate %arg3 : {{.*}} -> tensor<128x64xbf16>
// CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[DW]]
// CHECK-NEXT: %[[FROM:.*]] = te.zero_unless
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[FROM]], %[[WIDE]] : tensor<128x64xf32>
// CHECK-NEXT: return %[[SUM]]
func.func @adds_already(%dy: tensor<32x128xbf16>, %x: tensor<32x64xbf16>, %w: tensor<128x64xbf16> {te.name = "w", te.weight}, %more: tensor<128x64xbf16>)
    -> (tensor<128x64xbf16> {te.name = "grad.w"}) {
  %dw = te.linear_wgrad %dy, %x accumulate %more : tensor<128x64xbf16> : tensor<32x128xbf16>, tensor<32x64xbf16> -> tensor<128x64xbf16>
  return %dw : tensor<128x64xbf16>
}

// -----

// CHECK-LABEL: func.func @groups_add_already(
// CHECK: te.grouped_linear_wgrad {{.*}} accumulate %arg4 : {{.*}} -> tensor<2x128x64xbf16>
// CHECK: arith.addf {{.*}} : tensor<2x128x64xf32>
func.func @groups_add_already(%dy: tensor<32x128xbf16>, %x: tensor<32x64xbf16>, %sizes: tensor<2xi32>, %w: tensor<2x128x64xbf16> {te.name = "w", te.weight},
                              %more: tensor<2x128x64xbf16>) -> (tensor<2x128x64xbf16> {te.name = "grad.w"}) {
  %dw = te.grouped_linear_wgrad %dy, %x, %sizes accumulate %more : tensor<2x128x64xbf16> {alignment = 16 : i64} : tensor<32x128xbf16>, tensor<32x64xbf16>, tensor<2xi32> -> tensor<2x128x64xbf16>
  return %dw : tensor<2x128x64xbf16>
}

// -----

// A sum that is there is added where the summand is computed.
// CHECK-LABEL: func.func @later_summand(
// CHECK: %[[FROM:.*]] = te.zero_unless
// CHECK-NEXT: %[[DW:.*]] = te.linear_wgrad {{.*}} accumulate %[[FROM]]
// CHECK-NEXT: %[[N:.*]] = arith.negf
// CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[N]]
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[DW]], %[[WIDE]]
// CHECK-NEXT: return %[[SUM]]
func.func @later_summand(%dy: tensor<32x128xbf16>, %x: tensor<32x64xbf16>, %w: tensor<128x64xbf16> {te.name = "w", te.weight}, %z: tensor<128x64xbf16>)
    -> (tensor<128x64xbf16> {te.name = "grad.w"}) {
  %a = te.linear_wgrad %dy, %x : tensor<32x128xbf16>, tensor<32x64xbf16> -> tensor<128x64xbf16>
  %n = arith.negf %z : tensor<128x64xbf16>
  %dw = arith.addf %a, %n : tensor<128x64xbf16>
  return %dw : tensor<128x64xbf16>
}

// -----

// Updates and norms read the sum, also where they read the gradient before it was widened. Others read the gradient of this micro-batch.
// CHECK-LABEL: func.func @updates(
// CHECK: %[[FROM:.*]] = te.zero_unless
// CHECK-NEXT: %[[SUM:.*]] = te.linear_wgrad {{.*}} accumulate %[[FROM]]
// CHECK-NEXT: %[[S:.*]] = te.sum_of_squares %[[SUM]] unless %{{.*}} : tensor<128x64xf32>
// CHECK: te.adamw %{{[^,]*}}, %[[SUM]], {{.*}} unless %{{[^ ]*}} : tensor<128x64xf32>, tensor<128x64xf32>
// CHECK: te.sgd %{{[^,]*}}, %[[SUM]] lr {{.*}} : tensor<128x64xf32>, tensor<128x64xf32>
// CHECK: return %[[SUM]],
func.func @updates(%dy: tensor<32x128xbf16>, %x: tensor<32x64xbf16>, %w: tensor<128x64xf32> {te.name = "w", te.weight}, %skip: tensor<f32>,
                   %m: tensor<128x64xf32>, %v: tensor<128x64xf32>, %lr: tensor<f32>, %average: tensor<128x64xf32>)
    -> (tensor<128x64xf32> {te.name = "grad.w"}, tensor<128x64xf32>, tensor<128x64xf32>, tensor<f32>) {
  %narrow = te.linear_wgrad %dy, %x : tensor<32x128xbf16>, tensor<32x64xbf16> -> tensor<128x64xbf16>
  %dw = arith.extf %narrow : tensor<128x64xbf16> to tensor<128x64xf32>
  %s = te.sum_of_squares %narrow unless %skip : tensor<128x64xbf16>
  %norm, %factor = te.clip_factor %s {max_norm = 1.0 : f32}
  %next, %m1, %v1 = te.adamw %w, %narrow, %m, %v lr %lr step %lr grad_scale %factor unless %skip : tensor<128x64xf32>, tensor<128x64xbf16>
  %other = te.sgd %average, %dw lr %lr unless %skip : tensor<128x64xf32>, tensor<128x64xf32>
  return %dw, %next, %other, %norm : tensor<128x64xf32>, tensor<128x64xf32>, tensor<128x64xf32>, tensor<f32>
}

// -----

// CHECK-LABEL: func.func @reads_one(
// CHECK: %[[G:.*]] = te.linear_wgrad
// CHECK: %[[FROM:.*]] = te.zero_unless
// CHECK: %[[SUM:.*]] = arith.addf %[[FROM]], %[[G]]
// CHECK: arith.mulf %[[G]], %[[G]]
// CHECK: te.sgd %{{[^,]*}}, %[[SUM]]
func.func @reads_one(%dy: tensor<32x128xbf16>, %x: tensor<32x64xbf16>, %w: tensor<128x64xf32> {te.name = "w", te.weight}, %skip: tensor<f32>, %lr: tensor<f32>)
    -> (tensor<128x64xf32> {te.name = "grad.w"}, tensor<128x64xf32>, tensor<128x64xf32>) {
  %dw = te.linear_wgrad %dy, %x : tensor<32x128xbf16>, tensor<32x64xbf16> -> tensor<128x64xf32>
  %square = arith.mulf %dw, %dw : tensor<128x64xf32>
  %next = te.sgd %w, %dw lr %lr unless %skip : tensor<128x64xf32>, tensor<128x64xf32>
  return %dw, %next, %square : tensor<128x64xf32>, tensor<128x64xf32>, tensor<128x64xf32>
}
