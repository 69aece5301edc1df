//===- TEOptimizerOps.td - parameter updates ------------------------------===//

#ifndef TEDIALECT_IR_TEOPTIMIZEROPS_TD
#define TEDIALECT_IR_TEOPTIMIZEROPS_TD

include "TEDialect/IR/TEConstraints.td"

def TE_AdamWOp
    : TE_PureOp<"adamw",
        TE_Axes<(axes "...":$param, "...":$grad, "...":$m, "...":$v), (axes "...":$new_param, "...":$new_m, "...":$new_v)>> {
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

    Constraints:
    1. (adamw-c1) `param` and its result have one type; `grad`, `m`, `v` have its shape; `m` and `v` are both f32 or both bf16.
    2. (adamw-c2) `beta1` and `beta2` are in [0, 1); `epsilon` and `weight_decay` are finite and not negative.

    Example:

    ```mlir
    %p1, %m1, %v1 = te.adamw %p, %g, %m, %v lr %lr step %t {weight_decay = 0.1 : f32}
      : tensor<1024x512xf32>, tensor<1024x512xbf16>
    %p2, %m2, %v2 = te.adamw %p, %g, %mb, %vb lr %lr step %t {seed = 7 : i32}
      : tensor<1024x512xf32>, tensor<1024x512xbf16>, tensor<1024x512xbf16>
    ```
  }];
  let arguments = (ins
    Arg<TE_HPTensor, "parameter">:$param,
    Arg<TE_HPTensor, "its gradient">:$grad,
    Arg<TE_HPTensor, "first moment, in f32 or bf16">:$m,
    Arg<TE_HPTensor, "second moment, in the type of the first">:$v,
    Arg<TE_F32Scalar, "learning rate">:$lr,
    Arg<TE_F32Scalar, "number of this step, from 1">:$step,
    DefaultValuedAttr<F32Attr, "0.9f">:$beta1,
    DefaultValuedAttr<F32Attr, "0.999f">:$beta2,
    DefaultValuedAttr<F32Attr, "1.0e-8f">:$epsilon,
    DefaultValuedAttr<F32Attr, "0.01f">:$weight_decay,
    DefaultValuedAttr<I32Attr, "0">:$seed);
  let results = (outs Res<TE_HPTensor, "new parameter">:$new_param,
                      Res<TE_HPTensor, "new first moment">:$new_m,
                      Res<TE_HPTensor, "new second moment">:$new_v);
  let hasCustomAssemblyFormat = 1;
  let hasFolder = 1;
  let hasVerifier = 1;
}

def TE_SgdOp
    : TE_PureOp<"sgd",
        TE_Axes<(axes "...":$param, "...":$grad, "...":$buffer), (axes "...":$new_param, "...":$new_buffer)>> {
  let summary = "update a parameter with stochastic gradient descent";
  let description = [{
    `u = momentum buffer + g + weight_decay p`, `p' = p - lr u`, in f32. With a
    momentum buffer, `u` is also the buffer's next value. With `nesterov` the
    step looks one update ahead: `p' = p - lr (momentum u + g + weight_decay p)`.
    Gradients are read as by `te.adamw`.

    Constraints:
    1. (sgd-c1) `param` and its result have one type; `grad` has its shape; `buffer` and its result are f32 of that shape.
    2. (sgd-c2) `momentum` is in [0, 1) and only given with a buffer; `nesterov` is only given with a `momentum` above 0; `weight_decay` is finite and not negative.

    Example:

    ```mlir
    %p1, %b1 = te.sgd %p, %g buffer %b lr %lr {momentum = 0.9 : f32, nesterov}
      : tensor<1024xf32>, tensor<1024xf32>
    ```
  }];
  let arguments = (ins
    Arg<TE_HPTensor, "parameter">:$param,
    Arg<TE_HPTensor, "its gradient">:$grad,
    Arg<Optional<TE_F32Tensor>, "momentum buffer">:$buffer,
    Arg<TE_F32Scalar, "learning rate">:$lr,
    DefaultValuedAttr<F32Attr, "0.0f">:$momentum,
    DefaultValuedAttr<F32Attr, "0.0f">:$weight_decay,
    UnitAttr:$nesterov);
  let results = (outs Res<TE_HPTensor, "new parameter">:$new_param,
                      Res<Optional<TE_F32Tensor>, "new buffer">:$new_buffer);
  let hasCustomAssemblyFormat = 1;
  let hasFolder = 1;
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
