// A long row has a block of as many threads as its code needs, keeps the row in registers between its passes, and
// widens bf16 from words and in the instruction that rounds.
// RUN: te-compile %s --entry=step -o %t.ll --pipeline="target=sm_90 code-cache=false"
// RUN: tr '\\' '\n' < %t.ll | FileCheck %s
// RUN: te-compile %s --entry=drops -o %t.drops.ll --pipeline="target=sm_90 code-cache=false"
// RUN: tr '\\' '\n' < %t.drops.ll | FileCheck %s --check-prefix=DROPS
// RUN: te-compile %s --entry=heavy -o %t.heavy.ll --pipeline="target=sm_90 code-cache=false"
// RUN: tr '\\' '\n' < %t.heavy.ll | FileCheck %s --check-prefix=HEAVY

// 0A is a newline, at which `tr` has broken the string.
// CHECK: te_generated_0_device_code
// CHECK: 0A.maxntid 512
// The code of aligned buffers loads each element once, in pairs, before the barriers of four groups and two reductions.
// CHECK-COUNT-28: ld.global.b32
// CHECK-NOT: ld.global
// CHECK: cvt.rn.bf16x2.f32
// CHECK-NOT: ld.global
// CHECK-COUNT-8: bar.sync
// CHECK-NOT: ld.global
// CHECK-COUNT-14: st.global.v2.b16
func.func @step(%x: tensor<8x14336xbf16>, %b: tensor<8x14336xbf16>) -> tensor<8x14336xbf16> {
  %s = arith.addf %x, %b : tensor<8x14336xbf16>
  %y = te.softmax %s {scale = 0.125 : f32} : tensor<8x14336xbf16>
  return %y : tensor<8x14336xbf16>
}

// Four elements share the random words of a dropout, so a thread has four neighbouring ones.
// DROPS: te_generated_0_device_code
// DROPS: 0A.maxntid 256
// DROPS-COUNT-4: ld.global.v2.b32
// DROPS-NOT: ld.global.v2
// DROPS: bar.sync
// DROPS-COUNT-4: st.global.v4.b16
// DROPS: ld.global.b16
func.func @drops(%x: tensor<8x4096xbf16>, %state: tensor<2xi32>) -> tensor<8x4096xbf16> {
  %p = te.softmax %x {scale = 0.125 : f32} : tensor<8x4096xbf16>
  %y = te.dropout %p rng %state {probability = 0.1 : f32} : tensor<8x4096xbf16>
  return %y : tensor<8x4096xbf16>
}

// A row with much code has as many threads as a block can have.
// HEAVY: te_generated_0_device_code
// HEAVY: 0A.maxntid 1024
// HEAVY: bar.sync
func.func @heavy(%x: tensor<8x32768xbf16>) -> tensor<8x32768xbf16> {
  %t = math.tanh %x : tensor<8x32768xbf16>
  %y = te.softmax %t {scale = 0.125 : f32} : tensor<8x32768xbf16>
  return %y : tensor<8x32768xbf16>
}
