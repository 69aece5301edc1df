// RUN: split-file %s %t
// RUN: te-opt %t/rows.mlir --te-training-pipeline="vjp=head recipe=high_precision logits-budget=70000 compile-to=fuse" --remarks-filter="te-chunk-logits" 2>&1 | FileCheck %t/rows.mlir --check-prefix=PLAIN
// RUN: te-opt %t/rows.mlir --te-training-pipeline="vjp=head recipe=float8_current_scaling logits-budget=70000 compile-to=fuse" | FileCheck %t/rows.mlir --check-prefixes=ROWS,CURRENT
// RUN: te-opt %t/rows.mlir --te-training-pipeline="vjp=head recipe=float8_current_scaling remat=everything logits-budget=70000 compile-to=fuse" | FileCheck %t/rows.mlir --check-prefixes=ROWS,CURRENT
// RUN: te-opt %t/rows.mlir --te-training-pipeline="vjp=head recipe=delayed_scaling logits-budget=70000 compile-to=fuse" | FileCheck %t/rows.mlir --check-prefixes=ROWS,DELAYED
// RUN: te-opt %t/rows.mlir --te-training-pipeline="recipe=high_precision logits-budget=70000 compile-to=fuse" | FileCheck %t/rows.mlir --check-prefix=LOSS
// RUN: te-opt %t/rows.mlir --te-training-pipeline="vjp=head logits-budget=0 compile-to=fuse" | FileCheck %t/rows.mlir --check-prefix=WHOLE
// RUN: te-opt %t/rows.mlir --te-training-pipeline="vjp=head logits-budget=262144 compile-to=fuse" | FileCheck %t/rows.mlir --check-prefix=WHOLE
// RUN: te-opt %t/rows.mlir --te-training-pipeline="vjp=head recipe=float8_current_scaling logits-budget=70000 compile-to=schedule" | FileCheck %t/rows.mlir --check-prefix=LAUNCH
// RUN: not te-opt %t/rows.mlir --te-training-pipeline="logits-budget=-1" 2>&1 | FileCheck %t/rows.mlir --check-prefix=NEGATIVE
// RUN: te-opt %t/unit.mlir --te-training-pipeline="recipe=float8_block_scaling logits-budget=70000 compile-to=fuse" | FileCheck %t/unit.mlir
// RUN: te-opt %t/held.mlir --te-chunk-logits="budget=65536" | FileCheck %t/held.mlir
// RUN: te-opt %t/elementwise.mlir --te-training-pipeline="vjp=capped recipe=float8_current_scaling logits-budget=70000 compile-to=fuse" | FileCheck %t/elementwise.mlir --check-prefix=CAPPED
// RUN: te-opt %t/elementwise.mlir --te-training-pipeline="vjp=capped recipe=float8_current_scaling remat=everything logits-budget=70000 compile-to=fuse" | FileCheck %t/elementwise.mlir --check-prefix=CAPPED
// RUN: te-opt %t/elementwise.mlir --te-training-pipeline="vjp=sliced recipe=float8_current_scaling logits-budget=70000 compile-to=fuse" | FileCheck %t/elementwise.mlir --check-prefix=SLICED
// RUN: te-opt %t/elementwise.mlir --te-training-pipeline="vjp=odd recipe=float8_current_scaling logits-budget=70000 compile-to=fuse" | FileCheck %t/elementwise.mlir --check-prefix=ODD
// RUN: te-opt %t/elementwise.mlir --te-training-pipeline="vjp=odd recipe=float8_current_scaling remat=everything logits-budget=70000 compile-to=fuse" | FileCheck %t/elementwise.mlir --check-prefix=ODD
// RUN: te-opt %t/elementwise.mlir --te-training-pipeline="vjp=odd recipe=delayed_scaling logits-budget=70000 compile-to=schedule" | FileCheck %t/elementwise.mlir --check-prefix=PARTS
// RUN: te-opt %t/elementwise.mlir --te-training-pipeline="vjp=biased recipe=float8_current_scaling logits-budget=70000 compile-to=fuse" | FileCheck %t/elementwise.mlir --check-prefix=BIAS
// RUN: te-opt %t/elementwise.mlir --te-training-pipeline="vjp=biased recipe=float8_current_scaling logits-budget=70000 compile-to=schedule" | FileCheck %t/elementwise.mlir --check-prefix=SUMS
// RUN: te-opt %t/declines.mlir --te-chunk-logits="budget=65536" --remarks-filter=".*" 2>&1 | FileCheck %t/declines.mlir
// RUN: te-opt %t/transposed.mlir --te-chunk-logits="budget=65536" | FileCheck %t/transposed.mlir
// RUN: te-opt %t/rows.mlir --te-training-pipeline="vjp=head recipe=float8_block_scaling logits-budget=70000 target=sm_100 compile-to=fuse" --remarks-filter="te-chunk-logits" 2>&1 | FileCheck %t/rows.mlir --check-prefix=SM100

//--- rows.mlir
// NEGATIVE: expected 'logits-budget' not to be negative, but got -1
// 128 rows of 256 logits in bf16 take 65536 bytes; the last part has 16 rows.

// ROWS-LABEL: func.func @head(
// ROWS-SAME:    %[[X:[^ ]*]]: tensor<272x128xbf16>
// ROWS:         %[[WEIGHT:.*]] = te.cross_entropy_weight of %{{.*}} vocabulary 256 : tensor<272xi32>
// CURRENT-NEXT: %[[SCALE:.*]] = te.compute_scale %[[WEIGHT]] for f8E5M2
// CURRENT:      %[[CHAIN:.*]]:3 = te.by_rows(%{{.*}}, %{{.*}}) with(%{{.*}}, %[[WEIGHT]], %[[SCALE]], %{{.*}}) rows 128
// DELAYED:      %[[CHAIN:.*]]:4 = te.by_rows(%{{.*}}, %{{.*}}) with(%{{.*}}, %[[WEIGHT]], %{{.*}}, %{{.*}}) rows 128
// CURRENT:        te.scaled_matmul
// DELAYED:        te.scaled_matmul
// ROWS-NEXT:      te.cross_entropy
// ROWS-NEXT:      te.cross_entropy_backward
// CURRENT-NEXT:   te.quantize
// DELAYED-NEXT:   %{{.*}}:2, %[[AMAX:.*]] = te.quantize
// CURRENT-NEXT:   te.scaled_matmul
// DELAYED-NEXT:   te.scaled_matmul
// ROWS-NEXT:      te.yield
// DELAYED-SAME:     %[[AMAX]]
// ROWS:         te.residual %[[CHAIN]]#1 "cross_entropy0.dlogits"
// ROWS:         "cross_entropy0.dx"
// ROWS-NOT:     te.cross_entropy
// CURRENT:      %[[D:.*]] = te.rescale
// CURRENT:      te.scaled_matmul %[[D]]
// DELAYED:      te.delayed_scaling_update

// LOSS-LABEL: func.func @head(
// LOSS:         te.by_rows
// LOSS-NEXT:    ^bb0
// LOSS-NEXT:      te.matmul
// LOSS-NEXT:      %[[LOSS:.*]] = te.cross_entropy
// LOSS-NEXT:      te.yield %[[LOSS]] : tensor<f32>
// LOSS-NOT:     te.cross_entropy_weight

// WHOLE-NOT: te.by_rows

// PLAIN: a GEMM reads the gradient of all logits, which takes as much memory
// PLAIN-NOT: te.by_rows

// The gradient is cast without being stored.
// LAUNCH:      tert.alloc "cross_entropy0.dlogits.data" residual offset {{.*}} : !tert.buffer<69632>
// LAUNCH:      %[[PART:.*]] = tert.alloc "scaled_matmul.value" {{.*}} : !tert.buffer<65536>
// LAUNCH:      tert.launch "scaled_matmul" {{.*}}%[[PART]]
// LAUNCH:      tert.launch "cross_entropy" {{.*}}tokens = 128 : i64{{.*}}(%[[PART]],
// LAUNCH:      tert.launch "cross_entropy_backward_quantize" {{.*}}first_row = 0 : i64{{.*}}(%{{[^,]*}}, %[[PART]],
// LAUNCH-NOT:  "cross_entropy_backward"
// LAUNCH-NOT:  "quantize_rows"
// LAUNCH:      tert.launch "cross_entropy" {{.*}}tokens = 16 : i64
// LAUNCH:      tert.launch "cross_entropy_mean" {{.*}}tokens = 272 : i64

// SM100: the target multiplies only scales that are powers of two
// SM100-NOT: te.by_rows

func.func @head(%x: tensor<272x128xbf16> {te.name = "x"}, %w: tensor<256x128xbf16> {te.name = "w", te.weight},
                %t: tensor<272xi32> {te.name = "targets"}) -> (tensor<f32> {te.name = "loss"}) {
  %y = te.linear %x, %w : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  %loss = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32>
  return %loss : tensor<f32>
}

//--- unit.mlir
// A cotangent of 1 is not multiplied.
// CHECK-LABEL: func.func @step(
// CHECK:         te.by_rows
// CHECK-NOT:     te.rescale
// CHECK-NOT:     arith.mulf
func.func @step(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16> {te.weight}, %t: tensor<272xi32>) -> (tensor<f32>, tensor<272x128xbf16>, tensor<256x128xbf16>) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %loss, %dx, %dw = te.vjp @head(%x, %w, %t) cotangents(%one) wrt [0, 1]
    : (tensor<272x128xbf16>, tensor<256x128xbf16>, tensor<272xi32>), (tensor<f32>) -> (tensor<f32>, tensor<272x128xbf16>, tensor<256x128xbf16>)
  return %loss, %dx, %dw : tensor<f32>, tensor<272x128xbf16>, tensor<256x128xbf16>
}
func.func private @head(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>) -> tensor<f32> {
  %y = te.linear %x, %w : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  %loss = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32>
  return %loss : tensor<f32>
}

//--- held.mlir
// A loss of the backward reads its targets through a residual, its gradient directly.
// CHECK-LABEL: func.func @backward(
// CHECK-SAME:    %[[X:[^ ]*]]: tensor<272x128xbf16>, %{{.*}}: tensor<256x128xbf16>, %[[T:[^ ]*]]: tensor<272xi32>
// CHECK:         %[[HELD:.*]] = te.residual %[[T]]
// CHECK:         te.by_rows(%[[X]], %[[HELD]])
// CHECK-NEXT:    ^bb0(%{{.*}}: tensor<272x128xbf16>, %[[TARGETS:[^ ]*]]: tensor<272xi32>,
// CHECK:           te.cross_entropy %{{.*}}, %[[TARGETS]]
// CHECK:           te.cross_entropy_backward %{{.*}}, %{{.*}}, %[[TARGETS]],
func.func @backward(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>, %g: tensor<f32>) -> (tensor<f32>, tensor<272x128xbf16>) {
  %held = te.residual %t "targets" : tensor<272xi32>
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  %loss, %lse = te.cross_entropy %y, %held : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t gradient %g vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %dx = te.matmul %d, %w contract = [1, 0] : tensor<272x256xbf16>, tensor<256x128xbf16> -> tensor<272x128xbf16>
  return %loss, %dx : tensor<f32>, tensor<272x128xbf16>
}

//--- elementwise.mlir
// A soft cap is a part of the chain, with its gradient: the factors 3, at most 1, and 1/3 leave the bound as it is.
// CAPPED-LABEL: func.func @capped(
// CAPPED:         %[[WEIGHT:.*]] = te.cross_entropy_weight
// CAPPED-NEXT:    te.compute_scale %[[WEIGHT]] for f8E5M2
// CAPPED:         te.by_rows
// CAPPED:           te.scaled_matmul
// CAPPED-NEXT:      arith.constant dense<3.0
// CAPPED-NEXT:      arith.divf
// CAPPED-NEXT:      %[[TANH:.*]] = math.tanh
// CAPPED-NEXT:      arith.mulf %[[TANH]],
// CAPPED-NEXT:      te.cross_entropy
// CAPPED-NEXT:      te.cross_entropy_backward
// CAPPED:           arith.mulf %[[TANH]], %[[TANH]]
// CAPPED:           te.quantize
// CAPPED-NEXT:      te.scaled_matmul
// CAPPED-NEXT:      te.yield
// CAPPED-NOT:     math.tanh
func.func @capped(%x: tensor<272x128xbf16> {te.name = "x"}, %w: tensor<256x128xbf16> {te.name = "w", te.weight}, %t: tensor<272xi32> {te.name = "targets"})
    -> (tensor<f32> {te.name = "loss"}) {
  %cap = arith.constant dense<3.0> : tensor<272x256xbf16>
  %y = te.linear %x, %w : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  %small = arith.divf %y, %cap : tensor<272x256xbf16>
  %bounded = math.tanh %small : tensor<272x256xbf16>
  %logits = arith.mulf %bounded, %cap : tensor<272x256xbf16>
  %loss = te.cross_entropy %logits, %t : tensor<272x256xbf16>, tensor<272xi32>
  return %loss : tensor<f32>
}

// A vocabulary that is padded: the loss reads the columns without padding, and its gradient gets zeros. The bound has the factor.
// ODD-LABEL: func.func @odd(
// ODD:         %[[WEIGHT:.*]] = te.cross_entropy_weight {{.*}} vocabulary 250
// ODD:         %[[BOUND:.*]] = arith.mulf %[[WEIGHT]], %{{.*}} : tensor<f32>
// ODD-NEXT:    te.compute_scale %[[BOUND]] for f8E5M2
// ODD:         te.by_rows
// ODD:           te.scaled_matmul {{.*}} -> tensor<272x256xbf16>
// ODD-NEXT:      tensor.extract_slice {{.*}} to tensor<272x250xbf16>
// ODD:           te.cross_entropy_backward {{.*}} tensor<272x250xbf16>
// ODD:           tensor.concat dim(1) {{.*}} -> tensor<272x256xbf16>
// ODD-NEXT:      te.quantize

// The cast of the padded gradient measures the amax, and the parts have 128, 128 and 16 rows.
// PARTS-LABEL: func.func @odd(
// PARTS-NOT:     "cross_entropy0.logits"
// PARTS-COUNT-3: tert.launch "cross_entropy" {{.*}}tokens = {{128|16}} : i64
// PARTS-NOT:     "cross_entropy_backward" {{.*}}tokens = 272
func.func @odd(%x: tensor<272x128xbf16> {te.name = "x"}, %w: tensor<250x128xbf16> {te.name = "w", te.weight}, %t: tensor<272xi32> {te.name = "targets"})
    -> (tensor<f32> {te.name = "loss"}) {
  %factor = arith.constant dense<0.3> : tensor<272x250xbf16>
  %y = te.linear %x, %w : tensor<272x128xbf16>, tensor<250x128xbf16> -> tensor<272x250xbf16>
  %logits = arith.mulf %y, %factor : tensor<272x250xbf16>
  %loss = te.cross_entropy %logits, %t : tensor<272x250xbf16>, tensor<272xi32>
  return %loss : tensor<f32>
}

// The gradient of a trained bias is added up over all rows, of the gradient with its padding, and multiplied by the factor of the loss.
// BIAS-LABEL: func.func @biased(
// BIAS:         %[[CHAIN:.*]]:4 = te.by_rows
// BIAS:           te.scaled_matmul {{.*}} bias
// BIAS:           %[[D:.*]] = te.cross_entropy_backward {{.*}} {vocabulary = 250 : i64} : tensor<272x256xbf16>
// BIAS:           %[[SUM:.*]] = te.bias_grad %[[D]] : tensor<272x256xbf16> -> tensor<256xbf16>
// BIAS:           te.yield %{{[^ ]*}}, %[[SUM]],
// BIAS:         %[[DB:.*]] = te.residual %[[CHAIN]]#1 "cross_entropy0.dbias" : tensor<256xbf16>
// BIAS:         %[[WIDE:.*]] = arith.extf %[[DB]] : tensor<256xbf16> to tensor<256xf32>
// BIAS:         arith.mulf %[[WIDE]], %{{.*}} : tensor<256xf32>
// BIAS:         tensor.extract_slice %{{.*}}[0] [250] [1] : tensor<256xbf16> to tensor<250xbf16>

// Sums of 128 rows each are collected, and added at the end.
// SUMS-LABEL: func.func @biased(
// SUMS:         %[[ALL:.*]] = tert.alloc "bias_grad.sums" {{.*}} : !tert.buffer<3072>
// SUMS:         %[[FIRST:.*]] = tert.slice %[[ALL]] offset 0 {{.*}} -> !tert.buffer<1024>
// SUMS:         tert.launch "chunk_sums" {cols = 256 : i64, rows = 128 : i64, type = 1 : i32}(%{{.*}}, %[[FIRST]])
// SUMS:         %[[LAST:.*]] = tert.slice %[[ALL]] offset 2048 {{.*}} -> !tert.buffer<1024>
// SUMS:         tert.launch "chunk_sums" {cols = 256 : i64, rows = 16 : i64, type = 1 : i32}(%{{.*}}, %[[LAST]])
// SUMS:         tert.launch "sum_of_chunks" {chunks = 3 : i64, cols = 256 : i64, out_type = 1 : i32}(%[[ALL]],
func.func @biased(%x: tensor<272x128xbf16> {te.name = "x"}, %w: tensor<250x128xbf16> {te.name = "w", te.weight}, %b: tensor<250xbf16> {te.name = "b"},
                  %t: tensor<272xi32> {te.name = "targets"}) -> (tensor<f32> {te.name = "loss"}) {
  %logits = te.linear %x, %w bias %b : tensor<250xbf16> : tensor<272x128xbf16>, tensor<250x128xbf16> -> tensor<272x250xbf16>
  %loss = te.cross_entropy %logits, %t : tensor<272x250xbf16>, tensor<272xi32>
  return %loss : tensor<f32>
}

// A program that pads its vocabulary itself: nothing cuts the logits, and nothing pads their gradient.
// SLICED-LABEL: func.func @sliced(
// SLICED:         te.by_rows
// SLICED-NOT:       tensor.
// SLICED:           te.cross_entropy {{.*}} {vocabulary = 250 : i64} : tensor<272x256xbf16>
// SLICED-NEXT:      %[[D:.*]] = te.cross_entropy_backward {{.*}} {vocabulary = 250 : i64} : tensor<272x256xbf16>
// SLICED-NEXT:      te.quantize %[[D]]
func.func @sliced(%x: tensor<272x128xbf16> {te.name = "x"}, %w: tensor<256x128xbf16> {te.name = "w", te.weight}, %t: tensor<272xi32> {te.name = "targets"})
    -> (tensor<f32> {te.name = "loss"}) {
  %y = te.linear %x, %w : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  %logits = tensor.extract_slice %y[0, 0] [272, 250] [1, 1] : tensor<272x256xbf16> to tensor<272x250xbf16>
  %loss = te.cross_entropy %logits, %t : tensor<272x250xbf16>, tensor<272xi32>
  return %loss : tensor<f32>
}

//--- declines.mlir
// CHECK-NOT: te.by_rows

// CHECK: [[@LINE+4]]:{{.*}}'func.return' reads the logits too{{.*}}139264 bytes
func.func @returned(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>) -> (tensor<272x256xbf16>, tensor<f32>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  // The remark is at the loss.
  %loss = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32>
  return %y, %loss : tensor<272x256xbf16>, tensor<f32>
}

// CHECK: its logits are not the result of a GEMM of rows
func.func @not_a_gemm(%y: tensor<272x256xbf16>, %t: tensor<272xi32>) -> tensor<f32> {
  %loss = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32>
  return %loss : tensor<f32>
}

// CHECK: 'func.return' reads 'lse' too
func.func @lse(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>) -> (tensor<f32>, tensor<272xf32>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  return %loss, %lse : tensor<f32>, tensor<272xf32>
}

// CHECK: 'te.softmax' reads the gradient of the logits
func.func @softmax(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>, %g: tensor<f32>) -> (tensor<f32>, tensor<272x256xbf16>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t gradient %g vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %p = te.softmax %d : tensor<272x256xbf16>
  return %loss, %p : tensor<f32>, tensor<272x256xbf16>
}

// CHECK: gradients in f16 may need
func.func @bias_in_f16(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>, %g: tensor<f32>) -> (tensor<f32>, tensor<256xf16>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t gradient %g vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %db = te.bias_grad %d : tensor<272x256xbf16> -> tensor<256xf16>
  return %loss, %db : tensor<f32>, tensor<256xf16>
}

// CHECK: the head multiplies a value with itself
func.func @square(%x: tensor<272x256xbf16>, %t: tensor<272xi32>) -> tensor<f32> {
  %y = te.matmul %x, %x contract = [1, 1] : tensor<272x256xbf16>, tensor<272x256xbf16> -> tensor<272x272xbf16>
  %loss = te.cross_entropy %y, %t : tensor<272x272xbf16>, tensor<272xi32>
  return %loss : tensor<f32>
}

// CHECK: gradients in f16 may need
func.func @widened(%x: tensor<272x128xf16>, %w: tensor<256x128xf16>, %t: tensor<272xi32>, %g: tensor<f32>) -> (tensor<f32>, tensor<272x128xf16>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xf16>, tensor<256x128xf16> -> tensor<272x256xf16>
  %z = arith.extf %y : tensor<272x256xf16> to tensor<272x256xf32>
  %loss, %lse = te.cross_entropy %z, %t : tensor<272x256xf32>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t gradient %g vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %z, %t, %lse : tensor<272x256xf32>, tensor<272xi32>, tensor<272xf32>
  %e = arith.truncf %d : tensor<272x256xf32> to tensor<272x256xf16>
  %dx = te.matmul %e, %w contract = [1, 0] : tensor<272x256xf16>, tensor<256x128xf16> -> tensor<272x128xf16>
  return %loss, %dx : tensor<f32>, tensor<272x128xf16>
}

// CHECK: nothing bounds the gradient of the logits
func.func @unbounded(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>, %g: tensor<f32>)
    -> (tensor<f32>, !te.scaled<272x256xf8E5M2, per_tensor, contract = 0>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  %z = math.exp %y : tensor<272x256xbf16>
  %loss, %lse = te.cross_entropy %z, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t gradient %g vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %z, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %e = arith.mulf %d, %z : tensor<272x256xbf16>
  %amax = te.amax %e : tensor<272x256xbf16>
  %scale = te.compute_scale %amax for f8E5M2
  %q = te.quantize %e scale %scale : tensor<272x256xbf16> -> !te.scaled<272x256xf8E5M2, per_tensor, contract = 0>
  return %loss, %q : tensor<f32>, !te.scaled<272x256xf8E5M2, per_tensor, contract = 0>
}

// CHECK: 'arith.addf' of the gradient of the logits is not linear
func.func @added(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>, %g: tensor<f32>) -> (tensor<f32>, tensor<272x128xbf16>) {
  %one = arith.constant dense<1.0> : tensor<272x256xbf16>
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t gradient %g vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %e = arith.addf %d, %one : tensor<272x256xbf16>
  %dx = te.matmul %e, %w contract = [1, 0] : tensor<272x256xbf16>, tensor<256x128xbf16> -> tensor<272x128xbf16>
  return %loss, %dx : tensor<f32>, tensor<272x128xbf16>
}

// CHECK: the gradient of the logits depends on a value that is not computed by rows
func.func @other(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>, %m: tensor<272x256xbf16>, %g: tensor<f32>) -> (tensor<f32>, tensor<272x128xbf16>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t gradient %g vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %e = arith.mulf %d, %m : tensor<272x256xbf16>
  %dx = te.matmul %e, %w contract = [1, 0] : tensor<272x256xbf16>, tensor<256x128xbf16> -> tensor<272x128xbf16>
  return %loss, %dx : tensor<f32>, tensor<272x128xbf16>
}

// CHECK: gradients in f16 may need the factor that the loss is multiplied with
func.func @f16(%x: tensor<272x128xf16>, %w: tensor<256x128xf16>, %t: tensor<272xi32>, %g: tensor<f32>) -> (tensor<f32>, tensor<272x128xf16>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xf16>, tensor<256x128xf16> -> tensor<272x256xf16>
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t gradient %g vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xf16>, tensor<272xi32>, tensor<272xf32>
  %dx = te.matmul %d, %w contract = [1, 0] : tensor<272x256xf16>, tensor<256x128xf16> -> tensor<272x128xf16>
  return %loss, %dx : tensor<f32>, tensor<272x128xf16>
}

// CHECK: the gradient of the logits is cast to 'mx_1x32'
func.func @mx(%x: tensor<288x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<288xi32>) -> (tensor<f32>, !te.scaled<288x256xf8E4M3FN, mx_1x32, contract = 0>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<288x128xbf16>, tensor<256x128xbf16> -> tensor<288x256xbf16>
  %loss, %lse = te.cross_entropy %y, %t : tensor<288x256xbf16>, tensor<288xi32> lse tensor<288xf32>
  %weight = te.cross_entropy_weight of %t vocabulary 256 : tensor<288xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<288x256xbf16>, tensor<288xi32>, tensor<288xf32>
  %q = te.quantize %d : tensor<288x256xbf16> -> !te.scaled<288x256xf8E4M3FN, mx_1x32, contract = 0>
  return %loss, %q : tensor<f32>, !te.scaled<288x256xf8E4M3FN, mx_1x32, contract = 0>
}

// A gradient of other targets, of another denominator or that ignores other rows.
func.func @other_weight(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>, %u: tensor<272xi32>) -> (tensor<f32>, tensor<272x128xbf16>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  // CHECK: [[@LINE+1]]:{{.*}}its gradient is of another loss
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %u vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %dx = te.matmul %d, %w contract = [1, 0] : tensor<272x256xbf16>, tensor<256x128xbf16> -> tensor<272x128xbf16>
  return %loss, %dx : tensor<f32>, tensor<272x128xbf16>
}

func.func @other_targets(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>, %u: tensor<272xi32>) -> (tensor<f32>, tensor<272x128xbf16>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  // CHECK: [[@LINE+1]]:{{.*}}its gradient is of another loss
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %u, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %dx = te.matmul %d, %w contract = [1, 0] : tensor<272x256xbf16>, tensor<256x128xbf16> -> tensor<272x128xbf16>
  return %loss, %dx : tensor<f32>, tensor<272x128xbf16>
}

func.func @other_lse(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>, %other: tensor<272xf32>) -> (tensor<f32>, tensor<272x128xbf16>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  // CHECK: [[@LINE+1]]:{{.*}}its gradient is of another loss
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %other : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %dx = te.matmul %d, %w contract = [1, 0] : tensor<272x256xbf16>, tensor<256x128xbf16> -> tensor<272x128xbf16>
  return %loss, %dx : tensor<f32>, tensor<272x128xbf16>
}

func.func @other_weight_ignored(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>) -> (tensor<f32>, tensor<272x128xbf16>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  // CHECK: [[@LINE+1]]:{{.*}}its gradient is of another loss
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t vocabulary 256 {ignore_index = 3 : i32} : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %dx = te.matmul %d, %w contract = [1, 0] : tensor<272x256xbf16>, tensor<256x128xbf16> -> tensor<272x128xbf16>
  return %loss, %dx : tensor<f32>, tensor<272x128xbf16>
}

func.func @other_gradient_ignored(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>) -> (tensor<f32>, tensor<272x128xbf16>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  // CHECK: [[@LINE+1]]:{{.*}}its gradient is of another loss
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse {ignore_index = 3 : i32} : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %dx = te.matmul %d, %w contract = [1, 0] : tensor<272x256xbf16>, tensor<256x128xbf16> -> tensor<272x128xbf16>
  return %loss, %dx : tensor<f32>, tensor<272x128xbf16>
}

func.func @given_weight(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>, %weight: tensor<f32>) -> (tensor<f32>, tensor<272x128xbf16>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  // CHECK: [[@LINE+1]]:{{.*}}its gradient is of another loss
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %dx = te.matmul %d, %w contract = [1, 0] : tensor<272x256xbf16>, tensor<256x128xbf16> -> tensor<272x128xbf16>
  return %loss, %dx : tensor<f32>, tensor<272x128xbf16>
}

func.func @two_gradients(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>) -> (tensor<f32>, tensor<272x128xbf16>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  // CHECK: [[@LINE+1]]:{{.*}}'te.cross_entropy_backward' reads the logits too
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %e = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %dx = te.matmul %d, %w contract = [1, 0] : tensor<272x256xbf16>, tensor<256x128xbf16> -> tensor<272x128xbf16>
  return %loss, %dx : tensor<f32>, tensor<272x128xbf16>
}

func.func @rows_of_weight(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>, %v: tensor<272x256xbf16>) -> (tensor<f32>, tensor<272x272xbf16>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  // CHECK: [[@LINE+1]]:{{.*}}a GEMM reads the gradient of all logits
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %dx = te.matmul %v, %d contract = [1, 1] : tensor<272x256xbf16>, tensor<272x256xbf16> -> tensor<272x272xbf16>
  return %loss, %dx : tensor<f32>, tensor<272x272xbf16>
}

func.func @later_weight(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>) -> (tensor<f32>, tensor<272x128xbf16>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  // CHECK: [[@LINE+1]]:{{.*}}the weight of the gradient is not known in the forward
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %later = arith.negf %w : tensor<256x128xbf16>
  %dx = te.matmul %d, %later contract = [1, 0] : tensor<272x256xbf16>, tensor<256x128xbf16> -> tensor<272x128xbf16>
  return %loss, %dx : tensor<f32>, tensor<272x128xbf16>
}

func.func @summed_rows(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>, %v: tensor<128x272xbf16>) -> (tensor<f32>, tensor<272x128xbf16>) {
  %y = te.matmul %v, %w contract = [0, 1] : tensor<128x272xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  // CHECK: [[@LINE+1]]:{{.*}}its logits are not the result of a GEMM of rows
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %dx = te.matmul %d, %w contract = [1, 0] : tensor<272x256xbf16>, tensor<256x128xbf16> -> tensor<272x128xbf16>
  return %loss, %dx : tensor<f32>, tensor<272x128xbf16>
}

func.func @added_logits(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>, %sum: tensor<272x256xbf16>) -> (tensor<f32>, tensor<272x128xbf16>) {
  %y = te.matmul %x, %w accumulate %sum : tensor<272x256xbf16> contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  // CHECK: [[@LINE+1]]:{{.*}}its logits are not the result of a GEMM of rows
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %dx = te.matmul %d, %w contract = [1, 0] : tensor<272x256xbf16>, tensor<256x128xbf16> -> tensor<272x128xbf16>
  return %loss, %dx : tensor<f32>, tensor<272x128xbf16>
}

!q = !te.scaled<272x256xf8E5M2, per_tensor, contract = 1>
!w = !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 1>
!c = !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 0>

// A cast whose result, scale or amax something else decides about or reads.
func.func @cached_cast(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>, %s: tensor<f32>, %v: !w, %old: !q, %skip: tensor<f32>) -> (tensor<f32>, tensor<272x128xbf16>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  // CHECK: [[@LINE+1]]:{{.*}}the gradient of the logits is cast to 'per_tensor'
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %c = te.transpose %v : !w -> !c
  %q = te.quantize %d scale %s into %old unless %skip : tensor<272x256xbf16> -> !q
  %dx = te.scaled_matmul %q, %c fast_accumulation = false : !q, !c -> tensor<272x128xbf16>
  return %loss, %dx : tensor<f32>, tensor<272x128xbf16>
}

func.func @later_scale(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>, %s: tensor<f32>, %v: !w) -> (tensor<f32>, tensor<272x128xbf16>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  // CHECK: [[@LINE+1]]:{{.*}}the scale of the gradient of the logits is not known in the forward
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %c = te.transpose %v : !w -> !c
  %n = arith.negf %s : tensor<f32>
  %q = te.quantize %d scale %n : tensor<272x256xbf16> -> !q
  %dx = te.scaled_matmul %q, %c fast_accumulation = false : !q, !c -> tensor<272x128xbf16>
  return %loss, %dx : tensor<f32>, tensor<272x128xbf16>
}

func.func @amax_read(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>, %s: tensor<f32>, %v: !w) -> (tensor<f32>, tensor<272x128xbf16>, tensor<f32>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  // CHECK: [[@LINE+1]]:{{.*}}'func.return' reads the amax of the gradient of the logits
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %c = te.transpose %v : !w -> !c
  %a = te.amax %d : tensor<272x256xbf16>
  %n = te.compute_scale %a for f8E5M2
  %q = te.quantize %d scale %n : tensor<272x256xbf16> -> !q
  %dx = te.scaled_matmul %q, %c fast_accumulation = false : !q, !c -> tensor<272x128xbf16>
  return %loss, %dx, %a : tensor<f32>, tensor<272x128xbf16>, tensor<f32>
}

func.func @cast_read(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>, %s: tensor<f32>, %v: !w) -> (tensor<f32>, tensor<272x256xbf16>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  // CHECK: [[@LINE+1]]:{{.*}}'te.dequantize' reads a cast of the gradient of the logits
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %c = te.transpose %v : !w -> !c
  %q = te.quantize %d scale %s : tensor<272x256xbf16> -> !q
  %z = te.dequantize %q : !q -> tensor<272x256xbf16>
  return %loss, %z : tensor<f32>, tensor<272x256xbf16>
}

func.func @cast_is_weight(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>, %s: tensor<f32>, %v: !w, %u: !te.scaled<128x256xf8E4M3FN, per_tensor, contract = 1>) -> (tensor<f32>, tensor<128x272xbf16>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  // CHECK: [[@LINE+1]]:{{.*}}'te.scaled_matmul' reads a cast of the gradient of the logits
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %c = te.transpose %v : !w -> !c
  %q = te.quantize %d scale %s : tensor<272x256xbf16> -> !q
  %z = te.scaled_matmul %u, %q fast_accumulation = false : !te.scaled<128x256xf8E4M3FN, per_tensor, contract = 1>, !q -> tensor<128x272xbf16>
  return %loss, %z : tensor<f32>, tensor<128x272xbf16>
}

func.func @cached_transpose(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>, %s: tensor<f32>, %v: !w, %old: !c, %skip: tensor<f32>) -> (tensor<f32>, tensor<272x128xbf16>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  // CHECK: [[@LINE+1]]:{{.*}}the weight of the gradient is not known in the forward
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %c = te.transpose %v into %old unless %skip : !w -> !c
  %q = te.quantize %d scale %s : tensor<272x256xbf16> -> !q
  %dx = te.scaled_matmul %q, %c fast_accumulation = false : !q, !c -> tensor<272x128xbf16>
  return %loss, %dx : tensor<f32>, tensor<272x128xbf16>
}

//--- transposed.mlir
!q = !te.scaled<272x256xf8E5M2, per_tensor, contract = 1>
!w = !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 1>
!c = !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 0>

// A weight that is cast and transposed for the gradient is known in the forward, where both are repeated.
// CHECK-LABEL: func.func @transposed
// CHECK: %[[C:.*]] = te.transpose
// CHECK: te.by_rows({{.*}}) with({{.*}}%[[C]]
func.func @transposed(%x: tensor<272x128xbf16>, %w: tensor<256x128xbf16>, %t: tensor<272xi32>, %s: tensor<f32>, %v: !w) -> (tensor<f32>, tensor<272x128xbf16>) {
  %y = te.matmul %x, %w contract = [1, 1] : tensor<272x128xbf16>, tensor<256x128xbf16> -> tensor<272x256xbf16>
  %loss, %lse = te.cross_entropy %y, %t : tensor<272x256xbf16>, tensor<272xi32> lse tensor<272xf32>
  %weight = te.cross_entropy_weight of %t vocabulary 256 : tensor<272xi32>
  %d = te.cross_entropy_backward %weight, %y, %t, %lse : tensor<272x256xbf16>, tensor<272xi32>, tensor<272xf32>
  %e = te.quantize %w scale %s : tensor<256x128xbf16> -> !w
  %c = te.transpose %e : !w -> !c
  %q = te.quantize %d scale %s : tensor<272x256xbf16> -> !q
  %dx = te.scaled_matmul %q, %c fast_accumulation = false : !q, !c -> tensor<272x128xbf16>
  return %loss, %dx : tensor<f32>, tensor<272x128xbf16>
}
