//===- TEGroupedOps.td - GEMMs and layers of groups of rows ---------------===//

#ifndef TEDIALECT_IR_TEGROUPEDOPS_TD
#define TEDIALECT_IR_TEGROUPEDOPS_TD

include "TEDialect/IR/TEConstraints.td"

def TE_GroupedAmaxOp
    : TE_PureOp<"grouped_amax",
        TE_Axes<(axes "m n":$x, "g":$group_sizes), (axes "g":$amax)>> {
  let summary = "compute the largest magnitude of each group of rows";
  let description = [{
    `amax[g] = max |x|` over the rows of group `g`, computed as by te.amax. Group
    `g` has `group_sizes[g]` rows starting at `start_g`, where `start_0 = 0` and
    `start_{g+1}` is `start_g + group_sizes[g]`, rounded up to a multiple of
    `alignment`. The sizes are read on the device. Rows that belong to no group are
    padding, which is not read.

    Constraints:
    1. (grouped_amax-c1) `amax` has the shape of `group_sizes`.
    2. (grouped_amax-c2) `alignment` is positive and divides the rows of `x`.

    Example:

    ```mlir
    %amax = te.grouped_amax %x, %sizes {alignment = 16 : i64}
      : tensor<256x512xbf16>, tensor<4xi32> -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "rows of the groups">:$x,
                       Arg<TE_GroupSizes, "rows of each group">:$group_sizes,
                       I64Attr:$alignment);
  let results = (outs Res<TE_F32Vector, "max |x| of each group">:$amax);
  let assemblyFormat = [{
    $x `,` $group_sizes attr-dict `:` type($x) `,` type($group_sizes) `->`
    type($amax)
  }];
  let hasVerifier = 1;
}

def TE_ZeroPaddingOp
    : TE_PureOp<"zero_padding",
        TE_Axes<(axes "m n":$x, "g":$group_sizes), (axes "m n":$y)>,
        [AllTypesMatch<["x", "y"]>,
         TE_StoredFormOpInterface,
         TE_PadsWithZeros]> {
  let summary = "set the rows of no group to zero";
  let description = [{
    `y` is `x` in the rows of the groups, and 0 in other rows. `te-insert-casts`
    inserts the op before casts that read padding, unless the padding is known to
    be zero.

    Constraints:
    1. (zero_padding-c1) `alignment` is positive and divides the rows of `x`.

    Example:

    ```mlir
    %y = te.zero_padding %x, %sizes {alignment = 128 : i64} : tensor<256x512xbf16>, tensor<2xi32>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "rows of the groups">:$x,
                       Arg<TE_GroupSizes, "rows of each group">:$group_sizes,
                       I64Attr:$alignment);
  let results = (outs Res<TE_HPMatrix, "with zeros between them">:$y);
  let assemblyFormat =
      "$x `,` $group_sizes attr-dict `:` type($x) `,` type($group_sizes)";
  let hasVerifier = 1;
}

def TE_RoundGroupSizesOp
    : TE_PureOp<"round_group_sizes",
        TE_Axes<(axes "g":$group_sizes), (axes "g":$rounded)>,
        [AllTypesMatch<["group_sizes", "rounded"]>]> {
  let summary = "round the sizes of groups up";
  let description = [{
    `rounded[g]` is `group_sizes[g]`, rounded up to a multiple of `multiple`.
    te.hadamard transforms runs of 16 rows, so the groups of its result have
    multiples of 16 rows.

    Constraints:
    1. (round_group_sizes-c1) `multiple` is one or more.

    Example:

    ```mlir
    %rounded = te.round_group_sizes %sizes {multiple = 16 : i64} : tensor<4xi32>
    ```
  }];
  let arguments = (ins Arg<TE_GroupSizes, "rows of each group">:$group_sizes,
                       I64Attr:$multiple);
  let results = (outs Res<TE_GroupSizes, "rounded up">:$rounded);
  let assemblyFormat = "$group_sizes attr-dict `:` type($group_sizes)";
  let hasVerifier = 1;
}

def TE_GroupedScaledMatmulOp
    : TE_PureOp<"grouped_scaled_matmul",
        TE_Axes<(axes "g":$group_sizes, "g n":$bias), (axes "m n":$out)>,
        [TE_PadsWithZeros]> {
  let summary = "multiply each group of scaled rows by its own weight";
  let description = [{
    For each group, the rows of `out` are the te.scaled_matmul of the group's rows
    of `a` and of `b[g]`, with `bias[g]`. Rows that belong to no group are zeros.
    The bits are those of a te.scaled_matmul of only the rows of the group.

    Constraints:
    1. (grouped_scaled_matmul-c1) `a` is cast for axis 1 and has as many groups as `group_sizes` and as the stack `b`.
    2. (grouped_scaled_matmul-c2) `a` and `b` agree on the contracted size; the result is `[rows of a, outer(b)]`.
    3. (grouped_scaled_matmul-c3) te.scaled_matmul supports the GEMM: schemes, types, sizes, `fast_accumulation`, `bias`.
    4. (grouped_scaled_matmul-c4) `alignment` divides the rows and is a multiple of the alignment that the schemes require ([what runs where](support.md)).
    5. (grouped_scaled_matmul-c5) `bias` is `[groups, outer(b)]` in bf16.
    6. (grouped_scaled_matmul-c6) both operands are `hadamard` or neither is; `b` is not `row_scaled`.

    Example:

    ```mlir
    %y = te.grouped_scaled_matmul %x, %w, %sizes fast_accumulation = true {alignment = 16 : i64}
      : !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1, groups = 4>,
        !te.scaled<4x1024x512xf8E4M3FN, per_tensor, contract = 1>, tensor<4xi32> -> tensor<256x1024xbf16>
    ```
  }];
  let arguments = (ins
    Arg<TE_WholeScaled, "rows of the groups">:$a,
    Arg<TE_WholeScaled, "weights of the groups">:$b,
    Arg<TE_GroupSizes, "rows of each group">:$group_sizes,
    Arg<Optional<2DTensorOf<[BF16]>>, "added to every row of a group">:$bias,
    BoolAttr:$fast_accumulation,
    I64Attr:$alignment);
  let results = (outs Res<TE_HPMatrix, "[rows of a, outer(b)]">:$out);
  let assemblyFormat = [{
    $a `,` $b `,` $group_sizes (`bias` $bias^ `:` type($bias))?
    `fast_accumulation` `=` $fast_accumulation attr-dict
    `:` type($a) `,` type($b) `,` type($group_sizes) `->` type($out)
  }];
  let hasVerifier = 1;
}

def TE_GroupedScaledWgradOp
    : TE_PureOp<"grouped_scaled_wgrad",
        TE_Axes<(axes "g":$group_sizes, "g n k":$accumulate), (axes "g n k":$out)>> {
  let summary = "multiply two scaled matrices over the rows of each group";
  let description = [{
    `out[g]` is the te.scaled_matmul of `a` and `b`, contracted over the rows of
    group `g` (`+ accumulate[g]`). For an empty group, it is zeros or
    `accumulate[g]`.

    Constraints:
    1. (grouped_scaled_wgrad-c1) `a` and `b` are cast for axis 0, with the same number of rows and as many groups as `group_sizes`.
    2. (grouped_scaled_wgrad-c2) the result is `[groups, columns of a, columns of b]`.
    3. (grouped_scaled_wgrad-c3) te.scaled_matmul supports the GEMM: schemes, types, sizes, `fast_accumulation`.
    4. (grouped_scaled_wgrad-c4) `alignment` divides the rows and is a multiple of the alignment that the schemes require.
    5. (grouped_scaled_wgrad-c5) both operands are `hadamard` or neither is.
    6. (grouped_scaled_wgrad-c6) `accumulate` has the result's type.

    Example:

    ```mlir
    %dw = te.grouped_scaled_wgrad %dy, %x, %sizes fast_accumulation = false {alignment = 16 : i64}
      : !te.scaled<256x1024xf8E5M2, per_tensor, contract = 0, groups = 4>,
        !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0, groups = 4>, tensor<4xi32> -> tensor<4x1024x512xbf16>
    ```
  }];
  let arguments = (ins
    Arg<TE_WholeScaled, "rows of the result">:$a,
    Arg<TE_WholeScaled, "columns of the result">:$b,
    Arg<TE_GroupSizes, "rows of each group">:$group_sizes,
    Arg<Optional<TE_HPStack>, "added to the result">:$accumulate,
    BoolAttr:$fast_accumulation,
    I64Attr:$alignment);
  let results = (outs Res<TE_HPStack, "[groups, columns of a, columns of b]">:$out);
  let assemblyFormat = [{
    $a `,` $b `,` $group_sizes (`accumulate` $accumulate^ `:` type($accumulate))?
    `fast_accumulation` `=` $fast_accumulation attr-dict `:` type($a) `,` type($b) `,` type($group_sizes) `->` type($out)
  }];
  let hasVerifier = 1;
}

def TE_GroupedMatmulOp
    : TE_PureOp<"grouped_matmul",
        TE_AxesIf<"getContract() == 0",
        (axes "m k":$a, "g k n":$b, "g":$group_sizes, "g":$alpha, "g n":$bias), (axes "m n":$out),
        (axes "m k":$a, "g n k":$b, "g":$group_sizes, "g":$alpha, "g n":$bias), (axes "m n":$out)>,
        [AttrSizedOperandSegments,
         TE_PadsWithZeros]> {
  let summary = "multiply each group of high-precision rows by its own weight";
  let description = [{
    For each group, the rows of `out` are the te.matmul of the group's rows of `a`,
    contracted along axis 1, and of `b[g]`, contracted along axis `contract`, with
    `alpha[g]` and `bias[g]`. Rows that belong to no group are zeros.

    Constraints:
    1. (grouped_matmul-c1) `b` is a stack with a matrix for each group, which agree with `a` on the contracted size; the result is `[rows of a, other axis of b]`; `contract` is 0 or 1.
    2. (grouped_matmul-c2) `a` and `b` have one element type; the result has the same type or is f32.
    3. (grouped_matmul-c3) `alpha` is `[groups]`; `bias` is `[groups, columns of the result]`, and has the element type of the operands and of the result.
    4. (grouped_matmul-c4) `alignment` is positive and divides the rows.

    Example:

    ```mlir
    %y = te.grouped_matmul %x, %w, %sizes contract = 1 {alignment = 16 : i64}
      : tensor<256x512xbf16>, tensor<4x1024x512xbf16>, tensor<4xi32> -> tensor<256x1024xbf16>
    ```
  }];
  let arguments = (ins
    Arg<TE_HPMatrix, "rows of the groups">:$a,
    Arg<TE_HPStack, "weights of the groups">:$b,
    Arg<TE_GroupSizes, "rows of each group">:$group_sizes,
    Arg<Optional<TE_F32Vector>, "factor of the sums of each group">:$alpha,
    Arg<Optional<TE_HPMatrix>, "added to every row of a group">:$bias,
    I64Attr:$contract,
    I64Attr:$alignment);
  let results = (outs Res<TE_HPMatrix, "the product">:$out);
  let assemblyFormat = [{
    $a `,` $b `,` $group_sizes (`alpha` $alpha^ `:` type($alpha))?
    (`bias` $bias^ `:` type($bias))? `contract` `=` $contract attr-dict
    `:` type($a) `,` type($b) `,` type($group_sizes) `->` type($out)
  }];
  let hasVerifier = 1;
}

def TE_GroupedWgradOp
    : TE_PureOp<"grouped_wgrad",
        TE_Axes<(axes "m n":$a, "m k":$b, "g":$group_sizes, "g":$alpha, "g n k":$accumulate), (axes "g n k":$out), sums = ["m"]>,
        [AttrSizedOperandSegments]> {
  let summary = "multiply two high-precision matrices over the rows of each group";
  let description = [{
    `out[g]` is the te.matmul of `a` and `b`, contracted over the rows of group `g`,
    with `alpha[g]` (`+ accumulate[g]`). For an empty group, it is zeros or
    `accumulate[g]`.

    Constraints:
    1. (grouped_wgrad-c1) `a` and `b` have the same number of rows; the result is `[groups, columns of a, columns of b]`.
    2. (grouped_wgrad-c2) `a` and `b` have one element type; the result has the same type or is f32; `alpha` is `[groups]`.
    3. (grouped_wgrad-c3) `alignment` is positive and divides the rows.
    4. (grouped_wgrad-c4) `accumulate` has the result's type.

    Example:

    ```mlir
    %dw = te.grouped_wgrad %dy, %x, %sizes {alignment = 16 : i64}
      : tensor<256x1024xbf16>, tensor<256x512xbf16>, tensor<4xi32> -> tensor<4x1024x512xbf16>
    ```
  }];
  let arguments = (ins
    Arg<TE_HPMatrix, "rows of the result">:$a,
    Arg<TE_HPMatrix, "columns of the result">:$b,
    Arg<TE_GroupSizes, "rows of each group">:$group_sizes,
    Arg<Optional<TE_F32Vector>, "factor of the sums of each group">:$alpha,
    Arg<Optional<TE_HPStack>, "added to the result">:$accumulate,
    I64Attr:$alignment);
  let results = (outs Res<TE_HPStack, "[groups, columns of a, columns of b]">:$out);
  let assemblyFormat = [{
    $a `,` $b `,` $group_sizes (`alpha` $alpha^ `:` type($alpha))?
    (`accumulate` $accumulate^ `:` type($accumulate))? attr-dict
    `:` type($a) `,` type($b) `,` type($group_sizes) `->` type($out)
  }];
  let hasVerifier = 1;
}

def TE_GroupedBiasGradOp
    : TE_BackwardOp<"grouped_bias_grad",
        TE_Axes<(axes "m n":$dy, "g":$group_sizes), (axes "g n":$db), sums = ["m"]>,
        /*saved=*/["group_sizes"]> {
  let summary = "sum a gradient over the rows of each group";
  let description = [{
    `db[g]` is the te.bias_grad of the rows of group `g`, or zeros if the group is
    empty.

    Constraints:
    1. (grouped_bias_grad-c1) the result is `[groups, columns of dy]`.
    2. (grouped_bias_grad-c2) `alignment` is positive and divides the rows.

    Example:

    ```mlir
    %db = te.grouped_bias_grad %dy, %sizes {alignment = 16 : i64}
      : tensor<256x1024xbf16>, tensor<4xi32> -> tensor<4x1024xbf16>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "[M, N]">:$dy,
                       Arg<TE_GroupSizes, "rows of each group">:$group_sizes,
                       I64Attr:$alignment);
  let results = (outs Res<TE_HPMatrix, "[groups, N]">:$db);
  let assemblyFormat = [{
    $dy `,` $group_sizes attr-dict `:` type($dy) `,` type($group_sizes) `->`
    type($db)
  }];
  let hasVerifier = 1;
}

def TE_GroupedLinearOp
    : TE_PureOp<"grouped_linear",
        TE_Axes<(axes "m k":$x, "g n k":$w, "g":$group_sizes, "g n":$bias), (axes "m n":$y),
                /*sums=*/[], /*whole=*/[], /*zeros=*/["x", "bias"]>,
        [DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>]> {
  let summary = "apply a separate linear layer to each group of rows";
  let description = [{
    For each group (expert), the rows of `y` are the te.linear of the group's rows
    of `x` and of `w[g]`, with `bias[g]`. Groups are consecutive, and each starts at
    a multiple of `alignment`, as for te.grouped_amax. Rows that belong to no group
    become zeros. The sizes are read on the device, so that each replay of a
    captured step may have others. If they are a constant, `te-check-constraints`
    checks them.

    The recipe determines how the GEMMs are quantised. Each group has its own scale,
    amax or state for each tensor. A group therefore has the bits of a te.linear of
    only its rows, padded with zero rows to the alignment. The random bits of
    stochastic rounding, however, depend on the position in the whole matrix.

    Constraints:
    1. (grouped_linear-c1) `x` is `[M, K]`, `w` is `[groups, N, K]`, `group_sizes` is `[groups]`, and the result is `[M, N]`, with one group or more.
    2. (grouped_linear-c2) `bias` is `[groups, N]`.
    3. (grouped_linear-c3) all operands except the sizes, and the result, have one element type.
    4. (grouped_linear-c4) `alignment` is positive and divides M.

    Example:

    ```mlir
    %y = te.grouped_linear %x, %w, %sizes {alignment = 128 : i64}
      : tensor<256x512xbf16>, tensor<4x1024x512xbf16>, tensor<4xi32> -> tensor<256x1024xbf16>
    ```
  }];
  let arguments = (ins
    Arg<TE_HPMatrix, "activations [M, K]">:$x,
    Arg<TE_HPStack, "weights [groups, N, K]">:$w,
    Arg<TE_GroupSizes, "rows of each group">:$group_sizes,
    Arg<Optional<TE_HPMatrix>, "biases [groups, N]">:$bias,
    I64Attr:$alignment);
  let results = (outs Res<TE_HPMatrix, "[M, N]">:$y);
  let assemblyFormat = [{
    $x `,` $w `,` $group_sizes (`bias` $bias^ custom<BiasType>(type($bias)))?
    attr-dict `:` type($x) `,` type($w) `,` type($group_sizes) `->` type($y)
  }];
  let hasVerifier = 1;
}

def TE_GroupedLinearDgradOp
    : TE_BackwardOp<"grouped_linear_dgrad",
        TE_Axes<(axes "m n":$dy, "g n k":$w, "g":$group_sizes), (axes "m k":$dx)>,
        /*saved=*/["w", "group_sizes"]> {
  let summary = "compute the gradient of grouped linear layers for their input";
  let description = [{
    Computes te.linear_dgrad of each group. `te-differentiate` creates the op, and
    the quantise phase replaces it.

    Constraints:
    1. (grouped_linear_dgrad-c1) `dy` is `[M, N]`, `w` is `[groups, N, K]`, `group_sizes` is `[groups]`, and the result is `[M, K]`, with one group or more.
    2. (grouped_linear_dgrad-c2) `dy`, `w` and the result have one element type.
    3. (grouped_linear_dgrad-c3) `alignment` is positive and divides M.

    Example:

    ```mlir
    %dx = te.grouped_linear_dgrad %dy, %w, %sizes {alignment = 128 : i64}
      : tensor<256x1024xbf16>, tensor<4x1024x512xbf16>, tensor<4xi32> -> tensor<256x512xbf16>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "[M, N]">:$dy,
                       Arg<TE_HPStack, "weights of the forward [groups, N, K]">:$w,
                       Arg<TE_GroupSizes, "rows of each group">:$group_sizes,
                       I64Attr:$alignment);
  let results = (outs Res<TE_HPMatrix, "[M, K]">:$dx);
  let assemblyFormat = [{
    $dy `,` $w `,` $group_sizes attr-dict
    `:` type($dy) `,` type($w) `,` type($group_sizes) `->` type($dx)
  }];
  let hasVerifier = 1;
}

def TE_GroupedLinearWgradOp
    : TE_BackwardOp<"grouped_linear_wgrad",
        TE_Axes<(axes "m n":$dy, "m k":$x, "g":$group_sizes, "g n k":$accumulate), (axes "g n k":$dw), sums = ["m"]>,
        /*saved=*/["x", "group_sizes"]> {
  let summary = "compute the gradients of grouped linear layers for their weights";
  let description = [{
    Computes te.linear_wgrad of each group: zeros, or `accumulate[g]`, for an empty
    group. `te-differentiate` creates the op, and the quantise phase replaces it.

    Constraints:
    1. (grouped_linear_wgrad-c1) `dy` is `[M, N]`, `x` is `[M, K]`, `group_sizes` is `[groups]`, and the result is `[groups, N, K]`, with one group or more.
    2. (grouped_linear_wgrad-c2) `dy` and `x` have one element type; the result has the same type or is f32.
    3. (grouped_linear_wgrad-c3) `alignment` is positive and divides M.
    4. (grouped_linear_wgrad-c4) `accumulate` has the result's type.

    Example:

    ```mlir
    %dw = te.grouped_linear_wgrad %dy, %x, %sizes {alignment = 128 : i64}
      : tensor<256x1024xbf16>, tensor<256x512xbf16>, tensor<4xi32> -> tensor<4x1024x512xbf16>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "[M, N]">:$dy,
                       Arg<TE_HPMatrix, "input of the forward [M, K]">:$x,
                       Arg<TE_GroupSizes, "rows of each group">:$group_sizes,
                       Arg<Optional<TE_HPStack>, "added to the result">:$accumulate,
                       I64Attr:$alignment);
  let results = (outs Res<TE_HPStack, "[groups, N, K]">:$dw);
  let assemblyFormat = [{
    $dy `,` $x `,` $group_sizes (`accumulate` $accumulate^ `:` type($accumulate))? attr-dict
    `:` type($dy) `,` type($x) `,` type($group_sizes) `->` type($dw)
  }];
  let hasVerifier = 1;
}

#endif // TEDIALECT_IR_TEGROUPEDOPS_TD
