//===- Shards.td - casts of the part of a matrix that one rank has --------===//

def Shards : Family<"Casts of shards", 5>;

def partial_amax : Kernel<Shards> {
  let Description = [{
    Computes the amaxes of blocks over the elements of one rank's flat shard of a matrix
    [rows, cols]. x[i] is element begin + i of the matrix, counted row by row, where
    begin = start + count * (the number of this rank in the group bound to `rank_of`).
    Elements of x outside the matrix are padding and are never read. amax[i, j],
    [ceil(rows / block_rows), ceil(cols / block_cols)], is the amax of the elements of
    block (i, j) that the shard has, as the kernel amax computes it, or 0 if it has
    none. Blocks have block_rows x block_cols elements: 128x128, 1x32, 32x1, 32x32, 1x16
    or 16x16. `ranks` is the size of the group. No rank waits for another.
  }];
  let Parameters = (parameters Dim:$count, Dim:$rows, Dim:$cols, ShardStart:$start,
                               AnyInt64:$block_rows, AnyInt64:$block_cols, WideType:$type,
                               Ranks:$ranks, GroupNumber:$rank_of);
  let Buffers = (buffers In<["count"], "type">:$x,
                         Out<["ceilDiv(rows, block_rows)", "ceilDiv(cols, block_cols)"], "f32">:$amax,
                         InOpt<["1"], "f32">:$skip);
  let Relations = [Fits<"rows", "cols">, Fits<"count", "ranks">];
  let HasRule = 1;
}

def quantize_nvfp4_shard : Kernel<Shards> {
  let Description = [{
    Quantises a flat shard (see partial_amax) as quantize_nvfp4 quantises the whole
    matrix for contraction along the columns, rounded to nearest. `block_amax` has the
    amax of every whole block of the scheme; out_amax, the amax of the matrix, is the
    largest of them. data[i / 2] has the codes of x[i], with even i in the low nibble,
    and 0 for padding. scale has all scales of the matrix.
  }];
  let Parameters = (parameters Dim:$count, Dim:$rows, Dim:$cols, ShardStart:$start, WideType:$type,
                               SchemeFrom<NV1x16, NV16x16>:$scheme, ScaleMax:$scale_max,
                               Ranks:$ranks, GroupNumber:$rank_of);
  let Buffers = (buffers In<["count"], "type">:$x,
                         In<["blocks(scheme, rows, cols, 1)"], "f32">:$block_amax,
                         Out<["count"], "f4E2M1FN">:$data,
                         Out<["scales(scheme, rows, cols, 1)"], "f8E4M3FN">:$scale,
                         Out<["1"], "f32">:$out_amax, InOpt<["1"], "f32">:$skip);
  let Relations = [Fits<"rows", "cols">,
                   Fits<"count", "ranks">,
                   Multiple<"count", "2">,
                   Multiple<"start", "2">,
                   Multiple<"rows", "16">,
                   Multiple<"cols", "16">];
  let Workspace = "4";
}

def quantize_shard : Kernel<Shards> {
  let Description = [{
    Quantises a flat shard (see partial_amax) as quantize_block or quantize_mx quantises
    the whole matrix, for one `axis` along which the data is stored in the order of x:
    block_128x128 with axis 1, mx_1x32 and mx_32x32. `amax` has the amax of every whole
    block. data[i] is the code of x[i], or 0 for padding. scale has all scales of the
    matrix. pow2_scales and amax_epsilon are 0 for mx.
  }];
  let Parameters = (parameters Dim:$count, Dim:$rows, Dim:$cols, ShardStart:$start, WideType:$type,
                               Fp8Type:$fp8_type, SchemeFrom<Block128x128, MX32x32>:$scheme,
                               Flag:$axis, Flag:$pow2_scales, NonNegative:$amax_epsilon,
                               Ranks:$ranks, GroupNumber:$rank_of);
  let Buffers = (buffers In<["count"], "type">:$x,
                         In<["blocks(scheme, rows, cols, axis)"], "f32">:$amax,
                         Out<["count"], "fp8_type">:$data,
                         Out<["scales(scheme, rows, cols, axis)"], "scaleType(scheme)">:$scale,
                         InOpt<["1"], "f32">:$skip);
  let Relations = [Fits<"rows", "cols">,
                   Fits<"count", "ranks">,
                   Multiple<"rows", "sizeMultiple(scheme)">,
                   Multiple<"cols", "sizeMultiple(scheme)">];
  let HasRule = 1;
}
