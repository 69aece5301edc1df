// RUN: te-opt %s --te-merge-launches --remarks-filter='.*' 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks

// Updates of parameters of any size, with seeds of their own, become one at the place of the last: its gradient is known last.
// CHECK-LABEL: func.func @updates
// CHECK-SAME: %[[P:[a-z0-9]+]]: !tert.buffer<256>, %[[PM:[a-z0-9]+]]: !tert.buffer<256>, %[[PV:[a-z0-9]+]]: !tert.buffer<256>, %[[DP:[a-z0-9]+]]: !tert.buffer<256>, %[[B:[a-z0-9]+]]: !tert.buffer<40>, %[[BM:[a-z0-9]+]]: !tert.buffer<40>, %[[BV:[a-z0-9]+]]: !tert.buffer<40>, %[[LR:[a-z0-9]+]]: !tert.buffer<4>, %[[STEP:[a-z0-9]+]]: !tert.buffer<4>
// CHECK: tert.launch "fill"
// CHECK-NEXT: %[[NONE:[a-z0-9]+]] = tert.null
// CHECK-NEXT: tert.launch "adamw_group" {
// CHECK-SAME: count0 = 64 : i64, count1 = 10 : i64, count10 = 0 : i64
// CHECK-SAME: grad_type = 0 : i32
// CHECK-SAME: seed0 = 3 : i32, seed1 = 4 : i32, seed10 = 0 : i32
// CHECK-SAME: weight_decay = 1.000000e-01 : f32
// CHECK-SAME: (%[[P]], %[[B]], %[[NONE]], {{.*}} %[[DP]], %[[DB:[0-9]+]], %[[NONE]], {{.*}} %[[PM]], %[[BM]], %[[NONE]], {{.*}} %[[PV]], %[[BV]], %[[NONE]], {{.*}} %[[LR]], %[[STEP]], %{{[0-9]+}}, %[[P]], %[[B]], %[[NONE]]
// CHECK-NOT: tert.launch
func.func @updates(%p: !tert.buffer<256>, %pm: !tert.buffer<256>, %pv: !tert.buffer<256>, %dp: !tert.buffer<256>,
                   %b: !tert.buffer<40>, %bm: !tert.buffer<40>, %bv: !tert.buffer<40>, %lr: !tert.buffer<4>, %step: !tert.buffer<4>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "adamw" {count = 64 : i64, param_type = 0 : i32, grad_type = 0 : i32, moment_type = 0 : i32, beta1 = 0.9 : f32, beta2 = 0.999 : f32, epsilon = 1.0e-8 : f32, weight_decay = 0.1 : f32, seed = 3 : i32}
    (%p, %dp, %pm, %pv, %lr, %step, %none, %p, %pm, %pv, %none) : !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<4>, !tert.buffer<4>, !tert.buffer<0>, !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<256>, !tert.buffer<0>
  %db = tert.alloc "db" gradient : !tert.buffer<40>
  tert.launch "fill" {count = 10 : i64, type = 0 : i32, value = 2.0 : f32} (%db, %none) : !tert.buffer<40>, !tert.buffer<0>
  tert.launch "adamw" {count = 10 : i64, param_type = 0 : i32, grad_type = 0 : i32, moment_type = 0 : i32, beta1 = 0.9 : f32, beta2 = 0.999 : f32, epsilon = 1.0e-8 : f32, weight_decay = 0.1 : f32, seed = 4 : i32}
    (%b, %db, %bm, %bv, %lr, %step, %none, %b, %bm, %bv, %none) : !tert.buffer<40>, !tert.buffer<40>, !tert.buffer<40>, !tert.buffer<40>, !tert.buffer<4>, !tert.buffer<4>, !tert.buffer<0>, !tert.buffer<40>, !tert.buffer<40>, !tert.buffer<40>, !tert.buffer<0>
  return
}

// Updates with another weight decay, or another learning rate, stay what they are. So does a large one.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-4: tert.launch "adamw" {
// CHECK-NOT: tert.launch
func.func @others(%p: !tert.buffer<40>, %q: !tert.buffer<40>, %r: !tert.buffer<40>, %s: !tert.buffer<262148>, %m: !tert.buffer<40>, %n: !tert.buffer<40>, %o: !tert.buffer<40>,
                  %l: !tert.buffer<262148>, %d: !tert.buffer<40>, %dl: !tert.buffer<262148>, %lr: !tert.buffer<4>, %lr2: !tert.buffer<4>, %step: !tert.buffer<4>,
                  %m2: !tert.buffer<40>, %n2: !tert.buffer<40>, %o2: !tert.buffer<40>, %l2: !tert.buffer<262148>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "adamw" {count = 10 : i64, param_type = 0 : i32, grad_type = 0 : i32, moment_type = 0 : i32, beta1 = 0.9 : f32, beta2 = 0.999 : f32, epsilon = 1.0e-8 : f32, weight_decay = 0.1 : f32, seed = 0 : i32}
    (%p, %d, %m, %m2, %lr, %step, %none, %p, %m, %m2, %none) : !tert.buffer<40>, !tert.buffer<40>, !tert.buffer<40>, !tert.buffer<40>, !tert.buffer<4>, !tert.buffer<4>, !tert.buffer<0>, !tert.buffer<40>, !tert.buffer<40>, !tert.buffer<40>, !tert.buffer<0>
  tert.launch "adamw" {count = 10 : i64, param_type = 0 : i32, grad_type = 0 : i32, moment_type = 0 : i32, beta1 = 0.9 : f32, beta2 = 0.999 : f32, epsilon = 1.0e-8 : f32, weight_decay = 0.0 : f32, seed = 0 : i32}
    (%q, %d, %n, %n2, %lr, %step, %none, %q, %n, %n2, %none) : !tert.buffer<40>, !tert.buffer<40>, !tert.buffer<40>, !tert.buffer<40>, !tert.buffer<4>, !tert.buffer<4>, !tert.buffer<0>, !tert.buffer<40>, !tert.buffer<40>, !tert.buffer<40>, !tert.buffer<0>
  tert.launch "adamw" {count = 10 : i64, param_type = 0 : i32, grad_type = 0 : i32, moment_type = 0 : i32, beta1 = 0.9 : f32, beta2 = 0.999 : f32, epsilon = 1.0e-8 : f32, weight_decay = 0.1 : f32, seed = 0 : i32}
    (%r, %d, %o, %o2, %lr2, %step, %none, %r, %o, %o2, %none) : !tert.buffer<40>, !tert.buffer<40>, !tert.buffer<40>, !tert.buffer<40>, !tert.buffer<4>, !tert.buffer<4>, !tert.buffer<0>, !tert.buffer<40>, !tert.buffer<40>, !tert.buffer<40>, !tert.buffer<0>
  tert.launch "adamw" {count = 65537 : i64, param_type = 0 : i32, grad_type = 0 : i32, moment_type = 0 : i32, beta1 = 0.9 : f32, beta2 = 0.999 : f32, epsilon = 1.0e-8 : f32, weight_decay = 0.1 : f32, seed = 0 : i32}
    (%s, %dl, %l, %l2, %lr, %step, %none, %s, %l, %l2, %none) : !tert.buffer<262148>, !tert.buffer<262148>, !tert.buffer<262148>, !tert.buffer<262148>, !tert.buffer<4>, !tert.buffer<4>, !tert.buffer<0>, !tert.buffer<262148>, !tert.buffer<262148>, !tert.buffer<262148>, !tert.buffer<0>
  return
}

// Roundings of two weights become one at the place of the first, because its result is read before the second. Amaxes stay with their values.
// CHECK-LABEL: func.func @roundings
// CHECK-SAME: %[[A:[a-z0-9]+]]: !tert.buffer<128>, %[[B:[a-z0-9]+]]: !tert.buffer<128>
// CHECK: %[[B16:[a-z0-9]+]] = tert.alloc "b16"
// CHECK: tert.launch "generated" {count = 32 : i64, function = 0 : i64}(%[[A]], %[[B]], %{{.*}}, %[[A16:[a-z0-9]+]], %[[AMAX:[a-z0-9]+]], %[[B16]], %{{.*}}) maps [#map, #map, #map, #map1, #map]
// CHECK-NEXT: ^bb0(%[[X:[a-z0-9]+]]: f32, %[[Y:[a-z0-9]+]]: f32):
// CHECK-NEXT: %[[XR:[a-z0-9]+]] = arith.truncf %[[X]] : f32 to bf16
// CHECK-NEXT: %[[W:[a-z0-9]+]] = arith.extf %[[XR]] : bf16 to f32
// CHECK-NEXT: %[[M:[a-z0-9]+]] = tert.amax %[[W]]
// CHECK-NEXT: %[[YR:[a-z0-9]+]] = arith.truncf %[[Y]] : f32 to bf16
// CHECK-NEXT: tert.yield %[[XR]], %[[M]], %[[YR]] : bf16, f32, bf16
// CHECK: tert.launch "copy"
// CHECK-NEXT: tert.launch "copy"
// CHECK-NOT: tert.launch
func.func @roundings(%a: !tert.buffer<128>, %b: !tert.buffer<128>, %y: !tert.buffer<64>, %z: !tert.buffer<64>) {
  %none = tert.null : !tert.buffer<0>
  %a16 = tert.alloc "a16" activation : !tert.buffer<64>
  %amax = tert.alloc "a.amax" activation : !tert.buffer<4>
  tert.launch "generated" {count = 32 : i64, function = 0 : i64} (%a, %none, %none, %none, %none, %none, %none, %none, %a16, %amax, %none, %none) maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (0)>]
    : !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<64>, !tert.buffer<4>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%x: f32):
    %r = arith.truncf %x : f32 to bf16
    %w = arith.extf %r : bf16 to f32
    %m = tert.amax %w
    tert.yield %r, %m : bf16, f32
  }
  tert.launch "copy" {bytes = 64 : i64} (%a16, %y) : !tert.buffer<64>, !tert.buffer<64>
  %b16 = tert.alloc "b16" activation : !tert.buffer<64>
  tert.launch "generated" {count = 32 : i64, function = 0 : i64} (%b, %none, %none, %none, %none, %none, %none, %none, %b16, %none, %none, %none)
    : !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<64>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%x: f32):
    %r = arith.truncf %x : f32 to bf16
    tert.yield %r : bf16
  }
  tert.launch "copy" {bytes = 64 : i64} (%b16, %z) : !tert.buffer<64>, !tert.buffer<64>
  return
}

// What two launches read is read once.
// CHECK-LABEL: func.func @shared
// CHECK-SAME: %[[A:[a-z0-9]+]]: !tert.buffer<128>, %[[B:[a-z0-9]+]]: !tert.buffer<128>
// CHECK: tert.launch "generated" {{.*}}(%[[A]], %[[B]], %{{.*}}) : {{.*}} {
// CHECK-NEXT: ^bb0(%[[X:[a-z0-9]+]]: f32, %[[Y:[a-z0-9]+]]: f32):
// CHECK-NEXT: arith.addf %[[X]], %[[Y]]
// CHECK-NEXT: arith.mulf %[[Y]], %[[X]]
// CHECK-NOT: tert.launch
func.func @shared(%a: !tert.buffer<128>, %b: !tert.buffer<128>, %y: !tert.buffer<128>, %z: !tert.buffer<128>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 32 : i64, function = 0 : i64} (%a, %b, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<128>, !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%x: f32, %w: f32):
    %s = arith.addf %x, %w : f32
    tert.yield %s : f32
  }
  tert.launch "generated" {count = 32 : i64, function = 0 : i64} (%b, %a, %none, %none, %none, %none, %none, %none, %z, %none, %none, %none)
    : !tert.buffer<128>, !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%x: f32, %w: f32):
    %s = arith.mulf %x, %w : f32
    tert.yield %s : f32
  }
  return
}

// The second launch reads, after the copy of `a`, what the first one wrote before it; and what the first one reads is overwritten.
// REMARK: remark: [Missed] merge {{.*}}Function=order{{.*}}launches between them need their order{{.*}}two launches of 'generated' are not merged
// CHECK-LABEL: func.func @order
// CHECK: tert.launch "generated"
// CHECK: tert.launch "copy"
// CHECK: tert.launch "generated"
func.func @order(%a: !tert.buffer<128>, %b: !tert.buffer<128>, %y: !tert.buffer<128>, %z: !tert.buffer<128>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 32 : i64, function = 0 : i64} (%a, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%x: f32):
    %s = arith.negf %x : f32
    tert.yield %s : f32
  }
  tert.launch "copy" {bytes = 128 : i64} (%b, %a) : !tert.buffer<128>, !tert.buffer<128>
  tert.launch "generated" {count = 32 : i64, function = 0 : i64} (%a, %none, %none, %none, %none, %none, %none, %none, %z, %none, %none, %none)
    : !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%x: f32):
    %s = arith.negf %x : f32
    tert.yield %s : f32
  }
  return
}

// Nothing moves across the first launch that reads a cotangent, which host programs may begin a backward with.
// REMARK-NOT: Function=parts
// CHECK-LABEL: func.func @parts
// CHECK: tert.launch "generated"
// CHECK: tert.launch "copy"
// CHECK: tert.launch "generated"
func.func @parts(%a: !tert.buffer<128>, %g: !tert.buffer<128>, %y: !tert.buffer<128>, %z: !tert.buffer<128>, %w: !tert.buffer<128>) attributes {
    tert.signature = [{name = "a", part = "value", role = "argument", carried = -1 : i64}, {name = "grad.y", part = "value", role = "argument", carried = -1 : i64},
                      {name = "y", part = "value", role = "result", carried = -1 : i64}, {name = "grad.a", part = "value", role = "result", carried = -1 : i64},
                      {name = "z", part = "value", role = "result", carried = -1 : i64}]} {
  %none = tert.null : !tert.buffer<0>
  tert.launch "generated" {count = 32 : i64, function = 0 : i64} (%a, %none, %none, %none, %none, %none, %none, %none, %y, %none, %none, %none)
    : !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%x: f32):
    %s = arith.negf %x : f32
    tert.yield %s : f32
  }
  tert.launch "copy" {bytes = 128 : i64} (%g, %z) : !tert.buffer<128>, !tert.buffer<128>
  tert.launch "generated" {count = 32 : i64, function = 0 : i64} (%a, %none, %none, %none, %none, %none, %none, %none, %w, %none, %none, %none)
    : !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<128>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%x: f32):
    %s = arith.negf %x : f32
    tert.yield %s : f32
  }
  return
}

// The step would need more memory: at the peak, the copy to y, the result of the second launch would be alive, too. The first one cannot move down.
// REMARK: remark: [Missed] merge {{.*}}Function=memory{{.*}}the step would need more memory
// CHECK-LABEL: func.func @memory
// CHECK: tert.launch "generated"
// CHECK: tert.launch "copy"
// CHECK: tert.launch "generated"
func.func @memory(%a: !tert.buffer<262144>, %b: !tert.buffer<262144>, %y: !tert.buffer<262144>, %z: !tert.buffer<262144>) {
  %none = tert.null : !tert.buffer<0>
  %t = tert.alloc "t" activation : !tert.buffer<262144>
  tert.launch "generated" {count = 65536 : i64, function = 0 : i64} (%a, %none, %none, %none, %none, %none, %none, %none, %t, %none, %none, %none)
    : !tert.buffer<262144>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<262144>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%x: f32):
    %s = arith.negf %x : f32
    tert.yield %s : f32
  }
  tert.launch "copy" {bytes = 262144 : i64} (%t, %y) : !tert.buffer<262144>, !tert.buffer<262144>
  %u = tert.alloc "u" activation : !tert.buffer<262144>
  tert.launch "generated" {count = 65536 : i64, function = 0 : i64} (%b, %none, %none, %none, %none, %none, %none, %none, %u, %none, %none, %none)
    : !tert.buffer<262144>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<262144>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0> {
  ^bb0(%x: f32):
    %s = arith.negf %x : f32
    tert.yield %s : f32
  }
  tert.launch "copy" {bytes = 262144 : i64} (%u, %z) : !tert.buffer<262144>, !tert.buffer<262144>
  return
}

// Queries and keys are rotated in one launch; a third tensor, with the same angles, and one with others have their own.
// CHECK-LABEL: func.func @rotations
// CHECK-SAME: %[[Q:[a-z0-9]+]]: !tert.buffer<128>, %[[K:[a-z0-9]+]]: !tert.buffer<64>, %[[R:[a-z0-9]+]]: !tert.buffer<64>, %[[COS:[a-z0-9]+]]: !tert.buffer<16>, %[[SIN:[a-z0-9]+]]: !tert.buffer<16>, %[[A:[a-z0-9]+]]: !tert.buffer<4>
// CHECK: tert.launch "rope_group" {has_positions = 0 : i32, head_dim = 4 : i64, heads0 = 4 : i64, heads1 = 2 : i64, interleaved = 0 : i32, inverse = 0 : i32
// CHECK-SAME: (%[[Q]], %[[K]], %[[COS]], %[[SIN]], %[[NONE:[0-9]+]], %[[Q]], %[[K]], %[[NONE]], %[[A]])
// CHECK-NEXT: tert.launch "rope" {{.*}} inverse = 0 : i32
// CHECK-NEXT: tert.launch "rope" {{.*}} inverse = 1 : i32
// CHECK-NOT: tert.launch
func.func @rotations(%q: !tert.buffer<128>, %k: !tert.buffer<64>, %r: !tert.buffer<64>, %cos: !tert.buffer<16>, %sin: !tert.buffer<16>, %amax: !tert.buffer<4>, %s: !tert.buffer<64>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "rope" {tokens = 4 : i64, heads = 4 : i64, head_dim = 4 : i64, sequence = 2 : i64, rotary_dim = 4 : i64, type = 1 : i32, interleaved = 0 : i32, inverse = 0 : i32, has_positions = 0 : i32}
    (%q, %cos, %sin, %none, %q, %none) : !tert.buffer<128>, !tert.buffer<16>, !tert.buffer<16>, !tert.buffer<0>, !tert.buffer<128>, !tert.buffer<0>
  tert.launch "rope" {tokens = 4 : i64, heads = 2 : i64, head_dim = 4 : i64, sequence = 2 : i64, rotary_dim = 4 : i64, type = 1 : i32, interleaved = 0 : i32, inverse = 0 : i32, has_positions = 0 : i32}
    (%k, %cos, %sin, %none, %k, %amax) : !tert.buffer<64>, !tert.buffer<16>, !tert.buffer<16>, !tert.buffer<0>, !tert.buffer<64>, !tert.buffer<4>
  tert.launch "rope" {tokens = 4 : i64, heads = 2 : i64, head_dim = 4 : i64, sequence = 2 : i64, rotary_dim = 4 : i64, type = 1 : i32, interleaved = 0 : i32, inverse = 0 : i32, has_positions = 0 : i32}
    (%r, %cos, %sin, %none, %r, %none) : !tert.buffer<64>, !tert.buffer<16>, !tert.buffer<16>, !tert.buffer<0>, !tert.buffer<64>, !tert.buffer<0>
  tert.launch "rope" {tokens = 4 : i64, heads = 2 : i64, head_dim = 4 : i64, sequence = 2 : i64, rotary_dim = 4 : i64, type = 1 : i32, interleaved = 0 : i32, inverse = 1 : i32, has_positions = 0 : i32}
    (%s, %cos, %sin, %none, %s, %none) : !tert.buffer<64>, !tert.buffer<16>, !tert.buffer<16>, !tert.buffer<0>, !tert.buffer<64>, !tert.buffer<0>
  return
}

// Two casts become one, but not a third, which has an amax.
// CHECK-LABEL: func.func @casts
// CHECK-SAME: %[[A:[a-z0-9]+]]: !tert.buffer<64>, %[[B:[a-z0-9]+]]: !tert.buffer<64>, %[[S:[a-z0-9]+]]: !tert.buffer<4>, %[[T:[a-z0-9]+]]: !tert.buffer<4>, %[[QA:[a-z0-9]+]]: !tert.buffer<32>, %[[QB:[a-z0-9]+]]: !tert.buffer<32>, %[[IA:[a-z0-9]+]]: !tert.buffer<4>, %[[IB:[a-z0-9]+]]: !tert.buffer<4>
// CHECK: tert.launch "quantize_tensor_group" {amax_epsilon = 0.000000e+00 : f32, cols = 8 : i64, fp8_type = 3 : i32, from_amax = 0 : i32, pow2_scales = 0 : i32, rows = 4 : i64, type = 1 : i32, x_cols = 8 : i64, x_rows = 4 : i64, x_type = 1 : i32}
// CHECK-SAME: (%[[A]], %[[B]], %[[S]], %[[T]], %[[QA]], %[[QB]], %[[IA]], %[[IB]], %[[NONE:[0-9]+]], %[[NONE]], %[[NONE]], %[[NONE]], %[[NONE]], %[[NONE]], %[[NONE]])
// CHECK-NEXT: tert.launch "quantize_tensor" {
// CHECK-NOT: tert.launch
func.func @casts(%a: !tert.buffer<64>, %b: !tert.buffer<64>, %s: !tert.buffer<4>, %t: !tert.buffer<4>, %qa: !tert.buffer<32>, %qb: !tert.buffer<32>, %ia: !tert.buffer<4>, %ib: !tert.buffer<4>,
                 %qc: !tert.buffer<32>, %ic: !tert.buffer<4>, %amax: !tert.buffer<4>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "quantize_tensor" {matrices = 1 : i64, rows = 4 : i64, cols = 8 : i64, x_rows = 4 : i64, x_cols = 8 : i64, x_type = 1 : i32, type = 1 : i32, fp8_type = 3 : i32, from_amax = 0 : i32, pow2_scales = 0 : i32, amax_epsilon = 0.0 : f32}
    (%a, %s, %qa, %ia, %none, %none, %none, %none) : !tert.buffer<64>, !tert.buffer<4>, !tert.buffer<32>, !tert.buffer<4>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>
  tert.launch "quantize_tensor" {matrices = 1 : i64, rows = 4 : i64, cols = 8 : i64, x_rows = 4 : i64, x_cols = 8 : i64, x_type = 1 : i32, type = 1 : i32, fp8_type = 3 : i32, from_amax = 0 : i32, pow2_scales = 0 : i32, amax_epsilon = 0.0 : f32}
    (%b, %t, %qb, %ib, %none, %none, %none, %none) : !tert.buffer<64>, !tert.buffer<4>, !tert.buffer<32>, !tert.buffer<4>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<0>
  tert.launch "quantize_tensor" {matrices = 1 : i64, rows = 4 : i64, cols = 8 : i64, x_rows = 4 : i64, x_cols = 8 : i64, x_type = 1 : i32, type = 1 : i32, fp8_type = 3 : i32, from_amax = 0 : i32, pow2_scales = 0 : i32, amax_epsilon = 0.0 : f32}
    (%b, %t, %qc, %ic, %none, %none, %amax, %none) : !tert.buffer<64>, !tert.buffer<4>, !tert.buffer<32>, !tert.buffer<4>, !tert.buffer<0>, !tert.buffer<0>, !tert.buffer<4>, !tert.buffer<0>
  return
}

// Histories of any number of slots become one at the place of the last, but not those of another element type.
// CHECK-LABEL: func.func @histories
// CHECK-SAME: %[[A:[a-z0-9]+]]: !tert.buffer<4>, %[[H:[a-z0-9]+]]: !tert.buffer<32>, %[[S:[a-z0-9]+]]: !tert.buffer<4>, %[[B:[a-z0-9]+]]: !tert.buffer<8>, %[[I:[a-z0-9]+]]: !tert.buffer<64>, %[[T:[a-z0-9]+]]: !tert.buffer<8>
// CHECK: tert.launch "fill"
// CHECK: tert.launch "delayed_scaling_update" {{.*}}fp8_max = 5.734400e+04 : f32
// CHECK: tert.launch "delayed_scaling_group" {algorithm = 0 : i32, fp8_max = 4.480000e+02 : f32, history_length = 8 : i64, margin = 0 : i32, slots0 = 1 : i64, slots1 = 2 : i64, slots10 = 0 : i64
// CHECK-SAME: (%[[A]], %[[B]], %[[NONE:[0-9]+]], {{.*}} %[[H]], %[[I]], %[[NONE]], {{.*}} %[[S]], %[[T]], %[[NONE]], {{.*}} %[[H]], %[[I]], %[[NONE]], {{.*}} %[[S]], %[[T]], %[[NONE]],
// CHECK-NOT: tert.launch
func.func @histories(%a: !tert.buffer<4>, %h: !tert.buffer<32>, %s: !tert.buffer<4>, %b: !tert.buffer<8>, %i: !tert.buffer<64>, %t: !tert.buffer<8>,
                     %g: !tert.buffer<32>, %r: !tert.buffer<4>) {
  %none = tert.null : !tert.buffer<0>
  tert.launch "delayed_scaling_update" {slots = 1 : i64, history_length = 8 : i64, algorithm = 0 : i32, fp8_max = 448.0 : f32, margin = 0 : i32}
    (%a, %h, %s, %h, %s) : !tert.buffer<4>, !tert.buffer<32>, !tert.buffer<4>, !tert.buffer<32>, !tert.buffer<4>
  tert.launch "fill" {count = 2 : i64, type = 0 : i32, value = 2.0 : f32} (%b, %none) : !tert.buffer<8>, !tert.buffer<0>
  tert.launch "delayed_scaling_update" {slots = 1 : i64, history_length = 8 : i64, algorithm = 0 : i32, fp8_max = 57344.0 : f32, margin = 0 : i32}
    (%a, %g, %r, %g, %r) : !tert.buffer<4>, !tert.buffer<32>, !tert.buffer<4>, !tert.buffer<32>, !tert.buffer<4>
  tert.launch "delayed_scaling_update" {slots = 2 : i64, history_length = 8 : i64, algorithm = 0 : i32, fp8_max = 448.0 : f32, margin = 0 : i32}
    (%b, %i, %t, %i, %t) : !tert.buffer<8>, !tert.buffer<64>, !tert.buffer<8>, !tert.buffer<64>, !tert.buffer<8>
  return
}
