// The amax of a value is measured by the launch that computes the value.
// RUN: te-opt %s --te-form-regions --split-input-file | FileCheck %s
// RUN: te-opt %s --te-form-regions --te-convert-to-tert --split-input-file | FileCheck %s --check-prefix=LAUNCH

// The rounded value is measured. A product that only its amax reads has no memory.
// CHECK-DAG: #[[ALL:.*]] = affine_map<(d0) -> (d0)>
// CHECK-DAG: #[[ONE:.*]] = affine_map<(d0) -> (0)>
// CHECK-LABEL: func.func @measured
// CHECK: linalg.generic {indexing_maps = [#[[ALL]], #[[ALL]], #[[ALL]], #[[ONE]], #[[ONE]]]
// CHECK: %[[N:.*]] = arith.truncf %{{.*}} : f32 to bf16
// CHECK: %[[W:.*]] = arith.extf %[[N]] : bf16 to f32
// CHECK: %[[A:.*]] = tert.amax %[[W]]
// CHECK: arith.mulf
// CHECK: %[[B:.*]] = tert.amax
// CHECK: linalg.yield %[[N]], %[[A]], %[[B]] : bf16, f32, f32
// CHECK-NOT: te.amax
// LAUNCH-LABEL: func.func @measured
// LAUNCH: tert.launch "generated" {count = 32 : i64, {{.*}}(%arg0, %arg1, {{.*}}, %arg2, %arg3, %arg4, %{{.*}}) maps [#{{.*}}, #{{.*}}, #{{.*}}, #[[ONE:.*]], #[[ONE]]]
// LAUNCH-NOT: tert.launch
// LAUNCH: return
func.func @measured(%x: tensor<4x8xf32> {te.name = "x"}, %y: tensor<4x8xbf16> {te.name = "y"})
    -> (tensor<4x8xbf16> {te.name = "n"}, tensor<f32> {te.name = "a"}, tensor<f32> {te.name = "b"}) {
  %n = arith.truncf %x : tensor<4x8xf32> to tensor<4x8xbf16>
  %a = te.amax %n : tensor<4x8xbf16>
  %p = arith.mulf %n, %y : tensor<4x8xbf16>
  %b = te.amax %p : tensor<4x8xbf16>
  return %n, %a, %b : tensor<4x8xbf16>, tensor<f32>, tensor<f32>
}

// -----

// With reductions of rows, and of what has one element for each row.
// CHECK-LABEL: func.func @rows
// CHECK: linalg.generic
// CHECK: tert.row_reduce
// CHECK-COUNT-2: tert.amax
// CHECK-NOT: te.amax
func.func @rows(%x: tensor<4x64xf32> {te.name = "x"}) -> (tensor<4xf32> {te.name = "s"}, tensor<f32> {te.name = "a"}, tensor<f32> {te.name = "b"}) {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %e = math.exp %x : tensor<4x64xf32>
  %s = linalg.reduce { arith.addf } ins(%e : tensor<4x64xf32>) outs(%zero : tensor<4xf32>) dimensions = [1]
  %a = te.amax %e : tensor<4x64xf32>
  %b = te.amax %s : tensor<4xf32>
  return %s, %a, %b : tensor<4xf32>, tensor<f32>, tensor<f32>
}

// -----

// What reads an amax is not in the region that measures it, even if both have one element.
// CHECK-LABEL: func.func @reader
// CHECK: linalg.generic
// CHECK: tert.amax
// CHECK-NEXT: linalg.yield
// CHECK: linalg.generic
// CHECK: arith.addf
func.func @reader(%x: tensor<1xf32> {te.name = "x"}) -> (tensor<f32> {te.name = "y"}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %e = math.exp %x : tensor<1xf32>
  %a = te.amax %e : tensor<1xf32>
  %y = arith.addf %a, %one : tensor<f32>
  return %y : tensor<f32>
}

// -----

// The amax of an argument, one that a flag skips, and one that is read between are launches of their own.
// CHECK-LABEL: func.func @alone
// CHECK-NOT: tert.amax
// CHECK: te.amax %arg0
// CHECK: linalg.generic
// CHECK: te.amax %{{.*}} unless
func.func @alone(%x: tensor<4x8xf32> {te.name = "x"}, %skip: tensor<f32> {te.name = "skip"}) -> (tensor<f32> {te.name = "a"}, tensor<f32> {te.name = "b"}) {
  %a = te.amax %x : tensor<4x8xf32>
  %e = math.exp %x : tensor<4x8xf32>
  %b = te.amax %e unless %skip : tensor<4x8xf32>
  return %a, %b : tensor<f32>, tensor<f32>
}
