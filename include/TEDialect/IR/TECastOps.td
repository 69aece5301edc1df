//===- TECastOps.td - amax, scales, quantisation --------------------------===//

#ifndef TEDIALECT_IR_TECASTOPS_TD
#define TEDIALECT_IR_TECASTOPS_TD

include "TEDialect/IR/TEConstraints.td"
include "mlir/IR/OpAsmInterface.td"

def TE_AmaxOp : TE_PureOp<"amax"> {
  let summary = "compute the largest magnitude of a tensor";
  let description = [{
    `amax = max |x|` in f32. NaN elements are dropped, infinities kept; an empty
    tensor gives 0.

    Example:

    ```mlir
    %amax = te.amax %x : tensor<256x512xbf16>
    ```
  }];
  let arguments = (ins Arg<TE_HPTensor, "any shape">:$x);
  let results = (outs Res<TE_F32Scalar, "max |x|">:$amax);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

def TE_AmaxReduceOp : TE_PureOp<"amax_reduce"> {
  let summary = "reduce an amax over a process group";
  let description = [{
    Maximum of `amax` over the ranks of `group_id`. Every rank of the group must
    run it equally often; there is no default group.

    Constraints:
    1. (amax_reduce-c1) `group_id` is not negative.

    Example:

    ```mlir
    %all = te.amax_reduce %amax group 0
    ```
  }];
  let arguments = (ins Arg<TE_F32Scalar, "this rank's amax">:$amax,
                       I32Attr:$group_id);
  let results = (outs Res<TE_F32Scalar, "the group's amax">:$reduced);
  let assemblyFormat = "$amax `group` $group_id attr-dict";
  let hasVerifier = 1;
}

def TE_ComputeScaleOp : TE_PureOp<"compute_scale"> {
  let summary = "derive a quantisation scale from an amax";
  let description = [{
    `scale = max_finite(element_type) / max(amax, amax_epsilon)` in f32; 1 when
    amax is 0, infinite or NaN; the largest finite f32 when the quotient
    overflows; rounded down to a power of two with `pow2_scales`.

    Constraints:
    1. (compute_scale-c1) `element_type` is `f8E4M3FN` or `f8E5M2`.
    2. (compute_scale-c2) `amax_epsilon` is finite and not negative.

    Example:

    ```mlir
    %scale = te.compute_scale %amax for f8E4M3FN
    ```
  }];
  let arguments = (ins Arg<TE_F32Scalar, "amax to scale for">:$amax,
                       TypeAttr:$element_type,
                       DefaultValuedAttr<BoolAttr, "false">:$pow2_scales,
                       DefaultValuedAttr<F32Attr, "0.0f">:$amax_epsilon);
  let results = (outs Res<TE_F32Scalar, "factor applied before rounding">:$scale);
  let assemblyFormat = "$amax `for` $element_type attr-dict";
  let hasVerifier = 1;
}

def TE_DelayedScalingUpdateOp
    : TE_PureOp<"delayed_scaling_update", [AllTypesMatch<["amax", "scale", "new_scale"]>,
                                           AllTypesMatch<["history", "new_history"]>]> {
  let summary = "derive the next scale from a history of amaxes";
  let description = [{
    The step of delayed scaling: a cast uses the scale that former steps left,
    and measures the amax for later ones. The state is a value, so a step takes
    `history` and `scale` as arguments and returns their next values under the
    same names. Every element of `amax` is a slot with its own history, a
    column of `history`.

    Row 0 of a history is the place of an amax that is not counted yet. With
    `last = amax`, or `history[0]` where `amax` is 0: where `last` is 0, nothing
    changes. Else the window `history[1], ..., last` becomes the new history,
    but for row 0, which is 0. The amax to scale for is the window's largest
    (NaN dropped), or `last` with `algorithm = most_recent`; where it is finite
    and not 0, `scale = max_finite(element_type) * 2^-margin / amax` in f32, at
    most the largest finite f32. An infinite amax so keeps the scale until it
    leaves the window.

    Constraints:
    1. (delayed_scaling_update-c1) `history` is f32 of one row or more, each of the shape of `amax`.
    2. (delayed_scaling_update-c2) `element_type` is `f8E4M3FN` or `f8E5M2`.
    3. (delayed_scaling_update-c3) `margin` is from -100 to 100.

    Example:

    ```mlir
    %next_history, %next_scale = te.delayed_scaling_update %amax, %history, %scale for f8E4M3FN
      : tensor<f32>, tensor<1024xf32>
    ```
  }];
  let arguments = (ins
    Arg<TE_F32Tensor, "what this step's casts measured">:$amax,
    Arg<TE_F32Tensor, "[length] and the shape of amax">:$history,
    Arg<TE_F32Tensor, "what this step's casts used">:$scale,
    TypeAttr:$element_type,
    DefaultValuedAttr<TE_AmaxAlgorithmAttr, "::mlir::te::AmaxAlgorithm::Max">:$algorithm,
    DefaultValuedAttr<I32Attr, "0">:$margin);
  let results = (outs Res<TE_F32Tensor, "the next step's">:$new_history,
                      Res<TE_F32Tensor, "the next step's">:$new_scale);
  let assemblyFormat = [{
    $amax `,` $history `,` $scale `for` $element_type attr-dict `:` type($amax)
    `,` type($history)
  }];
  let hasVerifier = 1;
}

def TE_QuantizeOp
    : TE_PureOp<"quantize", [AttrSizedResultSegments,
        DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "quantise a matrix for one or both contraction axes";
  let description = [{
    `q = saturate(round(x * scale))`, round to nearest even. A `per_tensor`
    result takes its scale as an operand; block results compute one scale per
    block from the block's own amax. Two results are the two usages of one
    tensor, made in one pass. `amax` is `max |x|` as te.amax gives it, measured
    in the same pass, for te.delayed_scaling_update.

    Constraints:
    1. (quantize-c1) one or two results.
    2. (quantize-c2) every result has the shape of `x`.
    3. (quantize-c3) two results differ in nothing but `contract`.
    4. (quantize-c4) `scale` is given exactly when the scheme is `per_tensor`.
    5. (quantize-c5) `amax_epsilon` is finite, not negative, and only given for block schemes.
    6. (quantize-c6) `amax` is only given for `per_tensor`.

    Example:

    ```mlir
    %row, %col = te.quantize %x : tensor<256x512xbf16>
      -> !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 1>,
         !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 0>
    ```

    ```mlir
    %q, %amax = te.quantize %x scale %scale : tensor<256x512xbf16>
      -> !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1> amax tensor<f32>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "matrix to quantise">:$x,
                       Arg<Optional<TE_F32Scalar>, "per-tensor scale">:$scale,
                       DefaultValuedAttr<F32Attr, "0.0f">:$amax_epsilon);
  let results = (outs Res<Variadic<TE_ScaledType>, "the usages">:$usages,
                      Res<Optional<TE_F32Scalar>, "max |x|">:$amax);
  let assemblyFormat = [{
    $x (`scale` $scale^)? attr-dict `:` type($x)
    `->` type($usages) (`amax` type($amax)^)?
  }];
  // Without an amax.
  let builders = [OpBuilder<(ins "::mlir::TypeRange":$usages,
                                 "::mlir::Value":$x, "::mlir::Value":$scale,
                                 "::mlir::FloatAttr":$amax_epsilon), [{
    build($_builder, $_state, usages, /*amax=*/::mlir::Type(), x, scale,
          amax_epsilon);
  }]>];
  let hasVerifier = 1;
}

def TE_DequantizeOp : TE_PureOp<"dequantize"> {
  let summary = "restore a high-precision matrix";
  let description = [{
    `x = round(float(q) * scale_inv)`: the product is rounded to f32, then to the
    result's type.

    Constraints:
    1. (dequantize-c1) the result has the logical shape of `q`.

    Example:

    ```mlir
    %x = te.dequantize %q
      : !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1> -> tensor<256x512xbf16>
    ```
  }];
  let arguments = (ins Arg<TE_ScaledType, "quantised matrix, either usage">:$q);
  let results = (outs Res<TE_HPMatrix, "same logical shape">:$x);
  let assemblyFormat = "$q attr-dict `:` type($q) `->` type($x)";
  let hasVerifier = 1;
}

def TE_TransposeOp : TE_PureOp<"transpose"> {
  let summary = "derive the other usage of a scaled value";
  let description = [{
    Makes the value for the other contraction axis by moving bytes and scales;
    no element is rounded again. Only legal where that equals quantising for
    the other axis bit for bit, and only from `contract = 1`.

    Constraints:
    1. (transpose-c1) a scheme with an exact transpose ([what runs where](support.md)).
    2. (transpose-c2) the result is the operand's type made for the other axis.
    3. (transpose-c3) the operand is made for axis 1.

    Example:

    ```mlir
    %col = te.transpose %row
      : !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>
      -> !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0>
    ```
  }];
  let arguments = (ins Arg<TE_ScaledType, "usage to start from">:$q);
  let results = (outs Res<TE_ScaledType, "the other usage">:$transposed);
  let assemblyFormat = "$q attr-dict `:` type($q) `->` type($transposed)";
  let hasVerifier = 1;
}

#endif // TEDIALECT_IR_TECASTOPS_TD
