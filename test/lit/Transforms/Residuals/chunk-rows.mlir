// RUN: split-file %s %t
// RUN: te-opt %t/logp.mlir --te-training-pipeline="vjp=logp recipe=high_precision logits-budget=90000 compile-to=quantize" --remarks-filter="te-chunk-rows" 2>&1 | FileCheck %t/logp.mlir --check-prefixes=CHECK,PLAIN
// RUN: te-opt %t/logp.mlir --te-training-pipeline="vjp=logp recipe=float8_current_scaling logits-budget=90000 compile-to=quantize" | FileCheck %t/logp.mlir --check-prefixes=CHECK,CURRENT
// RUN: te-opt %t/logp.mlir --te-training-pipeline="vjp=logp recipe=delayed_scaling logits-budget=90000 compile-to=quantize" | FileCheck %t/logp.mlir --check-prefixes=DELAYED
// RUN: te-opt %t/logp.mlir --te-training-pipeline="vjp=logp recipe=high_precision main-grad logits-budget=90000 compile-to=quantize" | FileCheck %t/logp.mlir --check-prefix=MAIN
// RUN: te-opt %t/logp.mlir --te-training-pipeline="vjp=logp recipe=high_precision logits-budget=0 compile-to=quantize" | FileCheck %t/logp.mlir --check-prefix=WHOLE
// RUN: te-opt %t/logp.mlir --te-training-pipeline="vjp=logp recipe=high_precision logits-budget=256000 compile-to=quantize" | FileCheck %t/logp.mlir --check-prefix=WHOLE
// RUN: te-opt %t/stages.mlir --te-chunk-rows="budget=90000" | FileCheck %t/stages.mlir
// RUN: te-opt %t/declines.mlir --te-chunk-rows="budget=90000" --remarks-filter=".*" 2>&1 | FileCheck %t/declines.mlir

//--- logp.mlir
// 128 rows of 320 logits in bf16 take 81920 bytes; the last of four chunks has 16 rows.

// PLAIN:       128 rows of logits are stored at a time, in 81920 bytes
// CHECK-LABEL: func.func @logp(
// CHECK-SAME:    %[[X:[^ ]*]]: tensor<400x128xbf16>
// CHECK-NOT:   x320x{{.*}}400
// The forward concatenates the numbers of chunks, and saves the input and the numbers.
// PLAIN:       tensor.extract_slice %[[X]][0, 0] [128, 128] [1, 1] {te.chunk}
// PLAIN:       te.matmul {{.*}} -> tensor<128x320xbf16>
// PLAIN:       tensor.extract_slice %[[X]][384, 0] [16, 128] [1, 1] {te.chunk}
// PLAIN:       te.matmul {{.*}} -> tensor<16x320xbf16>
// PLAIN:       tensor.concat dim(0) {{.*}} -> tensor<400xf32>
// PLAIN:       %[[HELD:.*]] = te.residual %[[X]] "rows2.0"
// The backward computes logits again, and adds the gradients of the weight in f32.
// PLAIN:       tensor.extract_slice %[[HELD]][0, 0] [128, 128] [1, 1] {te.chunk}
// PLAIN:       te.matmul {{.*}} -> tensor<128x320xbf16>
// PLAIN:       %[[D:.*]] = arith.truncf {{.*}} to tensor<128x320xbf16>
// PLAIN-NEXT:  te.matmul %[[D]], {{.*}} contract = [1, 0]
// PLAIN-NEXT:  %[[DW:.*]] = te.matmul %[[D]], {{.*}} contract = [0, 0] : {{.*}} -> tensor<320x128xf32>
// PLAIN:       te.matmul {{.*}} accumulate %[[DW]] : tensor<320x128xf32>
// PLAIN:       arith.truncf %{{.*}} : tensor<320x128xf32> to tensor<320x128xbf16>

// The weight is cast once, and its cast is saved; each chunk is cast with its own amax.
// CURRENT-COUNT-1: te.residual {{.*}} "w" : !te.scaled
// CURRENT:         %[[AMAX:.*]] = te.amax %{{.*}} : tensor<128x320xbf16>
// CURRENT:         te.compute_scale %[[AMAX]]

// One state for all rows of the input, and one for each chunk of the gradient.
// DELAYED-LABEL: func.func @logp(
// DELAYED-SAME:    te.name = "w.x.scale"
// DELAYED-NOT:     te.name = "w.x.1.scale"
// DELAYED-SAME:    te.name = "w.dy.scale"
// DELAYED-SAME:    te.name = "w.dy.3.scale"
// DELAYED:         return

// MAIN:        %[[FROM:.*]] = te.zero_unless
// MAIN:        te.matmul {{.*}} accumulate %[[FROM]] : tensor<320x128xf32>

// WHOLE: te.matmul {{.*}} -> tensor<400x320xbf16>

!x = tensor<400x128xbf16>
!w = tensor<320x128xbf16>
!m = tensor<400x320xf32>
!v = tensor<400xf32>
func.func @logp(%x: !x {te.name = "x"}, %w: !w {te.name = "w", te.weight}, %label: !v {te.name = "labels"}, %classes: tensor<320xf32> {te.name = "classes"})
    -> (!v {te.name = "logp"}) {
  %low = arith.constant dense<0xFF800000> : !v
  %zero = arith.constant dense<0.0> : !v
  %zeros = arith.constant dense<0.0> : !m
  %e = tensor.empty() : !m
  %y = te.linear %x, %w : !x, !w -> tensor<400x320xbf16>
  %f = arith.extf %y : tensor<400x320xbf16> to !m
  %max = linalg.reduce { arith.maximumf } ins(%f : !m) outs(%low : !v) dimensions = [1] {te.no_gradient}
  %bm = linalg.broadcast ins(%max : !v) outs(%e : !m) dimensions = [1]
  %s = arith.subf %f, %bm : !m
  %ex = math.exp %s : !m
  %sum = linalg.reduce { arith.addf } ins(%ex : !m) outs(%zero : !v) dimensions = [1]
  %log = math.log %sum : !v
  %bl = linalg.broadcast ins(%log : !v) outs(%e : !m) dimensions = [1]
  %lp = arith.subf %s, %bl : !m
  %ba = linalg.broadcast ins(%label : !v) outs(%e : !m) dimensions = [1]
  %bc = linalg.broadcast ins(%classes : tensor<320xf32>) outs(%e : !m) dimensions = [0]
  %c = arith.cmpf oeq, %ba, %bc : !m
  %p = arith.select %c, %lp, %zeros : tensor<400x320xi1>, !m
  %r = linalg.reduce { arith.addf } ins(%p : !m) outs(%zero : !v) dimensions = [1]
  return %r : !v
}

//--- stages.mlir
// A sum over all rows ends a stage: what reads it computes logits again, of rows that are saved for it.
// CHECK-LABEL: func.func @stages(
// CHECK-SAME:    %[[X:[^ ]*]]: tensor<400x128xbf16>
// CHECK-COUNT-4: te.linear
// CHECK:         %[[ALL:.*]] = tensor.concat dim(0) {{.*}} -> tensor<400xf32>
// CHECK:         linalg.reduce { arith.addf } ins(%[[ALL]] : tensor<400xf32>) {{.*}} dimensions = [0]
// CHECK:         te.residual %[[X]] "rows2.0"
// CHECK-COUNT-4: te.linear
// CHECK:         tensor.concat dim(0)
// CHECK-NOT:     te.linear
func.func @stages(%x: tensor<400x128xbf16>, %w: tensor<320x128xbf16>) -> tensor<400xf32> {
  %zero = arith.constant dense<0.0> : tensor<400xf32>
  %none = arith.constant dense<0.0> : tensor<f32>
  %e = tensor.empty() : tensor<400x320xf32>
  %y = te.linear %x, %w : tensor<400x128xbf16>, tensor<320x128xbf16> -> tensor<400x320xbf16>
  %f = arith.extf %y : tensor<400x320xbf16> to tensor<400x320xf32>
  %sum = linalg.reduce { arith.addf } ins(%f : tensor<400x320xf32>) outs(%zero : tensor<400xf32>) dimensions = [1]
  %all = linalg.reduce { arith.addf } ins(%sum : tensor<400xf32>) outs(%none : tensor<f32>) dimensions = [0]
  %b = linalg.broadcast ins(%all : tensor<f32>) outs(%e : tensor<400x320xf32>) dimensions = [0, 1]
  %p = arith.mulf %f, %b : tensor<400x320xf32>
  %r = linalg.reduce { arith.addf } ins(%p : tensor<400x320xf32>) outs(%zero : tensor<400xf32>) dimensions = [1]
  return %r : tensor<400xf32>
}

//--- declines.mlir
// CHECK:     'func.return' reads the logits too
// CHECK:     'te.rms_norm' reads the logits too
// CHECK-NOT: remark:
// CHECK:     func.func @returned(
// CHECK:     te.linear {{.*}} -> tensor<400x320xbf16>
func.func @returned(%x: tensor<400x128xbf16>, %w: tensor<320x128xbf16>) -> (tensor<400x320xbf16>, tensor<400xf32>) {
  %zero = arith.constant dense<0.0> : tensor<400xf32>
  %y = te.linear %x, %w : tensor<400x128xbf16>, tensor<320x128xbf16> -> tensor<400x320xbf16>
  %f = arith.extf %y : tensor<400x320xbf16> to tensor<400x320xf32>
  %sum = linalg.reduce { arith.addf } ins(%f : tensor<400x320xf32>) outs(%zero : tensor<400xf32>) dimensions = [1]
  return %y, %sum : tensor<400x320xbf16>, tensor<400xf32>
}

// Another matrix.
func.func @normalised(%x: tensor<400x128xbf16>, %w: tensor<320x128xbf16>, %g: tensor<320xbf16>) -> tensor<400xf32> {
  %zero = arith.constant dense<0.0> : tensor<400xf32>
  %y = te.linear %x, %w : tensor<400x128xbf16>, tensor<320x128xbf16> -> tensor<400x320xbf16>
  %n = te.rms_norm %y, %g : tensor<400x320xbf16>, tensor<320xbf16>
  %f = arith.extf %y : tensor<400x320xbf16> to tensor<400x320xf32>
  %h = arith.extf %n : tensor<400x320xbf16> to tensor<400x320xf32>
  %p = arith.mulf %f, %h : tensor<400x320xf32>
  %sum = linalg.reduce { arith.addf } ins(%f : tensor<400x320xf32>) outs(%zero : tensor<400xf32>) dimensions = [1]
  %other = linalg.reduce { arith.addf } ins(%p : tensor<400x320xf32>) outs(%zero : tensor<400xf32>) dimensions = [1]
  %both = arith.addf %sum, %other : tensor<400xf32>
  return %both : tensor<400xf32>
}

// No rows are reduced: it is no head, and no remark says so.
func.func @layer(%x: tensor<400x128xbf16>, %w: tensor<320x128xbf16>, %v: tensor<128x320xbf16>) -> tensor<400x128xbf16> {
  %y = te.linear %x, %w : tensor<400x128xbf16>, tensor<320x128xbf16> -> tensor<400x320xbf16>
  %z = te.linear %y, %v : tensor<400x320xbf16>, tensor<128x320xbf16> -> tensor<400x128xbf16>
  return %z : tensor<400x128xbf16>
}
