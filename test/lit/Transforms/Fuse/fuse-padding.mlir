// RUN: te-opt %s --te-fuse-padding --mlir-print-local-scope | FileCheck %s

!p = tensor<8x32xbf16>
!l = tensor<8x29xbf16>
!t = tensor<8xi32>
!s = tensor<8xf32>

// The loss and its gradient read the padded logits, and casts read the padded
// gradient.
// CHECK-LABEL: func @loss(
// CHECK-NOT: extract_slice
// CHECK: te.cross_entropy %arg0, %arg1 {vocabulary = 29 : i64} : tensor<8x32xbf16>
// CHECK: %[[SAVED:.*]] = te.residual %arg0 "logits" : tensor<8x32xbf16>
// CHECK: %[[D:.*]] = te.cross_entropy_backward %arg2, %[[SAVED]], %arg1, %{{.*}} {vocabulary = 29 : i64} : tensor<8x32xbf16>
// CHECK: te.amax %[[D]] : tensor<8x32xbf16>
// CHECK-NOT: tensor.concat
// CHECK: return %{{.*}}, %[[D]], %{{.*}}
func.func @loss(%p: !p, %t: !t, %weight: tensor<f32>) -> (tensor<f32>, !p, tensor<f32>) {
  %l = tensor.extract_slice %p[0, 0] [8, 29] [1, 1] : !p to !l
  %loss, %lse = te.cross_entropy %l, %t : !l, !t lse !s
  %saved = te.residual %l "logits" : !l
  %d = te.cross_entropy_backward %weight, %saved, %t, %lse : !l, !t, !s
  %amax = te.amax %d : !l
  %zeros = arith.constant dense<0.0> : tensor<8x3xbf16>
  %padded = tensor.concat dim(1) %d, %zeros : (!l, tensor<8x3xbf16>) -> !p
  return %loss, %padded, %amax : tensor<f32>, !p, tensor<f32>
}

// Other readers of the gradient get its first columns; another padding is added
// to these.
// CHECK-LABEL: func @readers(
// CHECK: %[[D:.*]] = te.cross_entropy_backward {{.*}} {vocabulary = 29 : i64} : tensor<8x32xbf16>
// CHECK: %[[CUT:.*]] = tensor.extract_slice %[[D]][0, 0] [8, 29] [1, 1] : tensor<8x32xbf16> to tensor<8x29xbf16>
// CHECK: %[[MORE:.*]] = tensor.concat dim(1) %[[CUT]], %{{.*}} -> tensor<8x64xbf16>
// CHECK: return %[[CUT]], %[[MORE]]
func.func @readers(%p: !p, %t: !t, %weight: tensor<f32>, %lse: !s) -> (!l, tensor<8x64xbf16>) {
  %l = tensor.extract_slice %p[0, 0] [8, 29] [1, 1] : !p to !l
  %d = te.cross_entropy_backward %weight, %l, %t, %lse : !l, !t, !s
  %zeros = arith.constant dense<0.0> : tensor<8x35xbf16>
  %more = tensor.concat dim(1) %d, %zeros : (!l, tensor<8x35xbf16>) -> tensor<8x64xbf16>
  return %d, %more : !l, tensor<8x64xbf16>
}

// Gradients of one value share what is saved.
// CHECK-LABEL: func @shared(
// CHECK: %[[SAVED:.*]] = te.residual %arg0 "logits"
// CHECK-NOT: te.residual
// CHECK: te.cross_entropy_backward %arg2, %[[SAVED]], {{.*}} {vocabulary = 29 : i64}
// CHECK: te.cross_entropy_backward %arg3, %[[SAVED]], {{.*}} {vocabulary = 29 : i64}
func.func @shared(%p: !p, %t: !t, %a: tensor<f32>, %b: tensor<f32>, %lse: !s) -> (!l, !l) {
  %l = tensor.extract_slice %p[0, 0] [8, 29] [1, 1] : !p to !l
  %saved = te.residual %l "logits" : !l
  %c = te.cross_entropy_backward %a, %saved, %t, %lse : !l, !t, !s
  %d = te.cross_entropy_backward %b, %saved, %t, %lse : !l, !t, !s
  return %c, %d : !l, !l
}

// Sums of columns are those of padded columns, cut.
// CHECK-LABEL: func @bias(
// CHECK: %[[D:.*]] = te.cross_entropy_backward {{.*}} {vocabulary = 29 : i64} : tensor<8x32xbf16>
// CHECK-NOT: tensor.extract_slice
// CHECK: %[[SUMS:.*]] = te.bias_grad %[[D]] : tensor<8x32xbf16> -> tensor<32xbf16>
// CHECK: tensor.extract_slice %[[SUMS]][0] [29] [1] : tensor<32xbf16> to tensor<29xbf16>
func.func @bias(%p: !p, %t: !t, %weight: tensor<f32>, %lse: !s) -> tensor<29xbf16> {
  %l = tensor.extract_slice %p[0, 0] [8, 29] [1, 1] : !p to !l
  %d = te.cross_entropy_backward %weight, %l, %t, %lse : !l, !t, !s
  %b = te.bias_grad %d : !l -> tensor<29xbf16>
  return %b : tensor<29xbf16>
}

// A program may pad its own logits; these are cut once more.
// CHECK-LABEL: func @twice(
// CHECK: te.cross_entropy %arg0, %arg1 {vocabulary = 20 : i64} : tensor<8x32xbf16>
func.func @twice(%p: !p, %t: !t) -> tensor<f32> {
  %l = tensor.extract_slice %p[0, 0] [8, 29] [1, 1] : !p to !l
  %loss = te.cross_entropy %l, %t {vocabulary = 20 : i64} : !l, !t
  return %loss : tensor<f32>
}

// Only first columns of the same rows, and not a few of many.
// CHECK-LABEL: func @stays(
// CHECK-NOT: vocabulary
func.func @stays(%p: !p, %q: tensor<9x29xbf16>, %t: !t) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %l = tensor.extract_slice %p[0, 1] [8, 29] [1, 1] : !p to !l
  %a = te.cross_entropy %l, %t : !l, !t
  %m = tensor.extract_slice %q[0, 0] [8, 29] [1, 1] : tensor<9x29xbf16> to !l
  %b = te.cross_entropy %m, %t : !l, !t
  %n = tensor.extract_slice %p[0, 0] [8, 27] [1, 1] : !p to tensor<8x27xbf16>
  %c = te.cross_entropy %n, %t : tensor<8x27xbf16>, !t
  return %a, %b, %c : tensor<f32>, tensor<f32>, tensor<f32>
}
