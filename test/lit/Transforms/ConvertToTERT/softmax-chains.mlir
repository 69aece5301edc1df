// RUN: te-opt %s --split-input-file --te-form-regions | FileCheck %s

// A softmax that a program spells out has no room in the region of the ops before it. It begins a region, which reads bf16, so that
// no f32 is stored.
// CHECK-LABEL: func.func @spelled
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<256xbf16>)
// CHECK-COUNT-3: math.tanh
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<256xbf16>) outs(%{{.*}} : tensor<256xbf16>)
// CHECK: arith.extf
// CHECK: tert.row_reduce maximum
// CHECK: math.exp
// CHECK: tert.row_reduce sum
// CHECK: arith.divf
// CHECK: arith.truncf
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @spelled(%x: tensor<4x64xbf16> {te.name = "x"}) -> (tensor<4x64xbf16> {te.name = "y"}) {
  %t0 = math.tanh %x : tensor<4x64xbf16>
  %t1 = math.tanh %t0 : tensor<4x64xbf16>
  %t2 = math.tanh %t1 : tensor<4x64xbf16>
  %w = arith.extf %t2 : tensor<4x64xbf16> to tensor<4x64xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<4xf32>
  %m = linalg.reduce {arith.maximumf} ins(%w : tensor<4x64xf32>) outs(%lowest : tensor<4xf32>) dimensions = [1]
  %empty = tensor.empty() : tensor<4x64xf32>
  %ms = linalg.broadcast ins(%m : tensor<4xf32>) outs(%empty : tensor<4x64xf32>) dimensions = [1]
  %d = arith.subf %w, %ms : tensor<4x64xf32>
  %e = math.exp %d : tensor<4x64xf32>
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %s = linalg.reduce {arith.addf} ins(%e : tensor<4x64xf32>) outs(%zero : tensor<4xf32>) dimensions = [1]
  %ss = linalg.broadcast ins(%s : tensor<4xf32>) outs(%empty : tensor<4x64xf32>) dimensions = [1]
  %q = arith.divf %e, %ss : tensor<4x64xf32>
  %y = arith.truncf %q : tensor<4x64xf32> to tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// So does te.softmax, with the bias that is added to its scores in f32.
// CHECK-LABEL: func.func @op
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<256xbf16>)
// CHECK-COUNT-3: math.tanh
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<256xbf16>, tensor<64xf32>)
// CHECK: arith.addf
// CHECK: tert.row_reduce maximum
// CHECK: tert.row_reduce sum
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @op(%x: tensor<4x64xbf16> {te.name = "x"}, %b: tensor<64xf32> {te.name = "b"}) -> (tensor<4x64xf32> {te.name = "y"}) {
  %t0 = math.tanh %x : tensor<4x64xbf16>
  %t1 = math.tanh %t0 : tensor<4x64xbf16>
  %t2 = math.tanh %t1 : tensor<4x64xbf16>
  %w = arith.extf %t2 : tensor<4x64xbf16> to tensor<4x64xf32>
  %empty = tensor.empty() : tensor<4x64xf32>
  %bs = linalg.broadcast ins(%b : tensor<64xf32>) outs(%empty : tensor<4x64xf32>) dimensions = [0]
  %a = arith.addf %w, %bs : tensor<4x64xf32>
  %y = te.softmax %a : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// A log-softmax reads its shifted elements again.
// CHECK-LABEL: func.func @log_softmax
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<256xbf16>)
// CHECK-COUNT-3: math.tanh
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<256xf32>)
// CHECK: tert.row_reduce maximum
// CHECK: tert.row_reduce sum
// CHECK: math.log
// CHECK: arith.subf
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @log_softmax(%x: tensor<4x64xbf16> {te.name = "x"}) -> (tensor<4x64xf32> {te.name = "y"}) {
  %t0 = math.tanh %x : tensor<4x64xbf16>
  %t1 = math.tanh %t0 : tensor<4x64xbf16>
  %t2 = math.tanh %t1 : tensor<4x64xbf16>
  %w = arith.extf %t2 : tensor<4x64xbf16> to tensor<4x64xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<4xf32>
  %m = linalg.reduce {arith.maximumf} ins(%w : tensor<4x64xf32>) outs(%lowest : tensor<4xf32>) dimensions = [1]
  %empty = tensor.empty() : tensor<4x64xf32>
  %ms = linalg.broadcast ins(%m : tensor<4xf32>) outs(%empty : tensor<4x64xf32>) dimensions = [1]
  %d = arith.subf %w, %ms : tensor<4x64xf32>
  %e = math.exp %d : tensor<4x64xf32>
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %s = linalg.reduce {arith.addf} ins(%e : tensor<4x64xf32>) outs(%zero : tensor<4xf32>) dimensions = [1]
  %l = math.log %s : tensor<4xf32>
  %ls = linalg.broadcast ins(%l : tensor<4xf32>) outs(%empty : tensor<4x64xf32>) dimensions = [1]
  %y = arith.subf %d, %ls : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// With less code before it, all are one region.
// CHECK-LABEL: func.func @room
// CHECK: linalg.generic
// CHECK-COUNT-2: math.tanh
// CHECK: tert.row_reduce maximum
// CHECK: tert.row_reduce sum
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @room(%x: tensor<4x64xbf16> {te.name = "x"}) -> (tensor<4x64xbf16> {te.name = "y"}) {
  %t0 = math.tanh %x : tensor<4x64xbf16>
  %t1 = math.tanh %t0 : tensor<4x64xbf16>
  %y = te.softmax %t1 : tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// A maximum without a sum, and what has no room in a region, join what they can.
// CHECK-LABEL: func.func @no_softmax
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<4xf32>)
// CHECK-COUNT-3: math.tanh
// CHECK: tert.row_reduce maximum
// CHECK: return
// CHECK-LABEL: func.func @too_large
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<256xf32>)
// CHECK: tert.row_reduce maximum
// CHECK: math.sin
// CHECK-NOT: math.sin
// CHECK: linalg.generic
// CHECK: math.sin
// CHECK: return
func.func @no_softmax(%x: tensor<4x64xf32> {te.name = "x"}) -> (tensor<4xf32> {te.name = "m"}) {
  %t0 = math.tanh %x : tensor<4x64xf32>
  %t1 = math.tanh %t0 : tensor<4x64xf32>
  %t2 = math.tanh %t1 : tensor<4x64xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<4xf32>
  %m = linalg.reduce {arith.maximumf} ins(%t2 : tensor<4x64xf32>) outs(%lowest : tensor<4xf32>) dimensions = [1]
  return %m : tensor<4xf32>
}
func.func @too_large(%x: tensor<4x64xf32> {te.name = "x"}) -> (tensor<4xf32> {te.name = "s"}) {
  %lowest = arith.constant dense<0xFF800000> : tensor<4xf32>
  %t = math.tanh %x : tensor<4x64xf32>
  %m = linalg.reduce {arith.maximumf} ins(%t : tensor<4x64xf32>) outs(%lowest : tensor<4xf32>) dimensions = [1]
  %empty = tensor.empty() : tensor<4x64xf32>
  %ms = linalg.broadcast ins(%m : tensor<4xf32>) outs(%empty : tensor<4x64xf32>) dimensions = [1]
  %d = arith.subf %t, %ms : tensor<4x64xf32>
  %e = math.sin %d : tensor<4x64xf32>
  %f = math.sin %e : tensor<4x64xf32>
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %s = linalg.reduce {arith.addf} ins(%f : tensor<4x64xf32>) outs(%zero : tensor<4xf32>) dimensions = [1]
  return %s : tensor<4xf32>
}
