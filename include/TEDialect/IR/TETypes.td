//===- TETypes.td - types of the te dialect -------------------------------===//

#ifndef TEDIALECT_IR_TETYPES_TD
#define TEDIALECT_IR_TETYPES_TD

include "mlir/IR/AttrTypeBase.td"
include "TEDialect/IR/TEEnums.td"

def TE_ScaledType : TypeDef<TE_Dialect, "Scaled"> {
  let mnemonic = "scaled";
  let summary = "a quantised matrix with its scales, made for one contraction axis";
  let description = [{
    A logical `[rows, cols]` matrix of 8-bit floats together with its f32
    dequantisation factors. `contract` is the axis it may be contracted along:
    1-D blocks run along that axis and it is contiguous in storage, so axis 1
    is stored `[rows, cols]` and axis 0 is stored `[cols, rows]`. Two usages of
    one tensor are two values of two types.

    With `(outer, contraction)` the sizes of the other axis and of the
    contraction axis, scales are stored as

    | scheme | scale shape |
    |---|---|
    | `per_tensor` | `[1]` |
    | `block_1x128` | `[ceil(contraction, 128), roundup(outer, 4)]` |
    | `block_128x128` | `[ceil(outer, 128), roundup(ceil(contraction, 128), 4)]` |

    `pow2` says that every scale is a power of two.

    Example:

    ```mlir
    !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>
    !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 0>
    ```

    Constraints:
    1. (scaled-c1) rank 2 with static sizes.
    2. (scaled-c2) an element type that the scheme has ([what runs where](support.md)).
    3. (scaled-c3) `contract` is 0 or 1.
  }];
  let parameters = (ins
    ArrayRefParameter<"int64_t">:$shape,
    "::mlir::Type":$elementType,
    "::mlir::te::Scheme":$scheme,
    "bool":$pow2,
    "unsigned":$contract);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getRows() const { return getShape()[0]; }
    int64_t getCols() const { return getShape()[1]; }
    /// Size of the axis this value may be contracted along.
    int64_t getContraction() const { return getShape()[getContract()]; }
    /// Size of the other axis.
    int64_t getOuter() const { return getShape()[1 - getContract()]; }
    int64_t getDataBytes() const { return getRows() * getCols(); }
    /// Shape of the f32 scales, padding included.
    ::llvm::SmallVector<int64_t> getScaleShape() const;
    int64_t getScaleBytes() const;
    /// The same value made for the other axis.
    ScaledType getTransposedUsage() const;
    /// True when the other usage can be derived from this one bit for bit.
    bool isTransposeExact() const;
  }];
}

#endif // TEDIALECT_IR_TETYPES_TD
