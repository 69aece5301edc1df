// RUN: split-file %s %t
// RUN: te-opt %t/import.mlir --te-verify-stage=stage=import --verify-diagnostics
// RUN: te-opt %t/autodiff.mlir --te-verify-stage=stage=autodiff --verify-diagnostics
// RUN: te-opt %t/quantize.mlir --te-verify-stage=stage=quantize --verify-diagnostics
// RUN: te-opt %t/quantize.mlir --te-verify-stage=stage=fuse --verify-diagnostics
// RUN: te-opt %t/schedule.mlir --te-verify-stage=stage=schedule --verify-diagnostics
// RUN: te-opt %t/lower.mlir --te-verify-stage=stage=lower --verify-diagnostics

//--- import.mlir
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @calls(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+2 {{expected after stage 'import' that every call is inlined (no-calls), but got 'func.call'}}
  // expected-error @below {{(tensor-code), but got 'func.call'}}
  %y = call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
// expected-error @below {{expected after stage 'import' that every shape is static (static-shapes), but got 'func.func'}}
func.func @dynamic(%x: tensor<?xf32>) {
  return
}
func.func @other_op(%x: tensor<4xf32>) {
  // expected-error @below {{(tensor-code), but got 'tensor.bitcast'}}
  %y = tensor.bitcast %x : tensor<4xf32> to tensor<4xi32>
  return
}

//--- autodiff.mlir
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @holds_vjp(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{every te.vjp is replaced by its forward and backward (no-vjp), but got 'te.vjp'}}
  %y, %dx = te.vjp @f(%x) cotangents(%x) wrt [0] : (tensor<4xf32>), (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %dx : tensor<4xf32>
}
// Each op reads one operand that is not saved, and there are no residuals.
func.func @unsaved(%x: tensor<16x16xf32>, %g: tensor<16xf32>, %ids: tensor<16xi32>, %dloss: tensor<f32>) {
  %y = arith.negf %x : tensor<16x16xf32>
  %h = arith.negf %g : tensor<16xf32>
  // expected-error @below {{(saved-operands), but got 'te.linear_dgrad'}}
  %a = te.linear_dgrad %x, %y : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  // expected-error @below {{(saved-operands), but got 'te.linear_wgrad'}}
  %b = te.linear_wgrad %x, %y : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  // expected-error @below {{(saved-operands), but got 'te.activation_backward'}}
  %c = te.activation_backward <relu> %x, %y : tensor<16x16xf32>, tensor<16x16xf32>
  // expected-error @below {{(saved-operands), but got 'te.rms_norm_backward'}}
  %d:2 = te.rms_norm_backward %x, %x, %g, %h : tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>
  // expected-error @below {{(saved-operands), but got 'te.cross_entropy_backward'}}
  %e = te.cross_entropy_backward %dloss, %x, %ids, %h : tensor<16x16xf32>, tensor<16xi32>, tensor<16xf32>
  %tokens = arith.addi %ids, %ids : tensor<16xi32>
  // expected-error @below {{(saved-operands), but got 'te.cross_entropy_weight'}}
  %f = te.cross_entropy_weight of %tokens gradient %dloss vocabulary 16 : tensor<16xi32>
  // A cotangent may be any value.
  %ok = te.linear_dgrad %y, %x : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  return
}
func.func @crosses(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = math.exp %x : tensor<4xf32>
  %z = math.exp %y : tensor<4xf32>
  %r = te.residual %y "exp0.out" : tensor<4xf32>
  %d = arith.negf %r : tensor<4xf32>
  // expected-error @below {{a tensor from before the first te.residual reaches the backward only through te.residual (residual-boundary), but got 'arith.mulf'}}
  %dx = arith.mulf %d, %z : tensor<4xf32>
  return %dx : tensor<4xf32>
}

//--- quantize.mlir
func.func @linear(%x: tensor<16x16xf32>) {
  // expected-error @below {{every te.linear, te.linear_dgrad and te.linear_wgrad is replaced with casts and a GEMM (no-linear), but got 'te.linear'}}
  %y = te.linear %x, %x : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  // expected-error @below {{(no-linear), but got 'te.linear_dgrad'}}
  %a = te.linear_dgrad %x, %x : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  // expected-error @below {{(no-linear), but got 'te.linear_wgrad'}}
  %b = te.linear_wgrad %x, %x : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  return
}

//--- schedule.mlir
// expected-error @below {{every value is a buffer (no-tensors), but got 'func.func'}}
func.func @tensors(%x: tensor<4xf32>) {
  // expected-error @+2 {{functions contain only tert ops and a return (launches-only), but got 'arith.negf'}}
  // expected-error @below {{(no-tensors), but got 'arith.negf'}}
  %y = arith.negf %x : tensor<4xf32>
  return
}

//--- lower.mlir
// expected-error @below {{every op is of the llvm dialect (llvm-only), but got 'func.func'}}
func.func @f() {
  // expected-error @below {{(llvm-only), but got 'func.return'}}
  return
}
