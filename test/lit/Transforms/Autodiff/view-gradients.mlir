// RUN: te-opt %s --te-differentiate --cse | FileCheck %s

// The gradient of a broadcast along other than the first dimensions is a sum in f32, rounded once.
// CHECK-LABEL: func.func @spread(
// CHECK-SAME: %[[C:[^ ]*]]: tensor<4xbf16>, %[[DY:[^ ]*]]: tensor<4x8xbf16>)
// CHECK: %[[WIDE:.*]] = arith.extf %[[DY]]
// CHECK: %[[SUM:.*]] = linalg.reduce { arith.addf } ins(%[[WIDE]] : tensor<4x8xf32>) outs(%{{.*}} : tensor<4xf32>) dimensions = [1]
// CHECK: %[[DC:.*]] = arith.truncf %[[SUM]]
// CHECK: return %{{.*}}, %[[DC]]
func.func @spread(%c: tensor<4xbf16>, %dy: tensor<4x8xbf16>) -> (tensor<4x8xbf16>, tensor<4xbf16>) {
  %r:2 = te.vjp @repeat(%c) cotangents(%dy) wrt [0] : (tensor<4xbf16>), (tensor<4x8xbf16>) -> (tensor<4x8xbf16>, tensor<4xbf16>)
  return %r#0, %r#1 : tensor<4x8xbf16>, tensor<4xbf16>
}
func.func private @repeat(%c: tensor<4xbf16>) -> tensor<4x8xbf16> {
  %empty = tensor.empty() : tensor<4x8xbf16>
  %y = linalg.broadcast ins(%c : tensor<4xbf16>) outs(%empty : tensor<4x8xbf16>) dimensions = [1]
  return %y : tensor<4x8xbf16>
}

// Of a sum, it is a broadcast; of a transpose, the transpose back.
// CHECK-LABEL: func.func @turned_sum(
// CHECK-SAME: %{{[^ ]*}}: tensor<4x8xf32>, %[[DY:[^ ]*]]: tensor<8xf32>)
// CHECK: %[[ROWS:.*]] = linalg.broadcast ins(%[[DY]] : tensor<8xf32>) outs(%{{.*}} : tensor<8x4xf32>) dimensions = [1]
// CHECK: %[[DX:.*]] = linalg.transpose ins(%[[ROWS]] : tensor<8x4xf32>) outs(%{{.*}} : tensor<4x8xf32>) permutation = [1, 0]
// CHECK: return %{{.*}}, %[[DX]]
func.func @turned_sum(%x: tensor<4x8xf32>, %dy: tensor<8xf32>) -> (tensor<8xf32>, tensor<4x8xf32>) {
  %r:2 = te.vjp @sum_of_turned(%x) cotangents(%dy) wrt [0] : (tensor<4x8xf32>), (tensor<8xf32>) -> (tensor<8xf32>, tensor<4x8xf32>)
  return %r#0, %r#1 : tensor<8xf32>, tensor<4x8xf32>
}
func.func private @sum_of_turned(%x: tensor<4x8xf32>) -> tensor<8xf32> {
  %empty = tensor.empty() : tensor<8x4xf32>
  %zero = arith.constant dense<0.0> : tensor<8xf32>
  %turned = linalg.transpose ins(%x : tensor<4x8xf32>) outs(%empty : tensor<8x4xf32>) permutation = [1, 0]
  %y = linalg.reduce { arith.addf } ins(%turned : tensor<8x4xf32>) outs(%zero : tensor<8xf32>) dimensions = [1]
  return %y : tensor<8xf32>
}

// Of a maximum, it is shared by the elements that equal it.
// CHECK-LABEL: func.func @most(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<4x8xf32>, %[[DY:[^ ]*]]: tensor<4xf32>)
// CHECK: %[[Y:.*]] = linalg.reduce { arith.maximumf }
// CHECK: %[[OUT:.*]] = te.residual %[[Y]] "reduce0.out"
// CHECK: %[[ROWS:.*]] = linalg.broadcast ins(%[[OUT]] : tensor<4xf32>)
// CHECK-DAG: %[[ONES:.*]] = arith.constant dense<1.000000e+00> : tensor<4x8xf32>
// CHECK-DAG: %[[ZEROS:.*]] = arith.constant dense<0.000000e+00> : tensor<4x8xf32>
// CHECK: %[[EQUAL:.*]] = arith.cmpf oeq, %[[X]], %[[ROWS]]
// CHECK: %[[COUNTED:.*]] = arith.select %[[EQUAL]], %[[ONES]], %[[ZEROS]]
// CHECK: %[[NUMBER:.*]] = linalg.reduce { arith.addf } ins(%[[COUNTED]] : tensor<4x8xf32>)
// CHECK: %[[SHARE:.*]] = arith.divf %[[DY]], %[[NUMBER]] : tensor<4xf32>
// CHECK: %[[SHARES:.*]] = linalg.broadcast ins(%[[SHARE]] : tensor<4xf32>)
// CHECK: %[[DX:.*]] = arith.select %[[EQUAL]], %[[SHARES]], %[[ZEROS]]
// CHECK: return %[[Y]], %[[DX]]
func.func @most(%x: tensor<4x8xf32>, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<4x8xf32>) {
  %r:2 = te.vjp @maximum_of(%x) cotangents(%dy) wrt [0] : (tensor<4x8xf32>), (tensor<4xf32>) -> (tensor<4xf32>, tensor<4x8xf32>)
  return %r#0, %r#1 : tensor<4xf32>, tensor<4x8xf32>
}
func.func private @maximum_of(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %lowest = arith.constant dense<0xFF800000> : tensor<4xf32>
  %y = linalg.reduce { arith.maximumf } ins(%x : tensor<4x8xf32>) outs(%lowest : tensor<4xf32>) dimensions = [1]
  return %y : tensor<4xf32>
}

// None passes through a maximum that counts as a constant, and nothing is saved for one.
// CHECK-LABEL: func.func @below(
// CHECK-SAME: %{{[^ ]*}}: tensor<4x8xf32>, %[[DY:[^ ]*]]: tensor<4x8xf32>)
// CHECK: linalg.reduce { arith.maximumf }
// CHECK-NOT: te.no_gradient
// CHECK-NOT: te.residual
// CHECK: return %{{.*}}, %[[DY]] :
func.func @below(%x: tensor<4x8xf32>, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %r:2 = te.vjp @below_maximum(%x) cotangents(%dy) wrt [0] : (tensor<4x8xf32>), (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  return %r#0, %r#1 : tensor<4x8xf32>, tensor<4x8xf32>
}
func.func private @below_maximum(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %lowest = arith.constant dense<0xFF800000> : tensor<4xf32>
  %m = linalg.reduce { arith.maximumf } ins(%x : tensor<4x8xf32>) outs(%lowest : tensor<4xf32>) dimensions = [1] {te.no_gradient}
  %empty = tensor.empty() : tensor<4x8xf32>
  %ms = linalg.broadcast ins(%m : tensor<4xf32>) outs(%empty : tensor<4x8xf32>) dimensions = [1]
  %y = arith.subf %x, %ms : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// So it is of a reshape.
// CHECK-LABEL: func.func @constant(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<4x8xf32>, %[[DY:[^ ]*]]: tensor<4x8xf32>)
// CHECK-NOT: te.no_gradient
// CHECK: %[[S:.*]] = tensor.collapse_shape
// CHECK: %[[Y:.*]] = arith.mulf %[[X]], %[[S]]
// CHECK: %[[SAVED:.*]] = te.residual %[[S]]
// CHECK: %[[DX:.*]] = arith.mulf %[[DY]], %[[SAVED]]
// CHECK-NOT: arith.addf
// CHECK: return %[[Y]], %[[DX]] :
func.func @constant(%x: tensor<4x8xf32>, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %r:2 = te.vjp @times_itself(%x) cotangents(%dy) wrt [0] : (tensor<4x8xf32>), (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  return %r#0, %r#1 : tensor<4x8xf32>, tensor<4x8xf32>
}
func.func private @times_itself(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %longer = tensor.expand_shape %x [[0, 1], [2]] output_shape [1, 4, 8] {te.no_gradient} : tensor<4x8xf32> into tensor<1x4x8xf32>
  %s = tensor.collapse_shape %longer [[0, 1], [2]] : tensor<1x4x8xf32> into tensor<4x8xf32>
  %y = arith.mulf %x, %s : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// Of a slice, it is zeros around the cotangent; of a concatenation, slices of it.
// CHECK-LABEL: func.func @parts(
// CHECK-SAME: %{{[^ ]*}}: tensor<4x8xf32>, %[[DY:[^ ]*]]: tensor<6x5xf32>)
// CHECK-DAG: %[[FIRST:.*]] = tensor.extract_slice %[[DY]][0, 0] [2, 5] [1, 1]
// CHECK-DAG: %[[COLUMNS:.*]] = tensor.concat dim(1) %{{.*}}, %[[FIRST]], %{{.*}} : (tensor<2x1xf32>, tensor<2x5xf32>, tensor<2x2xf32>) -> tensor<2x8xf32>
// CHECK-DAG: tensor.concat dim(0) %[[COLUMNS]], %{{.*}} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
func.func @parts(%x: tensor<4x8xf32>, %dy: tensor<6x5xf32>) -> (tensor<6x5xf32>, tensor<4x8xf32>) {
  %r:2 = te.vjp @join(%x) cotangents(%dy) wrt [0] : (tensor<4x8xf32>), (tensor<6x5xf32>) -> (tensor<6x5xf32>, tensor<4x8xf32>)
  return %r#0, %r#1 : tensor<6x5xf32>, tensor<4x8xf32>
}
func.func private @join(%x: tensor<4x8xf32>) -> tensor<6x5xf32> {
  %a = tensor.extract_slice %x[0, 1] [2, 5] [1, 1] : tensor<4x8xf32> to tensor<2x5xf32>
  %b = tensor.extract_slice %x[0, 3] [4, 5] [1, 1] : tensor<4x8xf32> to tensor<4x5xf32>
  %y = tensor.concat dim(0) %a, %b : (tensor<2x5xf32>, tensor<4x5xf32>) -> tensor<6x5xf32>
  return %y : tensor<6x5xf32>
}
