// Every value is counted after its op, in one chain, and each row of te.probe names its op.

// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-check-finite))' | FileCheck %s
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-insert-casts,cse,te-check-finite,te-form-regions),te-convert-to-tert,te-plan-memory)' | FileCheck %s --check-prefix=TERT
// RUN: te-opt %s --te-training-pipeline="compile-to=fuse" | FileCheck %s --check-prefix=OFF
// RUN: te-opt %s --te-training-pipeline="compile-to=fuse fuse=false check-finite" | FileCheck %s --check-prefix=ON

// OFF-NOT: te.count_nonfinite
// OFF-NOT: te.probe
// ON: te.count_nonfinite

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<32x64xbf16> {te.name = "x"}
// CHECK-SAME: %[[Q:[a-z0-9]+]]: !te.scaled
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<f32>
// CHECK-SAME: %[[IDS:[a-z0-9]+]]: tensor<4xi32>
// CHECK-SAME: tensor<7x3xi32> {te.name = "nonfinite.1", te.probe = [
// CHECK-SAME: {elements = 2048 : i64, inputs = [], location = "{{.*}}check-finite.mlir:[[#@LINE+21]]:17", name = "x", op = "argument"}
// CHECK-SAME: {elements = 1 : i64, inputs = [], {{[^}]*}}name = "scale", op = "argument"}
// CHECK-SAME: {elements = 2048 : i64, inputs = ["x"], {{[^}]*}}op = "te.activation"}
// CHECK-SAME: {elements = 1 : i64, inputs = ["x"], {{[^}]*}}name = "activation#1", op = "te.activation"}
// CHECK-SAME: {elements = 2048 : i64, inputs = ["activation"], {{[^}]*}}op = "te.quantize"}
// CHECK-SAME: {elements = 2048 : i64, inputs = ["arg1"], {{[^}]*}}op = "te.dequantize"}
// CHECK-SAME: {elements = 2048 : i64, inputs = ["activation", "arg1"], location = "{{.*}}:[[#@LINE+23]]:8", {{[^}]*}}op = "arith.addf"}
// CHECK: %[[C:.*]] = arith.constant dense<0> : tensor<7x3xi32>
// CHECK-NEXT: %[[N0:.*]] = te.count_nonfinite %[[X]] into %[[C]][0]
// CHECK-NEXT: %[[N1:.*]] = te.count_nonfinite %[[S]] into %[[N0]][1]
// CHECK-NEXT: %[[Y:.*]], %[[A:.*]] = te.activation
// CHECK-NEXT: %[[NY:.*]] = te.count_nonfinite %[[Y]] into %[[N1]][2]
// CHECK-NEXT: %[[N2:.*]] = te.count_nonfinite %[[A]] into %[[NY]][3]
// CHECK-NEXT: te.quantize
// CHECK-NEXT: %[[N3:.*]] = te.count_nonfinite %[[Y]] scale %[[S]] for f8E4M3FN into %[[N2]][4]
// CHECK: te.dequantize
// CHECK-NEXT: te.count_nonfinite
// CHECK-NEXT: te.amax
// CHECK-NEXT: %[[Z:.*]] = arith.addf
// CHECK-NEXT: %[[N5:.*]] = te.count_nonfinite %[[Z]] into %{{.*}}[6]
// CHECK: return {{.*}}, %[[N5]] :
func.func @step(%x: tensor<32x64xbf16> {te.name = "x"},
                %q: !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>,
                %s: tensor<f32> {te.name = "scale"}, %ids: tensor<4xi32>)
    -> (tensor<32x64xbf16> {te.name = "nonfinite"}, !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<f32>) {
  %y, %unused = te.activation <silu> %x : tensor<32x64xbf16> -> tensor<32x64xbf16> amax tensor<f32>
  %yq = te.quantize %y scale %s : tensor<32x64xbf16> -> !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>
  %d = te.dequantize %q : !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1> -> tensor<32x64xbf16>
  %amax = te.amax %d : tensor<32x64xbf16>
  %z = arith.addf %y, %d : tensor<32x64xbf16>
  return %z, %yq, %amax : tensor<32x64xbf16>, !te.scaled<32x64xf8E4M3FN, per_tensor, contract = 1>, tensor<f32>
}

// Private functions are not run, so they are not changed.
// CHECK-LABEL: func.func private @helper
// CHECK-NOT: te.count_nonfinite
func.func private @helper(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
// CHECK-LABEL: func.func @no_floats
// CHECK-NEXT: return
func.func @no_floats(%ids: tensor<4xi32>) -> tensor<4xi32> {
  return %ids : tensor<4xi32>
}

// Three results of one op are counted in order.
// CHECK-LABEL: func.func @three
// CHECK: %[[Y:.*]], %[[MU:.*]], %[[RSIGMA:.*]] = te.layer_norm
// CHECK-NEXT: %[[N0:.*]] = te.count_nonfinite %[[Y]] into %{{.*}}[3]
// CHECK-NEXT: %[[N1:.*]] = te.count_nonfinite %[[MU]] into %[[N0]][4]
// CHECK-NEXT: %[[N2:.*]] = te.count_nonfinite %[[RSIGMA]] into %[[N1]][5]
// CHECK-NEXT: return %[[Y]], %[[MU]], %[[RSIGMA]], %[[N2]]
func.func @three(%x: tensor<8x4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>) {
  %y, %mu, %rsigma = te.layer_norm %x, %g, %b : tensor<8x4xf32>, tensor<4xf32> mu tensor<8xf32> rsigma tensor<8xf32>
  return %y, %mu, %rsigma : tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>
}

// The chain has one buffer, that of the result, and no copies.
// TERT-LABEL: func.func @step
// TERT-NOT: tert.launch "copy"
// TERT: tert.launch "fill" {{.*}}type = 0 : i32{{.*}}(%[[COUNTS:[^ ,]*]], %{{[^ ]*}}) :
// TERT-NOT: tert.launch "copy"
// TERT: tert.launch "count_nonfinite" {{{.*}}entries = 7 : i64, index = 0 : i64, limit = 0.000000e+00 : f32{{.*}}}({{.*}}, %[[COUNTS]], %[[COUNTS]])
// TERT-NOT: tert.launch "copy"
// TERT: tert.launch "count_nonfinite" {{{.*}}index = 4 : i64, limit = 4.640000e+02 : f32{{.*}}}({{.*}}, %[[COUNTS]], %[[COUNTS]])
// TERT-NOT: tert.launch "copy"
// TERT: return
