//===- TEAutodiffOps.td - derivatives and what they save ------------------===//

#ifndef TEDIALECT_IR_TEAUTODIFFOPS_TD
#define TEDIALECT_IR_TEAUTODIFFOPS_TD

include "TEDialect/IR/TEConstraints.td"
include "mlir/IR/SymbolInterfaces.td"

def TE_VjpOp
    : TE_PureOp<"vjp",
        TE_NoAxes,
        [AttrSizedOperandSegments,
        DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "call a function and pull cotangents back through it";
  let description = [{
    The results are those of `callee(arguments)`, followed by the vector-Jacobian
    products of the cotangents with respect to the arguments listed in `wrt`.
    `te-differentiate` replaces the op with the forward and the backward, inline.

    Constraints:
    1. (vjp-c1) `callee` is a function of this module whose inputs are the types of `arguments`.
    2. (vjp-c2) `cotangents` have the types of its results; integer results take none and are not allowed.
    3. (vjp-c3) `wrt` is strictly increasing and names floating-point arguments.
    4. (vjp-c4) results are the callee's results, then the types of the arguments in `wrt`.

    Example:

    ```mlir
    %loss, %dw = te.vjp @loss(%tokens, %w) cotangents(%one) wrt [1]
      : (tensor<256xi32>, tensor<512x512xbf16>), (tensor<f32>) -> (tensor<f32>, tensor<512x512xbf16>)
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee,
                       Variadic<AnyRankedTensor>:$arguments,
                       Variadic<AnyRankedTensor>:$cotangents,
                       DenseI64ArrayAttr:$wrt);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = [{
    $callee `(` $arguments `)` `cotangents` `(` $cotangents `)` `wrt` $wrt
    attr-dict `:` `(` type($arguments) `)` `,` `(` type($cotangents) `)`
    `->` `(` type($outputs) `)`
  }];
}

def TE_ResidualOp
    : TE_PureOp<"residual",
        TE_Axes<(axes "...":$value), (axes "...":$held)>,
        [SameOperandsAndResultType,
         TE_StoredFormOpInterface]> {
  let summary = "save a forward value for the backward";
  let description = [{
    Returns its operand. The backward reads values of the forward only through
    this op, so the residuals of a function are the values that are saved for the
    backward. Reports use `name`.

    Constraints:
    1. (residual-c1) `name` is not empty.

    Example:

    ```mlir
    %r = te.residual %x "mlp.x" : tensor<256x512xbf16>
    ```
  }];
  let arguments = (ins Arg<AnyTypeOf<[AnyRankedTensor, TE_ScaledType]>,
                           "value of the forward">:$value,
                       StrAttr:$name);
  let results = (outs Res<AnyTypeOf<[AnyRankedTensor, TE_ScaledType]>,
                          "the same value">:$held);
  let assemblyFormat = "$value $name attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def TE_ByRowsOp
    : TE_PureOp<"by_rows",
        TE_NoAxes,
        [AttrSizedOperandSegments, IsolatedFromAbove, SingleBlock]> {
  let summary = "compute a chain of ops over a few rows at a time";
  let description = [{
    The results are the operands of the te.yield of the body, which is written for
    all rows. It is run on `rows` rows of `inputs` at a time, and on the rest at the
    end, so that a value of the body that is not returned has memory for so many
    rows only. The results are those of running the body on all rows at once: each
    row of a GEMM, of a loss and of a cast is computed from its row, scales of an
    axis-0 cast from 128 rows, and the sum of the loss is added at the end, as are
    the sums of 128 rows each of a te.bias_grad. One
    launch computes and casts a gradient of logits that nothing but one cast reads,
    with the same bits. `te-chunk-logits` creates the op.

    The first operand of each op of the body, and its tokens, are computed by rows.
    Its others are arguments for `with`. All operands of an elementwise op are
    computed by rows, or are constants; `te-form-regions` writes these ops as loops
    over all elements, with reshapes around them. A cast for axis 0 may only be returned, as
    may losses, sums and amaxes; a cast for axis 1 may not.

    Constraints:
    1. (by_rows-c1) the body has an argument for each operand, of its type.
    2. (by_rows-c2) `inputs` are tensors of the same number of rows, or scaled values for axis 1 in the schemes `per_tensor` and `block_1x128`.
    3. (by_rows-c3) `rows` is a positive multiple of 128.
    4. (by_rows-c4) the body consists of te.matmul, te.scaled_matmul (both without `accumulate`), te.cross_entropy, te.cross_entropy_backward, te.bias_grad, te.quantize (of one matrix, in the schemes of c2, and not cached) and, of matrices with all rows, elementwise ops, constants, slices of the first columns, and concatenations of columns.
    5. (by_rows-c5) operands of the body's ops are computed by rows, or for all rows, as above.
    6. (by_rows-c6) te.yield returns results of GEMMs, losses, sums and casts, and the results have their types.

    Example:

    ```mlir
    %loss = te.by_rows (%x, %targets) with (%w) rows 128
        : (tensor<256x512xbf16>, tensor<256xi32>, tensor<1000x512xbf16>) -> tensor<f32> {
    ^bb0(%x_rows: tensor<256x512xbf16>, %targets_rows: tensor<256xi32>, %weight: tensor<1000x512xbf16>):
      %logits = te.matmul %x_rows, %weight contract = [1, 1]
        : tensor<256x512xbf16>, tensor<1000x512xbf16> -> tensor<256x1000xbf16>
      %mean = te.cross_entropy %logits, %targets_rows : tensor<256x1000xbf16>, tensor<256xi32>
      te.yield %mean : tensor<f32>
    }
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$inputs, Variadic<AnyType>:$whole,
                       I64Attr:$rows);
  let results = (outs Variadic<AnyType>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `(` $inputs `)` (`with` `(` $whole^ `)`)? `rows` $rows attr-dict
    `:` functional-type(operands, results) $body
  }];
  let extraClassDeclaration = [{
    /// The number of rows of all inputs.
    int64_t getNumRows();
    /// Whether `value` of the body is computed by rows.
    bool isByRows(::mlir::Value value);
  }];
  let hasVerifier = 1;
}

def TE_YieldOp
    : TE_PureOp<"yield", TE_NoAxes, [Terminator, HasParent<"ByRowsOp">]> {
  let summary = "end the body of te.by_rows";
  let description = [{
    Returns the results of the te.by_rows around it.

    Example:

    ```mlir
    te.yield %mean : tensor<f32>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "$values attr-dict `:` type($values)";
}

#endif // TEDIALECT_IR_TEAUTODIFFOPS_TD
