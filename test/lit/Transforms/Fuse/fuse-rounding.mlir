// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-fuse-rounding))' --remarks-filter='.*' 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t
// RUN: te-opt %s --pass-pipeline='builtin.module(func.func(te-fuse-rounding,te-form-regions),te-convert-to-tert)' | FileCheck %s --check-prefix=LAUNCH

// REMARK-DAG: [Passed] rounding{{.*}}Function=block
// REMARK-DAG: [Passed] rounding{{.*}}Function=two_casts
// REMARK-DAG: [Missed] rounding{{.*}}Function=amax{{.*}}Reason="an amax would read it a second time"
// REMARK-DAG: [Passed] rounding{{.*}}Function=cached
// REMARK-DAG: [Missed] rounding{{.*}}Function=gemm{{.*}}Reason="'te.matmul' reads the result too"
// REMARK-DAG: [Missed] rounding{{.*}}Function=update_before{{.*}}Reason="an op that may update the argument comes before a cast"
// REMARK-DAG: [Missed] rounding{{.*}}Function=lines{{.*}}Reason="a cast has the scheme 'block_1x128'"
// REMARK-DAG: [Missed] rounding{{.*}}Function=gradient{{.*}}Reason="a cast is not to f8E4M3FN"
// REMARK-DAG: [Missed] rounding{{.*}}Function=many{{.*}}Reason="it would be read more often"

// CHECK-LABEL: func.func @block
// CHECK-NEXT: %[[Q:.*]] = te.quantize %arg0 {rounded = bf16} : tensor<256x128xf32> -> !te.scaled<256x128xf8E4M3FN, block_128x128, pow2, contract = 1>
// CHECK-NEXT: return %[[Q]]
// LAUNCH-LABEL: func.func @block
// LAUNCH-NEXT: tert.null
// LAUNCH-NEXT: tert.launch "quantize_block" {{.*}}type = 1 : i32, {{.*}}x_type = 0 : i32}(%arg0,
func.func @block(%w: tensor<256x128xf32>) -> !te.scaled<256x128xf8E4M3FN, block_128x128, pow2, contract = 1> {
  %r = arith.truncf %w : tensor<256x128xf32> to tensor<256x128xbf16>
  %q = te.quantize %r : tensor<256x128xbf16> -> !te.scaled<256x128xf8E4M3FN, block_128x128, pow2, contract = 1>
  return %q : !te.scaled<256x128xf8E4M3FN, block_128x128, pow2, contract = 1>
}

// Usages that are cast apart, such as in the forward and in the backward.
// CHECK-LABEL: func.func @two_casts
// CHECK-NEXT: %[[Q:.*]], %[[A:.*]] = te.quantize %arg0 scale %arg1 {rounded = bf16} : tensor<256x128xf32>
// CHECK-NEXT: %[[C:.*]] = te.quantize %arg0 scale %arg1 {rounded = bf16} : tensor<256x128xf32>
// CHECK-NEXT: return %[[Q]], %[[A]], %[[C]]
func.func @two_casts(%w: tensor<256x128xf32>, %s: tensor<f32>) -> (!te.scaled<256x128xf8E4M3FN, per_tensor, contract = 1>, tensor<f32>, !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 0>) {
  %r = arith.truncf %w : tensor<256x128xf32> to tensor<256x128xbf16>
  %q, %a = te.quantize %r scale %s : tensor<256x128xbf16> -> !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 1> amax tensor<f32>
  %c = te.quantize %r scale %s : tensor<256x128xbf16> -> !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 0>
  return %q, %a, %c : !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 1>, tensor<f32>, !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 0>
}

// CHECK-LABEL: func.func @amax
// CHECK-NEXT: arith.truncf
// CHECK-NOT: rounded
func.func @amax(%w: tensor<256x128xf32>) -> !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 1> {
  %r = arith.truncf %w : tensor<256x128xf32> to tensor<256x128xbf16>
  %a = te.amax %r : tensor<256x128xbf16>
  %s = te.compute_scale %a for f8E4M3FN
  %q = te.quantize %r scale %s : tensor<256x128xbf16> -> !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 1>
  return %q : !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 1>
}

// Later micro-batches read nothing.
// CHECK-LABEL: func.func @cached
// CHECK-NEXT: te.amax %arg0 unless %{{.*}} {rounded = bf16}
// LAUNCH-LABEL: func.func @cached
// LAUNCH: tert.launch "amax" {count = 32768 : i64, type = 1 : i32, x_type = 0 : i32}(%arg0,
// CHECK-NEXT: te.compute_scale
// CHECK-NEXT: te.quantize %arg0 scale {{.*}} into %{{.*}} unless %{{.*}} {rounded = bf16}
// CHECK-NEXT: te.quantize %arg0 scale {{.*}} into %{{.*}} unless %{{.*}} {rounded = bf16}
func.func @cached(%w: tensor<256x128xf32>, %i: !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 1>, %j: !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 0>, %skip: tensor<f32>) -> (!te.scaled<256x128xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 0>) {
  %r = arith.truncf %w : tensor<256x128xf32> to tensor<256x128xbf16>
  %a = te.amax %r unless %skip : tensor<256x128xbf16>
  %s = te.compute_scale %a for f8E4M3FN
  %q = te.quantize %r scale %s into %i unless %skip : tensor<256x128xbf16> -> !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 1>
  %c = te.quantize %r scale %s into %j unless %skip : tensor<256x128xbf16> -> !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 0>
  return %q, %c : !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 0>
}

// CHECK-LABEL: func.func @gemm
// CHECK-NOT: rounded
func.func @gemm(%w: tensor<256x128xf32>, %x: tensor<64x128xbf16>) -> (!te.scaled<256x128xf8E4M3FN, block_128x128, contract = 1>, tensor<64x256xbf16>) {
  %r = arith.truncf %w : tensor<256x128xf32> to tensor<256x128xbf16>
  %q = te.quantize %r : tensor<256x128xbf16> -> !te.scaled<256x128xf8E4M3FN, block_128x128, contract = 1>
  %y = te.matmul %x, %r contract = [1, 1] : tensor<64x128xbf16>, tensor<256x128xbf16> -> tensor<64x256xbf16>
  return %q, %y : !te.scaled<256x128xf8E4M3FN, block_128x128, contract = 1>, tensor<64x256xbf16>
}

// What is computed need not be stored in f32.
// CHECK-LABEL: func.func @computed
// CHECK-NOT: rounded
// REMARK-NOT: Function=computed
func.func @computed(%w: tensor<256x128xf32>) -> !te.scaled<256x128xf8E4M3FN, block_128x128, contract = 1> {
  %n = arith.negf %w : tensor<256x128xf32>
  %r = arith.truncf %n : tensor<256x128xf32> to tensor<256x128xbf16>
  %q = te.quantize %r : tensor<256x128xbf16> -> !te.scaled<256x128xf8E4M3FN, block_128x128, contract = 1>
  return %q : !te.scaled<256x128xf8E4M3FN, block_128x128, contract = 1>
}

// The update can be in place only if nothing reads the weight after it.
// CHECK-LABEL: func.func @update_before
// CHECK-NOT: rounded
func.func @update_before(%w: tensor<256x128xf32>, %g: tensor<256x128xf32>, %lr: tensor<f32>) -> (tensor<256x128xf32>, !te.scaled<256x128xf8E4M3FN, block_128x128, contract = 1>) {
  %r = arith.truncf %w : tensor<256x128xf32> to tensor<256x128xbf16>
  %n = te.sgd %w, %g lr %lr : tensor<256x128xf32>, tensor<256x128xf32>
  %q = te.quantize %r : tensor<256x128xbf16> -> !te.scaled<256x128xf8E4M3FN, block_128x128, contract = 1>
  return %n, %q : tensor<256x128xf32>, !te.scaled<256x128xf8E4M3FN, block_128x128, contract = 1>
}

// CHECK-LABEL: func.func @update_after
// CHECK-NEXT: te.quantize %arg0 {rounded = bf16}
func.func @update_after(%w: tensor<256x128xf32>, %g: tensor<256x128xf32>, %lr: tensor<f32>) -> (tensor<256x128xf32>, !te.scaled<256x128xf8E4M3FN, block_128x128, contract = 1>) {
  %r = arith.truncf %w : tensor<256x128xf32> to tensor<256x128xbf16>
  %q = te.quantize %r : tensor<256x128xbf16> -> !te.scaled<256x128xf8E4M3FN, block_128x128, contract = 1>
  %n = te.sgd %w, %g lr %lr : tensor<256x128xf32>, tensor<256x128xf32>
  return %n, %q : tensor<256x128xf32>, !te.scaled<256x128xf8E4M3FN, block_128x128, contract = 1>
}

// Casts round to nearest only.
// CHECK-LABEL: func.func @toward_zero
// CHECK-NEXT: arith.truncf %{{.*}} toward_zero
// REMARK-NOT: Function=toward_zero
func.func @toward_zero(%w: tensor<256x128xf32>) -> !te.scaled<256x128xf8E4M3FN, block_128x128, contract = 1> {
  %r = arith.truncf %w toward_zero : tensor<256x128xf32> to tensor<256x128xbf16>
  %q = te.quantize %r : tensor<256x128xbf16> -> !te.scaled<256x128xf8E4M3FN, block_128x128, contract = 1>
  return %q : !te.scaled<256x128xf8E4M3FN, block_128x128, contract = 1>
}

// A stack of weights.
// CHECK-LABEL: func.func @stack
// CHECK-NEXT: te.quantize %arg0 {rounded = bf16} : tensor<2x256x128xf32>
func.func @stack(%w: tensor<2x256x128xf32>) -> !te.scaled<2x256x128xf8E4M3FN, block_128x128, contract = 1> {
  %r = arith.truncf %w : tensor<2x256x128xf32> to tensor<2x256x128xbf16>
  %q = te.quantize %r : tensor<2x256x128xbf16> -> !te.scaled<2x256x128xf8E4M3FN, block_128x128, contract = 1>
  return %q : !te.scaled<2x256x128xf8E4M3FN, block_128x128, contract = 1>
}

// CHECK-LABEL: func.func @lines
// CHECK-NOT: rounded
func.func @lines(%w: tensor<256x128xf32>) -> !te.scaled<256x128xf8E4M3FN, block_1x128, contract = 1> {
  %r = arith.truncf %w : tensor<256x128xf32> to tensor<256x128xbf16>
  %q = te.quantize %r : tensor<256x128xbf16> -> !te.scaled<256x128xf8E4M3FN, block_1x128, contract = 1>
  return %q : !te.scaled<256x128xf8E4M3FN, block_1x128, contract = 1>
}

// CHECK-LABEL: func.func @gradient
// CHECK-NOT: rounded
func.func @gradient(%w: tensor<256x128xf32>) -> !te.scaled<256x128xf8E5M2, block_128x128, contract = 1> {
  %r = arith.truncf %w : tensor<256x128xf32> to tensor<256x128xbf16>
  %q = te.quantize %r : tensor<256x128xbf16> -> !te.scaled<256x128xf8E5M2, block_128x128, contract = 1>
  return %q : !te.scaled<256x128xf8E5M2, block_128x128, contract = 1>
}

// CHECK-LABEL: func.func @many
// CHECK-NOT: rounded
func.func @many(%w: tensor<256x128xf32>, %s: tensor<f32>, %t: tensor<f32>) -> (!te.scaled<256x128xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 0>, !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 0>) {
  %r = arith.truncf %w : tensor<256x128xf32> to tensor<256x128xbf16>
  %a = te.quantize %r scale %s : tensor<256x128xbf16> -> !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 1>
  %b = te.quantize %r scale %s : tensor<256x128xbf16> -> !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 0>
  %c = te.quantize %r scale %t : tensor<256x128xbf16> -> !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 1>
  %d = te.quantize %r scale %t : tensor<256x128xbf16> -> !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 0>
  return %a, %b, %c, %d : !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 0>, !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 1>, !te.scaled<256x128xf8E4M3FN, per_tensor, contract = 0>
}

// Nothing is said where no cast reads what is rounded.
// CHECK-LABEL: func.func @no_cast
// CHECK-NEXT: arith.truncf
// REMARK-NOT: Function=no_cast
func.func @no_cast(%x: tensor<4xf32>) -> tensor<4xbf16> {
  %r = arith.truncf %x : tensor<4xf32> to tensor<4xbf16>
  return %r : tensor<4xbf16>
}
