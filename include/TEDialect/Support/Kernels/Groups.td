//===- Groups.td - matrices in group layout -------------------------------===//

def Groups : Family<"Groups of rows", 7>;

def grouped_amax : Kernel<Groups> {
  let Description = [{
    The amax of the rows of each group, as the kernel amax computes it; 0 for an empty
    group.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, Count:$groups, Count:$alignment,
                               WideType:$type);
  let Buffers = (buffers In<["rows", "cols"], "type">:$x, In<["groups"], "i32">:$group_sizes,
                         Out<["groups"], "f32">:$amax);
  let Relations = [Fits<"rows", "cols">, Multiple<"rows", "alignment">];
}

def grouped_bias_grad : Kernel<Groups> {
  let Description = [{
    db[g, :] = bias_grad of the rows of group g, or 0 for an empty group.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, Count:$groups, Count:$alignment,
                               WideType:$type, WideType:$out_type);
  let Buffers = (buffers In<["rows", "cols"], "type">:$dy, In<["groups"], "i32">:$group_sizes,
                         Out<["groups", "cols"], "out_type">:$db);
  let Relations = [Fits<"rows", "cols">, Multiple<"rows", "alignment">, Fits<"groups", "cols">];
}

def grouped_dequantize : Kernel<Groups> {
  let Description = [{
    dequantize of the rows of each group, for a per_tensor or nv value. The scale of
    per_tensor is f32[groups], and so is the amax of nv, which is f32[rows] when
    row_scaled. (Values of other schemes are dequantised by the kernel for whole
    matrices.)
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, Count:$groups, Count:$alignment,
                               AnyType:$fp8_type, AnyScheme:$scheme, Flag:$axis, Flag:$row_scaled,
                               AnyInt32:$scale_max, WideType:$out_type);
  let Buffers = (buffers In<["rows", "cols"], "fp8_type">:$data,
                         In<["scalesOfGroups(scheme, rows, cols, axis, groups)"], "scaleType(scheme)">:$scale,
                         InOpt<["row_scaled != 0 ? rows : groups"], "f32">:$amax,
                         In<["groups"], "i32">:$group_sizes,
                         Out<["rows", "cols"], "out_type">:$out);
  let Relations = [Fits<"rows", "cols">,
                   Multiple<"rows", "alignment">,
                   Multiple<"rows", "sizeMultiple(scheme)">,
                   Multiple<"cols", "sizeMultiple(scheme)">];
  let HasRule = 1;
}

def grouped_quantize_nvfp4 : Kernel<Groups> {
  let Description = [{
    quantize_nvfp4, nv_1x16, of a matrix in group layout. `amax` is f32[groups], the
    amax of each group as grouped_amax computes it, and is copied to each *_amax.
    (Row-scaled values are cast by the kernel for whole matrices.) The groups of 16
    elements of the random bits are counted over the whole value. `alignment` is a
    multiple of 16.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, Count:$groups, Count:$alignment,
                               WideType:$type, ScaleMax:$scale_max, FourOverSix:$four_over_six,
                               Flag:$stochastic, AnyInt32:$stream);
  let Buffers = (buffers In<["rows", "cols"], "type">:$x, In<["groups"], "i32">:$group_sizes,
                         In<["groups"], "f32">:$amax, InOpt<["2"], "i32">:$rng,
                         OutOpt<["rows", "cols"], "f4E2M1FN">:$row,
                         OutOpt<["scales(nv_1x16, rows, cols, 1)"], "f8E4M3FN">:$row_scale,
                         OutOpt<["groups"], "f32">:$row_amax,
                         OutOpt<["cols", "rows"], "f4E2M1FN">:$col,
                         OutOpt<["scales(nv_1x16, rows, cols, 0)"], "f8E4M3FN">:$col_scale,
                         OutOpt<["groups"], "f32">:$col_amax);
  let Relations = [Fits<"rows", "cols">,
                   Multiple<"rows", "alignment">,
                   Multiple<"alignment", "16">,
                   Multiple<"rows", "16">,
                   Multiple<"cols", "16">];
  let HasRule = 1;
  let Cases = [When<"stochastic != 0", RandomBits>];
}

def grouped_quantize_tensor : Kernel<Groups> {
  let Description = [{
    quantize_tensor of the rows of each group with scale[g]. Each *_scale that is
    written is f32[groups], rn32(1/scale[g]). Padding is code 0.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, Count:$groups, Count:$alignment,
                               WideType:$type, Fp8Type:$fp8_type);
  let Buffers = (buffers In<["rows", "cols"], "type">:$x, In<["groups"], "i32">:$group_sizes,
                         In<["groups"], "f32">:$scale, OutOpt<["rows", "cols"], "fp8_type">:$row,
                         OutOpt<["groups"], "f32">:$row_scale,
                         OutOpt<["cols", "rows"], "fp8_type">:$col,
                         OutOpt<["groups"], "f32">:$col_scale);
  let Relations = [Fits<"rows", "cols">, Multiple<"rows", "alignment">];
}

def grouped_round_sizes : Kernel<Groups> {
  let Description = [{
    rounded[g] = group_sizes[g] rounded up to a multiple of `multiple`.
  }];
  let Parameters = (parameters Count:$groups, Count:$multiple);
  let Buffers = (buffers In<["groups"], "i32">:$group_sizes, Out<["groups"], "i32">:$rounded);
}

def grouped_zero_padding : Kernel<Groups> {
  let Description = [{
    y = x with zeros in the padding.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, Count:$groups, Count:$alignment,
                               WideType:$type);
  let Buffers = (buffers In<["rows", "cols"], "type">:$x, In<["groups"], "i32">:$group_sizes,
                         Out<["rows", "cols"], "type">:$y);
  let Relations = [Fits<"rows", "cols">, Multiple<"rows", "alignment">];
  let Reuses = [MayReuse<"y", "x">];
}
