//===- TEGroupedOps.td - products and layers of groups of rows ------------===//

#ifndef TEDIALECT_IR_TEGROUPEDOPS_TD
#define TEDIALECT_IR_TEGROUPEDOPS_TD

include "TEDialect/IR/TEConstraints.td"

def TE_GroupedAmaxOp
    : TE_PureOp<"grouped_amax",
        TE_Axes<(axes "m n":$x, "g":$group_sizes), (axes "g":$amax)>> {
  let summary = "compute the largest magnitude of each group of rows";
  let description = [{
    `amax[g] = max |x|` over the rows of group `g`, as te.amax gives it. Group
    `g` has `group_sizes[g]` rows starting at `start_g`, where `start_0 = 0` and
    `start_{g+1}` is `start_g + group_sizes[g]`, rounded up to a multiple of
    `alignment`. The sizes are values of the step. Rows that belong to no group are padding,
    which is not read.

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
    `y = x` in the rows of the groups, 0 elsewhere. `te-insert-casts` puts it
    before casts that read padding, unless the padding is known to be zero.

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
    `rounded[g]` is the smallest multiple of `multiple` that is not below
    `group_sizes[g]`. te.hadamard mixes runs of 16 rows, so the groups of its
    result end at multiples of 16.

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
  let summary = "multiply groups of scaled rows with a weight each";
  let description = [{
    For each group, its rows of `out` are te.scaled_matmul of its rows of `a` and
    of `b[g]`, with `bias[g]`; other rows are zeros. The bits are those of a
    te.scaled_matmul of only the rows of the group.

    Constraints:
    1. (grouped_scaled_matmul-c1) `a` is made for axis 1 and has as many groups as `group_sizes` and as the stack `b`.
    2. (grouped_scaled_matmul-c2) `a` and `b` agree on the contracted size; the result is `[rows of a, outer(b)]`.
    3. (grouped_scaled_matmul-c3) te.scaled_matmul supports the GEMM: schemes, types, sizes, `fast_accumulation`, `bias`.
    4. (grouped_scaled_matmul-c4) `alignment` divides the rows and is a multiple of what the schemes need ([what runs where](support.md)).
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
    `out[g] = te.scaled_matmul` of the rows of group `g`, which it contracts
    (`+ accumulate[g]`); an empty group gives zeros, or `accumulate[g]`.

    Constraints:
    1. (grouped_scaled_wgrad-c1) `a` and `b` are made for axis 0, with the same number of rows and as many groups as `group_sizes`.
    2. (grouped_scaled_wgrad-c2) the result is `[groups, columns of a, columns of b]`.
    3. (grouped_scaled_wgrad-c3) te.scaled_matmul supports the GEMM: schemes, types, sizes, `fast_accumulation`.
    4. (grouped_scaled_wgrad-c4) `alignment` divides the rows and is a multiple of what the schemes need.
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
  let summary = "multiply groups of high-precision rows with a weight each";
  let description = [{
    For each group, its rows of `out` are te.matmul of its rows of `a`,
    contracted along axis 1, and of `b[g]`, along axis `contract`, with
    `alpha[g]` and `bias[g]`; other rows are zeros.

    Constraints:
    1. (grouped_matmul-c1) `b` is a stack of `group_sizes` matrices that agree with `a` on the contracted size; the result is `[rows of a, other axis of b]`; `contract` is 0 or 1.
    2. (grouped_matmul-c2) `a` and `b` have one element type; the result has it too or is f32.
    3. (grouped_matmul-c3) `alpha` is `[groups]`; `bias` is `[groups, columns of the result]` of the operands' and the result's element type.
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
    `out[g]` is te.matmul of the rows of group `g`, which it contracts, with
    `alpha[g]` (`+ accumulate[g]`); an empty group gives zeros, or
    `accumulate[g]`.

    Constraints:
    1. (grouped_wgrad-c1) `a` and `b` have as many rows; the result is `[groups, columns of a, columns of b]`.
    2. (grouped_wgrad-c2) `a` and `b` have one element type; the result has it too or is f32; `alpha` is `[groups]`.
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
    `db[g]` is te.bias_grad of the rows of group `g`; zeros for an empty one.

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
        TE_Axes<(axes "m k":$x, "g n k":$w, "g":$group_sizes, "g n":$bias), (axes "m n":$y)>,
        [DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>]> {
  let summary = "apply a linear layer of its own to each group of rows";
  let description = [{
    For each group (expert), its rows of `y` are te.linear of its rows of `x` and
    of `w[g]`, with `bias[g]`. Groups are consecutive, and each starts at a multiple
    of `alignment` (te.grouped_amax); rows that belong to no group become zeros.
    The sizes are values of the step, so that a captured step can route tokens
    freely; if they are a constant, `te-check-constraints` checks them.

    The recipe decides how the GEMMs are quantised, with one scale, amax or state
    for each group and tensor: a group has the bits of te.linear on only its rows,
    padded with zero rows to the alignment. (Random bits of stochastic rounding
    depend on the position in the whole matrix.)

    Constraints:
    1. (grouped_linear-c1) `x` is `[M, K]`, `w` is `[groups, N, K]`, `group_sizes` is `[groups]`, the result `[M, N]`.
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
    $x `,` $w `,` $group_sizes (`bias` $bias^ `:` type($bias))? attr-dict
    `:` type($x) `,` type($w) `,` type($group_sizes) `->` type($y)
  }];
  let hasVerifier = 1;
}

def TE_GroupedLinearDgradOp
    : TE_BackwardOp<"grouped_linear_dgrad",
        TE_Axes<(axes "m n":$dy, "g n k":$w, "g":$group_sizes), (axes "m k":$dx)>,
        /*saved=*/["w", "group_sizes"]> {
  let summary = "gradient of grouped linear layers with respect to their input";
  let description = [{
    te.linear_dgrad of each group. Made by `te-differentiate`, replaced in the
    quantise phase.

    Constraints:
    1. (grouped_linear_dgrad-c1) `dy` is `[M, N]`, `w` is `[groups, N, K]`, `group_sizes` is `[groups]`, the result `[M, K]`.
    2. (grouped_linear_dgrad-c2) all have one element type.
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
  let summary = "gradients of grouped linear layers with respect to their weights";
  let description = [{
    te.linear_wgrad of each group; zeros, or `accumulate[g]`, for an empty one.
    Made by `te-differentiate`, replaced in the quantise phase.

    Constraints:
    1. (grouped_linear_wgrad-c1) `dy` is `[M, N]`, `x` is `[M, K]`, `group_sizes` is `[groups]`, the result `[groups, N, K]`.
    2. (grouped_linear_wgrad-c2) `dy` and `x` have one element type; the result has it too or is f32.
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
