// A step for sm_100 multiplies values with swizzled scales. The
// reference backend computes the bytes of the step without swizzling.
// RUN: te-opt %s --te-training-pipeline="vjp=mlp target=sm_100 recipe=mxfp8_block_scaling compile-to=quantize" | FileCheck %s
// RUN: te-run %s --entry=mlp --vjp --backend=reference --seed=1 --quiet --pipeline="target=sm_100 recipe=mxfp8_block_scaling" --outputs=%t.mx100.npz
// RUN: te-run %s --entry=mlp --vjp --backend=reference --seed=1 --quiet --pipeline="target=reference recipe=mxfp8_block_scaling" --outputs=%t.mx.npz
// RUN: te-run %s --entry=mlp --vjp --backend=reference --seed=1 --quiet --pipeline="target=sm_100 recipe=nvfp4_block_scaling" --outputs=%t.nv100.npz
// RUN: te-run %s --entry=mlp --vjp --backend=reference --seed=1 --quiet --pipeline="target=reference recipe=nvfp4_block_scaling" --outputs=%t.nv.npz
// RUN: %python -c "import sys, numpy as np; a, b, c, d = map(np.load, sys.argv[1:]); assert all((a[k] == b[k]).all() for k in a) and all((c[k] == d[k]).all() for k in c) and (a['y'] != c['y']).any() and len(a.files) == 4" %t.mx100.npz %t.mx.npz %t.nv100.npz %t.nv.npz

// CHECK-COUNT-12: te.swizzle_scales
// CHECK-NOT: te.swizzle_scales
func.func @mlp(%x: tensor<64x96xbf16> {te.name = "x"}, %w1: tensor<160x96xbf16> {te.name = "w1", te.weight},
               %w2: tensor<96x160xbf16> {te.name = "w2", te.weight}) -> (tensor<64x96xbf16> {te.name = "y"}) {
  %h = te.linear %x, %w1 : tensor<64x96xbf16>, tensor<160x96xbf16> -> tensor<64x160xbf16>
  %a = te.activation <silu> %h : tensor<64x160xbf16> -> tensor<64x160xbf16>
  %y = te.linear %a, %w2 : tensor<64x160xbf16>, tensor<96x160xbf16> -> tensor<64x96xbf16>
  return %y : tensor<64x96xbf16>
}
