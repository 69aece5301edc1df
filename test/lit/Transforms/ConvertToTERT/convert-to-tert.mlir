// RUN: te-opt %s --split-input-file --te-convert-to-tert | FileCheck %s

// Buffers of arguments come before those of results. A result with the name of an argument is carried.
// CHECK-LABEL: func.func @signature
// CHECK-SAME: (%[[W:[^:]*]]: !tert.buffer<256>, %[[G:[^:]*]]: !tert.buffer<256>, %{{[^:]*}}: !tert.buffer<256>, %[[Y:[^:]*]]: !tert.buffer<256>)
// CHECK-SAME: {carried = -1 : i64, name = "w", part = "value", role = "argument", type = tensor<1x64xf32>}
// CHECK-SAME: {carried = 0 : i64, name = "w", part = "value", role = "result", type = tensor<1x64xf32>}
// CHECK-SAME: {carried = -1 : i64, name = "result1", part = "value", role = "result", type = tensor<1x64xf32>}
func.func @signature(%w: tensor<1x64xf32> {te.name = "w"}, %g: tensor<64xf32> {te.name = "g"})
    -> (tensor<1x64xf32> {te.name = "w"}, tensor<1x64xf32>) {
  // This is the last read of the old value, and the kernel is elementwise.
  // CHECK: tert.launch "bias_add" {{.*}}(%[[W]], %[[G]], %[[W]])
  %n = te.bias_add %w, %g : tensor<1x64xf32>, tensor<64xf32>
  // CHECK: tert.launch "bias_add" {{.*}}(%[[W]], %[[G]], %[[Y]])
  %y = te.bias_add %n, %g : tensor<1x64xf32>, tensor<64xf32>
  // CHECK-NOT: copy
  return %n, %y : tensor<1x64xf32>, tensor<1x64xf32>
}

// -----

// The old state is read after the new one is computed, so the new one is copied at the end.
// CHECK-LABEL: func.func @late_read
// CHECK-SAME: (%[[W:[^:]*]]: !tert.buffer<256>, %[[G:[^:]*]]: !tert.buffer<256>, %{{[^:]*}}: !tert.buffer<256>, %[[Y:[^:]*]]: !tert.buffer<256>)
func.func @late_read(%w: tensor<1x64xf32> {te.name = "w"}, %g: tensor<64xf32> {te.name = "g"})
    -> (tensor<1x64xf32> {te.name = "w"}, tensor<1x64xf32> {te.name = "y"}) {
  // CHECK: %[[N:.*]] = tert.alloc "bias_add.y" activation
  // CHECK: tert.launch "bias_add" {{.*}}(%[[W]], %[[G]], %[[N]])
  %n = te.bias_add %w, %g : tensor<1x64xf32>, tensor<64xf32>
  %flat = tensor.collapse_shape %n [[0, 1]] : tensor<1x64xf32> into tensor<64xf32>
  // CHECK: tert.launch "bias_add" {{.*}}(%[[W]], %[[N]], %[[Y]])
  %y = te.bias_add %w, %flat : tensor<1x64xf32>, tensor<64xf32>
  // CHECK: tert.launch "copy" {bytes = 256 : i64}(%[[N]], %[[W]])
  return %n, %y : tensor<1x64xf32>, tensor<1x64xf32>
}

// -----

// A matmul reads elements after it wrote others, so it never runs in place.
// CHECK-LABEL: func.func @matmul_is_not_in_place
// CHECK-SAME: (%[[W:[^:]*]]: !tert.buffer<256>
func.func @matmul_is_not_in_place(%w: tensor<8x8xf32> {te.name = "w"}) -> (tensor<8x8xf32> {te.name = "w"}) {
  // CHECK: %[[N:.*]] = tert.alloc "matmul.out"
  // CHECK: tert.launch "matmul" {k = 8 : i64, m = 8 : i64, n = 8 : i64, out_type = 0 : i32, trans_a = 0 : i32, trans_b = 1 : i32, type = 0 : i32}(%[[W]], %[[W]], %{{.*}}, %{{.*}}, %{{.*}}, %[[N]])
  %n = te.matmul %w, %w contract = [1, 0] : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  // CHECK: tert.launch "copy" {bytes = 256 : i64}(%[[N]], %[[W]])
  return %n : tensor<8x8xf32>
}

// -----

// Optimizers update only their states in place.
// CHECK-LABEL: func.func @adamw
// CHECK-SAME: (%[[P:[^:]*]]: !tert.buffer<256>, %[[G:[^:]*]]: !tert.buffer<128>, %[[M:[^:]*]]: !tert.buffer<256>, %[[V:[^:]*]]: !tert.buffer<256>, %[[LR:[^:]*]]: !tert.buffer<4>, %[[T:[^:]*]]: !tert.buffer<4>,
func.func @adamw(%p: tensor<64xf32> {te.name = "p"}, %g: tensor<64xbf16> {te.name = "g"}, %m: tensor<64xf32> {te.name = "m"},
                 %v: tensor<64xf32> {te.name = "v"}, %lr: tensor<f32> {te.name = "lr"}, %t: tensor<f32> {te.name = "t"})
    -> (tensor<64xf32> {te.name = "p"}, tensor<64xf32> {te.name = "m"}, tensor<64xf32> {te.name = "v"}) {
  // CHECK-NOT: tert.alloc
  // CHECK: tert.launch "adamw" {{.*}}(%[[P]], %[[G]], %[[M]], %[[V]], %[[LR]], %[[T]], %{{[^,]*}}, %[[P]], %[[M]], %[[V]], %{{[^,]*}})
  %p1, %m1, %v1 = te.adamw %p, %g, %m, %v lr %lr step %t : tensor<64xf32>, tensor<64xbf16>
  // CHECK-NOT: copy
  return %p1, %m1, %v1 : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}

// -----

// Moments in bf16 pass their type and the seed of their rounding; nesterov is a parameter, too.
// CHECK-LABEL: func.func @optimizer_parameters
func.func @optimizer_parameters(%p: tensor<64xf32> {te.name = "p"}, %g: tensor<64xf32> {te.name = "g"}, %m: tensor<64xbf16> {te.name = "m"},
                 %v: tensor<64xbf16> {te.name = "v"}, %b: tensor<64xf32> {te.name = "b"}, %lr: tensor<f32> {te.name = "lr"}, %t: tensor<f32> {te.name = "t"})
    -> (tensor<64xf32> {te.name = "p1"}, tensor<64xbf16> {te.name = "m"}, tensor<64xbf16> {te.name = "v"}, tensor<64xf32> {te.name = "p2"}, tensor<64xf32> {te.name = "b"}) {
  // CHECK: tert.launch "adamw" {{{.*}}moment_type = 1 : i32, param_type = 0 : i32, seed = 5 : i32,
  %p1, %m1, %v1 = te.adamw %p, %g, %m, %v lr %lr step %t {seed = 5 : i32} : tensor<64xf32>, tensor<64xf32>, tensor<64xbf16>
  // CHECK: tert.launch "sgd" {{{.*}}nesterov = 1 : i32,
  %p2, %b1 = te.sgd %p, %g buffer %b lr %lr {momentum = 0.9 : f32, nesterov} : tensor<64xf32>, tensor<64xf32>
  return %p1, %m1, %v1, %p2, %b1 : tensor<64xf32>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xf32>, tensor<64xf32>
}

// -----

// 8-bit moments and their scales are updated in place, too.
// CHECK-LABEL: func.func @adamw_fp8
// CHECK-SAME: (%[[P:[^:]*]]: !tert.buffer<1200>, %[[G:[^:]*]]: !tert.buffer<600>, %[[M:[^:]*]]: !tert.buffer<300>, %[[V:[^:]*]]: !tert.buffer<300>, %[[S:[^:]*]]: !tert.buffer<24>, %[[LR:[^:]*]]: !tert.buffer<4>, %[[T:[^:]*]]: !tert.buffer<4>,
func.func @adamw_fp8(%p: tensor<300xf32> {te.name = "p"}, %g: tensor<300xbf16> {te.name = "g"}, %m: tensor<300xf8E4M3FN> {te.name = "m"},
                     %v: tensor<300xf8E5M2> {te.name = "v"}, %s: tensor<2x3xf32> {te.name = "s"}, %lr: tensor<f32> {te.name = "lr"}, %t: tensor<f32> {te.name = "t"})
    -> (tensor<300xf32> {te.name = "p"}, tensor<300xf8E4M3FN> {te.name = "m"}, tensor<300xf8E5M2> {te.name = "v"}, tensor<2x3xf32> {te.name = "s"}) {
  // CHECK-NOT: tert.alloc
  // CHECK: tert.launch "adamw_fp8" {{{.*}}seed = 5 : i32, {{.*}}(%[[P]], %[[G]], %[[M]], %[[V]], %[[S]], %[[LR]], %[[T]], %{{[^,]*}}, %[[P]], %[[M]], %[[V]], %[[S]], %{{[^,]*}})
  %p1, %m1, %v1, %s1 = te.adamw %p, %g, %m, %v scales %s lr %lr step %t {seed = 5 : i32} : tensor<300xf32>, tensor<300xbf16>, tensor<300xf8E4M3FN>
  // CHECK-NOT: copy
  return %p1, %m1, %v1, %s1 : tensor<300xf32>, tensor<300xf8E4M3FN>, tensor<300xf8E5M2>, tensor<2x3xf32>
}

// -----

// An update that a flag skips is in place, too: the launch gives the old values itself, so no copy is needed before it.
// CHECK-LABEL: func.func @skipped
// CHECK-SAME: (%[[P:[^:]*]]: !tert.buffer<256>, %[[G:[^:]*]]: !tert.buffer<128>, %[[B:[^:]*]]: !tert.buffer<256>, %[[LR:[^:]*]]: !tert.buffer<4>, %[[SKIP:[^:]*]]: !tert.buffer<4>,
func.func @skipped(%p: tensor<64xf32> {te.name = "p"}, %g: tensor<64xbf16> {te.name = "g"}, %b: tensor<64xf32> {te.name = "b"}, %lr: tensor<f32> {te.name = "lr"},
                   %skip: tensor<f32> {te.name = "skip"}) -> (tensor<64xf32> {te.name = "p"}, tensor<64xf32> {te.name = "b"}, tensor<f32> {te.name = "sum"}) {
  // CHECK: tert.launch "sum_of_squares" {{.*}}(%[[G]], {{.*}}, %[[SKIP]])
  // CHECK-NOT: copy
  // CHECK: tert.launch "sgd" {{.*}}(%[[P]], %[[G]], %[[B]], %[[LR]], %{{[^,]*}}, %[[P]], %[[B]], %[[SKIP]])
  %s = te.sum_of_squares %g unless %skip : tensor<64xbf16>
  %p1, %b1 = te.sgd %p, %g buffer %b lr %lr unless %skip {momentum = 0.9 : f32} : tensor<64xf32>, tensor<64xbf16>
  // CHECK-NOT: copy
  return %p1, %b1, %s : tensor<64xf32>, tensor<64xf32>, tensor<f32>
}

// -----

// A chain of sums is one buffer, and the update takes the factor.
// CHECK-LABEL: func.func @clipping
// CHECK-SAME: (%[[P:[^:]*]]: !tert.buffer<256>, %[[G:[^:]*]]: !tert.buffer<128>, %[[H:[^:]*]]: !tert.buffer<64>, %[[LR:[^:]*]]: !tert.buffer<4>,
func.func @clipping(%p: tensor<64xf32> {te.name = "p"}, %g: tensor<64xbf16> {te.name = "g"}, %h: tensor<16xf32> {te.name = "h"}, %lr: tensor<f32> {te.name = "lr"})
    -> (tensor<64xf32> {te.name = "p"}, tensor<f32> {te.name = "norm"}) {
  // CHECK: tert.launch "sum_of_squares" {count0 = 64 : i64, count1 = 0 : i64, {{.*}}, type0 = 1 : i32, {{.*}}}(%[[G]], {{.*}}, %{{[^,]*}}, %[[S1:[^,]*]], %{{[^,]*}}) :
  // CHECK: tert.launch "sum_of_squares" {count0 = 16 : i64, {{.*}}, type0 = 0 : i32, {{.*}}}(%[[H]], {{.*}}, %[[S1]], %[[S2:[^,]*]], %{{[^,]*}}) :
  // CHECK: tert.launch "clip_factor" {max_norm = 5.000000e-01 : f32}(%[[S2]], %{{[^,]*}}, %[[F:[^)]*]])
  // CHECK: tert.launch "sgd" {{.*}}(%[[P]], %[[G]], %{{[^,]*}}, %[[LR]], %[[F]], %[[P]],
  %s1 = te.sum_of_squares %g : tensor<64xbf16>
  %s2 = te.sum_of_squares %h plus %s1 : tensor<16xf32>
  %norm, %factor = te.clip_factor %s2 {max_norm = 0.5 : f32}
  %p1 = te.sgd %p, %g lr %lr grad_scale %factor : tensor<64xf32>, tensor<64xbf16>
  return %p1, %norm : tensor<64xf32>, tensor<f32>
}

// -----

// 32 tensors are one launch; the next ones are added by another.
// CHECK-LABEL: func.func @squares
// CHECK-SAME: (%[[G:[^:]*]]: !tert.buffer<128>, %[[H:[^:]*]]: !tert.buffer<64>, %[[SUM:[^:]*]]: !tert.buffer<4>,
func.func @squares(%g: tensor<64xbf16> {te.name = "g"}, %h: tensor<16xf32> {te.name = "h"}, %sum: tensor<f32> {te.name = "sum"}) -> (tensor<f32> {te.name = "total"}) {
  // CHECK: tert.launch "sum_of_squares" {count0 = 64 : i64, count1 = 16 : i64, {{.*}}count31 = 64 : i64, {{.*}}type1 = 0 : i32, {{.*}}}(%[[G]], %[[H]], %[[G]], {{.*}}, %[[SUM]], %[[PART:[^,]*]], %{{[^,]*}}) :
  // CHECK: tert.launch "sum_of_squares" {count0 = 16 : i64, count1 = 64 : i64, count10 = 0 : i64, {{.*}}}(%[[H]], %[[G]], {{.*}}, %[[PART]], %{{[^,]*}}, %{{[^,]*}}) :
  // CHECK-NOT: tert.launch
  %s = te.sum_of_squares %g, %h, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %g, %h, %g plus %sum
    : tensor<64xbf16>, tensor<16xf32>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<16xf32>, tensor<64xbf16>
  return %s : tensor<f32>
}

// -----

// A scaled value has buffers for data and scale; absent usages are null. A view has
// the buffer of its operand, and a residual gives the buffer a name and a cause.
// CHECK-LABEL: func.func @views_and_usages
!row = !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 1>
func.func @views_and_usages(%x: tensor<2x128x512xbf16> {te.name = "x"}, %w: !row {te.name = "w"}) -> (tensor<256x256xbf16> {te.name = "y"}) {
  %flat = tensor.collapse_shape %x [[0, 1], [2]] : tensor<2x128x512xbf16> into tensor<256x512xbf16>
  // CHECK: %[[DATA:.*]] = tert.alloc "mlp.x.data" residual : !tert.buffer<131072>
  // CHECK: %[[SCALE:.*]] = tert.alloc "mlp.x.scale" residual : !tert.buffer<4096>
  // CHECK: %[[NULL:.*]] = tert.null
  // CHECK: tert.launch "quantize_block" {amax_epsilon = 0.000000e+00 : f32, cols = 512 : i64, fp8_type = 3 : i32, matrices = 1 : i64, pow2_scales = 1 : i32, rows = 256 : i64, scheme = 1 : i32, type = 1 : i32, x_cols = 512 : i64, x_rows = 256 : i64, x_type = 1 : i32}(%arg0, %[[DATA]], %[[SCALE]], %[[NULL]], %[[NULL]], %[[NULL]])
  %q = te.quantize %flat : tensor<256x512xbf16> -> !row
  %r = te.residual %q "mlp.x" : !row
  // CHECK: tert.launch "scaled_matmul" {{.*}}(%[[DATA]], %[[SCALE]], %[[NULL]], %arg1, %arg2, %[[NULL]], %[[NULL]], %[[NULL]], %arg3)
  %y = te.scaled_matmul %r, %w fast_accumulation = false : !row, !row -> tensor<256x256xbf16>
  return %y : tensor<256x256xbf16>
}

// -----

// A splat is filled directly before its first use. A buffer that
// the kernel always writes gets memory even if nothing reads it.
// CHECK-LABEL: func.func @constants_and_scratch
func.func @constants_and_scratch(%x: tensor<8x64xf32> {te.name = "x"}, %g: tensor<64xf32> {te.name = "g"}) -> tensor<8x8xf32> {
  %two = arith.constant dense<2.0> : tensor<8x64xf32>
  // CHECK: %[[RSIGMA:.*]] = tert.alloc "rms_norm.rsigma" activation : !tert.buffer<32>
  // CHECK: tert.launch "rms_norm" {{.*}}(%{{.*}}, %{{.*}}, %{{.*}}, %[[RSIGMA]], %{{.*}})
  %n = te.rms_norm %x, %g : tensor<8x64xf32>, tensor<64xf32>
  // CHECK: %[[TWO:.*]] = tert.alloc "constant.y" constant
  // CHECK: tert.launch "fill" {count = 512 : i64, type = 0 : i32, value = 2.000000e+00 : f32}(%[[TWO]], %{{[^ ]*}})
  // CHECK: tert.launch "matmul"
  %y = te.matmul %n, %two contract = [1, 1] : tensor<8x64xf32>, tensor<8x64xf32> -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// -----

// CHECK-LABEL: func.func @layer_norm
func.func @layer_norm(%x: tensor<8x64xf32> {te.name = "x"}, %g: tensor<64xf32> {te.name = "g"}, %b: tensor<64xf32> {te.name = "b"}) -> tensor<8x64xf32> {
  // CHECK: %[[MU:.*]] = tert.alloc "layer_norm.mu" activation : !tert.buffer<32>
  // CHECK: %[[RSIGMA:.*]] = tert.alloc "layer_norm.rsigma" activation : !tert.buffer<32>
  // CHECK: tert.launch "layer_norm" {cols = 64 : i64, epsilon = {{.*}} : f32, rows = 8 : i64, type = 0 : i32, zero_centered = 0 : i32}(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[MU]], %[[RSIGMA]], %{{.*}})
  %y = te.layer_norm %x, %g, %b : tensor<8x64xf32>, tensor<64xf32>
  return %y : tensor<8x64xf32>
}

// -----

// After inlining, the private function has no callers.
// CHECK-NOT: @original
func.func private @original(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = te.linear %x, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
// CHECK: func.func @kept
func.func @kept() { return }

// -----

// The cast measures the amax, and the state is updated in place.
// CHECK-LABEL: func.func @delayed_scaling
// CHECK-SAME: (%[[X:[^:]*]]: !tert.buffer<2048>, %[[H:[^:]*]]: !tert.buffer<64>, %[[S:[^:]*]]: !tert.buffer<4>,
func.func @delayed_scaling(%x: tensor<32x32xbf16> {te.name = "x"}, %h: tensor<16xf32> {te.name = "x.amax_history"},
                           %s: tensor<f32> {te.name = "x.scale"})
    -> (tensor<32x32xbf16> {te.name = "y"}, tensor<16xf32> {te.name = "x.amax_history"}, tensor<f32> {te.name = "x.scale"}) {
  // CHECK-DAG: %[[A:.*]] = tert.alloc "quantize.amax" activation
  // CHECK-DAG: %[[NULL:.*]] = tert.null
  // CHECK: tert.launch "quantize_tensor" {{.*}}(%[[X]], %[[S]], %{{.*}}, %{{.*}}, %[[NULL]], %[[NULL]], %[[A]], %[[NULL]])
  %q, %amax = te.quantize %x scale %s : tensor<32x32xbf16>
    -> !te.scaled<32x32xf8E5M2, per_tensor, contract = 1> amax tensor<f32>
  // CHECK: tert.launch "dequantize"
  %y = te.dequantize %q : !te.scaled<32x32xf8E5M2, per_tensor, contract = 1> -> tensor<32x32xbf16>
  // CHECK: tert.launch "delayed_scaling_update" {algorithm = 1 : i32, fp8_max = 5.734400e+04 : f32, history_length = 16 : i64, margin = 3 : i32, slots = 1 : i64}(%[[A]], %[[H]], %[[S]], %[[H]], %[[S]])
  %h1, %s1 = te.delayed_scaling_update %amax, %h, %s for f8E5M2
    {algorithm = #te.amax_algorithm<most_recent>, margin = 3 : i32} : tensor<f32>, tensor<16xf32>
  // CHECK-NOT: copy
  return %y, %h1, %s1 : tensor<32x32xbf16>, tensor<16xf32>, tensor<f32>
}

// -----

// The attribute te.init of an argument, in all its spellings.
// CHECK-LABEL: func.func @init
// CHECK-SAME: {carried = -1 : i64, init = 1.500000e+00 : f32, name = "a"
// CHECK-SAME: {carried = -1 : i64, init = 2.000000e+00 : f32, name = "b"
// CHECK-SAME: {carried = -1 : i64, init = -3.000000e+00 : f32, name = "c"
// CHECK-SAME: {carried = -1 : i64, name = "d"
func.func @init(%a: tensor<f32> {te.name = "a", te.init = 1.5 : f32},
                %b: tensor<4xbf16> {te.name = "b", te.init = dense<2.0> : tensor<4xbf16>},
                %c: tensor<2xi32> {te.name = "c", te.init = dense<-3> : tensor<2xi32>}, %d: tensor<f32> {te.name = "d"}) {
  return
}

// A sum of GEMMs that is a result has no temporaries, because every GEMM adds to the memory of the result.
// CHECK-LABEL: func.func @accumulates_in_place
// CHECK-SAME: %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[OUT:[a-z0-9]+]]: !tert.buffer<2048>
// CHECK-NOT: tert.alloc
// CHECK: tert.launch "matmul" {{.*}} %[[OUT]]) :
// CHECK: tert.launch "matmul" {{.*}} %[[OUT]], %[[OUT]]) :
// CHECK: tert.launch "matmul" {{.*}} %[[OUT]], %[[OUT]]) :
// CHECK-NOT: tert.launch
func.func @accumulates_in_place(%a: tensor<32x16xbf16>, %b: tensor<32x16xbf16>, %c: tensor<32x16xbf16>) -> tensor<32x32xbf16> {
  %p = te.matmul %a, %b contract = [1, 1] : tensor<32x16xbf16>, tensor<32x16xbf16> -> tensor<32x32xbf16>
  %q = te.matmul %b, %c accumulate %p : tensor<32x32xbf16> contract = [1, 1] : tensor<32x16xbf16>, tensor<32x16xbf16> -> tensor<32x32xbf16>
  %r = te.matmul %c, %a accumulate %q : tensor<32x32xbf16> contract = [1, 1] : tensor<32x16xbf16>, tensor<32x16xbf16> -> tensor<32x32xbf16>
  return %r : tensor<32x32xbf16>
}

// A value that is read after the next GEMM has its own memory, and so does the old value of a state.
// CHECK-LABEL: func.func @keeps_what_is_read
// CHECK: tert.alloc
// CHECK: tert.launch "amax"
func.func @keeps_what_is_read(%a: tensor<32x16xbf16>, %w: tensor<32x32xbf16> {te.name = "w"}) -> (tensor<32x32xbf16> {te.name = "w"}, tensor<f32>) {
  %p = te.matmul %a, %a contract = [1, 1] : tensor<32x16xbf16>, tensor<32x16xbf16> -> tensor<32x32xbf16>
  %amax = te.amax %w : tensor<32x32xbf16>
  %q = te.matmul %a, %a accumulate %p : tensor<32x32xbf16> contract = [1, 1] : tensor<32x16xbf16>, tensor<32x16xbf16> -> tensor<32x32xbf16>
  return %q, %amax : tensor<32x32xbf16>, tensor<f32>
}

// An argument that is a result belongs to the forward, which ends at the
// first read of a result's cotangent. A gradient that is a result does not.
// CHECK-LABEL: func.func @forwards_arguments
// CHECK-SAME: %[[X:[a-z0-9]+]]: !tert.buffer<1024>, %[[DY:[a-z0-9]+]]: !tert.buffer<1024>, %[[Y:[a-z0-9]+]]: !tert.buffer<1024>, %[[SAME:[a-z0-9]+]]: !tert.buffer<1024>, %[[DX:[a-z0-9]+]]: !tert.buffer<1024>
// CHECK-NEXT: tert.launch "copy" {bytes = 1024 : i64}(%[[X]], %[[SAME]])
// CHECK: tert.launch "{{.*}}" {{.*}}%[[Y]]
// CHECK: tert.launch "copy" {bytes = 1024 : i64}(%[[DY]], %[[DX]])
// CHECK-NOT: tert.launch
func.func @forwards_arguments(%x: tensor<16x16xf32> {te.name = "x"}, %dy: tensor<16x16xf32> {te.name = "grad.same"}) -> (tensor<16x16xf32>, tensor<16x16xf32> {te.name = "same"}, tensor<16x16xf32> {te.name = "grad.x"}) {
  %y = te.activation <silu> %x : tensor<16x16xf32> -> tensor<16x16xf32>
  return %y, %x, %dy : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>
}

// A value that is two results is copied directly after it is computed, because host programs may split the step behind it.
// CHECK-LABEL: func.func @returns_a_value_twice
// CHECK-SAME: %{{[a-z0-9]+}}: !tert.buffer<1024>, %[[ONE:[a-z0-9]+]]: !tert.buffer<1024>, %[[OTHER:[a-z0-9]+]]: !tert.buffer<1024>, %[[LATER:[a-z0-9]+]]: !tert.buffer<1024>)
// CHECK: tert.launch "activation" {{.*}}%[[ONE]]
// CHECK-NEXT: tert.launch "copy" {bytes = 1024 : i64}(%[[ONE]], %[[OTHER]])
// CHECK-NEXT: tert.launch "{{.*}}" {{.*}}%[[LATER]]
func.func @returns_a_value_twice(%x: tensor<16x16xf32> {te.name = "x"}) -> (tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>) {
  %y = te.activation <silu> %x : tensor<16x16xf32> -> tensor<16x16xf32>
  %z = te.activation <relu> %y : tensor<16x16xf32> -> tensor<16x16xf32>
  return %y, %y, %z : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>
}
