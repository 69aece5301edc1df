// RUN: te-opt %s --te-align-products=least=4096 --mlir-print-local-scope | FileCheck %s
// RUN: te-opt %s --te-align-products | FileCheck %s --check-prefix=LEAST

// Small matmuls stay as they are by default.
// LEAST-NOT: tensor.concat

// Rows of the weight are columns of the result. The bias is padded, too.
// CHECK-LABEL: func @columns(
// CHECK-DAG: %[[W:.*]] = tensor.concat dim(0) %arg1, %{{.*}} : (tensor<29x64xbf16>, tensor<3x64xbf16>) -> tensor<32x64xbf16>
// CHECK-DAG: %[[B:.*]] = tensor.concat dim(0) %arg2, %{{.*}} : (tensor<29xbf16>, tensor<3xbf16>) -> tensor<32xbf16>
// CHECK: %[[Y:.*]] = te.matmul %arg0, %[[W]] bias %[[B]] : tensor<32xbf16> contract = [1, 1] : tensor<16x64xbf16>, tensor<32x64xbf16> -> tensor<16x32xbf16>
// CHECK: tensor.extract_slice %[[Y]][0, 0] [16, 29] [1, 1] : tensor<16x32xbf16> to tensor<16x29xbf16>
func.func @columns(%x: tensor<16x64xbf16>, %w: tensor<29x64xbf16>, %b: tensor<29xbf16>) -> tensor<16x29xbf16> {
  %y = te.matmul %x, %w bias %b : tensor<29xbf16> contract = [1, 1]
    : tensor<16x64xbf16>, tensor<29x64xbf16> -> tensor<16x29xbf16>
  return %y : tensor<16x29xbf16>
}

// What both gradients read is padded once. Rows of the result need no padding,
// but those of a transposed operand are its columns.
// CHECK-LABEL: func @gradients(
// CHECK: %[[DY:.*]] = tensor.concat dim(1) %arg0, %{{.*}} : (tensor<30x29xbf16>, tensor<30x3xbf16>) -> tensor<30x32xbf16>
// CHECK: %[[W:.*]] = tensor.concat dim(0) %arg1
// CHECK: te.matmul %[[DY]], %[[W]] contract = [1, 0] : tensor<30x32xbf16>, tensor<32x64xbf16> -> tensor<30x64xbf16>
// CHECK-NOT: tensor.concat
// CHECK: %[[DW:.*]] = te.matmul %[[DY]], %arg2 contract = [0, 0] : tensor<30x32xbf16>, tensor<30x64xbf16> -> tensor<32x64xbf16>
// CHECK: tensor.extract_slice %[[DW]][0, 0] [29, 64] [1, 1]
func.func @gradients(%dy: tensor<30x29xbf16>, %w: tensor<29x64xbf16>, %x: tensor<30x64xbf16>)
    -> (tensor<30x64xbf16>, tensor<29x64xbf16>) {
  %dx = te.matmul %dy, %w contract = [1, 0] : tensor<30x29xbf16>, tensor<29x64xbf16> -> tensor<30x64xbf16>
  %dw = te.matmul %dy, %x contract = [0, 0] : tensor<30x29xbf16>, tensor<30x64xbf16> -> tensor<29x64xbf16>
  return %dx, %dw : tensor<30x64xbf16>, tensor<29x64xbf16>
}

// What is added to is padded with the result.
// CHECK-LABEL: func @accumulates(
// CHECK: te.matmul %{{.*}}, %{{.*}} accumulate %arg2 : {{.*}} tensor<16x72xbf16>, tensor<32x72xbf16> -> tensor<16x32xf32>
// CHECK: %[[SUM:.*]] = tensor.concat dim(1) %arg5, %{{.*}} : (tensor<16x29xf32>, tensor<16x3xf32>) -> tensor<16x32xf32>
// CHECK: te.matmul %arg3, %{{.*}} accumulate %[[SUM]] : tensor<16x32xf32>
func.func @accumulates(%a: tensor<16x65xbf16>, %b: tensor<32x65xbf16>, %c: tensor<16x32xf32>,
                       %d: tensor<16x64xbf16>, %e: tensor<29x64xbf16>, %f: tensor<16x29xf32>)
    -> (tensor<16x32xf32>, tensor<16x29xf32>) {
  %y = te.matmul %a, %b accumulate %c : tensor<16x32xf32> contract = [1, 1]
    : tensor<16x65xbf16>, tensor<32x65xbf16> -> tensor<16x32xf32>
  %z = te.matmul %d, %e accumulate %f : tensor<16x29xf32> contract = [1, 1]
    : tensor<16x64xbf16>, tensor<29x64xbf16> -> tensor<16x29xf32>
  return %y, %z : tensor<16x32xf32>, tensor<16x29xf32>
}

// 4 bytes need no padding, nor do aligned sizes.
// CHECK-LABEL: func @stays(
// CHECK-NOT: tensor.concat
func.func @stays(%a: tensor<16x65xf32>, %b: tensor<29x65xf32>, %c: tensor<15x64xf16>, %d: tensor<32x64xf16>)
    -> (tensor<16x29xf32>, tensor<15x32xf16>) {
  %y = te.matmul %a, %b contract = [1, 1] : tensor<16x65xf32>, tensor<29x65xf32> -> tensor<16x29xf32>
  %z = te.matmul %c, %d contract = [1, 1] : tensor<15x64xf16>, tensor<32x64xf16> -> tensor<15x32xf16>
  return %y, %z : tensor<16x29xf32>, tensor<15x32xf16>
}
