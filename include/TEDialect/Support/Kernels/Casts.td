//===- Casts.td - quantisation, scales and transposes ---------------------===//

def Casts : Family<"Casts", 4>;

def amax : Kernel<Casts> {
  let Description = [{
    amax = max|x| as f32. NaN is ignored, inf is not, and the amax of an empty x is 0.
    If x_type is f32 and `type` bf16, it is that of the elements of `x` rounded to bf16.
  }];
  let Parameters = (parameters Dim:$count, WideType:$x_type, WideType:$type);
  let Buffers = (buffers In<["count"], "x_type">:$x, Out<["1"], "f32">:$amax,
                         InOpt<["1"], "f32">:$skip);
  let Relations = [RoundedFrom<"x_type", "type", "true">];
}

def amax_rows : Kernel<Casts> {
  let Description = [{
    The amax of each row: amax[r] = max|x[r, :]|, as the kernel amax computes it.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, WideType:$type);
  let Buffers = (buffers In<["rows", "cols"], "type">:$x, Out<["rows"], "f32">:$amax,
                         InOpt<["1"], "f32">:$skip);
  let Relations = [Fits<"rows", "cols">];
}

def block_to_mx_scales : Kernel<Casts> {
  let Description = [{
    Rewrites the scales of a block-scaled value stored as [outer, inner], which are
    powers of two, as the scales of an mx value of axis 1 and shape [outer, inner], in
    the order of swizzle_scales. The exponent of a block is repeated for each 32 of its
    elements and, for a square block, for each of its rows. A scale that is not a power
    of two of at least 2^-127 becomes NaN (0xff). Padding is zero.
  }];
  let Parameters = (parameters Dim:$outer, Dim:$inner,
                               SchemeFrom<Block1x128, Block128x128>:$scheme);
  let Buffers = (buffers In<["scales(scheme, outer, inner, 1)"], "f32">:$scale,
                         Out<["scales(mx_1x32, outer, inner, 1)"], "f8E8M0FNU">:$mx_scale);
  let Relations = [Fits<"outer", "inner">];
}

def compute_scale : Kernel<Casts> {
  let Description = [{
    scale[i] is the f32 quantisation factor for amax[i], by the rule of current scaling
    and of block scaling (math::computeScale).
  }];
  let Parameters = (parameters Dim:$count, Fp8Type:$fp8_type, Flag:$pow2_scales,
                               NonNegative:$amax_epsilon);
  let Buffers = (buffers In<["count"], "f32">:$amax, Out<["count"], "f32">:$scale);
}

def delayed_scaling_update : Kernel<Casts> {
  let Description = [{
    Updates the history and the scale of delayed scaling, for each slot (column) by
    itself. amax[slots] is what the casts of the slot measured in this step. history is
    [history_length, slots]; its row 0 is for a measurement that is not counted yet. Let
    last be amax, or history[0] if amax is 0. If last is 0, nothing changes. Otherwise,
    the window is W = (history[1], history[2], ..., last), and W becomes the history,
    except that row 0 is set to 0. `algorithm` selects max W (NaN is ignored) or last.
    If that value is finite and above 0, scale = rn32(fp8_max * 2^-margin / value), or
    the largest finite f32 instead of infinity. Otherwise, the scale does not change.
  }];
  let Parameters = (parameters Dim:$slots, Count:$history_length, AmaxAlgorithm:$algorithm,
                               Fp8Max:$fp8_max, Margin:$margin);
  let Buffers = (buffers In<["slots"], "f32">:$amax,
                         In<["history_length", "slots"], "f32">:$history,
                         In<["slots"], "f32">:$scale,
                         Out<["history_length", "slots"], "f32">:$new_history,
                         Out<["slots"], "f32">:$new_scale);
  let Relations = [Fits<"history_length", "slots">];
  let Reuses = [MayReuse<"new_history", "history">, MayReuse<"new_scale", "scale">];
}

/// The most members of one launch, as of adamw_group.
defvar kDelayedScalingGroup = 32;

def delayed_scaling_group : Kernel<Casts> {
  let Description = [{
    delayed_scaling_update of each member i whose number of slots is not 0, with
    `slots`i and the buffers with the number i, and with the other parameters of all. A
    member without slots has no buffers; all buffers of the others are needed.
  }];
  let Parameters = !con((parameters Count:$history_length, AmaxAlgorithm:$algorithm,
                                    Fp8Max:$fp8_max, Margin:$margin),
                        EachParameter<"slots", Dim, kDelayedScalingGroup>.List);
  let Buffers = !con(
      EachIn<"amax", "slots", "f32", kDelayedScalingGroup>.List,
      EachIn<"history", "history_length * slots", "f32", kDelayedScalingGroup>.List,
      EachIn<"scale", "slots", "f32", kDelayedScalingGroup>.List,
      EachOut<"new_history", "history_length * slots", "f32", kDelayedScalingGroup>.List,
      EachOut<"new_scale", "slots", "f32", kDelayedScalingGroup>.List);
  let HasRule = 1;
  let Reuses = !listconcat(EachReuse<"new_history", "history", kDelayedScalingGroup>.List,
                           EachReuse<"new_scale", "scale", kDelayedScalingGroup>.List);
}

def dequantize : Kernel<Casts> {
  let Description = [{
    out[rows, cols] = round(float(q) * factor), from either storage axis. factor is
    scale_inv. For mx it is 2^(e - 127), and NaN for e = 255. For nv, with the scale s,
    it is rn32(rn32(s * amax) * rn32(1 / (6 * scale_max))), or s if there is no amax.
    Each multiplication is one f32 rounding. For nv, `fp8_type` is f4E2M1FN and
    `scale_max` 448 or 256; for other schemes `row_scaled` and `scale_max` are 0.
  }];
  let Parameters = (parameters Matrices:$matrices, Dim:$rows, Dim:$cols, AnyType:$fp8_type,
                               AnyScheme:$scheme, Flag:$axis, Flag:$row_scaled,
                               AnyInt32:$scale_max, WideType:$out_type);
  let Buffers = (buffers In<["matrices", "rows", "cols"], "fp8_type">:$data,
                         In<["matrices", "scales(scheme, rows, cols, axis)"], "scaleType(scheme)">:$scale,
                         InOpt<["matrices", "row_scaled != 0 ? rows : 1"], "f32">:$amax,
                         Out<["matrices", "rows", "cols"], "out_type">:$out);
  let Relations = [Fits<"rows", "cols">,
                   FitsText<"'matrices' and the elements of one", "matrices", "rows * cols">,
                   Multiple<"rows", "sizeMultiple(scheme)">,
                   Multiple<"cols", "sizeMultiple(scheme)">];
  let HasRule = 1;
}

def hadamard : Kernel<Casts> {
  let Description = [{
    The transform that spreads outliers before nv quantisation for contraction along the
    rows: each run of 16 rows of a column, as a row vector, is multiplied by
    T = diag(s) H / 4. H is the Sylvester matrix of order 16, and
    s = (+ + + - + - - - - - - + - + - -). Input and output are bf16. f32 sums are in
    the order of math::hadamard16 and are rounded once.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols);
  let Buffers = (buffers In<["rows", "cols"], "bf16">:$x, Out<["rows", "cols"], "bf16">:$y);
  let Relations = [Fits<"rows", "cols">, Multiple<"rows", "16">];
}

def nvfp4_alpha : Kernel<Casts> {
  let Description = [{
    The factor of a GEMM of nv operands, one for each row of the result: alpha[r] =
    rn32(rn32(a_amax[r] * b_amax) * rn32(1 / (36 a_scale_max b_scale_max))). rows is 1
    if a has one amax for all of its rows.
  }];
  let Parameters = (parameters Matrices:$matrices, Dim:$rows, ScaleMax:$a_scale_max,
                               ScaleMax:$b_scale_max);
  let Buffers = (buffers In<["matrices", "rows"], "f32">:$a_amax, In<["matrices"], "f32">:$b_amax,
                         Out<["matrices", "rows"], "f32">:$alpha);
  let Relations = [FitsText<"'matrices' and the elements of one", "matrices", "rows">];
}

def quantize_block : Kernel<Casts> {
  let Description = [{
    Block quantisation of x[rows, cols] for contraction along the columns (`row` and
    `row_scale`), along the rows (`col` and `col_scale`), or both. The scale of each
    block is computed from the amax of that block. The missing elements of a partial
    block count as zero. `x` may have fewer rows and columns (x_rows, x_cols): the others
    are zeros, as in all casts of this section that have these parameters. With
    square blocks and f8E4M3FN, `x` may be f32 (x_type) where `type` is bf16: its elements
    are first rounded to nearest even to bf16.
  }];
  let Parameters = (parameters Matrices:$matrices, Dim:$rows, Dim:$cols, Dim:$x_rows, Dim:$x_cols,
                               WideType:$x_type, WideType:$type,
                               Fp8Type:$fp8_type, SchemeFrom<Block1x128, Block128x128>:$scheme,
                               Flag:$pow2_scales, NonNegative:$amax_epsilon);
  let Buffers = (buffers In<["matrices", "x_rows", "x_cols"], "x_type">:$x,
                         OutOpt<["matrices", "rows", "cols"], "fp8_type">:$row,
                         OutOpt<["matrices", "scales(scheme, rows, cols, 1)"], "f32">:$row_scale,
                         OutOpt<["matrices", "cols", "rows"], "fp8_type">:$col,
                         OutOpt<["matrices", "scales(scheme, rows, cols, 0)"], "f32">:$col_scale,
                         InOpt<["1"], "f32">:$skip);
  let Relations = [Fits<"rows", "cols">, AtMost<"x_rows", "rows">, AtMost<"x_cols", "cols">,
                   FitsText<"'matrices' and the elements of one", "matrices", "rows * cols">,
                   RoundedFrom<"x_type", "type", "fp8_type == f8E4M3FN && scheme == block_128x128">];
}

def quantize_mx : Kernel<Casts> {
  let Description = [{
    MX quantisation of x[rows, cols] for contraction along the columns (`row`), along
    the rows (`col`), or both. The exponent of a block is that of the least power of two
    not below rn32(amax * rn32(1 / max of the type)), which math::mxExponent computes
    from the bits. q is rn32(x * 2^(127 - e)), rounded to nearest even and saturated.
    What is outside of x[x_rows, x_cols] is zero.
  }];
  let Parameters = (parameters Matrices:$matrices, Dim:$rows, Dim:$cols, Dim:$x_rows, Dim:$x_cols,
                               WideType:$type,
                               Fp8Type:$fp8_type, SchemeFrom<MX1x32, MX32x32>:$scheme);
  let Buffers = (buffers In<["matrices", "x_rows", "x_cols"], "type">:$x,
                         OutOpt<["matrices", "rows", "cols"], "fp8_type">:$row,
                         OutOpt<["matrices", "scales(scheme, rows, cols, 1)"], "f8E8M0FNU">:$row_scale,
                         OutOpt<["matrices", "rows", "cols"], "fp8_type">:$col,
                         OutOpt<["matrices", "scales(scheme, rows, cols, 0)"], "f8E8M0FNU">:$col_scale,
                         InOpt<["1"], "f32">:$skip);
  let Relations = [Fits<"rows", "cols">, AtMost<"x_rows", "rows">, AtMost<"x_cols", "cols">,
                   FitsText<"'matrices' and the elements of one", "matrices", "rows * cols">,
                   Multiple<"rows", "32">,
                   Multiple<"cols", "32">];
}

def quantize_nvfp4 : Kernel<Casts> {
  let Description = [{
    Two-level quantisation of x[rows, cols] to e2m1. `scheme` is nv_1x16 or nv_16x16,
    and rows and cols are multiples of 16. Every operation is in f32 and rounded once:
      S = min((6 scale_max) / amax, FLT_MAX), or 1 if amax or S is 0
      scale = e4m3(min(block_amax * (S * rn32(1/6)), FLT_MAX))
      inverse = min(1 / (float(scale) * (1 / S)), FLT_MAX)
      q = e2m1(x * inverse)
    e4m3 and e2m1 round to nearest even and saturate. The sign of 0 is kept. NaN becomes
    +6 (code 7) and is ignored in block_amax. `amax` is f32[1], max|x| as the kernel
    amax computes it. With row_scaled it is f32[rows], and each row has its own S; then
    `col` and its scales are not written. `amax` is copied to each *_amax.

    four_over_six: with b = (block_amax / 6) * S, a block has the scale e4m3(min(1.5 b,
    448)) instead of e4m3(min(b, 448)) if its error is then smaller. The error of a row
    of a block is the sum in order, from 0, of |d| (1) or d * d (2), where d = ((q *
    scale) * amax) / (6 scale_max) - x. The error of a 16x16 block is the tree sum of
    the errors of its 16 rows, acc[i] += acc[i + s] for s = 8, 4, 2, 1. The rows are
    those of x, for `row` and for `col`. What is outside of x[x_rows, x_cols] is zero.

    stochastic: with v = |x * inverse| between the neighbours lo <= v < hi of e2m1, the
    result is hi if floor(256 (v - lo) / (hi - lo)) + byte >= 256, and lo otherwise. The
    byte of element j of a group of 16 elements is byte j % 4 of word j / 4 of
    Philox4x32-10 with key (seed, stream) and counter (g mod 2^32, g / 2^32, offset, 0
    for row or 1 for col); g counts groups in storage order. `rng` is i32[2] = (seed,
    offset), or (0, 0) if it is absent.
  }];
  let Parameters = (parameters Matrices:$matrices, Dim:$rows, Dim:$cols, Dim:$x_rows, Dim:$x_cols,
                               WideType:$type,
                               SchemeFrom<NV1x16, NV16x16>:$scheme, Flag:$row_scaled,
                               ScaleMax:$scale_max, FourOverSix:$four_over_six, Flag:$stochastic,
                               AnyInt32:$stream);
  let Buffers = (buffers In<["matrices", "x_rows", "x_cols"], "type">:$x,
                         In<["matrices", "row_scaled != 0 ? rows : 1"], "f32">:$amax,
                         InOpt<["2"], "i32">:$rng,
                         OutOpt<["matrices", "rows", "cols"], "f4E2M1FN">:$row,
                         OutOpt<["matrices", "scales(scheme, rows, cols, 1)"], "f8E4M3FN">:$row_scale,
                         OutOpt<["matrices", "row_scaled != 0 ? rows : 1"], "f32">:$row_amax,
                         OutOpt<["matrices", "cols", "rows"], "f4E2M1FN">:$col,
                         OutOpt<["matrices", "scales(scheme, rows, cols, 0)"], "f8E4M3FN">:$col_scale,
                         OutOpt<["matrices"], "f32">:$col_amax, InOpt<["1"], "f32">:$skip);
  let Relations = [Fits<"rows", "cols">, AtMost<"x_rows", "rows">, AtMost<"x_cols", "cols">,
                   FitsText<"'matrices' and the elements of one", "matrices", "rows * cols">,
                   Multiple<"rows", "16">,
                   Multiple<"cols", "16">];
  let HasRule = 1;
  let Cases = [When<"stochastic != 0", RandomBits>];
}

def quantize_rows : Kernel<Casts> {
  let Description = [{
    Casts `rows` rows of a matrix, from first_row on, as quantize_tensor (per_tensor) or
    quantize_block (block_1x128) casts them within all whole_rows rows. `x`, `row` and
    `row_scale` have only these rows. `col` and `col_scale` are those of the whole
    matrix; only what belongs to these rows is written. `scale` is given for per_tensor,
    for which pow2_scales and amax_epsilon are 0. `amax` receives max|x| of these rows,
    for per_tensor.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, Dim:$whole_rows, Dim:$first_row,
                               WideType:$type, Fp8Type:$fp8_type,
                               SchemeFrom<PerTensor, Block1x128>:$scheme, Flag:$pow2_scales,
                               NonNegative:$amax_epsilon);
  let Buffers = (buffers In<["rows", "cols"], "type">:$x, InOpt<["1"], "f32">:$scale,
                         OutOpt<["rows", "cols"], "fp8_type">:$row,
                         OutOpt<["scales(scheme, rows, cols, 1)"], "f32">:$row_scale,
                         OutOpt<["cols", "whole_rows"], "fp8_type">:$col,
                         OutOpt<["scales(scheme, whole_rows, cols, 0)"], "f32">:$col_scale,
                         OutOpt<["1"], "f32">:$amax);
  let Relations = [Fits<"rows", "cols">, Fits<"whole_rows", "cols">,
                   Multiple<"first_row", "128">];
  let HasRule = 1;
}

def quantize_tensor : Kernel<Casts> {
  let Description = [{
    Per-tensor quantisation with a given scale; each *_scale that is written is
    rn32(1/scale). With from_amax, `scale` is the amax that the scale is computed from,
    as by the kernel compute_scale; otherwise, pow2_scales and amax_epsilon have no
    effect. `amax` receives max|x|, as the kernel amax computes it. What is outside of
    x[x_rows, x_cols] is zero. For f8E4M3FN, `x` may be f32 where `type` is bf16, as in
    quantize_block.
  }];
  let Parameters = (parameters Matrices:$matrices, Dim:$rows, Dim:$cols, Dim:$x_rows, Dim:$x_cols,
                               WideType:$x_type, WideType:$type,
                               Fp8Type:$fp8_type, Flag:$from_amax, Flag:$pow2_scales,
                               NonNegative:$amax_epsilon);
  let Buffers = (buffers In<["matrices", "x_rows", "x_cols"], "x_type">:$x,
                         In<["matrices"], "f32">:$scale,
                         OutOpt<["matrices", "rows", "cols"], "fp8_type">:$row,
                         OutOpt<["matrices"], "f32">:$row_scale,
                         OutOpt<["matrices", "cols", "rows"], "fp8_type">:$col,
                         OutOpt<["matrices"], "f32">:$col_scale, OutOpt<["matrices"], "f32">:$amax,
                         InOpt<["1"], "f32">:$skip);
  let Relations = [Fits<"rows", "cols">, AtMost<"x_rows", "rows">, AtMost<"x_cols", "cols">,
                   FitsText<"'matrices' and the elements of one", "matrices", "rows * cols">,
                   RoundedFrom<"x_type", "type", "fp8_type == f8E4M3FN">];
}

def quantize_tensor_group : Kernel<Casts> {
  let Description = [{
    quantize_tensor of two matrices, with the buffers of each number and with the
    parameters and `skip` of both. Both have the same outputs.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, Dim:$x_rows, Dim:$x_cols,
                               WideType:$x_type, WideType:$type,
                               Fp8Type:$fp8_type, Flag:$from_amax, Flag:$pow2_scales,
                               NonNegative:$amax_epsilon);
  let Buffers = (buffers In<["x_rows", "x_cols"], "x_type">:$x0,
                         In<["x_rows", "x_cols"], "x_type">:$x1,
                         In<["1"], "f32">:$scale0, In<["1"], "f32">:$scale1,
                         OutOpt<["rows", "cols"], "fp8_type">:$row0,
                         OutOpt<["rows", "cols"], "fp8_type">:$row1,
                         OutOpt<["1"], "f32">:$row_scale0, OutOpt<["1"], "f32">:$row_scale1,
                         OutOpt<["cols", "rows"], "fp8_type">:$col0,
                         OutOpt<["cols", "rows"], "fp8_type">:$col1,
                         OutOpt<["1"], "f32">:$col_scale0, OutOpt<["1"], "f32">:$col_scale1,
                         OutOpt<["1"], "f32">:$amax0, OutOpt<["1"], "f32">:$amax1,
                         InOpt<["1"], "f32">:$skip);
  let Relations = [Fits<"rows", "cols">, AtMost<"x_rows", "rows">, AtMost<"x_cols", "cols">,
                   RoundedFrom<"x_type", "type", "fp8_type == f8E4M3FN">];
}

def swizzle_scales : Kernel<Casts> {
  let Description = [{
    Writes the mx or nv scales of a [rows, cols] value in the order of the block-scaled
    tensor core: entry (i, j) of the [I, J] scales goes to byte
      (i / 128 * (J / 4) + j / 4) * 512 + i % 32 * 16 + i / 32 % 4 * 4 + j % 4.
    The [up(rows/32, 4), up(cols, 128)] scales of an mx value of axis 0 are read
    transposed, so j always runs along the contraction axis.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, SchemeFrom<MX1x32, NV16x16>:$scheme,
                               Flag:$axis);
  let Buffers = (buffers In<["scales(scheme, rows, cols, axis)"], "scaleType(scheme)">:$scale,
                         Out<["scales(scheme, rows, cols, axis)"], "scaleType(scheme)">:$swizzled);
  let Relations = [Fits<"rows", "cols">,
                   Multiple<"rows", "sizeMultiple(scheme)">,
                   Multiple<"cols", "sizeMultiple(scheme)">];
}

def transpose_scaled : Kernel<Casts> {
  let Description = [{
    Converts a scaled value of logical shape [rows, cols] and axis 1 to the same value
    stored for axis 0, exactly, for per_tensor, block_128x128, mx_32x32 and nv_16x16.
    The data of mx_32x32 does not change. The amax of nv_16x16 is copied if both amax
    buffers are given; other schemes do not use them.
  }];
  let Parameters = (parameters Matrices:$matrices, Dim:$rows, Dim:$cols, AnyScheme:$scheme);
  let Buffers = (buffers In<["matrices", "rows", "cols"], "dataType(scheme)">:$data,
                         In<["matrices", "scales(scheme, rows, cols, 1)"], "scaleType(scheme)">:$scale,
                         InOpt<["matrices"], "f32">:$amax,
                         Out<["matrices", "cols", "rows"], "dataType(scheme)">:$out_data,
                         Out<["matrices", "scales(scheme, rows, cols, 0)"], "scaleType(scheme)">:$out_scale,
                         OutOpt<["matrices"], "f32">:$out_amax, InOpt<["1"], "f32">:$skip);
  let Relations = [Fits<"rows", "cols">,
                   FitsText<"'matrices' and the elements of one", "matrices", "rows * cols">,
                   Multiple<"rows", "sizeMultiple(scheme)">,
                   Multiple<"cols", "sizeMultiple(scheme)">];
  let HasRule = 1;
}
