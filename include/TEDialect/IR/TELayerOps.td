//===- TELayerOps.td - norm, activation, embedding, loss ------------------===//

#ifndef TEDIALECT_IR_TELAYEROPS_TD
#define TEDIALECT_IR_TELAYEROPS_TD

include "TEDialect/IR/TEConstraints.td"
include "mlir/IR/OpAsmInterface.td"

def TE_RmsNormOp
    : TE_PureOp<"rms_norm",
        TE_Axes<(axes "m n":$x, "n":$gamma, "m n":$addend, "m n":$base), (axes "m n":$y, "m":$rsigma, "":$amax, "m n":$sum), /*sums=*/[], /*whole=*/["n"], /*zeros=*/["x", "addend", "base"]>,
        [AttrSizedOperandSegments, AttrSizedResultSegments, AllTypesMatch<["x", "y"]>,
        DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>,
         TE_MeasuresAmax<[[0, 2]]>]> {
  let summary = "normalise each row by its root mean square";
  let description = [{
    `y = gamma * (rsigma * x)`, where `rsigma = 1 / sqrt(mean(x²) + epsilon)` for
    each row. The arithmetic is in f32, and `y` is rounded once. With
    `zero_centered_gamma`, `gamma` is replaced by `gamma + 1`. `rsigma` is a result
    if the backward needs it. `amax`, of the rounded `y`, is a result if
    `te-fuse-amax` found a reader. With `plus`, which `te-fuse-norm-add` adds, the
    rows are those of `sum = x + addend`, rounded to the type of `x`. With `onto`,
    which that pass adds too, `y` is `base` plus the rounded norm, rounded again.

    Constraints:
    1. (rms_norm-c1) `x` and `y` have one type, and `gamma` is `[columns]` of its element type.
    2. (rms_norm-c2) `rsigma` is `[rows]`.
    3. (rms_norm-c3) `epsilon` is finite and not negative.
    4. (rms_norm-c4) `addend` and `sum` have the type of `x`; both are given or neither is.
    5. (rms_norm-c5) `base` has the type of `x`.

    Example:

    ```mlir
    %y = te.rms_norm %x, %gamma {epsilon = 1.0e-5 : f32} : tensor<256x512xbf16>, tensor<512xbf16>
    ```

    ```mlir
    %y, %sum = te.rms_norm %x, %gamma plus %residual : tensor<256x512xbf16>
      : tensor<256x512xbf16>, tensor<512xbf16> sum tensor<256x512xbf16>
    ```

    ```mlir
    %y = te.rms_norm %x, %gamma onto %residual : tensor<256x512xbf16> : tensor<256x512xbf16>, tensor<512xbf16>
    ```
  }];
  let arguments = (ins
    Arg<TE_HPMatrix, "[rows, columns]">:$x,
    Arg<TE_HPVector, "[columns]">:$gamma,
    Arg<Optional<TE_HPMatrix>, "added to x">:$addend,
    Arg<Optional<TE_HPMatrix>, "added to the norm">:$base,
    DefaultValuedAttr<F32Attr, "1.0e-5f">:$epsilon,
    DefaultValuedAttr<BoolAttr, "false">:$zero_centered_gamma);
  let results = (outs
    Res<TE_HPMatrix, "type of x">:$y,
    Res<Optional<TE_F32Vector>, "[rows]">:$rsigma,
    Res<Optional<TE_F32Scalar>, "max |y|">:$amax,
    Res<Optional<TE_HPMatrix>, "x + addend">:$sum);
  let assemblyFormat = [{
    $x `,` $gamma (`plus` $addend^ `:` type($addend))? (`onto` $base^ `:` type($base))?
    attr-dict `:` type($x) `,` type($gamma)
    (`rsigma` type($rsigma)^)? (`amax` type($amax)^)? (`sum` type($sum)^)?
  }];
  let hasVerifier = 1;
}

def TE_RmsNormBackwardOp
    : TE_BackwardOp<"rms_norm_backward",
        TE_Axes<(axes "m n":$dy, "m n":$x, "n":$gamma, "m":$rsigma, "m n":$addend), (axes "m n":$dx, "n":$dgamma), sums = ["m"], whole = ["n"]>,
        /*saved=*/["x", "gamma", "rsigma"],
        [AllTypesMatch<["dy", "x", "dx"]>, AllTypesMatch<["gamma", "dgamma"]>, TE_MeasuresAmax<[[0, 2]]>]> {
  let summary = "compute the gradients of te.rms_norm";
  let description = [{
    Let `h = rsigma * x`, and `g = gamma`, or `gamma + 1` with
    `zero_centered_gamma`. Then `dx = rsigma * (g dy - h * mean(g dy h))` for each
    row, and `dgamma` is the sum of `dy h` over the rows. Both are accumulated in
    f32 and rounded once. With `plus`, which `te-fuse-norm-add` adds, `addend` is
    added to the rounded `dx`, and the sum is rounded. `amax` is that of the stored `dx`.

    Constraints:
    1. (rms_norm_backward-c1) `dy`, `x`, `dx` have one type; `gamma`, `dgamma` are `[columns]`; `rsigma` is `[rows]`.
    2. (rms_norm_backward-c2) `addend` has the type of `x`.

    Example:

    ```mlir
    %dx, %dgamma = te.rms_norm_backward %dy, %x, %gamma, %rsigma
      : tensor<256x512xbf16>, tensor<512xbf16>, tensor<256xf32>
    ```

    ```mlir
    %dx, %dgamma = te.rms_norm_backward %dy, %x, %gamma, %rsigma plus %residual : tensor<256x512xbf16>
      : tensor<256x512xbf16>, tensor<512xbf16>, tensor<256xf32>
    ```
  }];
  let arguments = (ins
    Arg<TE_HPMatrix, "[rows, columns]">:$dy,
    Arg<TE_HPMatrix, "input of the forward">:$x,
    Arg<TE_HPVector, "[columns]">:$gamma,
    Arg<TE_F32Vector, "[rows]">:$rsigma,
    Arg<Optional<TE_HPMatrix>, "added to dx">:$addend,
    DefaultValuedAttr<BoolAttr, "false">:$zero_centered_gamma);
  let results = (outs Res<TE_HPMatrix, "type of x">:$dx,
                      Res<TE_HPVector, "type of gamma">:$dgamma,
                      Res<Optional<TE_F32Scalar>, "max |dx|">:$amax);
  let assemblyFormat = [{
    $dy `,` $x `,` $gamma `,` $rsigma (`plus` $addend^ `:` type($addend))? attr-dict
    `:` type($x) `,` type($gamma) `,` type($rsigma) (`amax` type($amax)^)?
  }];
  let hasVerifier = 1;
}

def TE_LayerNormOp
    : TE_PureOp<"layer_norm",
        TE_Axes<(axes "m n":$x, "n":$gamma, "n":$beta, "m n":$addend, "m n":$base), (axes "m n":$y, "m":$mu, "m":$rsigma, "":$amax, "m n":$sum), /*sums=*/[], /*whole=*/["n"], /*zeros=*/["x", "beta", "addend", "base"]>,
        [AttrSizedOperandSegments, AttrSizedResultSegments,
        AllTypesMatch<["x", "y"]>, AllTypesMatch<["gamma", "beta"]>,
        DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>,
         TE_MeasuresAmax<[[0, 3]]>]> {
  let summary = "normalise each row by its mean and standard deviation";
  let description = [{
    `y = gamma * (rsigma * (x - mu)) + beta`, where `mu = mean(x)` and
    `rsigma = 1 / sqrt(mean((x - mu)²) + epsilon)` for each row. The arithmetic is
    in f32, and `y` is rounded once. With `zero_centered_gamma`, `gamma` is replaced
    by `gamma + 1`. `mu` and `rsigma` are results if the backward needs them.
    `amax`, of the rounded `y`, is a result if `te-fuse-amax` found a reader. With
    `plus`, which `te-fuse-norm-add` adds, the rows are those of `sum = x + addend`,
    rounded to the type of `x`. With `onto`, which that pass adds too, `y` is `base`
    plus the rounded norm, rounded again.

    Constraints:
    1. (layer_norm-c1) `x` and `y` have one type, and `gamma` and `beta` are `[columns]` of its element type.
    2. (layer_norm-c2) `mu` and `rsigma` are `[rows]`; both are results or neither is.
    3. (layer_norm-c3) `epsilon` is finite and not negative.
    4. (layer_norm-c4) `addend` and `sum` have the type of `x`; both are given or neither is.
    5. (layer_norm-c5) `base` has the type of `x`.

    Example:

    ```mlir
    %y = te.layer_norm %x, %gamma, %beta {epsilon = 1.0e-5 : f32} : tensor<256x512xbf16>, tensor<512xbf16>
    ```
  }];
  let arguments = (ins
    Arg<TE_HPMatrix, "[rows, columns]">:$x,
    Arg<TE_HPVector, "[columns]">:$gamma,
    Arg<TE_HPVector, "[columns]">:$beta,
    Arg<Optional<TE_HPMatrix>, "added to x">:$addend,
    Arg<Optional<TE_HPMatrix>, "added to the norm">:$base,
    DefaultValuedAttr<F32Attr, "1.0e-5f">:$epsilon,
    DefaultValuedAttr<BoolAttr, "false">:$zero_centered_gamma);
  let results = (outs
    Res<TE_HPMatrix, "type of x">:$y,
    Res<Optional<TE_F32Vector>, "[rows]">:$mu,
    Res<Optional<TE_F32Vector>, "[rows]">:$rsigma,
    Res<Optional<TE_F32Scalar>, "max |y|">:$amax,
    Res<Optional<TE_HPMatrix>, "x + addend">:$sum);
  let assemblyFormat = [{
    $x `,` $gamma `,` $beta (`plus` $addend^ `:` type($addend))? (`onto` $base^ `:` type($base))?
    attr-dict `:` type($x) `,` type($gamma)
    (`mu` type($mu)^)? (`rsigma` type($rsigma)^)? (`amax` type($amax)^)? (`sum` type($sum)^)?
  }];
  let hasVerifier = 1;
}

def TE_LayerNormBackwardOp
    : TE_BackwardOp<"layer_norm_backward",
        TE_Axes<(axes "m n":$dy, "m n":$x, "n":$gamma, "m":$mu, "m":$rsigma, "m n":$addend), (axes "m n":$dx, "n":$dgamma, "n":$dbeta), sums = ["m"], whole = ["n"]>,
        /*saved=*/["x", "gamma", "mu", "rsigma"],
        [AllTypesMatch<["dy", "x", "dx"]>,
         AllTypesMatch<["gamma", "dgamma", "dbeta"]>, AllTypesMatch<["mu", "rsigma"]>, TE_MeasuresAmax<[[0, 3]]>]> {
  let summary = "compute the gradients of te.layer_norm";
  let description = [{
    Let `h = rsigma * (x - mu)`, and `g = gamma`, or `gamma + 1` with
    `zero_centered_gamma`. Then
    `dx = rsigma * (g dy - mean(g dy) - h * mean(g dy h))` for each row, `dgamma` is
    the sum of `dy h` over the rows, and `dbeta` is the sum of `dy` over the rows.
    All are accumulated in f32 and rounded once. With `plus`, which
    `te-fuse-norm-add` adds, `addend` is added to the rounded `dx`, and the sum is
    rounded. `amax` is that of the stored `dx`.

    Constraints:
    1. (layer_norm_backward-c1) `dy`, `x`, `dx` have one type; `gamma`, `dgamma`, `dbeta` are `[columns]`; `mu`, `rsigma` are `[rows]`.
    2. (layer_norm_backward-c2) `addend` has the type of `x`.

    Example:

    ```mlir
    %dx, %dgamma, %dbeta = te.layer_norm_backward %dy, %x, %gamma, %mu, %rsigma
      : tensor<256x512xbf16>, tensor<512xbf16>, tensor<256xf32>
    ```
  }];
  let arguments = (ins
    Arg<TE_HPMatrix, "[rows, columns]">:$dy,
    Arg<TE_HPMatrix, "input of the forward">:$x,
    Arg<TE_HPVector, "[columns]">:$gamma,
    Arg<TE_F32Vector, "[rows]">:$mu,
    Arg<TE_F32Vector, "[rows]">:$rsigma,
    Arg<Optional<TE_HPMatrix>, "added to dx">:$addend,
    DefaultValuedAttr<BoolAttr, "false">:$zero_centered_gamma);
  let results = (outs Res<TE_HPMatrix, "type of x">:$dx,
                      Res<TE_HPVector, "type of gamma">:$dgamma,
                      Res<TE_HPVector, "type of gamma">:$dbeta,
                      Res<Optional<TE_F32Scalar>, "max |dx|">:$amax);
  let assemblyFormat = [{
    $dy `,` $x `,` $gamma `,` $mu `,` $rsigma (`plus` $addend^ `:` type($addend))? attr-dict
    `:` type($x) `,` type($gamma) `,` type($rsigma) (`amax` type($amax)^)?
  }];
  let hasVerifier = 1;
}

/// The parameters of clamped_swiglu, which each op with an activation kind has.
defvar TE_ClampAttrs = (ins
  DefaultValuedAttr<F32Attr, "7.0f">:$limit,
  DefaultValuedAttr<F32Attr, "1.702f">:$alpha,
  DefaultValuedAttr<F32Attr, "1.0f">:$offset);

def TE_ActivationOp
    : TE_PureOp<"activation",
        TE_AxesIf<"isGated(getKind()) && !getGate()",
        (axes "m 2n":$x), (axes "m n":$y),
        (axes "m n":$x, "m n":$gate), (axes "m n":$y), /*sums=*/[], /*zeros=*/["x", "gate"]>,
        [DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>,
         TE_MeasuresAmax<[[0, 1]]>]> {
  let summary = "apply an activation function";
  let description = [{
    `y = act(x)` in f32, rounded once. Gated kinds compute `act(a) * b`, where
    `x = [a | b]` is `[rows, 2 columns]`. With `gate`, `a` is `x` and `b` is `gate`,
    for example the results of two linear layers. In both cases, `act(a)` is not
    rounded before the multiplication.

    | kind | gated kind | `act(a)` |
    |---|---|---|
    | `gelu` | `geglu` | `a (0.5 + 0.5 tanh(0.79788456 a + 0.03567741 a³))` |
    | `gelu_erf` | `geglu_erf` | `a Phi(a)`, `Phi(a) = (1 + erf(a / sqrt 2)) / 2` |
    | `silu` | `swiglu` | `a sigmoid(a)` |
    | `qgelu` | `qgeglu` | `a sigmoid(1.702 a)` |
    | `relu` | `reglu` | `max(a, 0)` |
    | `srelu` | `sreglu` | `max(a, 0)²` |
    | | `glu` | `sigmoid(a)` |
    | | `clamped_swiglu` | `c sigmoid(alpha c)`, `c = min(a, limit)`, times `min(max(b, -limit), limit) + offset` |

    `amax`, of the rounded `y`, is a result if `te-fuse-amax` found a reader.

    Constraints:
    1. (activation-c1) `y` has the type of `x`, with half the columns for gated kinds without `gate`.
    2. (activation-c2) `limit` is finite and not negative, `alpha` and `offset` are finite; kinds other than `clamped_swiglu` have the defaults.
    3. (activation-c3) `gate` has the type of `x`, and is only given for gated kinds.

    Example:

    ```mlir
    %y = te.activation <swiglu> %x : tensor<256x1024xbf16> -> tensor<256x512xbf16>
    %w = te.activation <swiglu> %a, %b : tensor<256x512xbf16>, tensor<256x512xbf16> -> tensor<256x512xbf16>
    %z = te.activation <clamped_swiglu> %x {limit = 5.0 : f32} : tensor<256x1024xbf16> -> tensor<256x512xbf16>
    ```
  }];
  let arguments = !con((ins TE_ActivationKindAttr:$kind,
                            Arg<TE_HPMatrix, "[rows, columns]">:$x,
                            Arg<Optional<TE_HPMatrix>, "second half">:$gate),
                       TE_ClampAttrs);
  let results = (outs Res<TE_HPMatrix, "activated">:$y,
                      Res<Optional<TE_F32Scalar>, "max |y|">:$amax);
  let assemblyFormat = [{
    $kind $x (`,` $gate^)? attr-dict `:` type($x) (`,` type($gate)^)?
    `->` type($y) (`amax` type($amax)^)?
  }];
  let hasVerifier = 1;
}

def TE_ActivationBackwardOp
    : TE_BackwardOp<"activation_backward",
        TE_AxesIf<"isGated(getKind()) && !getGate()",
        (axes "m n":$dy, "m 2n":$x), (axes "m 2n":$dx),
        (axes "m n":$dy, "m n":$x, "m n":$gate), (axes "m n":$dx, "m n":$dgate), /*sums=*/[], /*zeros=*/["dy", "x", "gate"]>,
        /*saved=*/["x", "gate"],
        [AttrSizedResultSegments,
                                        AllTypesMatch<["x", "dx"]>,
         TE_MeasuresAmax<[[0, 2], [1, 3]]>]> {
  let summary = "compute the gradient of an activation function";
  let description = [{
    `dx = dy * act'(x)` in f32, rounded once. For gated kinds with `x = [a | b]`,
    `dx = [(act'(a) dy) b | act(a) dy]`. With `gate`, the two halves are the
    results `dx` and `dgate`. The gradient is 0 for elements of `a` or `b` that
    `clamped_swiglu` clamps, and for `relu` and `srelu` at 0.

    Constraints:
    1. (activation_backward-c1) `dx` and `dy` have the type of `x`; for gated kinds without `gate`, `dy` has half the columns.
    2. (activation_backward-c2) activation-c2 applies.
    3. (activation_backward-c3) activation-c3 applies; `dgate` is a result exactly with `gate`, and `dgate_amax` only with `gate`.

    Example:

    ```mlir
    %dx = te.activation_backward <swiglu> %dy, %x : tensor<256x512xbf16>, tensor<256x1024xbf16>
    %da, %db = te.activation_backward <swiglu> %dy, %a, %b
      : tensor<256x512xbf16>, tensor<256x512xbf16>, tensor<256x512xbf16> gate tensor<256x512xbf16>
    ```
  }];
  let arguments = !con((ins TE_ActivationKindAttr:$kind,
                            Arg<TE_HPMatrix, "cotangent of the result">:$dy,
                            Arg<TE_HPMatrix, "input of the forward">:$x,
                            Arg<Optional<TE_HPMatrix>, "its second half">:$gate),
                       TE_ClampAttrs);
  let results = (outs Res<TE_HPMatrix, "type of x">:$dx,
                      Res<Optional<TE_HPMatrix>, "type of gate">:$dgate,
                      Res<Optional<TE_F32Scalar>, "max |dx|">:$amax,
                      Res<Optional<TE_F32Scalar>, "max |dgate|">:$dgate_amax);
  let assemblyFormat = [{
    $kind $dy `,` $x (`,` $gate^)? attr-dict
    `:` type($dy) `,` type($x) (`,` type($gate)^)? (`gate` type($dgate)^)?
    (`amax` type($amax)^)? (`gate_amax` type($dgate_amax)^)?
  }];
  let hasVerifier = 1;
}

def TE_ActivationQuantizeOp
    : TE_PureOp<"activation_quantize", TE_NoAxes,
        [AttrSizedOperandSegments, AttrSizedResultSegments,
         DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "apply an activation function and quantise the result";
  let description = [{
    Computes `te.activation` followed by `te.quantize`, without storing the
    high-precision result. The bits are those of the two ops, because the result of
    the activation is rounded to the element type of `x` before it is quantised.
    `scale` and `amax` are those of te.quantize. `te-fuse-activation-quantize`
    creates the op.

    Constraints:
    1. (activation_quantize-c1) one or two `block_1x128` or `per_tensor` results of the activated shape that differ only in `contract`.
    2. (activation_quantize-c2) `amax_epsilon` is finite, not negative, and only given for `block_1x128`.
    3. (activation_quantize-c3) activation-c2 applies.
    4. (activation_quantize-c4) activation-c3 applies.
    5. (activation_quantize-c5) `scale` is given exactly when the scheme is `per_tensor`, and `amax` only then.

    Example:

    ```mlir
    %row = te.activation_quantize <swiglu> %x : tensor<256x1024xbf16>
      -> !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 1>
    ```

    ```mlir
    %q, %amax = te.activation_quantize <gelu> %h scale %scale : tensor<256x512xbf16>
      -> !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1> amax tensor<f32>
    ```
  }];
  let arguments = !con((ins TE_ActivationKindAttr:$kind,
                            Arg<TE_HPMatrix, "[rows, columns]">:$x,
                            Arg<Optional<TE_HPMatrix>, "second half">:$gate,
                            Arg<Optional<TE_F32Scalar>, "per-tensor scale">:$scale),
                       TE_ClampAttrs,
                       (ins DefaultValuedAttr<F32Attr, "0.0f">:$amax_epsilon));
  let results = (outs Res<Variadic<TE_WholeScaled>, "the usages">:$usages,
                      Res<Optional<TE_F32Scalar>, "max |y|">:$amax);
  let assemblyFormat = [{
    $kind $x (`,` $gate^)? (`scale` $scale^)? attr-dict `:` type($x)
    (`,` type($gate)^)? `->` type($usages) (`amax` type($amax)^)?
  }];
  let hasVerifier = 1;
}

def TE_ActivationBackwardQuantizeOp
    : TE_PureOp<"activation_backward_quantize", TE_NoAxes,
        [AttrSizedOperandSegments, AttrSizedResultSegments,
         DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "compute and quantise the gradient of an activation function";
  let description = [{
    Computes `te.activation_backward` followed by `te.quantize`, without storing the
    high-precision gradient. The bits are those of the two ops. `scale` and `amax` are
    those of te.quantize. With `gate` there are two gradients, as in
    te.activation_backward, and each is cast with a scale of its own.
    `te-fuse-activation-quantize` creates the op.

    Constraints:
    1. (activation_backward_quantize-c1) one or two `block_1x128` or `per_tensor` results of the shape of `x` that differ only in `contract`.
    2. (activation_backward_quantize-c2) `dy` has the type of `x`, with half the columns for gated kinds without `gate`.
    3. (activation_backward_quantize-c3) `amax_epsilon` is finite, not negative, and only given for `block_1x128`.
    4. (activation_backward_quantize-c4) activation-c2 and activation-c3 apply.
    5. (activation_backward_quantize-c5) `scale` is given exactly when the scheme is `per_tensor`, and `amax` only then.
    6. (activation_backward_quantize-c6) `gate_usages` are given exactly with `gate`; they have the types of `usages`, except that either may lack one of the two.
    7. (activation_backward_quantize-c7) `gate_scale` is given exactly with `gate` and `scale`, and `gate_amax` only then.

    Example:

    ```mlir
    %row = te.activation_backward_quantize <swiglu> %dy, %x
      : tensor<256x512xbf16>, tensor<256x1024xbf16>
      -> !te.scaled<256x1024xf8E4M3FN, block_1x128, pow2, contract = 1>
    ```

    ```mlir
    %q, %g, %amax, %gate_amax = te.activation_backward_quantize <swiglu> %dy, %a, %b
      scale %scale gate_scale %gate_scale
      : tensor<256x512xbf16>, tensor<256x512xbf16>, tensor<256x512xbf16>
      -> !te.scaled<256x512xf8E5M2, per_tensor, contract = 1>
         gate !te.scaled<256x512xf8E5M2, per_tensor, contract = 1>
         amax tensor<f32> gate_amax tensor<f32>
    ```
  }];
  let arguments = !con((ins TE_ActivationKindAttr:$kind,
                            Arg<TE_HPMatrix, "cotangent of the result">:$dy,
                            Arg<TE_HPMatrix, "input of the forward">:$x,
                            Arg<Optional<TE_HPMatrix>, "second half of the input">:$gate,
                            Arg<Optional<TE_F32Scalar>, "per-tensor scale">:$scale,
                            Arg<Optional<TE_F32Scalar>, "that of the second gradient">:$gate_scale),
                       TE_ClampAttrs,
                       (ins DefaultValuedAttr<F32Attr, "0.0f">:$amax_epsilon));
  let results = (outs Res<Variadic<TE_WholeScaled>, "the usages">:$usages,
                      Res<Variadic<TE_WholeScaled>, "those of the second gradient">:$gate_usages,
                      Res<Optional<TE_F32Scalar>, "max |dx|">:$amax,
                      Res<Optional<TE_F32Scalar>, "max of the second gradient">:$gate_amax);
  let assemblyFormat = [{
    $kind $dy `,` $x (`,` $gate^)? (`scale` $scale^)?
    (`gate_scale` $gate_scale^)? attr-dict
    `:` type($dy) `,` type($x) (`,` type($gate)^)?
    `->` type($usages) (`gate` type($gate_usages)^)?
    (`amax` type($amax)^)? (`gate_amax` type($gate_amax)^)?
  }];
  let hasVerifier = 1;
}

def TE_SoftmaxOp
    : TE_PureOp<"softmax",
        TE_Axes<(axes "m n":$x), (axes "m n":$y), whole = ["n"]>,
        [AllTypesMatch<["x", "y"]>,
        DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>]> {
  let summary = "softmax of each row";
  let description = [{
    `y = exp(s - max(s)) * (1 / sum(exp(s - max(s))))` per row, with
    `s = scale * x`, in f32, rounded once. Where `s` is -inf, `y` is 0. A row of
    -inf only, and a row with a NaN or +inf in `s`, is NaN.

    Constraints:
    1. (softmax-c1) `scale` is finite.
    2. (softmax-c2) a row has at most 2^24 elements.

    Example:

    ```mlir
    %y = te.softmax %x {scale = 0.125 : f32} : tensor<256x512xbf16>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "[rows, columns]">:$x,
                       DefaultValuedAttr<F32Attr, "1.0f">:$scale);
  let results = (outs Res<TE_HPMatrix, "type of x">:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let hasVerifier = 1;
}

def TE_SoftmaxBackwardOp
    : TE_BackwardOp<"softmax_backward",
        TE_Axes<(axes "m n":$dy, "m n":$y), (axes "m n":$dx), whole = ["n"]>,
        /*saved=*/["y"],
        [AllTypesMatch<["dy", "y", "dx"]>]> {
  let summary = "gradient of softmax";
  let description = [{
    `dx = scale * y * (dy - sum(dy * y))` per row, in f32, rounded once. `y` is
    the result of the forward, as it was rounded.

    Constraints:
    1. (softmax_backward-c1) `scale` is finite.
    2. (softmax_backward-c2) a row has at most 2^24 elements.

    Example:

    ```mlir
    %dx = te.softmax_backward %dy, %y {scale = 0.125 : f32} : tensor<256x512xbf16>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "cotangent of the result">:$dy,
                       Arg<TE_HPMatrix, "result of the forward">:$y,
                       DefaultValuedAttr<F32Attr, "1.0f">:$scale);
  let results = (outs Res<TE_HPMatrix, "type of y">:$dx);
  let assemblyFormat = "$dy `,` $y attr-dict `:` type($y)";
  let hasVerifier = 1;
}

def TE_DropoutOp
    : TE_PureOp<"dropout",
        TE_Axes<(axes "...":$x), (axes "...":$y), /*sums=*/[], /*whole=*/[], /*zeros=*/["x"]>,
        [AllTypesMatch<["x", "y"]>,
        DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>]> {
  let summary = "set random elements to zero";
  let description = [{
    `y = x * m`, rounded once, where each element of `m` is 0 with `probability`
    and `1 / (1 - probability)` otherwise. With `probability` 1 all of `m` is 0.

    `m` is a function of `rng`, `stream` and the position of the element, and is
    not stored: the gradient computes it again. Element `i`, in storage order, is
    zero if word `i mod 4` of Philox4x32-10 with key `(seed, stream)` and counter
    `(j mod 2^32, j / 2^32, offset, 3)`, with `j = i / 4`, is below
    `probability * 2^32`. So give each dropout of a step a stream of its own, and
    advance the state in each step with `te.rng_advance`. In a program over several
    ranks, `i` counts the elements of the rank: ranks with different rows need
    states with different seeds.

    Constraints:
    1. (dropout-c1) `probability` is from 0 to 1.

    Example:

    ```mlir
    %y = te.dropout %x rng %state {probability = 0.1 : f32, stream = 2 : i32} : tensor<256x512xbf16>
    ```
  }];
  let arguments = (ins Arg<TE_HPTensor, "tensor of any shape">:$x,
                       Arg<TE_RngState, "seed, offset">:$rng,
                       F32Attr:$probability,
                       DefaultValuedAttr<I32Attr, "0">:$stream);
  let results = (outs Res<TE_HPTensor, "type of x">:$y);
  let assemblyFormat = "$x `rng` $rng attr-dict `:` type($x)";
  let hasVerifier = 1;
}

def TE_EmbeddingOp
    : TE_PureOp<"embedding",
        TE_Axes<(axes "t":$ids, "_ h":$table), (axes "t h":$y)>,
        [DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>]> {
  let summary = "look up rows of a table";
  let description = [{
    `y[t, :] = table[ids[t], :]`. An id outside the table gives a row of zeros.

    Constraints:
    1. (embedding-c1) `table` is `[vocabulary, hidden]`, the result `[tokens, hidden]` of its element type.

    Example:

    ```mlir
    %y = te.embedding %ids, %table : tensor<256xi32>, tensor<1000x512xbf16> -> tensor<256x512xbf16>
    ```
  }];
  let arguments = (ins Arg<TE_IdVector, "[tokens]">:$ids,
                       Arg<TE_HPMatrix, "[vocabulary, hidden]">:$table);
  let results = (outs Res<TE_HPMatrix, "[tokens, hidden]">:$y);
  let assemblyFormat =
      "$ids `,` $table attr-dict `:` type($ids) `,` type($table) `->` type($y)";
  let hasVerifier = 1;
}

def TE_EmbeddingBackwardOp
    : TE_BackwardOp<"embedding_backward",
        TE_Axes<(axes "t":$ids, "t h":$dy, "v h":$accumulate), (axes "v h":$dtable), sums = ["t"]>,
        /*saved=*/["ids"]> {
  let summary = "compute the gradient of an embedding for its table";
  let description = [{
    `dtable[v, :]` is the sum of `dy[t, :]` over all tokens `t` with `ids[t] = v`,
    added in token order in f32 and rounded to the type of `dy`. With `accumulate`,
    another gradient of the table, a row that a token names is `accumulate[v, :]`
    plus that rounded sum, in f32 and rounded to the type of the result, and each
    other row is `accumulate[v, :]`, so that a launch in the memory of `accumulate`
    touches only the rows of tokens. `te-accumulate-gradients` and
    `te-accumulate-main-grads` add the operand.

    Constraints:
    1. (embedding_backward-c1) `dy` is `[tokens, hidden]`, the result `[vocabulary, hidden]` of its element type or of f32.
    2. (embedding_backward-c2) `accumulate` has the type of the result.

    Example:

    ```mlir
    %d = te.embedding_backward %ids, %dy : tensor<256xi32>, tensor<256x512xbf16> -> tensor<1000x512xbf16>
    ```

    ```mlir
    %d = te.embedding_backward %ids, %dy accumulate %dw : tensor<1000x512xf32>
      : tensor<256xi32>, tensor<256x512xbf16> -> tensor<1000x512xf32>
    ```
  }];
  let arguments = (ins Arg<TE_IdVector, "[tokens]">:$ids,
                       Arg<TE_HPMatrix, "[tokens, hidden]">:$dy,
                       Arg<Optional<TE_HPMatrix>, "added to the result">:$accumulate);
  let results = (outs Res<TE_HPMatrix, "[vocabulary, hidden]">:$dtable);
  let assemblyFormat = [{
    $ids `,` $dy (`accumulate` $accumulate^ `:` type($accumulate))? attr-dict
    `:` type($ids) `,` type($dy) `->` type($dtable)
  }];
  let hasVerifier = 1;
}

def TE_CrossEntropyOp
    : TE_PureOp<"cross_entropy",
        TE_Axes<(axes "t v":$logits), (axes "":$loss, "t":$lse), whole = ["v"]>,
        [DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>]> {
  let summary = "compute the mean softmax cross-entropy of tokens";
  let description = [{
    `loss` is the mean of `lse[t] - logits[t, targets[t]]` over the tokens whose
    target is a class other than `ignore_index`, or 0 if there are none. A target
    outside of the vocabulary is ignored, too.
    `lse[t] = log(sum_v exp(logits[t, v]))`, in f32, is a result if the backward
    needs it.

    With `vocabulary`, columns from there on are padding: they are not read, and their
    gradient is 0. Without it, every column is a class.

    Constraints:
    1. (cross_entropy-c1) `logits` is `[tokens, columns]`, `targets` and `lse` are `[tokens]`.
    2. (cross_entropy-c2) `vocabulary` is positive and at most `columns`.

    Examples:

    ```mlir
    %loss = te.cross_entropy %logits, %targets : tensor<256x1000xbf16>, tensor<256xi32>
    %padded = te.cross_entropy %logits, %targets {vocabulary = 997} : tensor<256x1000xbf16>, tensor<256xi32>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "[tokens, columns]">:$logits,
                       Arg<TE_IdVector, "[tokens]">:$targets,
                       OptionalAttr<I64Attr>:$vocabulary,
                       DefaultValuedAttr<I32Attr, "-100">:$ignore_index);
  let results = (outs Res<TE_F32Scalar, "mean loss">:$loss,
                      Res<Optional<TE_F32Vector>, "[tokens]">:$lse);
  let assemblyFormat = [{
    $logits `,` $targets attr-dict `:` type($logits) `,` type($targets)
    (`lse` type($lse)^)?
  }];
  let extraClassDeclaration = [{
    /// The number of classes, which are the first columns of the logits.
    int64_t getClasses() {
      return getVocabulary().value_or(getLogits().getType().getDimSize(1));
    }
  }];
  let hasVerifier = 1;
}

def TE_CrossEntropyWeightOp
    : TE_BackwardOp<"cross_entropy_weight",
        TE_Axes<(axes "t":$targets), (axes "":$weight)>,
        /*saved=*/["targets"]> {
  let summary = "compute what a token contributes to the gradient of a mean loss";
  let description = [{
    `weight = dloss / counted` in f32, or `1 / counted` without `dloss`, where
    `counted` is the number of tokens that te.cross_entropy does not ignore. No
    element of te.cross_entropy_backward is larger than the magnitude of `weight`,
    which is infinite or NaN, and not read, if no token is counted.

    Constraints:
    1. (cross_entropy_weight-c1) `vocabulary` is positive.

    Example:

    ```mlir
    %weight = te.cross_entropy_weight of %targets gradient %dloss vocabulary 1000 : tensor<256xi32>
    ```
  }];
  let arguments = (ins Arg<TE_IdVector, "[tokens]">:$targets,
                       Arg<Optional<TE_F32Scalar>, "cotangent of the loss">:$dloss,
                       I64Attr:$vocabulary,
                       DefaultValuedAttr<I32Attr, "-100">:$ignore_index);
  let results = (outs Res<TE_F32Scalar, "weight of a token">:$weight);
  let assemblyFormat = [{
    `of` $targets (`gradient` $dloss^)? `vocabulary` $vocabulary attr-dict `:` type($targets)
  }];
  let hasVerifier = 1;
}

def TE_CrossEntropyBackwardOp
    : TE_BackwardOp<"cross_entropy_backward",
        TE_Axes<(axes "t v":$logits, "t":$lse), (axes "t v":$dlogits), whole = ["v"]>,
        /*saved=*/["logits", "targets", "lse"],
        [AllTypesMatch<["logits", "dlogits"]>]> {
  let summary = "compute the gradient of te.cross_entropy for its logits";
  let description = [{
    `dlogits[t, v] = weight * (exp(logits[t, v] - lse[t]) - [v = targets[t]])`, with
    `weight` of te.cross_entropy_weight; 0 for ignored tokens. The arithmetic is in
    f32, and the result is rounded once. With `vocabulary`, columns from there on are
    not read, and `dlogits` is 0 there.

    Constraints:
    1. (cross_entropy_backward-c1) `logits` is `[tokens, columns]`, `targets` and `lse` are `[tokens]`.
    2. (cross_entropy_backward-c2) `vocabulary` is positive and at most `columns`.

    Example:

    ```mlir
    %d = te.cross_entropy_backward %weight, %logits, %targets, %lse
      : tensor<256x1000xbf16>, tensor<256xi32>, tensor<256xf32>
    ```
  }];
  let arguments = (ins Arg<TE_F32Scalar, "weight of a token">:$weight,
                       Arg<TE_HPMatrix, "[tokens, columns]">:$logits,
                       Arg<TE_IdVector, "[tokens]">:$targets,
                       Arg<TE_F32Vector, "[tokens]">:$lse,
                       OptionalAttr<I64Attr>:$vocabulary,
                       DefaultValuedAttr<I32Attr, "-100">:$ignore_index);
  let results = (outs Res<TE_HPMatrix, "type of logits">:$dlogits);
  let assemblyFormat = [{
    $weight `,` $logits `,` $targets `,` $lse attr-dict
    `:` type($logits) `,` type($targets) `,` type($lse)
  }];
  let extraClassDeclaration = [{
    /// The number of classes, which are the first columns of the logits.
    int64_t getClasses() {
      return getVocabulary().value_or(getLogits().getType().getDimSize(1));
    }
  }];
  let hasVerifier = 1;
}

#endif // TEDIALECT_IR_TELAYEROPS_TD
