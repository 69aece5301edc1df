// RUN: te-opt %s --te-form-regions --split-input-file | FileCheck %s
// RUN: te-opt %s --te-form-regions --te-convert-to-tert --split-input-file | FileCheck %s --check-prefix=LAUNCH

// The ops become one launch. Each value is rounded as before, and values that other ops read are stored.
// CHECK-LABEL: func.func @chain
// CHECK: %[[R:.*]]:2 = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<32xbf16>, tensor<32xbf16>) outs(
// CHECK-NEXT: ^bb0(%[[X:.*]]: bf16, %[[Y:.*]]: bf16, %{{.*}}: bf16, %{{.*}}: f32):
// CHECK: %[[WX:.*]] = arith.extf %[[X]] : bf16 to f32
// CHECK: %[[WY:.*]] = arith.extf %[[Y]] : bf16 to f32
// CHECK: %[[P:.*]] = arith.mulf %[[WX]], %[[WY]] : f32
// CHECK: %[[PN:.*]] = arith.truncf %[[P]] : f32 to bf16
// CHECK: %[[PW:.*]] = arith.extf %[[PN]] : bf16 to f32
// CHECK: %[[TWO:.*]] = arith.constant 2.000000e+00 : f32
// CHECK: %[[S:.*]] = arith.addf %[[PW]], %[[TWO]] : f32
// CHECK: %[[SN:.*]] = arith.truncf %[[S]] : f32 to bf16
// CHECK: %[[SW:.*]] = arith.extf %[[SN]] : bf16 to f32
// CHECK: %[[E:.*]] = math.exp %[[SW]] : f32
// CHECK: linalg.yield %[[SN]], %[[E]] : bf16, f32
// LAUNCH-LABEL: func.func @chain
// LAUNCH: tert.launch "generated" {count = 32 : i64, function = 0 : i64}(%arg0, %arg1, %[[NONE:.*]], %[[NONE]], %[[NONE]], %[[NONE]], %[[NONE]], %[[NONE]], %arg2, %arg3, %[[NONE]], %[[NONE]]) : {{.*}} {
// LAUNCH-NEXT: ^bb0(%{{.*}}: bf16, %{{.*}}: bf16):
// LAUNCH: tert.yield %{{.*}}, %{{.*}} : bf16, f32
func.func @chain(%x: tensor<4x8xbf16> {te.name = "x"}, %y: tensor<4x8xbf16> {te.name = "y"})
    -> (tensor<4x8xbf16> {te.name = "s"}, tensor<4x8xf32> {te.name = "e"}) {
  %two = arith.constant dense<2.0> : tensor<4x8xbf16>
  %p = arith.mulf %x, %y : tensor<4x8xbf16>
  %s = arith.addf %p, %two : tensor<4x8xbf16>
  %w = arith.extf %s : tensor<4x8xbf16> to tensor<4x8xf32>
  %e = math.exp %w : tensor<4x8xf32>
  return %s, %e : tensor<4x8xbf16>, tensor<4x8xf32>
}

// -----

// An op whose result is read before the other runs is a region of its own. A reshape in between does not matter.
// CHECK-LABEL: func.func @apart
// CHECK: linalg.generic
// CHECK: arith.negf
// CHECK: te.matmul
// CHECK: linalg.generic
// CHECK: arith.addf
// CHECK-NOT: linalg.generic
// CHECK: math.tanh
func.func @apart(%x: tensor<4x8xf32> {te.name = "x"}, %w: tensor<8x8xf32> {te.name = "w"})
    -> (tensor<4x8xf32> {te.name = "a"}, tensor<32xf32> {te.name = "b"}) {
  %n = arith.negf %x : tensor<4x8xf32>
  %m = te.matmul %n, %w contract = [1, 1] : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %a = arith.addf %n, %m : tensor<4x8xf32>
  %flat = tensor.collapse_shape %a [[0, 1]] : tensor<4x8xf32> into tensor<32xf32>
  %b = math.tanh %flat : tensor<32xf32>
  return %a, %b : tensor<4x8xf32>, tensor<32xf32>
}

// -----

// A sum that frees memory before a launch stays before it. The other ops are merged.
// CHECK-LABEL: func.func @frees
// CHECK: arith.addf
// CHECK: te.matmul
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} :
func.func @frees(%x: tensor<8x8xf32> {te.name = "x"}) -> (tensor<8x8xf32> {te.name = "y"}) {
  %a = te.matmul %x, %x contract = [1, 1] : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %b = te.matmul %a, %x contract = [1, 1] : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %sum = arith.addf %a, %b : tensor<8x8xf32>
  %c = te.matmul %x, %x contract = [1, 1] : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %d = arith.addf %sum, %c : tensor<8x8xf32>
  %y = arith.mulf %d, %d : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// -----

// The GEMM results are read again below. If the conversions moved to the end, all of them would be alive until then.
// CHECK-LABEL: func.func @holds
// CHECK-COUNT-4: linalg.generic
func.func @holds(%x: tensor<8x8xf32> {te.name = "x"}) -> (tensor<8x8xbf16> {te.name = "a"}, tensor<8x8xbf16> {te.name = "b"}) {
  %i = te.matmul %x, %x contract = [1, 1] : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %e = arith.truncf %i : tensor<8x8xf32> to tensor<8x8xbf16>
  %u = te.matmul %i, %x contract = [1, 1] : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %f = arith.truncf %u : tensor<8x8xf32> to tensor<8x8xbf16>
  %w = te.matmul %u, %x contract = [1, 1] : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xbf16>
  %a = arith.negf %e : tensor<8x8xbf16>
  %b = arith.addf %f, %w : tensor<8x8xbf16>
  return %a, %b : tensor<8x8xbf16>, tensor<8x8xbf16>
}

// -----

// The update overwrites its parameter in place, and the old value is read before it.
// CHECK-LABEL: func.func @updates
// CHECK: arith.negf
// CHECK: te.sgd
// CHECK: arith.addf
func.func @updates(%w: tensor<8x8xf32> {te.name = "w"}, %g: tensor<8x8xf32> {te.name = "g"}, %lr: tensor<f32> {te.name = "lr"})
    -> (tensor<8x8xf32> {te.name = "w"}, tensor<8x8xf32> {te.name = "change"}) {
  %n = arith.negf %w : tensor<8x8xf32>
  %w2 = te.sgd %w, %g lr %lr : tensor<8x8xf32>, tensor<8x8xf32>
  %change = arith.addf %n, %w2 : tensor<8x8xf32>
  return %w2, %change : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// Five tanh exceed the limit for the time to compile a region.
// CHECK-LABEL: func.func @long
// CHECK-COUNT-2: linalg.generic
func.func @long(%x: tensor<8x8xf32> {te.name = "x"}) -> (tensor<8x8xf32> {te.name = "y"}) {
  %a = math.tanh %x : tensor<8x8xf32>
  %b = math.tanh %a : tensor<8x8xf32>
  %c = math.tanh %b : tensor<8x8xf32>
  %d = math.tanh %c : tensor<8x8xf32>
  %e = math.tanh %d : tensor<8x8xf32>
  %y = arith.addf %e, %e : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// -----

// A broadcast is read where the elements of its operand are. In the launch, the map is from the number of an element.
// CHECK-LABEL: func.func @broadcasts
// CHECK-NOT: linalg.broadcast
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}}, %arg2 : tensor<48xbf16>, tensor<16xbf16>, tensor<8xbf16>)
// LAUNCH-DAG: #[[ALL:.*]] = affine_map<(d0) -> (d0)>
// LAUNCH-DAG: #[[ENDS:.*]] = affine_map<(d0) -> (d0 mod 8 + (d0 floordiv 24) * 8)>
// LAUNCH-DAG: #[[LAST:.*]] = affine_map<(d0) -> (d0 mod 8)>
// LAUNCH-LABEL: func.func @broadcasts
// LAUNCH: tert.launch "generated" {count = 48 : i64, function = 0 : i64}(%arg0, %arg1, %arg2, {{.*}}) maps [#[[ALL]], #[[ENDS]], #[[LAST]]]
func.func @broadcasts(%x: tensor<2x3x8xbf16> {te.name = "x"}, %shift: tensor<2x8xbf16> {te.name = "shift"}, %scale: tensor<8xbf16> {te.name = "scale"})
    -> (tensor<2x3x8xbf16> {te.name = "y"}) {
  %empty = tensor.empty() : tensor<2x3x8xbf16>
  %shifts = linalg.broadcast ins(%shift : tensor<2x8xbf16>) outs(%empty : tensor<2x3x8xbf16>) dimensions = [1]
  %scales = linalg.broadcast ins(%scale : tensor<8xbf16>) outs(%empty : tensor<2x3x8xbf16>) dimensions = [0, 1]
  %a = arith.addf %x, %shifts : tensor<2x3x8xbf16>
  %y = arith.mulf %a, %scales : tensor<2x3x8xbf16>
  return %y : tensor<2x3x8xbf16>
}

// -----

// Without another elementwise op, a broadcast is stored.
// CHECK-LABEL: func.func @stored
// CHECK: %[[ROWS:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<8xf32>) outs(
// CHECK: %[[SHAPED:.*]] = tensor.expand_shape %[[ROWS]]
// CHECK: te.matmul %[[SHAPED]], %arg1
// LAUNCH-LABEL: func.func @stored
// LAUNCH: tert.launch "generated" {{.*}} maps [#{{.*}}]
func.func @stored(%b: tensor<8xf32> {te.name = "b"}, %w: tensor<8x8xf32> {te.name = "w"}) -> (tensor<4x8xf32> {te.name = "y"}) {
  %empty = tensor.empty() : tensor<4x8xf32>
  %rows = linalg.broadcast ins(%b : tensor<8xf32>) outs(%empty : tensor<4x8xf32>) dimensions = [0]
  %y = te.matmul %rows, %w contract = [1, 1] : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// A transpose of a slice is read in place, and so is the part of the tensor from the first of its elements to the last.
// LAUNCH: #[[MAP:.*]] = affine_map<(d0) -> ((d0 mod 4) * 8 + d0 floordiv 4)>
// LAUNCH-LABEL: func.func @moved
// LAUNCH: %[[PART:.*]] = tert.slice %arg0 offset 8 : !tert.buffer<128> -> !tert.buffer<104>
// LAUNCH: tert.launch "generated" {count = 8 : i64, function = 0 : i64}(%[[PART]], {{.*}}) maps [#[[MAP]]]
// CHECK-LABEL: func.func @moved
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT: linalg.transpose
func.func @moved(%x: tensor<4x8xf32> {te.name = "x"}) -> (tensor<2x4xf32> {te.name = "y"}) {
  %part = tensor.extract_slice %x[0, 2] [4, 2] [1, 1] : tensor<4x8xf32> to tensor<4x2xf32>
  %empty = tensor.empty() : tensor<2x4xf32>
  %turned = linalg.transpose ins(%part : tensor<4x2xf32>) outs(%empty : tensor<2x4xf32>) permutation = [1, 0]
  %y = arith.negf %turned : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// What a te op reads of a transpose is stored, where it was computed. The sum does not move behind that.
// CHECK-LABEL: func.func @stays
// CHECK: linalg.generic
// CHECK: arith.addf
// CHECK: linalg.generic
// CHECK-NEXT: ^bb0
// CHECK-NEXT: linalg.yield
// CHECK: te.matmul
// CHECK: linalg.generic
// CHECK: arith.mulf
func.func @stays(%x: tensor<8x8xf32> {te.name = "x"}) -> (tensor<8x8xf32> {te.name = "y"}) {
  %sum = arith.addf %x, %x : tensor<8x8xf32>
  %empty = tensor.empty() : tensor<8x8xf32>
  %turned = linalg.transpose ins(%sum : tensor<8x8xf32>) outs(%empty : tensor<8x8xf32>) permutation = [1, 0]
  %m = te.matmul %turned, %x contract = [1, 1] : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %y = arith.mulf %sum, %m : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// -----

// Sums over the last dimensions and over the first ones have kernels. Others are of a transpose; a sum over all
// dimensions is one over the last, and then one over the rest. bf16 is widened by the kernel.
// LAUNCH-LABEL: func.func @sums
// LAUNCH: "row_sum" {cols = 4 : i64, out_type = 0 : i32, rows = 6 : i64, type = 1 : i32}(%arg0,
// LAUNCH: "bias_grad" {cols = 12 : i64, out_type = 0 : i32, rows = 2 : i64, type = 1 : i32}(%arg0,
// LAUNCH: "generated" {{.*}} maps
// LAUNCH: "row_sum" {cols = 3 : i64, out_type = 0 : i32, rows = 8 : i64, type = 1 : i32}
// LAUNCH: "row_sum" {cols = 4 : i64, out_type = 0 : i32, rows = 6 : i64, type = 1 : i32}(%arg0,
// LAUNCH: "row_sum" {cols = 6 : i64, out_type = 0 : i32, rows = 1 : i64, type = 0 : i32}
func.func @sums(%x: tensor<2x3x4xbf16> {te.name = "x"})
    -> (tensor<2x3xf32> {te.name = "a"}, tensor<3x4xf32> {te.name = "b"}, tensor<2x4xf32> {te.name = "c"}, tensor<f32> {te.name = "d"}) {
  %w = arith.extf %x : tensor<2x3x4xbf16> to tensor<2x3x4xf32>
  %za = arith.constant dense<0.0> : tensor<2x3xf32>
  %zb = arith.constant dense<0.0> : tensor<3x4xf32>
  %zc = arith.constant dense<0.0> : tensor<2x4xf32>
  %zd = arith.constant dense<0.0> : tensor<f32>
  %a = linalg.reduce { arith.addf } ins(%w : tensor<2x3x4xf32>) outs(%za : tensor<2x3xf32>) dimensions = [2]
  %b = linalg.reduce { arith.addf } ins(%w : tensor<2x3x4xf32>) outs(%zb : tensor<3x4xf32>) dimensions = [0]
  %c = linalg.reduce { arith.addf } ins(%w : tensor<2x3x4xf32>) outs(%zc : tensor<2x4xf32>) dimensions = [1]
  %d = linalg.reduce { arith.addf } ins(%w : tensor<2x3x4xf32>) outs(%zd : tensor<f32>) dimensions = [0, 1, 2]
  return %a, %b, %c, %d : tensor<2x3xf32>, tensor<3x4xf32>, tensor<2x4xf32>, tensor<f32>
}

// -----

// A concatenation is a copy of each operand. Zeros are filled in before, once.
// LAUNCH-LABEL: func.func @joined
// LAUNCH: "fill" {count = 28 : i64, type = 0 : i32, value = 0.000000e+00 : f32}(%[[Y:.*]], %
// LAUNCH: %[[AT:.*]] = tert.slice %[[Y]] offset 4 : !tert.buffer<112> -> !tert.buffer<108>
// LAUNCH: "copy_strided" {bytes = 24 : i64, parts = 1 : i64, rows = 4 : i64, {{.*}}y_row = 28 : i64}(%arg0, %[[AT]])
// LAUNCH-NOT: "copy
// LAUNCH: return
func.func @joined(%x: tensor<4x6xf32> {te.name = "x"}) -> (tensor<4x7xf32> {te.name = "y"}) {
  %zero = arith.constant dense<0.0> : tensor<4x1xf32>
  %y = tensor.concat dim(1) %zero, %x : (tensor<4x1xf32>, tensor<4x6xf32>) -> tensor<4x7xf32>
  return %y : tensor<4x7xf32>
}

// -----

// A dropout reads the two elements of its state, and computes the factor of each element again.
// CHECK-LABEL: func.func @dropout
// CHECK: %[[SEED:.*]] = tensor.extract_slice %arg1[0] [1] [1] : tensor<2xi32> to tensor<1xi32>
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[SEED]], %arg1, %{{.*}} : tensor<32xbf16>, tensor<1xi32>, tensor<2xi32>, tensor<32xbf16>)
// CHECK-NEXT: ^bb0(%[[X:.*]]: bf16, %[[S:.*]]: i32, %[[O:.*]]: i32, %{{.*}}: bf16, %{{.*}}: bf16):
// CHECK-NEXT: %[[W:.*]] = arith.extf %[[X]] : bf16 to f32
// CHECK-NEXT: %[[F:.*]] = tert.dropout %[[S]], %[[O]] {probability = 1.000000e-01 : f32, stream = 3 : i32}
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[W]], %[[F]] : f32
// CHECK-NEXT: arith.truncf %[[P]] : f32 to bf16
// LAUNCH-LABEL: func.func @dropout
// LAUNCH: tert.launch "generated" {{.*}} maps [#[[ALL:.*]], #[[FIRST:.*]], #[[SECOND:.*]], #[[ALL]]] :
func.func @dropout(%x: tensor<4x8xbf16> {te.name = "x"}, %s: tensor<2xi32> {te.name = "s"}, %r: tensor<4x8xbf16> {te.name = "r"})
    -> (tensor<4x8xbf16> {te.name = "y"}) {
  %d = te.dropout %x rng %s {probability = 0.1 : f32, stream = 3 : i32} : tensor<4x8xbf16>
  %y = arith.addf %d, %r : tensor<4x8xbf16>
  return %y : tensor<4x8xbf16>
}

// -----

// Truth values are not stored: each select compares again, in its own region. The compared sum is computed once.
// CHECK-LABEL: func.func @choices
// CHECK: %[[S:.*]]:2 = linalg.generic {{.*}} outs(%{{.*}}, %{{.*}} : tensor<32xbf16>, tensor<32xf32>)
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK: %[[NARROW:.*]] = arith.truncf %[[SUM]] : f32 to bf16
// CHECK: %[[WIDE:.*]] = arith.extf %[[NARROW]] : bf16 to f32
// CHECK: %[[HOLDS:.*]] = arith.cmpf ogt, %[[WIDE]], %{{.*}} : f32
// CHECK: %[[C:.*]] = arith.select %[[HOLDS]], %{{.*}}, %{{.*}} : f32
// CHECK-NEXT: linalg.yield %[[NARROW]], %[[C]] : bf16, f32
// CHECK: te.matmul
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}}, %{{.*}} : tensor<32xbf16>, tensor<8xbf16>, tensor<32xf32>)
// CHECK: arith.cmpf ogt
// CHECK: arith.select
// CHECK-NOT: arith.cmpf
// CHECK: return
// LAUNCH-LABEL: func.func @choices
// LAUNCH: arith.cmpf
// LAUNCH: arith.cmpf
// LAUNCH-NOT: xi1>
// LAUNCH: return
func.func @choices(%x: tensor<4x8xbf16> {te.name = "x"}, %b: tensor<8xbf16> {te.name = "b"}, %z: tensor<4x8xf32> {te.name = "z"},
                   %w: tensor<8x8xf32> {te.name = "w"}) -> (tensor<4x8xf32> {te.name = "y"}) {
  %empty = tensor.empty() : tensor<4x8xbf16>
  %bs = linalg.broadcast ins(%b : tensor<8xbf16>) outs(%empty : tensor<4x8xbf16>) dimensions = [0]
  %s = arith.addf %x, %x : tensor<4x8xbf16>
  %holds = arith.cmpf ogt, %s, %bs : tensor<4x8xbf16>
  %one = arith.constant dense<1.0> : tensor<4x8xf32>
  %c = arith.select %holds, %z, %one : tensor<4x8xi1>, tensor<4x8xf32>
  %m = te.matmul %c, %w contract = [1, 1] : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %y = arith.select %holds, %m, %one : tensor<4x8xi1>, tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// Rows that are not used are set to zero in the launch of the ops around them, which reads one number for each row.
// CHECK-LABEL: func.func @unused
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}}, %arg1 : tensor<32xbf16>, tensor<32xbf16>, tensor<4xf32>)
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK: arith.truncf %[[SUM]]
// CHECK: %[[USED:.*]] = arith.cmpf une
// CHECK: arith.select %[[USED]]
// CHECK-NOT: linalg.generic
// CHECK: return
// LAUNCH-LABEL: func.func @unused
// LAUNCH: tert.launch "generated"
// LAUNCH-NOT: tert.launch
// LAUNCH: return
func.func @unused(%x: tensor<4x8xbf16> {te.name = "x"}, %used: tensor<4xf32> {te.name = "used"}, %r: tensor<4x8xbf16> {te.name = "r"})
    -> (tensor<4x8xbf16> {te.name = "y"}) {
  %s = arith.addf %x, %r : tensor<4x8xbf16>
  %y = te.zero_unused %s, %used : tensor<4x8xbf16>, tensor<4xf32>
  return %y : tensor<4x8xbf16>
}

// -----

// A sum of rows, what is computed of it for each row, and what reads that for each element become one launch, with an
// output for each row.
// CHECK: #[[ROW:.*]] = affine_map<(d0) -> (d0 floordiv 64)>
// CHECK-LABEL: func.func @normalized
// CHECK-NOT: linalg.reduce
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<256xbf16>) outs(%{{.*}}, %{{.*}} : tensor<4xf32>, tensor<256xbf16>)
// CHECK: %[[W:.*]] = arith.extf
// CHECK: %[[Q:.*]] = arith.mulf %[[W]], %[[W]]
// CHECK: %[[S:.*]] = tert.row_reduce sum %[[Q]] {cols = 64 : i64}
// CHECK: %[[R:.*]] = math.sqrt %[[S]]
// CHECK: arith.divf %[[W]], %[[R]]
// LAUNCH-LABEL: func.func @normalized
// LAUNCH: tert.launch "generated" {count = 256 : i64, function = 0 : i64}
// LAUNCH-SAME: maps [#{{.*}}, #{{.*}}, #{{.*}}]
func.func @normalized(%x: tensor<4x64xbf16> {te.name = "x"})
    -> (tensor<4x64xbf16> {te.name = "y"}, tensor<4xf32> {te.name = "size"}) {
  %w = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %q = arith.mulf %w, %w : tensor<4x64xf32>
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %s = linalg.reduce {arith.addf} ins(%q : tensor<4x64xf32>) outs(%zero : tensor<4xf32>) dimensions = [1]
  %r = math.sqrt %s : tensor<4xf32>
  %e = tensor.empty() : tensor<4x64xf32>
  %b = linalg.broadcast ins(%r : tensor<4xf32>) outs(%e : tensor<4x64xf32>) dimensions = [1]
  %d = arith.divf %w, %b : tensor<4x64xf32>
  %y = arith.truncf %d : tensor<4x64xf32> to tensor<4x64xbf16>
  return %y, %r : tensor<4x64xbf16>, tensor<4xf32>
}

// -----

// A softmax, also of short rows, is ops on elements and rows, and so one launch with the ops around it.
// CHECK-LABEL: func.func @softmax
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<64xbf16>, tensor<64xbf16>) outs(%{{.*}} : tensor<64xbf16>)
// CHECK: %[[A:.*]] = arith.addf
// CHECK: arith.truncf %[[A]]
// CHECK: %[[S:.*]] = arith.mulf
// CHECK: %[[MAX:.*]] = tert.row_reduce maximum %[[S]] {cols = 16 : i64}
// CHECK: %[[B:.*]] = arith.subf %[[S]], %[[MAX]]
// CHECK: %[[E:.*]] = math.exp %[[B]]
// CHECK: %[[SUM:.*]] = tert.row_reduce sum %[[E]] {cols = 16 : i64}
// CHECK: %[[I:.*]] = arith.divf %{{.*}}, %[[SUM]]
// CHECK: arith.mulf %[[E]], %[[I]]
// CHECK-NOT: linalg.generic
func.func @softmax(%x: tensor<4x16xbf16> {te.name = "x"}, %b: tensor<4x16xbf16> {te.name = "b"}) -> (tensor<4x16xbf16> {te.name = "y"}) {
  %s = arith.addf %x, %b : tensor<4x16xbf16>
  %y = te.softmax %s {scale = 0.125 : f32} : tensor<4x16xbf16>
  return %y : tensor<4x16xbf16>
}

// -----

// CHECK-LABEL: func.func @softmax_backward
// CHECK: %[[P:.*]] = arith.mulf
// CHECK: %[[SUM:.*]] = tert.row_reduce sum %[[P]] {cols = 16 : i64}
// CHECK: arith.subf %{{.*}}, %[[SUM]]
// CHECK-NOT: linalg.generic
// CHECK-LABEL: func.func @empty_softmax
// CHECK: arith.constant dense<0.000000e+00> : tensor<0x16xbf16>
func.func @softmax_backward(%dy: tensor<4x16xbf16> {te.name = "dy"}, %y: tensor<4x16xbf16> {te.name = "y"}) -> (tensor<4x16xbf16> {te.name = "dx"}) {
  %dx = te.softmax_backward %dy, %y : tensor<4x16xbf16>
  return %dx : tensor<4x16xbf16>
}
func.func @empty_softmax(%x: tensor<0x16xbf16> {te.name = "x"}) -> (tensor<0x16xbf16> {te.name = "y"}) {
  %y = te.softmax %x : tensor<0x16xbf16>
  return %y : tensor<0x16xbf16>
}

// -----

// A maximum that a program takes is one launch with a sum of the same rows and the ops around both.
// CHECK-LABEL: func.func @spelled_softmax
// CHECK: %[[W:.*]] = arith.extf
// CHECK: %[[MAX:.*]] = tert.row_reduce maximum %[[W]] {cols = 64 : i64}
// CHECK: %[[B:.*]] = arith.subf %[[W]], %[[MAX]]
// CHECK: %[[E:.*]] = math.exp %[[B]]
// CHECK: %[[SUM:.*]] = tert.row_reduce sum %[[E]] {cols = 64 : i64}
// CHECK: arith.divf %[[E]], %[[SUM]]
// CHECK-NOT: linalg.generic
func.func @spelled_softmax(%x: tensor<4x64xbf16> {te.name = "x"}) -> (tensor<4x64xf32> {te.name = "y"}) {
  %w = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<4xf32>
  %m = linalg.reduce {arith.maximumf} ins(%w : tensor<4x64xf32>) outs(%lowest : tensor<4xf32>) dimensions = [1]
  %empty = tensor.empty() : tensor<4x64xf32>
  %ms = linalg.broadcast ins(%m : tensor<4xf32>) outs(%empty : tensor<4x64xf32>) dimensions = [1]
  %d = arith.subf %w, %ms : tensor<4x64xf32>
  %e = math.exp %d : tensor<4x64xf32>
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %s = linalg.reduce {arith.addf} ins(%e : tensor<4x64xf32>) outs(%zero : tensor<4xf32>) dimensions = [1]
  %ss = linalg.broadcast ins(%s : tensor<4xf32>) outs(%empty : tensor<4x64xf32>) dimensions = [1]
  %y = arith.divf %e, %ss : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// A minimum is that of the negated elements; rows may be short, and those of a transpose. A row of one element is its maximum.
// CHECK-LABEL: func.func @short
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<24xf32>) outs(%{{.*}} : tensor<8xf32>)
// CHECK: %[[N:.*]] = arith.negf
// CHECK: %[[M:.*]] = tert.row_reduce maximum %[[N]] {cols = 3 : i64}
// CHECK: arith.negf %[[M]]
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<24xf32>) outs(%{{.*}} : tensor<24xf32>)
// CHECK-NEXT: ^bb0
// CHECK-NEXT: linalg.yield
// CHECK: tert.row_reduce maximum %{{.*}} {cols = 8 : i64}
// CHECK-NOT: tert.row_reduce
// CHECK: return
func.func @short(%x: tensor<8x3xf32> {te.name = "x"}, %z: tensor<8x1xf32> {te.name = "z"})
    -> (tensor<8xf32> {te.name = "a"}, tensor<3xf32> {te.name = "b"}, tensor<8xf32> {te.name = "c"}) {
  %highest = arith.constant dense<0x7F800000> : tensor<8xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<3xf32>
  %lowest8 = arith.constant dense<0xFF800000> : tensor<8xf32>
  %a = linalg.reduce {arith.minimumf} ins(%x : tensor<8x3xf32>) outs(%highest : tensor<8xf32>) dimensions = [1]
  %b = linalg.reduce {arith.maximumf} ins(%x : tensor<8x3xf32>) outs(%lowest : tensor<3xf32>) dimensions = [0]
  %c = linalg.reduce {arith.maximumf} ins(%z : tensor<8x1xf32>) outs(%lowest8 : tensor<8xf32>) dimensions = [1]
  return %a, %b, %c : tensor<8xf32>, tensor<3xf32>, tensor<8xf32>
}

// -----

// The only row, and rows that are longer than any of generated code, are divided. The maximum of a constant is that.
// CHECK-LABEL: func.func @divided
// CHECK: tert.row_reduce maximum %{{.*}} {cols = 4000 : i64}
// CHECK: tert.row_reduce maximum %{{.*}} {cols = 3 : i64}
// CHECK: tert.row_reduce maximum %{{.*}} {cols = 4096 : i64}
// CHECK: tert.row_reduce maximum %{{.*}} {cols = 8192 : i64}
// CHECK-NOT: tert.row_reduce
// CHECK: %[[C:.*]] = arith.constant dense<2.000000e+00> : tensor<2xf32>
// CHECK-NOT: tert.row_reduce
// CHECK: return %{{.*}}, %{{.*}}, %[[C]]
func.func @divided(%x: tensor<12x1000xf32> {te.name = "x"}, %z: tensor<2x8192x4096xf32> {te.name = "z"})
    -> (tensor<f32> {te.name = "a"}, tensor<2xf32> {te.name = "b"}, tensor<2xf32> {te.name = "c"}) {
  %lowest = arith.constant dense<0xFF800000> : tensor<f32>
  %lowest2 = arith.constant dense<0xFF800000> : tensor<2xf32>
  %twos = arith.constant dense<2.0> : tensor<2x64xf32>
  %a = linalg.reduce {arith.maximumf} ins(%x : tensor<12x1000xf32>) outs(%lowest : tensor<f32>) dimensions = [0, 1]
  %b = linalg.reduce {arith.maximumf} ins(%z : tensor<2x8192x4096xf32>) outs(%lowest2 : tensor<2xf32>) dimensions = [1, 2]
  %c = linalg.reduce {arith.maximumf} ins(%twos : tensor<2x64xf32>) outs(%lowest2 : tensor<2xf32>) dimensions = [1]
  return %a, %b, %c : tensor<f32>, tensor<2xf32>, tensor<2xf32>
}

// -----

// Only the rows that tokens name are rounded.
// CHECK-LABEL: func.func @lookup
// CHECK-NEXT: %[[ROWS:.*]] = te.embedding %arg0, %arg1 : tensor<8xi32>, tensor<64x16xf32> -> tensor<8x16xf32>
// CHECK: linalg.generic
// CHECK-NOT: 64x16xbf16
// CHECK: return
// LAUNCH-LABEL: func.func @lookup
// LAUNCH: tert.launch "embedding" {{.*}}type = 0 : i32
// LAUNCH: tert.launch "generated"
func.func @lookup(%ids: tensor<8xi32> {te.name = "ids"}, %table: tensor<64x16xf32> {te.name = "table"}) -> (tensor<8x16xbf16> {te.name = "y"}) {
  %t = arith.truncf %table : tensor<64x16xf32> to tensor<64x16xbf16>
  %y = te.embedding %ids, %t : tensor<8xi32>, tensor<64x16xbf16> -> tensor<8x16xbf16>
  return %y : tensor<8x16xbf16>
}

// -----

// The rounded table is stored if something else reads it, or if it is not much larger than what is looked up.
// CHECK-LABEL: func.func @tied_lookup
// CHECK: te.embedding {{.*}} tensor<64x16xbf16> -> tensor<8x16xbf16>
func.func @tied_lookup(%ids: tensor<8xi32> {te.name = "ids"}, %table: tensor<64x16xf32> {te.name = "table"})
    -> (tensor<8x16xbf16> {te.name = "y"}, tensor<8x64xbf16> {te.name = "z"}) {
  %t = arith.truncf %table : tensor<64x16xf32> to tensor<64x16xbf16>
  %y = te.embedding %ids, %t : tensor<8xi32>, tensor<64x16xbf16> -> tensor<8x16xbf16>
  %z = te.matmul %y, %t contract = [1, 1] : tensor<8x16xbf16>, tensor<64x16xbf16> -> tensor<8x64xbf16>
  return %y, %z : tensor<8x16xbf16>, tensor<8x64xbf16>
}

// -----

// CHECK-LABEL: func.func @small_table
// CHECK: te.embedding {{.*}} tensor<20x16xbf16> -> tensor<12x16xbf16>
func.func @small_table(%ids: tensor<12xi32> {te.name = "ids"}, %table: tensor<20x16xf32> {te.name = "table"}) -> (tensor<12x16xbf16> {te.name = "y"}) {
  %t = arith.truncf %table : tensor<20x16xf32> to tensor<20x16xbf16>
  %y = te.embedding %ids, %t : tensor<12xi32>, tensor<20x16xbf16> -> tensor<12x16xbf16>
  return %y : tensor<12x16xbf16>
}

// -----

// A sum that nothing can join has a kernel, as have sums of short rows.
// CHECK-LABEL: func.func @alone
// CHECK-COUNT-2: linalg.reduce
// CHECK-NOT: tert.row_reduce
func.func @alone(%x: tensor<4x64xf32> {te.name = "x"}, %z: tensor<64x4xf32> {te.name = "z"})
    -> (tensor<4xf32> {te.name = "a"}, tensor<64xf32> {te.name = "b"}) {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %a = linalg.reduce {arith.addf} ins(%x : tensor<4x64xf32>) outs(%zero : tensor<4xf32>) dimensions = [1]
  %n = arith.negf %z : tensor<64x4xf32>
  %zeros = arith.constant dense<0.0> : tensor<64xf32>
  %b = linalg.reduce {arith.addf} ins(%n : tensor<64x4xf32>) outs(%zeros : tensor<64xf32>) dimensions = [1]
  return %a, %b : tensor<4xf32>, tensor<64xf32>
}

// -----

// A row is not computed before a launch between that reads its sum.
// CHECK-LABEL: func.func @between
// CHECK: linalg.generic
// CHECK: tert.row_reduce
// CHECK: te.matmul
// CHECK: linalg.generic
// CHECK-NOT: tert.row_reduce
func.func @between(%x: tensor<64x64xf32> {te.name = "x"}, %w: tensor<1x64xf32> {te.name = "w"})
    -> (tensor<64x64xf32> {te.name = "y"}, tensor<64x1xf32> {te.name = "m"}) {
  %n = arith.negf %x : tensor<64x64xf32>
  %zero = arith.constant dense<0.0> : tensor<64xf32>
  %s = linalg.reduce {arith.addf} ins(%n : tensor<64x64xf32>) outs(%zero : tensor<64xf32>) dimensions = [1]
  %row = tensor.expand_shape %s [[0, 1]] output_shape [1, 64] : tensor<64xf32> into tensor<1x64xf32>
  %sum = arith.addf %row, %w : tensor<1x64xf32>
  %m = te.matmul %x, %sum contract = [1, 1] : tensor<64x64xf32>, tensor<1x64xf32> -> tensor<64x1xf32>
  %e = tensor.empty() : tensor<64x64xf32>
  %b = linalg.broadcast ins(%s : tensor<64xf32>) outs(%e : tensor<64x64xf32>) dimensions = [1]
  %y = arith.divf %x, %b : tensor<64x64xf32>
  return %y, %m : tensor<64x64xf32>, tensor<64x1xf32>
}
