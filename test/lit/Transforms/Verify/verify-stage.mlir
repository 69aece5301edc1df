// RUN: te-opt %s --te-verify-stage=print -o /dev/null | FileCheck %s --check-prefix=TABLE
// RUN: te-opt %s --te-verify-stage=stage=import
// RUN: te-opt %s --te-verify-stage=stage=autodiff
// RUN: not te-opt %s --te-verify-stage=stage=parse 2>&1 | FileCheck %s --check-prefix=STAGE

// STAGE: te-opt: error: expected option 'stage' of 'te-verify-stage' to be one of import, autodiff, quantize, fuse, schedule or lower, but got 'parse'

// TABLE:      after import until schedule: no-calls: every call is inlined
// TABLE-NEXT: after import until fuse: tensor-code: every op is te, elementwise arith or math, a reshape, slice or concat of tensor, a broadcast, transpose or reduce of linalg, or a constant
// TABLE-NEXT: after import until fuse: static-shapes: every shape is static
// TABLE-NEXT: after autodiff until fuse: no-vjp: every te.vjp is replaced by its forward and backward
// TABLE-NEXT: after autodiff: saved-operands: te backward ops read the forward through te.residual, arguments or constants
// TABLE-NEXT: after autodiff: residual-boundary: a tensor from before the first te.residual reaches the backward only through te.residual
// TABLE-NEXT: after quantize until fuse: no-linear: every te.linear, te.linear_dgrad and te.linear_wgrad is replaced with casts and a GEMM
// TABLE-NEXT: after schedule: launches-only: functions contain only tert ops and a return
// TABLE-NEXT: after schedule until lower: no-tensors: every value is a buffer
// TABLE-NEXT: after lower: llvm-only: every op is of the llvm dialect

// Values that the backward may read without te.residual: results of
// the forward that are returned, arguments, constants, scalars, states
// of a parameter update, and all values that a second forward reads.
func.func @crosses(%x: tensor<4xf32>, %k: tensor<f32>, %w: tensor<4xbf16>, %lr: tensor<f32>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>) {
  %two = arith.constant dense<2.0> : tensor<4xf32>
  %master = arith.extf %w : tensor<4xbf16> to tensor<4xf32>
  %scale = math.exp %k : tensor<f32>
  %y = math.exp %x : tensor<4xf32>
  %r = te.residual %y "exp0.out" : tensor<4xf32>
  %d = arith.mulf %r, %two : tensor<4xf32>
  %dx = arith.mulf %d, %x : tensor<4xf32>
  %rs = te.residual %k "k" : tensor<f32>
  %unscaled = arith.divf %rs, %scale : tensor<f32>
  %other = math.exp %x : tensor<4xf32>
  %second = arith.addf %other, %master : tensor<4xf32>
  %new = te.sgd %master, %dx lr %lr : tensor<4xf32>, tensor<4xf32>
  return %y, %dx, %new, %unscaled, %second : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>
}
