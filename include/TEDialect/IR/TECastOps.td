//===- TECastOps.td - amaxes, scales and scaled values --------------------===//

#ifndef TEDIALECT_IR_TECASTOPS_TD
#define TEDIALECT_IR_TECASTOPS_TD

include "TEDialect/IR/TEConstraints.td"
include "mlir/IR/OpAsmInterface.td"

def TE_AmaxOp
    : TE_PureOp<"amax",
        TE_Axes<(axes "...":$x), (axes "":$amax)>,
        [TE_SkippableOpInterface]> {
  let summary = "compute the largest magnitude of a tensor";
  let description = [{
    `amax = max |x|` in f32. NaN elements are ignored and infinities are not;
    the amax of an empty tensor is 0. If `skip` is 1.0, the tensor is not read
    and the amax is 0, as delayed scaling expects of a step without a cast. With
    `rounded`, `x` is f32, and the amax is that of its elements rounded to that type.

    Constraints:
    1. (amax-c1) `rounded` is bf16, and only given for an `x` of f32.

    Example:

    ```mlir
    %amax = te.amax %x : tensor<256x512xbf16>
    %rounded = te.amax %w {rounded = bf16} : tensor<256x512xf32>
    ```
  }];
  let arguments = (ins Arg<TE_HPTensor, "any shape">:$x,
                       Arg<Optional<TE_F32Scalar>, "1.0 gives 0">:$skip,
                       OptionalAttr<TypeAttr>:$rounded);
  let results = (outs Res<TE_F32Scalar, "max |x|">:$amax);
  let builders = [OpBuilder<(ins "::mlir::Type":$amax, "::mlir::Value":$x), [{
    build($_builder, $_state, amax, x, /*skip=*/::mlir::Value(), /*rounded=*/::mlir::TypeAttr());
  }]>];
  let assemblyFormat = "$x (`unless` $skip^)? attr-dict `:` type($x)";
  let hasVerifier = 1;
}

def TE_AmaxRowsOp
    : TE_PureOp<"amax_rows",
        TE_Axes<(axes "r c":$x), (axes "r":$amax)>,
        [TE_SkippableOpInterface]> {
  let summary = "compute the largest magnitude of each row of a matrix";
  let description = [{
    `amax[r] = max |x[r, :]|` in f32, computed for each row as te.amax does,
    including `skip`. The amaxes of a stack of weights are those of a matrix
    whose rows are one weight each.

    Constraints:
    1. (amax_rows-c1) the result is `[rows of x]`.

    Example:

    ```mlir
    %amax = te.amax_rows %x : tensor<256x512xbf16> -> tensor<256xf32>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "any shape">:$x,
                       Arg<Optional<TE_F32Scalar>, "1.0 gives 0">:$skip);
  let results = (outs Res<TE_F32Vector, "max |x[r, :]|">:$amax);
  let builders = [OpBuilder<(ins "::mlir::Type":$amax, "::mlir::Value":$x), [{
    build($_builder, $_state, amax, x, /*skip=*/::mlir::Value());
  }]>];
  let assemblyFormat = [{
    $x (`unless` $skip^)? attr-dict `:` type($x) `->` type($amax)
  }];
  let hasVerifier = 1;
}

def TE_PartialAmaxOp
    : TE_PureOp<"partial_amax",
        TE_Axes<(axes "_":$x), (axes "_ _":$amax)>,
        [TE_SkippableOpInterface]> {
  let summary = "compute the amaxes of blocks over one rank's shard";
  let description = [{
    `x` is this rank's flat shard of a matrix of `shape`. The elements of the
    matrix, counted row by row, are divided into runs of the size of `x`; rank r
    of the group has run r, and padding follows the last element. `amax[i, j]`
    is `max |x|` in f32, as te.amax computes it, over the elements of the shard
    in block (i, j) of `blocks` rows and columns; 0 if there are none. A block
    that is split between ranks has its amax only after te.amax_reduce. `skip`
    is that of te.amax.

    Constraints:
    1. (partial_amax-c1) `te.groups` declares `group`.
    2. (partial_amax-c2) `shape` is `[rows, cols]`; `x` has at most as many elements, and times the ranks of the group at least as many.
    3. (partial_amax-c3) `blocks` is `[128, 128]`, `[1, 32]`, `[32, 1]`, `[32, 32]`, `[1, 16]` or `[16, 16]`.
    4. (partial_amax-c4) the result is `[ceil(rows / blocks[0]), ceil(cols / blocks[1])]`.

    Example:

    ```mlir
    %amax = te.partial_amax %x group 0 of [160, 128] blocks [128, 128] : tensor<5197xbf16> -> tensor<2x1xf32>
    ```
  }];
  let arguments = (ins Arg<TE_HPVector, "this rank's shard">:$x,
                       Arg<Optional<TE_F32Scalar>, "1.0 gives 0">:$skip,
                       I64Attr:$group, DenseI64ArrayAttr:$shape,
                       DenseI64ArrayAttr:$blocks);
  let results = (outs Res<TE_F32Matrix, "max |x| of each block">:$amax);
  let builders = [OpBuilder<(ins "::mlir::Type":$amax, "::mlir::Value":$x,
                                 "int64_t":$group,
                                 "::llvm::ArrayRef<int64_t>":$shape,
                                 "::llvm::ArrayRef<int64_t>":$blocks), [{
    build($_builder, $_state, amax, x, /*skip=*/::mlir::Value(), group, shape,
          blocks);
  }]>];
  let assemblyFormat = [{
    $x (`unless` $skip^)? `group` $group `of` $shape `blocks` $blocks attr-dict
    `:` type($x) `->` type($amax)
  }];
  let hasVerifier = 1;
}

def TE_HadamardOp
    : TE_PureOp<"hadamard",
        TE_Axes<(axes "m n":$x), (axes "m n":$y)>,
        [AllTypesMatch<["x", "y"]>,
         TE_StoredFormOpInterface]> {
  let summary = "rotate runs of 16 rows by a random Hadamard matrix";
  let description = [{
    Every run of 16 rows of a column, as a row vector, is multiplied by
    `T = diag(signs) H16 / 4`, whose signs are fixed. The result is computed in
    f32 and rounded once. `T` is orthogonal, so a GEMM that contracts the rows
    of two transformed matrices computes the product of the original matrices. A
    cast of the result for axis 0 has a type with the keyword `hadamard`.

    Constraints:
    1. (hadamard-c1) the rows are a multiple of 16.

    Example:

    ```mlir
    %y = te.hadamard %x : tensor<256x512xbf16>
    ```
  }];
  let arguments = (ins Arg<2DTensorOf<[BF16]>, "[rows, cols]">:$x);
  let results = (outs Res<2DTensorOf<[BF16]>, "transformed along axis 0">:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let hasVerifier = 1;
}

def TE_RngAdvanceOp
    : TE_PureOp<"rng_advance",
        TE_NoAxes> {
  let summary = "advance the state of a random generator";
  let description = [{
    Adds `count` to the offset, modulo 2^32. The state is the seed and the
    offset. A step takes it as an argument and returns the next one, so that no
    two steps round with the same bits.

    Example:

    ```mlir
    %next = te.rng_advance %state {count = 1 : i32}
    ```
  }];
  let arguments = (ins Arg<TE_RngState, "seed, offset">:$state,
                       DefaultValuedAttr<I32Attr, "1">:$count);
  let results = (outs Res<TE_RngState, "seed, offset + count">:$next);
  let assemblyFormat = "$state attr-dict";
}

def TE_AmaxReduceOp
    : TE_PureOp<"amax_reduce",
        TE_NoAxes,
        [DeclareOpInterfaceMethods<TE_CollectiveOpInterface>]> {
  let summary = "reduce amaxes over a process group";
  let description = [{
    Computes the maximum of each of `amaxes` over the ranks of `group_id`, all
    in one collective (`te-batch-reductions` merges several ops). Every rank of
    the group must run it equally often; there is no default group.

    Constraints:
    1. (amax_reduce-c1) `te.groups` declares `group_id`.
    2. (amax_reduce-c2) there is one result for each amax, of its type.

    Example:

    ```mlir
    %all = te.amax_reduce %amax group 0
    ```

    ```mlir
    %xs, %ws = te.amax_reduce %x, %w group 0
    ```
  }];
  let arguments = (ins Arg<Variadic<TE_F32Tensor>, "this rank's amaxes">:$amaxes,
                       I32Attr:$group_id);
  let results = (outs Res<Variadic<TE_F32Tensor>, "the group's amaxes">:$reduced);
  // Amaxes of the type tensor<f32> are not written.
  let assemblyFormat = [{
    $amaxes `group` $group_id attr-dict
    custom<AmaxTypes>(type($amaxes), type($reduced), ref($amaxes))
  }];
  let hasVerifier = 1;
}

def TE_ComputeScaleOp
    : TE_PureOp<"compute_scale",
        TE_Axes<(axes "...":$amax), (axes "...":$scale)>,
        [AllTypesMatch<["amax", "scale"]>]> {
  let summary = "derive a quantisation scale from an amax";
  let description = [{
    `scale = max_finite(element_type) / max(amax, amax_epsilon)` in f32. It is 1
    if amax is 0, infinite or NaN, and the largest finite f32 if the quotient
    overflows. With `pow2_scales` it is rounded down to a power of two. If there
    are several amaxes, one for each group, each has its own scale.

    Constraints:
    1. (compute_scale-c1) `element_type` is `f8E4M3FN` or `f8E5M2`.
    2. (compute_scale-c2) `amax_epsilon` is finite and not negative.

    Example:

    ```mlir
    %scale = te.compute_scale %amax for f8E4M3FN
    %scales = te.compute_scale %amaxes for f8E4M3FN : tensor<4xf32>
    ```
  }];
  let arguments = (ins Arg<TE_F32Tensor, "amax to scale for">:$amax,
                       TypeAttr:$element_type,
                       DefaultValuedAttr<BoolAttr, "false">:$pow2_scales,
                       DefaultValuedAttr<F32Attr, "0.0f">:$amax_epsilon);
  let results = (outs Res<TE_F32Tensor, "factor applied before rounding">:$scale);
  // One amax has the type tensor<f32>, which is not written.
  let assemblyFormat = [{
    $amax `for` $element_type attr-dict custom<AmaxType>(type($amax))
  }];
  let hasVerifier = 1;
}

def TE_DelayedScalingUpdateOp
    : TE_PureOp<"delayed_scaling_update",
        TE_NoAxes,
        [AllTypesMatch<["amax", "scale", "new_scale"]>,
                                           AllTypesMatch<["history", "new_history"]>]> {
  let summary = "derive the next scale from a history of amaxes";
  let description = [{
    Computes the next states of delayed scaling: a cast uses the scale that
    earlier steps computed, and measures the amax for later ones. The states are
    values: a step takes `history` and `scale` as arguments and returns their
    next values under the same names. Every element of `amax` is a slot with its
    own history, a column of `history`.

    Row 0 of a history is for an amax that is not counted yet. Let `last` be
    `amax`, or `history[0]` if `amax` is 0. If `last` is 0, nothing changes.
    Otherwise, the window `history[1], ..., last` becomes the new history,
    except that its row 0 is set to 0. The scale is computed from the largest
    amax of the window (NaN is ignored), or from `last` if `algorithm` is
    `most_recent`. If that amax is finite and not 0,
    `scale = max_finite(element_type) * 2^-margin / amax` in f32, at most the
    largest finite f32. An infinite amax therefore keeps the scale until it
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
    Arg<TE_F32Tensor, "the amaxes that this step's casts measured">:$amax,
    Arg<TE_F32Tensor, "[length] and the shape of amax">:$history,
    Arg<TE_F32Tensor, "the scales that this step's casts used">:$scale,
    TypeAttr:$element_type,
    DefaultValuedAttr<TE_AmaxAlgorithmAttr, "::mlir::te::AmaxAlgorithm::Max">:$algorithm,
    DefaultValuedAttr<I32Attr, "0">:$margin);
  let results = (outs Res<TE_F32Tensor, "history for the next step">:$new_history,
                      Res<TE_F32Tensor, "scale for the next step">:$new_scale);
  let assemblyFormat = [{
    $amax `,` $history `,` $scale `for` $element_type attr-dict `:` type($amax)
    `,` type($history)
  }];
  let hasVerifier = 1;
}

def TE_DequantizeOp
    : TE_PureOp<"dequantize",
        TE_Axes<(axes "...":$q), (axes "...":$x)>,
        [TE_StoredFormOpInterface,
         TE_PadsWithZeros]> {
  let summary = "restore a high-precision matrix";
  let description = [{
    `x = round(float(q) * scale_inv)`: the product is rounded to f32, then to
    the result's type. Elements of an nv scheme also have the factor
    `amax / (6 * 448)` (or 256, depending on the type). `without_amax` leaves
    this factor out: the result is then exact in bf16, and te.nvfp4_alpha is the
    factor of a GEMM of two such matrices. A value with `groups` needs their
    sizes and alignment; rows of no group are zeros.

    Constraints:
    1. (dequantize-c1) the result has the logical shape of `q`.
    2. (dequantize-c2) `without_amax` is only given for nv schemes.
    3. (dequantize-c3) `q` is not `swizzled`.
    4. (dequantize-c4) `group_sizes` and `alignment` are given exactly for a value with `groups`, as for te.grouped_quantize.

    Example:

    ```mlir
    %x = te.dequantize %q
      : !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1> -> tensor<256x512xbf16>
    ```
  }];
  let arguments = (ins Arg<TE_WholeScaled, "quantised matrix, either usage">:$q,
                       Arg<Optional<TE_GroupSizes>, "rows of each group">:$group_sizes,
                       DefaultValuedAttr<I64Attr, "0">:$alignment,
                       UnitAttr:$without_amax);
  let results = (outs Res<TE_HPMatrices, "same logical shape">:$x);
  let builders = [OpBuilder<(ins "::mlir::Type":$x, "::mlir::Value":$q), [{
    build($_builder, $_state, x, q, /*group_sizes=*/::mlir::Value(),
          $_builder.getI64IntegerAttr(0), /*without_amax=*/::mlir::UnitAttr());
  }]>];
  let assemblyFormat = [{
    $q (`sizes` $group_sizes^)? attr-dict `:` type($q)
    custom<SizesType>(ref(type($q)), type($group_sizes), ref($group_sizes))
    `->` type($x)
  }];
  let hasVerifier = 1;
}

def TE_RescaleOp
    : TE_PureOp<"rescale",
        TE_Axes<(axes "...":$q), (axes "...":$rescaled)>> {
  let summary = "multiply a scaled value by a factor";
  let description = [{
    Multiplies every scale by `factor`, each product rounded once in f32. The
    elements stay as they are and are not copied.

    Constraints:
    1. (rescale-c1) the scheme is `per_tensor`, `block_1x128` or `block_128x128`, of one matrix.
    2. (rescale-c2) the result is the operand's type without `pow2`.

    Example:

    ```mlir
    %d = te.rescale %q by %factor
      : !te.scaled<256x512xf8E5M2, per_tensor, contract = 0>
      -> !te.scaled<256x512xf8E5M2, per_tensor, contract = 0>
    ```
  }];
  let arguments = (ins Arg<TE_MatrixScaled, "value to multiply">:$q,
                       Arg<TE_F32Scalar, "factor of every element">:$factor);
  let results = (outs Res<TE_MatrixScaled, "the multiple">:$rescaled);
  let assemblyFormat = "$q `by` $factor attr-dict `:` type($q) `->` type($rescaled)";
  let hasVerifier = 1;
}

def TE_TransposeOp
    : TE_PureOp<"transpose",
        TE_Axes<(axes "...":$q), (axes "...":$transposed)>,
        [AttrSizedOperandSegments, TE_SkippableOpInterface,
         TE_StoredFormOpInterface]> {
  let summary = "derive the other usage of a scaled value";
  let description = [{
    Computes the value for the other contraction axis by moving bytes and
    scales; no element is rounded again. It is only legal if the result equals
    quantising for the other axis bit for bit, and only from `contract = 1`.
    `into` and `skip` are those of te.quantize, for a transpose that is cached
    together with its cast.

    Constraints:
    1. (transpose-c1) a scheme with an exact transpose ([what runs where](support.md)).
    2. (transpose-c2) the result is the operand's type for the other axis.
    3. (transpose-c3) the operand is cast for axis 1.
    4. (transpose-c4) the operand is not `swizzled`.
    5. (transpose-c5) the operand has no `groups`; a stack is transposed matrix by matrix.
    6. (transpose-c6) `into` is given exactly with `skip`, and has the type of the result.

    Example:

    ```mlir
    %col = te.transpose %row
      : !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>
      -> !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0>
    ```
  }];
  let arguments = (ins Arg<TE_WholeScaled, "usage to start from">:$q,
                       Arg<Optional<TE_WholeScaled>, "cached usage">:$into,
                       Arg<Optional<TE_F32Scalar>, "1.0 keeps the cached usage">:$skip);
  let results = (outs Res<TE_WholeScaled, "the other usage">:$transposed);
  let builders = [OpBuilder<(ins "::mlir::Type":$transposed,
                                 "::mlir::Value":$q), [{
    build($_builder, $_state, transposed, q, /*into=*/::mlir::Value(),
          /*skip=*/::mlir::Value());
  }]>];
  let assemblyFormat = [{
    $q (`into` $into^)? (`unless` $skip^)? attr-dict `:` type($q) `->`
    custom<TransposeTypes>(type($transposed), type($into), ref($into))
  }];
  let extraClassDeclaration = [{
    ::mlir::Value getCached(unsigned) { return getInto(); }
  }];
  let hasVerifier = 1;
}

def TE_SwizzleScalesOp
    : TE_PureOp<"swizzle_scales",
        TE_Axes<(axes "...":$q), (axes "...":$swizzled)>,
        [TE_StoredFormOpInterface]> {
  let summary = "put block scales in the order of the tensor core";
  let description = [{
    Permutes the scales of an mx or nv value within tiles of 128 by 4, which is
    the order that the block-scaled tensor core of sm_100 reads. Elements and
    amax do not change; the lowering copies them, because every value has its
    own buffers.

    Constraints:
    1. (swizzle_scales-c1) the operand has an mx or nv scheme and is not `swizzled`.
    2. (swizzle_scales-c2) the result is the operand's type, `swizzled`.

    Example:

    ```mlir
    %s = te.swizzle_scales %q
      : !te.scaled<256x512xf8E4M3FN, mx_1x32, contract = 1>
      -> !te.scaled<256x512xf8E4M3FN, mx_1x32, swizzled, contract = 1>
    ```
  }];
  let arguments = (ins Arg<TE_WholeScaled, "scales row by row">:$q);
  let results = (outs Res<TE_WholeScaled, "the same value">:$swizzled);
  let assemblyFormat = "$q attr-dict `:` type($q) `->` type($swizzled)";
  let hasVerifier = 1;
}

def TE_NvFp4AlphaOp
    : TE_PureOp<"nvfp4_alpha",
        TE_NoAxes,
        [DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "derive the factor of a GEMM of two NVFP4 values";
  let description = [{
    `alpha = (amax(a) * amax(b)) * (1 / (36 * scale_max(a) * scale_max(b)))` in
    f32, with each operation rounded; one factor for each group if there are
    groups. te.scaled_matmul applies this factor itself. A te.matmul of the two
    values dequantised `without_amax` takes it as `alpha`.

    Constraints:
    1. (nvfp4_alpha-c1) both operands have nv schemes.
    2. (nvfp4_alpha-c2) neither is `row_scaled`.
    3. (nvfp4_alpha-c3) both have the same number of groups.

    Example:

    ```mlir
    %alpha = te.nvfp4_alpha %x, %w
      : !te.scaled<256x512xf4E2M1FN, nv_1x16, contract = 1>,
        !te.scaled<128x512xf4E2M1FN, nv_16x16, contract = 1>
    ```
  }];
  let arguments = (ins Arg<TE_WholeScaled, "either usage">:$a,
                       Arg<TE_WholeScaled, "either usage">:$b);
  let results = (outs Res<TE_F32Tensor, "factor of the GEMM, [groups] or a scalar">:$alpha);
  let assemblyFormat = "$a `,` $b attr-dict `:` type($a) `,` type($b)";
  let hasVerifier = 1;
}

#endif // TEDIALECT_IR_TECASTOPS_TD
