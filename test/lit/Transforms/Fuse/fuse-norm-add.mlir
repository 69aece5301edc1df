// RUN: te-opt %s --te-fuse-norm-add | FileCheck %s

!x = tensor<256x512xbf16>
!g = tensor<512xbf16>
!r = tensor<256xf32>

// The norm gives the sum to all other readers.
// CHECK-LABEL: @sum
func.func @sum(%a: !x, %b: !x, %g: !g) -> (!x, !x, !r) {
  // CHECK-NEXT: %[[Y:.*]], %[[R:.*]], %[[SUM:.*]] = te.rms_norm %arg0, %arg2 plus %arg1 : tensor<256x512xbf16> {epsilon = 9.99999997E-7 : f32}
  // CHECK-NEXT: return %[[Y]], %[[SUM]], %[[R]]
  %h = arith.addf %a, %b : !x
  %y, %r = te.rms_norm %h, %g {epsilon = 1.0e-6 : f32} : !x, !g rsigma !r
  return %y, %h, %r : !x, !x, !r
}

// CHECK-LABEL: @sum_layer_norm
func.func @sum_layer_norm(%a: !x, %b: !x, %g: !g) -> (!x, !x) {
  // CHECK-NEXT: %[[Y:.*]], %[[SUM:.*]] = te.layer_norm %arg0, %arg2, %arg2 plus %arg1
  // CHECK-NEXT: return %[[Y]], %[[SUM]]
  %h = arith.addf %a, %b : !x
  %y = te.layer_norm %h, %g, %g : !x, !g
  return %y, %h : !x, !x
}

// The first of two norms adds, and the second reads its sum.
// CHECK-LABEL: @two_norms
func.func @two_norms(%a: !x, %b: !x, %g: !g) -> (!x, !x) {
  // CHECK-NEXT: %[[Y:.*]], %[[SUM:.*]] = te.rms_norm %arg0, %arg2 plus %arg1
  // CHECK-NEXT: te.rms_norm %[[SUM]], %arg2 :
  %h = arith.addf %a, %b : !x
  %y = te.rms_norm %h, %g : !x, !g
  %z = te.rms_norm %h, %g : !x, !g
  return %y, %z : !x, !x
}

// CHECK-LABEL: @sum_read_before
func.func @sum_read_before(%a: !x, %b: !x, %g: !g) -> (!x, !x) {
  // CHECK: arith.addf
  // CHECK: arith.negf
  // CHECK: te.rms_norm %{{.*}}, %arg2 :
  %h = arith.addf %a, %b : !x
  %n = arith.negf %h : !x
  %y = te.rms_norm %h, %g : !x, !g
  return %y, %n : !x, !x
}

// The amax of a gradient is not that of the sum.
// CHECK-LABEL: @gradient_with_amax
func.func @gradient_with_amax(%dy: !x, %x: !x, %g: !g, %r: !r, %other: !x) -> (!x, tensor<f32>, !x, tensor<f32>) {
  // CHECK-NEXT: te.rms_norm_backward %{{[^:]*}} :
  // CHECK-NEXT: arith.addf
  // CHECK-NEXT: te.layer_norm_backward %{{[^:]*}} :
  // CHECK-NEXT: arith.addf
  %dx, %dg, %a = te.rms_norm_backward %dy, %x, %g, %r : !x, !g, !r amax tensor<f32>
  %sum = arith.addf %other, %dx : !x
  %dx2, %dg2, %db2, %a2 = te.layer_norm_backward %dy, %x, %g, %r, %r : !x, !g, !r amax tensor<f32>
  %sum2 = arith.addf %dx2, %other : !x
  return %sum, %a, %sum2, %a2 : !x, tensor<f32>, !x, tensor<f32>
}

// The gradient may be either summand.
// CHECK-LABEL: @gradient
func.func @gradient(%dy: !x, %x: !x, %g: !g, %r: !r, %other: !x) -> (!x, !x, !g) {
  // CHECK-NEXT: %[[DX:.*]], %[[DG:.*]] = te.rms_norm_backward %arg0, %arg1, %arg2, %arg3 plus %arg4
  // CHECK-NEXT: %[[DX2:.*]], %{{.*}}, %{{.*}} = te.layer_norm_backward %arg0, %arg1, %arg2, %arg3, %arg3 plus %arg4
  // CHECK-NEXT: return %[[DX]], %[[DX2]], %[[DG]]
  %dx, %dg = te.rms_norm_backward %dy, %x, %g, %r : !x, !g, !r
  %sum = arith.addf %other, %dx : !x
  %dx2, %dg2, %db2 = te.layer_norm_backward %dy, %x, %g, %r, %r : !x, !g, !r
  %sum2 = arith.addf %dx2, %other : !x
  return %sum, %sum2, %dg : !x, !x, !g
}

// The other summand comes later, so the gradient moves behind it, unless the gradient of gamma is read before.
// CHECK-LABEL: @later_summand
func.func @later_summand(%dy: !x, %x: !x, %g: !g, %r: !r) -> (!x, !g) {
  // CHECK-NEXT: %[[N:.*]] = arith.negf
  // CHECK-NEXT: te.rms_norm_backward {{.*}} plus %[[N]]
  %dx, %dg = te.rms_norm_backward %dy, %x, %g, %r : !x, !g, !r
  %n = arith.negf %x : !x
  %sum = arith.addf %n, %dx : !x
  return %sum, %dg : !x, !g
}

// CHECK-LABEL: @gamma_read_before
func.func @gamma_read_before(%dy: !x, %x: !x, %g: !g, %r: !r) -> (!x, !g) {
  // CHECK: te.rms_norm_backward %{{[^:]*}} :
  // CHECK: arith.addf
  %dx, %dg = te.rms_norm_backward %dy, %x, %g, %r : !x, !g, !r
  %m = arith.negf %dg : !g
  %n = arith.negf %x : !x
  %sum = arith.addf %n, %dx : !x
  return %sum, %m : !x, !g
}

// The gradient of gamma may be read right behind the other summand, where the fused op is before.
// CHECK-LABEL: @gamma_read_next
func.func @gamma_read_next(%dy: !x, %x: !x, %g: !g, %r: !r) -> (!x, !g) {
  // CHECK-NEXT: %[[N:.*]] = arith.negf
  // CHECK-NEXT: %{{.*}}, %[[DG:.*]] = te.rms_norm_backward {{.*}} plus %[[N]]
  // CHECK-NEXT: arith.negf %[[DG]]
  %dx, %dg = te.rms_norm_backward %dy, %x, %g, %r : !x, !g, !r
  %n = arith.negf %x : !x
  %m = arith.negf %dg : !g
  %sum = arith.addf %n, %dx : !x
  return %sum, %m : !x, !g
}

// CHECK-LABEL: @gradient_read_elsewhere
func.func @gradient_read_elsewhere(%dy: !x, %x: !x, %g: !g, %r: !r, %other: !x) -> (!x, !x) {
  // CHECK: te.rms_norm_backward %{{[^:]*}} :
  // CHECK: arith.addf
  %dx, %dg = te.rms_norm_backward %dy, %x, %g, %r : !x, !g, !r
  %sum = arith.addf %other, %dx : !x
  return %sum, %dx : !x, !x
}

// A norm that adds already, or that reads the sum as its other summand, does not add it too.
// CHECK-LABEL: @adds_already
func.func @adds_already(%a: !x, %b: !x, %g: !g) -> (!x, !x) {
  // CHECK-NEXT: %[[H:.*]] = arith.addf
  // CHECK-NEXT: te.rms_norm %[[H]], %arg2 plus %arg0
  %h = arith.addf %a, %b : !x
  %y, %s = te.rms_norm %h, %g plus %a : !x : !x, !g sum !x
  return %y, %s : !x, !x
}

// CHECK-LABEL: @summand
func.func @summand(%a: !x, %b: !x, %g: !g) -> (!x, !x) {
  // CHECK-NEXT: %[[H:.*]] = arith.addf
  // CHECK-NEXT: te.rms_norm %arg0, %arg2 plus %[[H]]
  %h = arith.addf %a, %b : !x
  %y, %s = te.rms_norm %a, %g plus %h : !x : !x, !g sum !x
  return %y, %s : !x, !x
}

// A norm in another block may not run at all.
// CHECK-LABEL: @norm_in_branch
func.func @norm_in_branch(%c: i1, %a: !x, %b: !x, %g: !g) -> !x {
  // CHECK-NEXT: arith.addf
  // CHECK: te.rms_norm %{{.*}}, %{{.*}} :
  %h = arith.addf %a, %b : !x
  %y = scf.if %c -> !x {
    %n = te.rms_norm %h, %g : !x, !g
    scf.yield %n : !x
  } else {
    scf.yield %a : !x
  }
  return %y : !x
}

// CHECK-LABEL: @read_in_branch
func.func @read_in_branch(%c: i1, %a: !x, %b: !x, %g: !g) -> (!x, !x) {
  // CHECK-NEXT: arith.addf
  // CHECK: te.rms_norm %{{.*}}, %{{.*}} :
  %h = arith.addf %a, %b : !x
  %z = scf.if %c -> !x {
    %n = arith.negf %h : !x
    scf.yield %n : !x
  } else {
    scf.yield %a : !x
  }
  %y = te.rms_norm %h, %g : !x, !g
  return %y, %z : !x, !x
}

// CHECK-LABEL: @gradient_in_branch
func.func @gradient_in_branch(%c: i1, %dy: !x, %x: !x, %g: !g, %r: !r) -> !x {
  // CHECK-NEXT: te.rms_norm_backward %{{[^:]*}} :
  // CHECK: arith.addf
  %dx, %dg = te.rms_norm_backward %dy, %x, %g, %r : !x, !g, !r
  %y = scf.if %c -> !x {
    %sum = arith.addf %x, %dx : !x
    scf.yield %sum : !x
  } else {
    scf.yield %x : !x
  }
  return %y : !x
}

// A summand of an outer block is known where the gradient is computed.
// CHECK-LABEL: @outer_summand
func.func @outer_summand(%c: i1, %dy: !x, %x: !x, %g: !g, %r: !r) -> !x {
  // CHECK-NEXT: %[[N:.*]] = arith.negf
  // CHECK: te.rms_norm_backward {{.*}} plus %[[N]]
  %n = arith.negf %x : !x
  %y = scf.if %c -> !x {
    %dx, %dg = te.rms_norm_backward %dy, %x, %g, %r : !x, !g, !r
    %sum = arith.addf %n, %dx : !x
    scf.yield %sum : !x
  } else {
    scf.yield %x : !x
  }
  return %y : !x
}

// CHECK-LABEL: @adds_to_gradient_already
func.func @adds_to_gradient_already(%dy: !x, %x: !x, %g: !g, %r: !r, %other: !x) -> !x {
  // CHECK-NEXT: te.rms_norm_backward {{.*}} plus %arg1
  // CHECK-NEXT: arith.addf
  %dx, %dg = te.rms_norm_backward %dy, %x, %g, %r plus %x : !x : !x, !g, !r
  %sum = arith.addf %other, %dx : !x
  return %sum : !x
}

// CHECK-LABEL: @twice_the_gradient
func.func @twice_the_gradient(%dy: !x, %x: !x, %g: !g, %r: !r) -> !x {
  // CHECK-NEXT: te.rms_norm_backward %{{[^:]*}} :
  // CHECK-NEXT: arith.addf
  %dx, %dg = te.rms_norm_backward %dy, %x, %g, %r : !x, !g, !r
  %sum = arith.addf %dx, %dx : !x
  return %sum : !x
}

// What a norm gives may be either summand. A norm that adds before may add after, too.
// CHECK-LABEL: @onto
func.func @onto(%x: !x, %g: !g, %other: !x) -> (!x, !x, !x, !r) {
  // CHECK-NEXT: %[[Y:.*]], %[[R:.*]] = te.rms_norm %arg0, %arg1 onto %arg2 : tensor<256x512xbf16> {epsilon = 9.99999997E-7 : f32}
  // CHECK-NEXT: %[[Z:.*]], %[[S:.*]] = te.layer_norm %arg0, %arg1, %arg1 plus %arg2 : tensor<256x512xbf16> onto %[[Y]] : tensor<256x512xbf16>
  // CHECK-NEXT: return %[[Y]], %[[Z]], %[[S]], %[[R]]
  %n, %r = te.rms_norm %x, %g {epsilon = 1.0e-6 : f32} : !x, !g rsigma !r
  %y = arith.addf %other, %n : !x
  %m, %s = te.layer_norm %x, %g, %g plus %other : !x : !x, !g sum !x
  %z = arith.addf %m, %y : !x
  return %y, %z, %s, %r : !x, !x, !x, !r
}

// The norm that makes a summand adds, not the one that reads the sum.
// CHECK-LABEL: @onto_before_norm
func.func @onto_before_norm(%x: !x, %g: !g, %other: !x) -> (!x, !x) {
  // CHECK-NEXT: %[[Y:.*]] = te.rms_norm %arg0, %arg1 onto %arg2
  // CHECK-NEXT: %[[Z:.*]] = te.rms_norm %[[Y]], %arg1 :
  %n = te.rms_norm %x, %g : !x, !g
  %y = arith.addf %other, %n : !x
  %z = te.rms_norm %y, %g : !x, !g
  return %y, %z : !x, !x
}

// The sum of two norms is added in the later one.
// CHECK-LABEL: @onto_norm
func.func @onto_norm(%x: !x, %g: !g) -> !x {
  // CHECK-NEXT: %[[M:.*]] = te.layer_norm %arg0, %arg1, %arg1 :
  // CHECK-NEXT: %[[Y:.*]] = te.rms_norm %arg0, %arg1 onto %[[M]]
  // CHECK-NEXT: return %[[Y]]
  %n = te.rms_norm %x, %g : !x, !g
  %m = te.layer_norm %x, %g, %g : !x, !g
  %y = arith.addf %n, %m : !x
  return %y : !x
}

// CHECK-LABEL: @onto_read_elsewhere
func.func @onto_read_elsewhere(%x: !x, %g: !g, %other: !x) -> (!x, !x) {
  // CHECK-NEXT: te.rms_norm %{{[^:]*}} :
  // CHECK-NEXT: arith.addf
  %n = te.rms_norm %x, %g : !x, !g
  %y = arith.addf %other, %n : !x
  return %y, %n : !x, !x
}

// CHECK-LABEL: @onto_measured
func.func @onto_measured(%x: !x, %g: !g, %other: !x) -> (!x, tensor<f32>) {
  // CHECK-NEXT: te.rms_norm %{{[^:]*}} : {{.*}} amax
  // CHECK-NEXT: arith.addf
  %n, %a = te.rms_norm %x, %g : !x, !g amax tensor<f32>
  %y = arith.addf %other, %n : !x
  return %y, %a : !x, tensor<f32>
}

// CHECK-LABEL: @onto_twice
func.func @onto_twice(%x: !x, %g: !g, %other: !x) -> (!x, !x) {
  // CHECK-NEXT: te.rms_norm %{{[^:]*}} onto %arg2
  // CHECK-NEXT: arith.addf
  // CHECK-NEXT: te.rms_norm %{{[^:]*}} :
  // CHECK-NEXT: arith.addf
  %n = te.rms_norm %x, %g onto %other : !x : !x, !g
  %y = arith.addf %other, %n : !x
  %m = te.rms_norm %x, %g : !x, !g
  %z = arith.addf %m, %m : !x
  return %y, %z : !x, !x
}

// The statistics are read before the other summand is known.
// CHECK-LABEL: @onto_later_summand
func.func @onto_later_summand(%x: !x, %g: !g) -> (!x, !x, !r) {
  // CHECK-NEXT: %[[N:.*]] = arith.negf %arg0
  // CHECK-NEXT: te.rms_norm {{.*}} onto %[[N]]
  // CHECK-NEXT: te.rms_norm %{{[^:]*}} :
  // CHECK-NEXT: math.absf
  // CHECK-NEXT: arith.negf
  // CHECK-NEXT: arith.addf
  %n, %r = te.rms_norm %x, %g : !x, !g rsigma !r
  %o = arith.negf %x : !x
  %y = arith.addf %n, %o : !x
  %n2, %r2 = te.rms_norm %x, %g : !x, !g rsigma !r
  %s = math.absf %r2 : !r
  %o2 = arith.negf %y : !x
  %z = arith.addf %n2, %o2 : !x
  return %y, %z, %s : !x, !x, !r
}

// CHECK-LABEL: @onto_in_branch
func.func @onto_in_branch(%c: i1, %x: !x, %g: !g) -> !x {
  // CHECK-NEXT: te.rms_norm %{{[^:]*}} :
  // CHECK: arith.addf
  %n = te.rms_norm %x, %g : !x, !g
  %y = scf.if %c -> !x {
    %sum = arith.addf %x, %n : !x
    scf.yield %sum : !x
  } else {
    scf.yield %x : !x
  }
  return %y : !x
}

// A norm that computes the sum that it normalises cannot add it to its result.
// CHECK-LABEL: @onto_own_sum
func.func @onto_own_sum(%a: !x, %b: !x, %g: !g) -> (!x, !x) {
  // CHECK-NEXT: %[[Y:.*]], %[[SUM:.*]] = te.rms_norm %arg0
  // CHECK-NEXT: arith.addf %[[SUM]], %[[Y]]
  // CHECK-NEXT: %[[Z:.*]], %[[SUM2:.*]] = te.rms_norm
  // CHECK-NEXT: arith.addf %[[Z]], %[[SUM2]]
  %h = arith.addf %a, %b : !x
  %y = te.rms_norm %h, %g : !x, !g
  %o = arith.addf %h, %y : !x
  %i = arith.addf %o, %b : !x
  %z = te.rms_norm %i, %g : !x, !g
  %p = arith.addf %z, %i : !x
  return %o, %p : !x, !x
}
