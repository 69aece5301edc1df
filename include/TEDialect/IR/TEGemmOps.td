//===- TEGemmOps.td - matrix products and the linear layer ----------------===//

#ifndef TEDIALECT_IR_TEGEMMOPS_TD
#define TEDIALECT_IR_TEGEMMOPS_TD

include "TEDialect/IR/TEConstraints.td"

def TE_ScaledMatmulOp
    : TE_PureOp<"scaled_matmul",
        TE_Axes<(axes "n":$bias, "m n":$accumulate), (axes "m n":$out)>,
        [AttrSizedOperandSegments]> {
  let summary = "multiply two scaled matrices along their contraction axes";
  let description = [{
    `out[i, j] = sum_k A[i, k] B[j, k] (+ bias[j]) (+ accumulate[i, j])`, where
    `k` runs over the contraction axes in the types of `a` and `b`, and `i` and `j`
    over their other axes. Dequantised elements are multiplied and accumulated in
    f32. `fast_accumulation` allows the tensor core's shorter accumulator.

    With `contract = [p, q]`, axis `p` of `a` is contracted with axis `q` of `b`,
    independent of the axes in their types. This is possible because a per-tensor
    scale is valid for any axis, and the tensor cores of sm_100 read 8-bit operands
    in any layout.

    [What runs where](support.md) lists the schemes, element types, results and
    sizes that each target supports.

    Constraints:
    1. (scaled_matmul-c1) `a` and `b` agree on the contracted size.
    2. (scaled_matmul-c2) the result is `[outer(a), outer(b)]`.
    3. (scaled_matmul-c3) the schemes of `a` and `b` are a pair that some target multiplies.
    4. (scaled_matmul-c4) their element types are a pair that some target multiplies.
    5. (scaled_matmul-c5) `fast_accumulation` is only given if the pair of schemes supports it.
    6. (scaled_matmul-c6) the contracted size is a multiple of the size that the pair requires.
    7. (scaled_matmul-c7) the rows and the columns of the result are multiples of the sizes that the pair requires.
    8. (scaled_matmul-c8) the result has a type that the pair supports, with `bias` if there is one; `bias` is `[outer(b)]` in bf16; `accumulate` has the result's type.
    9. (scaled_matmul-c9) both operands are `hadamard` or neither is.
    10. (scaled_matmul-c10) both operands are `swizzled` or neither is.
    11. (scaled_matmul-c11) `b` is not `row_scaled`.
    12. (scaled_matmul-c12) `contract` has two axes, each 0 or 1; an operand whose type has the other axis is `per_tensor`, and the size of that axis is also a multiple of the size that the pair requires of a contracted axis.

    Example:

    ```mlir
    %y = te.scaled_matmul %x, %w fast_accumulation = true
      : !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>,
        !te.scaled<1024x512xf8E4M3FN, per_tensor, contract = 1> -> tensor<256x1024xbf16>
    %dx = te.scaled_matmul %dy, %w fast_accumulation = false contract = [1, 0]
      : !te.scaled<256x1024xf8E5M2, per_tensor, contract = 1>,
        !te.scaled<1024x512xf8E4M3FN, per_tensor, contract = 1> -> tensor<256x512xbf16>
    ```
  }];
  let arguments = (ins
    Arg<TE_WholeScaled, "rows of the result">:$a,
    Arg<TE_WholeScaled, "columns of the result">:$b,
    Arg<Optional<1DTensorOf<[BF16]>>, "added to every row">:$bias,
    Arg<Optional<TE_HPMatrix>, "added to the result">:$accumulate,
    BoolAttr:$fast_accumulation,
    OptionalAttr<DenseI64ArrayAttr>:$contract);
  let results = (outs Res<TE_HPMatrix, "[outer(a), outer(b)]">:$out);
  let assemblyFormat = [{
    $a `,` $b (`bias` $bias^ `:` type($bias))?
    (`accumulate` $accumulate^ `:` type($accumulate))?
    `fast_accumulation` `=` $fast_accumulation
    (`contract` `=` $contract^)? attr-dict
    `:` type($a) `,` type($b) `->` type($out)
  }];
  let extraClassDeclaration = [{
    /// The axis along which `a` (operand 0) or `b` (1) is contracted.
    unsigned getContractedAxis(unsigned operand);
    /// The sizes of that axis and of the other one.
    int64_t getContractedSize(unsigned operand);
    int64_t getOuterSize(unsigned operand);
  }];
  let hasVerifier = 1;
}

def TE_MatmulOp
    : TE_PureOp<"matmul",
        TE_AxesInCpp,
        [AttrSizedOperandSegments]> {
  let summary = "multiply two high-precision matrices";
  let description = [{
    `out[i, j] = (alpha *) sum_k A[i, k] B[j, k] (+ bias[j])
    (+ accumulate[i, j])`, accumulated in f32. `contract = [p, q]` contracts axis
    `p` of `a` with axis `q` of `b`.

    Constraints:
    1. (matmul-c1) `contract` has two axes, each 0 or 1.
    2. (matmul-c2) `a` and `b` agree on the contracted size and element type.
    3. (matmul-c3) the result is `[other axis of a, other axis of b]`.
    4. (matmul-c4) `bias` is `[columns of the result]`, and has the element type of the operands and of the result; `accumulate` has the result's type.

    Example:

    ```mlir
    %y = te.matmul %x, %w contract = [1, 1]
      : tensor<256x512xbf16>, tensor<1024x512xbf16> -> tensor<256x1024xbf16>
    ```
  }];
  let arguments = (ins
    Arg<TE_HPMatrix, "rows of the result">:$a,
    Arg<TE_HPMatrix, "columns of the result">:$b,
    Arg<Optional<TE_F32Scalar>, "factor of the sum">:$alpha,
    Arg<Optional<TE_HPVector>, "added to every row">:$bias,
    Arg<Optional<TE_HPMatrix>, "added to the result">:$accumulate,
    DenseI64ArrayAttr:$contract);
  let results = (outs Res<TE_HPMatrix, "the product">:$out);
  // Builds an op without `alpha`.
  let builders = [OpBuilder<(ins "::mlir::Type":$out, "::mlir::Value":$a,
                                 "::mlir::Value":$b, "::mlir::Value":$bias,
                                 "::mlir::Value":$accumulate,
                                 "::mlir::DenseI64ArrayAttr":$contract), [{
    build($_builder, $_state, out, a, b, /*alpha=*/::mlir::Value(), bias,
          accumulate, contract);
  }]>];
  let assemblyFormat = [{
    $a `,` $b (`alpha` $alpha^)? (`bias` $bias^ `:` type($bias))?
    (`accumulate` $accumulate^ `:` type($accumulate))?
    `contract` `=` $contract attr-dict
    `:` type($a) `,` type($b) `->` type($out)
  }];
  let hasVerifier = 1;
}

def TE_LinearOp
    : TE_PureOp<"linear",
        TE_AxesIf<"getTransposedWeight()",
        (axes "m k":$x, "k n":$w, "n":$bias), (axes "m n":$y),
        (axes "m k":$x, "n k":$w, "n":$bias), (axes "m n":$y), /*sums=*/[], /*zeros=*/["x", "bias"]>,
        [DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>,
         DeclareOpInterfaceMethods<TE_CollectiveOpInterface>]> {
  let summary = "apply a linear layer";
  let description = [{
    `y = x wᵀ (+ bias)`. The recipe (`te.recipe` of the op, function or module)
    determines how its GEMM and those of its backward are quantised. With
    `parallel`, the shapes are those of one rank, and `y` is this rank's part of
    the result over all ranks.

    With `transposed_weight`, `w` is `[K, N]`, as many models store it, and
    `y = x w`. The GEMMs and casts are the same and have the same bits; only the
    weight and its gradient are stored transposed.

    Constraints:
    1. (linear-c1) `x` is `[M, K]`, `w` is `[N, K]`, and the result is `[M, N]`; with `sequence` over P ranks, `x` of `column` is `[M/P, K]`, and the result of `row` is `[M/P, N]`.
    2. (linear-c2) `bias` is `[N]`.
    3. (linear-c3) all operands and the result have one element type.
    4. (linear-c4) `te.groups` declares the group of `parallel`.
    5. (linear-c5) with `transposed_weight`, `w` is `[K, N]`, and there is no `parallel`.

    Example:

    ```mlir
    %y = te.linear %x, %w : tensor<256x512xbf16>, tensor<1024x512xbf16> -> tensor<256x1024xbf16>
    ```

    ```mlir
    %z = te.linear %x, %w parallel <column, group = 0, sequence>
      : tensor<256x512xbf16>, tensor<1024x512xbf16> -> tensor<1024x1024xbf16>
    ```

    ```mlir
    %y = te.linear %x, %w {transposed_weight}
      : tensor<256x512xbf16>, tensor<512x1024xbf16> -> tensor<256x1024xbf16>
    ```
  }];
  let arguments = (ins
    Arg<TE_HPMatrix, "activations [M, K]">:$x,
    Arg<TE_HPMatrix, "weight [N, K]">:$w,
    Arg<Optional<TE_HPVector>, "bias [N]">:$bias,
    OptionalAttr<TE_ParallelAttr>:$parallel,
    UnitAttr:$transposed_weight);
  let results = (outs Res<TE_HPMatrix, "[M, N]">:$y);
  let assemblyFormat = [{
    $x `,` $w (`bias` $bias^ custom<BiasType>(type($bias)))?
    (`parallel` $parallel^)? attr-dict `:` type($x) `,` type($w) `->` type($y)
  }];
  let hasVerifier = 1;
}

def TE_LinearDgradOp
    : TE_BackwardOp<"linear_dgrad",
        TE_AxesIf<"getTransposedWeight()",
        (axes "m n":$dy, "k n":$w), (axes "m k":$dx),
        (axes "m n":$dy, "n k":$w), (axes "m k":$dx)>,
        /*saved=*/["w"],
        [DeclareOpInterfaceMethods<TE_CollectiveOpInterface>]> {
  let summary = "compute the gradient of a linear layer for its input";
  let description = [{
    `dx = dy w`, or `dy wᵀ` with `transposed_weight`. `te-differentiate` creates the
    op, and the quantise phase replaces it.

    Constraints:
    1. (linear_dgrad-c1) `dy` is `[M, N]`, `w` is `[N, K]`, and the result is `[M, K]`; with `sequence`, rows are divided as in te.linear.
    2. (linear_dgrad-c2) the operands and the result have one element type.
    3. (linear_dgrad-c3) `te.groups` declares the group of `parallel`.
    4. (linear_dgrad-c4) linear-c5 applies.

    Example:

    ```mlir
    %dx = te.linear_dgrad %dy, %w : tensor<256x1024xbf16>, tensor<1024x512xbf16> -> tensor<256x512xbf16>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "[M, N]">:$dy,
                       Arg<TE_HPMatrix, "weight of the forward [N, K]">:$w,
                       OptionalAttr<TE_ParallelAttr>:$parallel,
                       UnitAttr:$transposed_weight);
  let results = (outs Res<TE_HPMatrix, "[M, K]">:$dx);
  let assemblyFormat = [{
    $dy `,` $w (`parallel` $parallel^)? attr-dict
    `:` type($dy) `,` type($w) `->` type($dx)
  }];
  let hasVerifier = 1;
}

def TE_LinearWgradOp
    : TE_BackwardOp<"linear_wgrad",
        TE_AxesIf<"getTransposedWeight()",
        (axes "m n":$dy, "m k":$x, "k n":$accumulate), (axes "k n":$dw),
        (axes "m n":$dy, "m k":$x, "n k":$accumulate), (axes "n k":$dw), sums = ["m"]>,
        /*saved=*/["x"],
        [DeclareOpInterfaceMethods<TE_CollectiveOpInterface>]> {
  let summary = "compute the gradient of a linear layer for its weight";
  let description = [{
    `dw = dyᵀ x (+ accumulate)`, or `xᵀ dy (+ accumulate)` with
    `transposed_weight`. The sum is added as in the recipe's GEMM (te.scaled_matmul
    or te.matmul). `te-differentiate` creates the op, and the quantise phase
    replaces it.

    Constraints:
    1. (linear_wgrad-c1) `dy` is `[M, N]`, `x` is `[M, K]`, and the result is `[N, K]`; with `sequence`, rows are divided as in te.linear.
    2. (linear_wgrad-c2) `dy` and `x` have one element type; the result has the same type or is f32.
    3. (linear_wgrad-c3) `accumulate` has the result's type.
    4. (linear_wgrad-c4) `te.groups` declares the group of `parallel`.
    5. (linear_wgrad-c5) with `transposed_weight`, the result is `[K, N]`, and there is no `parallel`.

    Example:

    ```mlir
    %dw = te.linear_wgrad %dy, %x : tensor<256x1024xbf16>, tensor<256x512xbf16> -> tensor<1024x512xbf16>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "[M, N]">:$dy,
                       Arg<TE_HPMatrix, "input of the forward [M, K]">:$x,
                       Arg<Optional<TE_HPMatrix>, "added to the result">:$accumulate,
                       OptionalAttr<TE_ParallelAttr>:$parallel,
                       UnitAttr:$transposed_weight);
  let results = (outs Res<TE_HPMatrix, "[N, K]">:$dw);
  let builders = [OpBuilder<(ins "::mlir::Type":$dw, "::mlir::Value":$dy,
                                 "::mlir::Value":$x), [{
    build($_builder, $_state, dw, dy, x, /*accumulate=*/::mlir::Value(),
          /*parallel=*/::mlir::te::ParallelAttr(),
          /*transposed_weight=*/::mlir::UnitAttr());
  }]>];
  let assemblyFormat = [{
    $dy `,` $x (`accumulate` $accumulate^ `:` type($accumulate))?
    (`parallel` $parallel^)? attr-dict
    `:` type($dy) `,` type($x) `->` type($dw)
  }];
  let hasVerifier = 1;
}

def TE_BiasGradOp
    : TE_BackwardOp<"bias_grad",
        TE_Axes<(axes "m n":$dy), (axes "n":$db), sums = ["m"]>,
        /*saved=*/[]> {
  let summary = "sum a gradient over its rows";
  let description = [{
    `db[j] = sum_i dy[i, j]`, accumulated in f32 and rounded once.

    Constraints:
    1. (bias_grad-c1) the result is `[columns of dy]`.

    Example:

    ```mlir
    %db = te.bias_grad %dy : tensor<256x1024xbf16> -> tensor<1024xbf16>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "[M, N]">:$dy);
  let results = (outs Res<TE_HPVector, "[N]">:$db);
  let assemblyFormat = "$dy attr-dict `:` type($dy) `->` type($db)";
  let hasVerifier = 1;
}

#endif // TEDIALECT_IR_TEGEMMOPS_TD
