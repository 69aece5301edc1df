//===- TEQuantizeOps.td - casts of matrices, shards and groups ------------===//
//
// There is one op for each kind of tensor, because their other operands differ:
// matrices and stacks of matrices, the flat shard of a matrix that one rank
// has, and rows in groups. Passes use all three through TE_QuantizeOpInterface.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_IR_TEQUANTIZEOPS_TD
#define TEDIALECT_IR_TEQUANTIZEOPS_TD

include "TEDialect/IR/TEConstraints.td"
include "mlir/IR/OpAsmInterface.td"

/// A cast. Its results are the usages of one tensor and, if the op can measure
/// it, the amax.
class TE_CastOp<string mnemonic, list<Trait> traits = []>
    : TE_PureOp<mnemonic,
        TE_Axes<(axes "...":$x), (axes "...":$usages)>,
        [TE_QuantizeOpInterface, TE_StoredFormOpInterface] # traits> {
  code castDeclarations = [{
    ::mlir::te::QuantizeOpInterface
    withResults(::mlir::OpBuilder &builder, ::mlir::TypeRange usages,
                ::mlir::Type amax);
  }];
  let extraClassDeclaration = castDeclarations;
  let hasVerifier = 1;
}

def TE_QuantizeOp
    : TE_CastOp<"quantize", [AttrSizedOperandSegments, AttrSizedResultSegments,
        TE_SkippableOpInterface,
        DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "quantise a matrix for one or both contraction axes";
  let description = [{
    `q = saturate(round(x * scale))`, rounded to nearest even. The scale of a
    `per_tensor` result is an operand. Block and mx results compute one scale
    per block from the amax of the block. nv results compute it from the amax of
    the block and from `given_amax`, which is the result of te.amax or, for
    `row_scaled`, of te.amax_rows. Two results are the two usages of one tensor
    and are computed in one pass. `amax` is `max |x|` as te.amax defines it,
    measured in the same pass, for te.delayed_scaling_update. In a stack of
    weights `[groups, rows, columns]` each matrix is cast by itself.

    With `rng` the elements of nv results are rounded stochastically. The random
    bits are a function of the state, `stream`, the axis and the position of the
    element, so two casts with one state and different streams round
    independently. With `four_over_six` each block of an nv result maps its amax
    to 4 if that has the smaller error.

    With `into` and `skip` the cast is cached. If `skip` is exactly 1.0, the
    results are the values of `into`, with bytes and scales unchanged, and
    `amax` is 0. With any other `skip`, `x` is cast. The flag is read on the
    device, so a captured step can be replayed with another value. A cached cast
    is the last reader of its `into`, because its results reuse that memory.

    With `rounded`, `x` is f32, and its elements are first rounded to that type, to
    nearest even, as by arith.truncf; `amax` is that of the rounded values. The tensor
    of rounded values is not stored.

    te.quantize_shard casts one rank's part of a matrix, and te.grouped_quantize
    casts rows in groups.

    Constraints:
    1. (quantize-c1) one or two results.
    2. (quantize-c2) every result has the shape of `x`.
    3. (quantize-c3) two results differ in nothing but `contract`.
    4. (quantize-c4) `scale` is given exactly when the scheme is `per_tensor`.
    5. (quantize-c5) `amax_epsilon` is finite, not negative, and only given for block schemes.
    6. (quantize-c6) `amax` is only given for `per_tensor` results of one matrix.
    7. (quantize-c7) `given_amax` is given exactly for nv schemes.
    8. (quantize-c8) `rng` and `four_over_six` are only given for nv schemes, `stream` only with `rng`, `rng` neither with `four_over_six` nor for `row_scaled`.
    9. (quantize-c9) no result is `swizzled`; only te.swizzle_scales has swizzled results.
    10. (quantize-c10) `scale` and `given_amax` are scalars, or `[groups]` for a stack; `given_amax` for `row_scaled` is `[rows]`.
    11. (quantize-c11) `into` is given exactly with `skip`: one value for each result, of its type.
    12. (quantize-c12) `rounded` is bf16 and only given for an `x` of f32 and results of f8E4M3FN, `per_tensor` or `block_128x128`.

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

    ```mlir
    %amax = te.amax %dy : tensor<256x512xbf16>
    %q = te.quantize %dy amax %amax rng %state {stream = 3 : i32} : tensor<256x512xbf16>
      -> !te.scaled<256x512xf4E2M1FN, nv_1x16, contract = 1>
    ```

    ```mlir
    %now = te.quantize %w into %cached unless %skip : tensor<256x512xbf16>
      -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
    ```

    ```mlir
    %q = te.quantize %w {rounded = bf16} : tensor<256x512xf32>
      -> !te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrices, "matrix or stack to quantise">:$x,
                       Arg<Optional<TE_F32Tensor>, "per-tensor scale">:$scale,
                       Arg<Optional<TE_F32Tensor>, "amax of an nv cast">:$given_amax,
                       Arg<Optional<TE_RngState>, "state to round with">:$rng,
                       Arg<Variadic<TE_MatrixScaled>, "cached usages">:$into,
                       Arg<Optional<TE_F32Scalar>, "1.0 keeps the cached usages">:$skip,
                       DefaultValuedAttr<F32Attr, "0.0f">:$amax_epsilon,
                       DefaultValuedAttr<I32Attr, "0">:$stream,
                       DefaultValuedAttr<TE_FourOverSixAttr, "::mlir::te::FourOverSix::Off">:$four_over_six,
                       OptionalAttr<TypeAttr>:$rounded);
  let results = (outs Res<Variadic<TE_MatrixScaled>, "the usages">:$usages,
                      Res<Optional<TE_F32Scalar>, "max |x|">:$amax);
  // The types of other operands follow from the usages.
  let assemblyFormat = [{
    $x (`scale` $scale^)? (`amax` $given_amax^)? (`rng` $rng^)?
    (`into` $into^)? (`unless` $skip^)? attr-dict `:` type($x) `->`
    custom<CastTypes>(type($usages), type($scale), ref($scale),
                      type($given_amax), ref($given_amax),
                      type($into), ref($into))
    (`amax` type($amax)^)?
  }];
  let builders = [
    // A cast that is not cached and has no `amax` result.
    OpBuilder<(ins "::mlir::TypeRange":$usages, "::mlir::Value":$x,
                   "const ::mlir::te::CastArgs &":$args)>
  ];
  let extraClassDeclaration = castDeclarations # [{
    ::mlir::Value getCached(unsigned index) {
      return index < getInto().size() ? getInto()[index] : ::mlir::Value();
    }
    /// The type whose values are quantised: that of `x`, or `rounded`.
    ::mlir::Type getQuantizedType() {
      return getRounded().value_or(
          ::mlir::cast<::mlir::ShapedType>(getX().getType()).getElementType());
    }
  }];
}

def TE_QuantizeShardOp
    : TE_CastOp<"quantize_shard", [AttrSizedOperandSegments,
        TE_SkippableOpInterface,
        DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "quantise one rank's flat shard of a matrix";
  let description = [{
    `x` is this rank's part of a matrix that is cut at any element, as
    te.partial_amax describes it. The result is what te.quantize of the whole
    matrix computes for these elements, so the gathered parts of all ranks have
    the bits of that cast.

    A `per_tensor` result takes the scale of the whole matrix, and may measure
    the `amax` of this part. The other schemes may have blocks that are cut
    between ranks. They take the amaxes of all blocks of the matrix:
    te.partial_amax, reduced over `group`. The largest of them is the amax of an
    nv value. `into` and `skip` are those of te.quantize.

    Constraints:
    1. (quantize_shard-c1) `x` has as many elements as `shard` of the result says.
    2. (quantize_shard-c2) `scale`, a scalar, is given exactly when the scheme is `per_tensor`.
    3. (quantize_shard-c3) `given_amax` is given exactly for other schemes: one for each block of the matrix.
    4. (quantize_shard-c4) `group` is given exactly with `given_amax`, and `te.groups` declares it; its ranks cover the matrix.
    5. (quantize_shard-c5) `amax_epsilon` is finite, not negative, and only given for block schemes.
    6. (quantize_shard-c6) `amax` is only given for `per_tensor`.
    7. (quantize_shard-c7) `into` is given exactly with `skip`, and has the type of the result.

    Example:

    ```mlir
    %q = te.quantize_shard %x amax %amaxes group 0 : tensor<5197xbf16>
      -> !te.scaled<160x128xf8E4M3FN, block_128x128, pow2, contract = 1, shard = 5197>
    ```

    ```mlir
    %q, %amax = te.quantize_shard %x scale %scale : tensor<5197xbf16>
      -> !te.scaled<160x128xf8E4M3FN, per_tensor, contract = 1, shard = 5197> amax tensor<f32>
    ```
  }];
  let arguments = (ins Arg<TE_HPVector, "shard to quantise">:$x,
                       Arg<Optional<TE_F32Scalar>, "scale of the whole matrix">:$scale,
                       Arg<Optional<TE_F32Matrix>, "amaxes of all blocks">:$given_amax,
                       Arg<Optional<TE_ShardScaled>, "cached shard">:$into,
                       Arg<Optional<TE_F32Scalar>, "1.0 keeps the cached shard">:$skip,
                       DefaultValuedAttr<F32Attr, "0.0f">:$amax_epsilon,
                       OptionalAttr<I64Attr>:$group);
  let results = (outs Res<TE_ShardScaled, "the shard, quantised">:$usage,
                      Res<Optional<TE_F32Scalar>, "max |x|">:$amax);
  let assemblyFormat = [{
    $x (`scale` $scale^)? (`amax` $given_amax^)? (`group` $group^)?
    (`into` $into^)? (`unless` $skip^)? attr-dict `:` type($x) `->`
    custom<ShardTypes>(type($usage), type($given_amax), ref($given_amax),
                       type($into), ref($into))
    (`amax` type($amax)^)?
  }];
  let builders = [
    // A cast that is not cached and has no `amax` result; `group` is needed if
    // blocks may be cut.
    OpBuilder<(ins "::mlir::Type":$usage, "::mlir::Value":$x,
                   "::mlir::IntegerAttr":$group,
                   "const ::mlir::te::CastArgs &":$args)>
  ];
  let extraClassDeclaration = castDeclarations # [{
    ::mlir::ResultRange getUsages() {
      return getOperation()->getResults().take_front(1);
    }
    ::mlir::Value getCached(unsigned index) {
      return index == 0 ? getInto() : ::mlir::Value();
    }
  }];
}

def TE_GroupedQuantizeOp
    : TE_CastOp<"grouped_quantize", [AttrSizedOperandSegments]> {
  let summary = "quantise groups of rows for one or both contraction axes";
  let description = [{
    Casts rows in groups as te.quantize does. `group_sizes` and `alignment` say
    which rows belong to which group, as for te.grouped_amax. A `per_tensor`
    result has one scale for each group, and an nv result one amax. Per-tensor
    and nv casts write zeros to the rows of no group. Block and mx casts require
    those rows to be zeros, which te.zero_padding ensures.

    Constraints:
    1. (grouped_quantize-c1) one or two results.
    2. (grouped_quantize-c2) every result has the shape of `x`.
    3. (grouped_quantize-c3) two results differ in nothing but `contract`.
    4. (grouped_quantize-c4) `scale`, `[groups]`, is given exactly when the scheme is `per_tensor`.
    5. (grouped_quantize-c5) `amax_epsilon` is finite, not negative, and only given for block schemes.
    6. (grouped_quantize-c6) `given_amax` is given exactly for nv schemes: `[groups]`, or `[rows]` for `row_scaled`.
    7. (grouped_quantize-c7) `rng` and `four_over_six` are only given for nv schemes, `stream` only with `rng`, `rng` neither with `four_over_six` nor for `row_scaled`.
    8. (grouped_quantize-c8) `group_sizes` is `[groups]`; `alignment` is positive and divides the rows.

    Example:

    ```mlir
    %q = te.grouped_quantize %x scale %scales sizes %sizes {alignment = 16 : i64} : tensor<256x512xbf16>
      -> !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1, groups = 4>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "rows of the groups">:$x,
                       Arg<Optional<TE_F32Vector>, "scale of each group">:$scale,
                       Arg<Optional<TE_F32Vector>, "amaxes of an nv cast">:$given_amax,
                       Arg<Optional<TE_RngState>, "state to round with">:$rng,
                       Arg<TE_GroupSizes, "rows of each group">:$group_sizes,
                       I64Attr:$alignment,
                       DefaultValuedAttr<F32Attr, "0.0f">:$amax_epsilon,
                       DefaultValuedAttr<I32Attr, "0">:$stream,
                       DefaultValuedAttr<TE_FourOverSixAttr, "::mlir::te::FourOverSix::Off">:$four_over_six);
  let results = (outs Res<Variadic<TE_GroupedScaled>, "the usages">:$usages);
  let assemblyFormat = [{
    $x (`scale` $scale^)? (`amax` $given_amax^)? (`rng` $rng^)?
    `sizes` $group_sizes attr-dict `:` type($x) `->`
    custom<GroupedCastTypes>(type($usages), type($scale), ref($scale),
                             type($given_amax), ref($given_amax),
                             type($group_sizes))
  }];
  let builders = [
    OpBuilder<(ins "::mlir::TypeRange":$usages, "::mlir::Value":$x,
                   "::mlir::Value":$group_sizes, "int64_t":$alignment,
                   "const ::mlir::te::CastArgs &":$args)>
  ];
}

#endif // TEDIALECT_IR_TEQUANTIZEOPS_TD
