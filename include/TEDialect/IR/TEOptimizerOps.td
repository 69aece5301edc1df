//===- TEOptimizerOps.td - parameter updates ------------------------------===//

#ifndef TEDIALECT_IR_TEOPTIMIZEROPS_TD
#define TEDIALECT_IR_TEOPTIMIZEROPS_TD

include "TEDialect/IR/TEConstraints.td"

def TE_MomentTensor : StaticShapeTensorOf<[F32, BF16, F16, F8E4M3FN, F8E5M2]>;

def TE_AdamWOp
    : TE_PureOp<"adamw",
        TE_Axes<(axes "...":$param, "...":$grad, "...":$m, "...":$v), (axes "...":$new_param, "...":$new_m, "...":$new_v)>,
        [AttrSizedOperandSegments, TE_SkippableOpInterface]> {
  let summary = "update a parameter with AdamW";
  let description = [{
    Adam with decoupled weight decay, in f32:
    `m' = beta1 m + (1 - beta1) g`, `v' = beta2 v + (1 - beta2) g²`,
    `p' = p - lr (m̂ / (sqrt(v̂) + epsilon) + weight_decay p)` with
    `m̂ = m' / (1 - beta1^step)`, `v̂ = v' / (1 - beta2^step)`; `step` is 1 at
    the first update. The update reads a gradient that was only widened to f32
    in its original type, because widening is exact.

    Moments in bf16 take half the memory. `p'` is computed before they are
    rounded, and they are rounded stochastically: rounded to nearest, `v` could
    not follow small gradients. The random bits depend on `seed`, `step` and the
    position of the element. Give each parameter a `seed` of its own.

    Moments in 8 bits take a quarter. `m` is f8E4M3FN and `v` is f8E5M2, and both are
    multiplied by `scales`, powers of two: of each 128 consecutive elements, first
    those of `m`, then those of `v`. They are rounded stochastically, too, but a `v`
    above 0 never to 0, because `m` would be divided by it. The
    [kernel](kernels.md) says how.

    With `grad_scale`, `g` is the f32 gradient multiplied by it, in f32, such as by
    the factor of `te.clip_factor`. Without it, nothing is multiplied.

    If `skip` is exactly 1.0, the update does not happen: every result is the
    operand that it updates, and nothing else is read. With any other value, the
    op updates as if there were no `skip`. Thus one program updates after the last
    of several [micro-batches](../guides/micro_batches.md).

    Constraints:
    1. (adamw-c1) `param` and its result have one type; `grad`, `m`, `v` have its shape; `m` and `v` are both f32 or both bf16, or f8E4M3FN and f8E5M2; their results have their types.
    2. (adamw-c2) 8-bit moments belong to a parameter of a static shape and have `scales` and a result for the new ones, f32 `[2, blocks of 128 elements]`; others have neither.
    3. (adamw-c3) `beta1` and `beta2` are in [0, 1); `epsilon` and `weight_decay` are finite and not negative.

    Example:

    ```mlir
    %p1, %m1, %v1 = te.adamw %p, %g, %m, %v lr %lr step %t {weight_decay = 0.1 : f32}
      : tensor<1024x512xf32>, tensor<1024x512xbf16>
    %p2, %m2, %v2 = te.adamw %p, %g, %mb, %vb lr %lr step %t {seed = 7 : i32}
      : tensor<1024x512xf32>, tensor<1024x512xbf16>, tensor<1024x512xbf16>
    %p3, %m3, %v3 = te.adamw %p, %g, %m, %v lr %lr step %t grad_scale %factor
      : tensor<1024x512xf32>, tensor<1024x512xbf16>
    %p4, %m4, %v4, %s4 = te.adamw %p, %g, %m8, %v8 scales %s lr %lr step %t
      : tensor<1024x512xf32>, tensor<1024x512xbf16>, tensor<1024x512xf8E4M3FN>
    %p5, %m5, %v5 = te.adamw %p, %sum, %m, %v lr %lr step %t unless %skip
      : tensor<1024x512xf32>, tensor<1024x512xf32>
    ```
  }];
  let arguments = (ins
    Arg<TE_HPTensor, "parameter">:$param,
    Arg<TE_HPTensor, "its gradient">:$grad,
    Arg<TE_MomentTensor, "first moment">:$m,
    Arg<TE_MomentTensor, "second moment">:$v,
    Arg<Optional<TE_F32Tensor>, "scales of 8-bit moments">:$scales,
    Arg<TE_F32Scalar, "learning rate">:$lr,
    Arg<TE_F32Scalar, "number of this step, from 1">:$step,
    Arg<Optional<TE_F32Scalar>, "factor of the gradient">:$grad_scale,
    Arg<Optional<TE_F32Scalar>, "1.0 keeps everything as it is">:$skip,
    DefaultValuedAttr<F32Attr, "0.9f">:$beta1,
    DefaultValuedAttr<F32Attr, "0.999f">:$beta2,
    DefaultValuedAttr<F32Attr, "1.0e-8f">:$epsilon,
    DefaultValuedAttr<F32Attr, "0.01f">:$weight_decay,
    DefaultValuedAttr<I32Attr, "0">:$seed);
  let results = (outs Res<TE_HPTensor, "new parameter">:$new_param,
                      Res<TE_MomentTensor, "new first moment">:$new_m,
                      Res<TE_MomentTensor, "new second moment">:$new_v,
                      Res<Optional<TE_F32Tensor>, "new scales">:$new_scales);
  let extraClassDeclaration = [{
    ::mlir::Value getCached(unsigned index);
  }];
  let hasCustomAssemblyFormat = 1;
  let hasFolder = 1;
  let hasVerifier = 1;
}

def TE_SgdOp
    : TE_PureOp<"sgd",
        TE_Axes<(axes "...":$param, "...":$grad, "...":$buffer), (axes "...":$new_param, "...":$new_buffer)>,
        [AttrSizedOperandSegments, TE_SkippableOpInterface]> {
  let summary = "update a parameter with stochastic gradient descent";
  let description = [{
    `u = momentum buffer + g + weight_decay p`, `p' = p - lr u`, in f32. With a
    momentum buffer, `u` is also the buffer's next value. With `nesterov` the
    step looks one update ahead: `p' = p - lr (momentum u + g + weight_decay p)`.
    Gradients are read, and multiplied by `grad_scale`, as by `te.adamw`, and
    `skip` has the same meaning.

    Constraints:
    1. (sgd-c1) `param` and its result have one type; `grad` has its shape; `buffer` and its result are f32 of that shape.
    2. (sgd-c2) `momentum` is in [0, 1) and only given with a buffer; `nesterov` is only given with a `momentum` above 0; `weight_decay` is finite and not negative.

    Example:

    ```mlir
    %p1, %b1 = te.sgd %p, %g buffer %b lr %lr {momentum = 0.9 : f32, nesterov}
      : tensor<1024xf32>, tensor<1024xf32>
    %p2 = te.sgd %p, %g lr %lr grad_scale %factor : tensor<1024xf32>, tensor<1024xf32>
    %p3 = te.sgd %p, %g lr %lr unless %skip : tensor<1024xf32>, tensor<1024xf32>
    ```
  }];
  let arguments = (ins
    Arg<TE_HPTensor, "parameter">:$param,
    Arg<TE_HPTensor, "its gradient">:$grad,
    Arg<Optional<TE_F32Tensor>, "momentum buffer">:$buffer,
    Arg<TE_F32Scalar, "learning rate">:$lr,
    Arg<Optional<TE_F32Scalar>, "factor of the gradient">:$grad_scale,
    Arg<Optional<TE_F32Scalar>, "1.0 keeps everything as it is">:$skip,
    DefaultValuedAttr<F32Attr, "0.0f">:$momentum,
    DefaultValuedAttr<F32Attr, "0.0f">:$weight_decay,
    UnitAttr:$nesterov);
  let results = (outs Res<TE_HPTensor, "new parameter">:$new_param,
                      Res<Optional<TE_F32Tensor>, "new buffer">:$new_buffer);
  let extraClassDeclaration = [{
    ::mlir::Value getCached(unsigned index) {
      return index == 0 ? getParam() : getBuffer();
    }
  }];
  let hasCustomAssemblyFormat = 1;
  let hasFolder = 1;
  let hasVerifier = 1;
}

def TE_SumOfSquaresOp
    : TE_PureOp<"sum_of_squares",
        TE_NoAxes, [AttrSizedOperandSegments, TE_SkippableOpInterface]> {
  let summary = "add the squares of tensors to a sum";
  let description = [{
    `new_sum = sum + Σ x0² + Σ x1² + ...` in f32, added in this order; `sum` is 0 if
    it is not given. With all gradients, it is the square of their global norm, and 32
    of them are one launch. The order of the sum is part of the definition of the
    [kernel](kernels.md), and depends neither on the backend nor on the GPU. A square
    that overflows is infinite, and NaN stays NaN. If `skip` is exactly 1.0, nothing
    else is read, and `new_sum` is 0.

    If ranks have parts of the tensors, such as those of sharded weights, `new_sum` is
    one rank's summand: sum it with `te.all_reduce` before it is read. All tensors, also
    those of `sum`, must be split over the same axes of the mesh, so that no square is
    counted twice; two such sums may be added after that. A gradient that is itself one
    rank's summand must be summed before it is squared. `te-verify-collectives` refuses
    programs that break these rules.

    Constraints:
    1. (sum_of_squares-c1) There are one or more tensors.

    Example:

    ```mlir
    %s1 = te.sum_of_squares %g1, %g2 : tensor<1024x512xbf16>, tensor<512xf32>
    %s2 = te.sum_of_squares %g3 plus %s1 : tensor<512xf32>
    %s3 = te.sum_of_squares %g3 plus %s1 unless %skip : tensor<512xf32>
    ```
  }];
  let arguments = (ins Arg<Variadic<TE_HPTensor>, "one or more, of any shapes">:$x,
                       Arg<Optional<TE_F32Scalar>, "the sum so far">:$sum,
                       Arg<Optional<TE_F32Scalar>, "1.0 sums nothing">:$skip);
  let results = (outs Res<TE_F32Scalar, "the sum with the squares of all x">:$new_sum);
  let assemblyFormat = "$x (`plus` $sum^)? (`unless` $skip^)? attr-dict `:` type($x)";
  let hasVerifier = 1;
}

def TE_ClipFactorOp
    : TE_PureOp<"clip_factor",
        TE_NoAxes> {
  let summary = "compute a norm, and the factor that clips gradients by it";
  let description = [{
    `norm = sqrt(sum)` and `factor = min(1, max_norm / (norm + 1e-6))` in f32, as
    `torch.nn.utils.clip_grad_norm_` computes them. NaN gives NaN, as does an infinite
    norm with an infinite `max_norm`; otherwise the factor of an infinite norm
    is 0. The `grad_scale` of `te.adamw` and `te.sgd` takes the factor, so that
    gradients are clipped without a pass of their own and without waiting for the
    host. `te-verify-collectives` refuses a `sum` that is one rank's summand.

    Constraints:
    1. (clip_factor-c1) `max_norm` is above 0. It may be infinite.

    Example:

    ```mlir
    %norm, %factor = te.clip_factor %sum {max_norm = 1.0 : f32}
    ```
  }];
  let arguments = (ins Arg<TE_F32Scalar, "sum of squares">:$sum,
                       F32Attr:$max_norm);
  let results = (outs Res<TE_F32Scalar, "root of the sum">:$norm,
                      Res<TE_F32Scalar, "at most 1">:$factor);
  let assemblyFormat = "$sum attr-dict";
  let hasVerifier = 1;
}

def TE_ZeroUnlessOp
    : TE_PureOp<"zero_unless",
        TE_Axes<(axes "...":$x), (axes "...":$y)>,
        [AllTypesMatch<["x", "y"]>, TE_SkippableOpInterface]> {
  let summary = "clear an accumulator unless a flag is set";
  let description = [{
    If `skip` is exactly 1.0, `y = x`; otherwise, `y` is zeros for any value of
    `x`. The flag is read on the device. `te-accumulate-main-grads` inserts
    the op before the first GEMM that adds to a gradient which is accumulated
    over micro-batches. There `y` is the next state of `x`, so it is written in
    place.

    Example:

    ```mlir
    %y = te.zero_unless %x, %skip : tensor<1024x512xf32>
    ```
  }];
  let arguments = (ins Arg<TE_HPTensor, "the sum so far">:$x,
                       Arg<TE_F32Scalar, "1.0 keeps the sum">:$skip);
  let results = (outs Res<TE_HPTensor, "the sum or zeros">:$y);
  let assemblyFormat = "$x `,` $skip attr-dict `:` type($x)";
}

#endif // TEDIALECT_IR_TEOPTIMIZEROPS_TD
