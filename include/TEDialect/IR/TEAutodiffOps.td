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

#endif // TEDIALECT_IR_TEAUTODIFFOPS_TD
