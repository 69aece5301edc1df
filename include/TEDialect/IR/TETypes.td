//===- TETypes.td - types of the te dialect -------------------------------===//

#ifndef TEDIALECT_IR_TETYPES_TD
#define TEDIALECT_IR_TETYPES_TD

include "mlir/IR/AttrTypeBase.td"
include "TEDialect/IR/TEEnums.td"

def TE_ScaledType : TypeDef<TE_Dialect, "Scaled"> {
  let mnemonic = "scaled";
  let summary = "a quantised matrix with its scales, for one contraction axis";
  let description = [{
    A logical `[rows, cols]` matrix of 8-bit or 4-bit floats together with the
    scales that dequantise it. `contract` is the axis along which it may be
    contracted: 1-D blocks run along that axis. Two usages of one tensor are two
    values of two types.

    Let `(outer, contraction)` be the sizes of the other axis and of the
    contraction axis. Data is stored as `[outer, contraction]` with the
    contraction axis contiguous. The `mx` schemes store `[rows, cols]` for
    either axis. FP4 packs two elements in a byte, the even one in the low
    nibble. Scales are stored as follows:

    | scheme | elements | scale | scale shape |
    |---|---|---|---|
    | `per_tensor` | FP8 | f32 | `[1]` |
    | `block_1x128` | FP8 | f32 | `[ceil(contraction, 128), roundup(outer, 4)]` |
    | `block_128x128` | FP8 | f32 | `[ceil(outer, 128), roundup(ceil(contraction, 128), 4)]` |
    | `mx_1x32` `mx_32x32` | FP8 | E8M0 | axis 1: `[roundup(rows, 128), roundup(cols / 32, 4)]`, axis 0: `[roundup(rows / 32, 4), roundup(cols, 128)]` |
    | `nv_1x16` `nv_16x16` | FP4 | E4M3 | `[roundup(outer, 128), roundup(contraction / 16, 4)]` |

    f32 scales are dequantisation factors. The `nv` schemes also have `amax`,
    f32 `[1]`, or `[rows]` with `row_scaled`. A square block repeats its scale
    for each of its rows. These keywords may follow the scheme, in this order:

    | keyword | schemes | meaning |
    |---|---|---|
    | `pow2` | per-tensor, block | every scale is a power of two |
    | `hadamard` | `nv_1x16` | the tensor was transformed by te.hadamard |
    | `row_scaled` | `nv_1x16`, axis 1 | one amax for each row |
    | `scale_max_256` | nv | the largest block scale is 256 instead of 448 |
    | `swizzled` | mx, nv | scales are in the order of te.swizzle_scales |

    The rows of several groups (experts) may share one matrix, where each group
    starts at a multiple of an alignment. The type then ends in `groups = G`,
    and `per_tensor` scales and nv amaxes are `[G]`, one for each group. Weights
    of groups are `[G, rows, cols]`: G values of shape `[rows, cols]`, whose
    data are stored one after another, and so are their scales and amaxes.

    With `shard = S` the data is the part of one rank of a group: the elements,
    counted row by row as all schemes with shards store them, are divided into
    runs of S, and rank r has run r, with padding after the last element. The
    scales, and the amax of nv schemes, are those of the whole matrix. Only
    te.quantize_shard creates such a value, and only te.all_gather reads it.

    Example:

    ```mlir
    !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>
    !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 0>
    !te.scaled<256x512xf8E5M2, mx_1x32, swizzled, contract = 1>
    !te.scaled<256x512xf4E2M1FN, nv_1x16, hadamard, contract = 0>
    !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1, groups = 4>
    !te.scaled<4x1024x512xf8E4M3FN, per_tensor, contract = 1>
    !te.scaled<160x128xf8E4M3FN, block_128x128, pow2, contract = 1, shard = 5197>
    !te.scaled<160x128xf4E2M1FN, nv_16x16, contract = 1, shard = 5198>
    ```

    Constraints:
    1. (scaled-c1) rank 2 with static sizes, or rank 3 for the weights of groups.
    2. (scaled-c2) an element type that the scheme has ([what runs where](support.md)).
    3. (scaled-c3) `contract` is 0 or 1.
    4. (scaled-c4) every keyword belongs to the scheme as the table says; `hadamard` and `row_scaled` exclude each other.
    5. (scaled-c5) both sizes are multiples of 32 for mx, and of 16 for nv.
    6. (scaled-c6) `groups`, of rank 2 only, and the first size of rank 3 are one or more; neither is `swizzled`.
    7. (scaled-c7) `shard`, from 1 to the number of elements, of rank 2 only, with `per_tensor`, `block_128x128` or nv and `contract = 1`, or mx and either, no `groups`, and not `swizzled`; of nv even, and neither `row_scaled` nor `hadamard`.
  }];
  let parameters = (ins
    ArrayRefParameter<"int64_t">:$shape,
    "::mlir::Type":$elementType,
    "::mlir::te::Scheme":$scheme,
    "::mlir::te::ScaleVariant":$variant,
    "unsigned":$contract,
    "int64_t":$groups,
    "int64_t":$shard);
  // The type of a whole value, and of one without groups.
  let builders = [TypeBuilder<(ins "::llvm::ArrayRef<int64_t>":$shape,
                                   "::mlir::Type":$elementType,
                                   "::mlir::te::Scheme":$scheme,
                                   "::mlir::te::ScaleVariant":$variant,
                                   "unsigned":$contract,
                                   "int64_t":$groups), [{
    return $_get($_ctxt, shape, elementType, scheme, variant, contract, groups,
                 int64_t(0));
  }]>, TypeBuilder<(ins "::llvm::ArrayRef<int64_t>":$shape,
                                   "::mlir::Type":$elementType,
                                   "::mlir::te::Scheme":$scheme,
                                   "::mlir::te::ScaleVariant":$variant,
                                   "unsigned":$contract), [{
    return $_get($_ctxt, shape, elementType, scheme, variant, contract,
                 int64_t(0), int64_t(0));
  }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Rows of the matrix, or of each matrix of a stack.
    int64_t getRows() const { return getShape().drop_back().back(); }
    int64_t getCols() const { return getShape().back(); }
    /// Size of the axis this value may be contracted along.
    int64_t getContraction() const {
      return getContract() == 0 ? getRows() : getCols();
    }
    /// Size of the other axis.
    int64_t getOuter() const {
      return getContract() == 0 ? getCols() : getRows();
    }
    /// Whether the matrix has rows of several groups.
    bool isGrouped() const { return getGroups() != 0; }
    /// Whether the elements are the part of one rank.
    bool isShard() const { return getShard() != 0; }
    /// Whether there is one matrix for each group.
    bool isStacked() const { return getShape().size() == 3; }
    /// Number of matrices, which are stored one after another.
    int64_t getNumMatrices() const { return isStacked() ? getShape()[0] : 1; }
    /// Number of groups of either kind; 1 without groups.
    int64_t getNumGroups() const {
      return isGrouped() ? getGroups() : getNumMatrices();
    }
    bool is(ScaleVariant variant) const {
      return bitEnumContainsAll(getVariant(), variant);
    }
    bool getPow2() const { return is(ScaleVariant::Pow2); }
    bool isMx() const {
      return getScheme() == Scheme::Mx1x32 || getScheme() == Scheme::Mx32x32;
    }
    bool isNv() const {
      return getScheme() == Scheme::Nv1x16 || getScheme() == Scheme::Nv16x16;
    }
    /// Largest block scale of an nv scheme.
    int32_t getScaleMax() const {
      return is(ScaleVariant::ScaleMax256) ? 256 : 448;
    }
    /// Shape of the data in bytes, as stored.
    ::llvm::SmallVector<int64_t> getDataShape() const;
    int64_t getDataBytes() const;
    /// Shape of the scales, padding included.
    ::llvm::SmallVector<int64_t> getScaleShape() const;
    ::mlir::Type getScaleType() const;
    int64_t getScaleBytes() const;
    /// Number of f32 amaxes, which only the nv schemes have.
    int64_t getNumAmaxes() const {
      return !isNv()                          ? 0
             : is(ScaleVariant::RowScaled) ? getRows() * getNumMatrices()
                                           : getNumGroups();
    }
    /// Rows and columns of a block of a shard, which has one scale.
    ::llvm::SmallVector<int64_t, 2> getBlockShape() const;
    /// Number of those blocks; the last of a row or column may be smaller.
    ::llvm::SmallVector<int64_t, 2> getBlocks() const;
    /// The type of a rank's `count` elements of this value, and of the whole value.
    ScaledType getShardOf(int64_t count) const;
    ScaledType getWhole() const { return getShardOf(0); }
    /// The same value in group layout.
    ScaledType getInGroups(int64_t groups) const;
    /// The same value cast for the other axis.
    ScaledType getTransposedUsage() const;
    /// The same value without the promise that its scales are powers of two.
    ScaledType getAnyScales() const;
    /// The same value with its scales swizzled.
    ScaledType getSwizzled() const;
    /// True when the other usage can be derived from this one bit for bit.
    bool isTransposeExact() const;
  }];
}

#endif // TEDIALECT_IR_TETYPES_TD
