//===- TEProbeOps.td - ops that look at values ----------------------------===//

#ifndef TEDIALECT_IR_TEPROBEOPS_TD
#define TEDIALECT_IR_TEPROBEOPS_TD

include "TEDialect/IR/TEConstraints.td"

def TE_CountNonfiniteOp
    : TE_PureOp<"count_nonfinite",
        TE_Axes<(axes "n k":$counts), (axes "n k":$new_counts)>,
        [DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "count the NaN and infinite elements of a tensor";
  let description = [{
    Adds three numbers to row `index` of `counts`: how many elements of `x` are NaN,
    how many are infinite and, if `scale` is given, how many finite ones overflow in
    a cast with that scale. An element overflows if `|x * scale|` is more than half
    a step above the largest value of `element_type`. Other rows do not change. A
    chain of these ops counts in one buffer. `te-check-finite` inserts them.

    Constraints:
    1. (count_nonfinite-c1) `counts` has three columns.
    2. (count_nonfinite-c2) `index` is one of its rows.
    3. (count_nonfinite-c3) `element_type` is `f8E4M3FN` or `f8E5M2`, and given with `scale`.

    Example:

    ```mlir
    %n1 = te.count_nonfinite %x into %n0[0] : tensor<256x512xbf16>, tensor<2x3xi32>
    ```

    ```mlir
    %n2 = te.count_nonfinite %x scale %scale for f8E4M3FN into %n1[1] : tensor<256x512xbf16>, tensor<2x3xi32>
    ```
  }];
  let arguments = (ins Arg<TE_HPTensor, "any shape">:$x,
                       Arg<Optional<TE_F32Scalar>, "scale of a per-tensor cast of x">:$scale,
                       OptionalAttr<TypeAttr>:$element_type,
                       Arg<TE_CountMatrix, "[checks, 3]">:$counts,
                       I64Attr:$index);
  let results = (outs Res<TE_CountMatrix, "counts with those of x">:$new_counts);
  let assemblyFormat = [{
    $x (`scale` $scale^ `for` $element_type)? `into` $counts `[` $index `]`
    attr-dict `:` type($x) `,` type($counts)
  }];
  let hasVerifier = 1;
}

def TE_TensorStatsOp
    : TE_PureOp<"tensor_stats",
        TE_NoAxes> {
  let summary = "compute statistics of a tensor and of its cast";
  let description = [{
    The result has the entries of `te_rt_stat` as f32. Those of `x` are, in this
    order: amax, amin (the smallest magnitude above 0), mean, std, zeros (percent),
    nan, inf. If `q` is given, those of the cast follow: underflows (percent),
    overflows (percent), mse, snr (a ratio), scale_inv_min, scale_inv_max,
    scales_clipped (the number of blocks whose scale is at an end of the range of
    its type). The [kernel list](kernels.md) has the definitions. Sums are computed in
    f64 in a fixed order. `te-insert-probes` inserts the op.

    Constraints:
    1. (tensor_stats-c1) `q` has the shape of `x`.
    2. (tensor_stats-c2) `q` is not `swizzled`.
    3. (tensor_stats-c3) the result has 14 elements with `q`, else 7.

    Example:

    ```mlir
    %stats = te.tensor_stats %x cast %q
      : tensor<256x512xbf16>, !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1> -> tensor<14xf32>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "any shape">:$x,
                       Arg<Optional<TE_WholeScaled>, "either usage">:$q);
  let results = (outs Res<TE_F32Vector, "the statistics">:$stats);
  let assemblyFormat = [{
    $x (`cast` $q^)? attr-dict `:` type($x) (`,` type($q)^)? `->` type($stats)
  }];
  let hasVerifier = 1;
}

#endif // TEDIALECT_IR_TEPROBEOPS_TD
