// Code of a GPU has no calls of functions, which cost more than what the functions compute.
// RUN: te-compile %s --entry=step -o %t.ll --pipeline="target=sm_90 code-cache=false"
// RUN: FileCheck %s --input-file=%t.ll --implicit-check-not=.func --implicit-check-not=call.uni
// Objects of several steps with such functions can be linked.
// RUN: te-compile %s --entry=step -o %t.a.o --symbol=a --pipeline="target=sm_90 code-cache=false"
// RUN: te-compile %s --entry=step -o %t.b.o --symbol=b --pipeline="target=sm_90 code-cache=false"
// RUN: clang -shared %t.a.o %t.b.o -o %t.so

// CHECK: te_generated_0_device_code = {{.*}}.target sm_90
// CHECK: te_generated_1_device_code = {{.*}}.target sm_90
func.func @step(%x: tensor<64x128xbf16>, %state: tensor<2xi32>) -> tensor<64x128xbf16> {
  %d = te.dropout %x rng %state {probability = 0.1 : f32} : tensor<64x128xbf16>
  %s = math.sin %d : tensor<64x128xbf16>
  %p = math.powf %s, %d : tensor<64x128xbf16>
  %l = math.log1p %p : tensor<64x128xbf16>
  %e = math.erfc %l : tensor<64x128xbf16>
  %f = math.exp2 %e : tensor<64x128xbf16>
  %r = arith.remf %f, %d : tensor<64x128xbf16>
  %t = math.tanh %r : tensor<64x128xbf16>
  return %t : tensor<64x128xbf16>
}
