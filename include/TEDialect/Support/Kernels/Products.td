//===- Products.td - GEMMs and products of groups -------------------------===//

def Products : Family<"GEMMs", 6>;

def grouped_matmul : Kernel<Products> {
  let Description = [{
    For each group, the rows of out are the matmul of the group's rows of a [rows, k]
    and b[g], which is stored as [n, k], or as [k, n] when trans_b. bias is [groups, n],
    and alpha is f32[groups].
  }];
  let Parameters = (parameters Dim:$rows, Dim:$n, Dim:$k, Count:$groups, Count:$alignment,
                               Flag:$trans_b, WideType:$type, AnyType:$out_type);
  let Buffers = (buffers In<["rows", "k"], "type">:$a, In<["groups", "n", "k"], "type">:$b,
                         In<["groups"], "i32">:$group_sizes, InOpt<["groups"], "f32">:$alpha,
                         InOpt<["groups", "n"], "type">:$bias,
                         Out<["rows", "n"], "out_type">:$out);
  let Relations = [Fits<"rows", "k">,
                   Multiple<"rows", "alignment">,
                   Fits<"rows", "n">,
                   Fits<"n", "k">,
                   SameOrF32<"out_type", "type">];
}

def grouped_scaled_matmul : Kernel<Products> {
  let Description = [{
    For each group, the rows of out [rows, n] are the scaled_matmul of the group's rows
    of a (group layout, contraction k, axis 1) and b[g], an [n, k] value of axis 1, or,
    for mx schemes with b_axis 0, a [k, n] value of axis 0. Scales and amaxes of a are
    stored as for grouped_dequantize. bias is bf16 [groups, n]. A partial block at the
    end of a group is read whole, so its padding must be zeros. The alignment is a
    multiple of the rows of a block (128 of block, 32 of mx, 16 of nv schemes).
  }];
  let Parameters = (parameters Dim:$rows, Dim:$n, Dim:$k, Count:$groups, Count:$alignment,
                               AnyType:$a_type, AnyScheme:$a_scheme, AnyType:$b_type,
                               AnyScheme:$b_scheme, WideType:$out_type, Flag:$fast_accumulation,
                               Flag:$b_axis, Flag:$a_row_scaled, AnyInt32:$a_scale_max,
                               AnyInt32:$b_scale_max);
  let Buffers = (buffers In<["rows", "k"], "a_type">:$a,
                         In<["scalesOfGroups(a_scheme, rows, k, 1, groups)"], "scaleType(a_scheme)">:$a_scale,
                         InOpt<["a_row_scaled != 0 ? rows : groups"], "f32">:$a_amax,
                         In<["groups", "n", "k"], "b_type">:$b,
                         In<["groups", "scales(b_scheme, n, k, 1)"], "scaleType(b_scheme)">:$b_scale,
                         InOpt<["groups"], "f32">:$b_amax, In<["groups"], "i32">:$group_sizes,
                         InOpt<["groups", "n"], "bf16">:$bias,
                         Out<["rows", "n"], "out_type">:$out);
  let Relations = [Fits<"rows", "k">, Multiple<"rows", "alignment">, Fits<"rows", "n">];
  let HasRule = 1;
}

def grouped_scaled_wgrad : Kernel<Products> {
  let Description = [{
    out[g] = scaled_matmul of a and b over the rows of group g (+ c[g]), [groups, m, n].
    a is a [rows, m] value and b a [rows, n] value, in group layout and cast for axis 0
    (so they are stored as [m, rows] and [n, rows], except for mx). An empty group gives
    zeros, or c. `keep` is f32[1] on the device. If it is given and is not exactly 1,
    zeros are added and c is not read. The rule for the alignment is that of
    grouped_scaled_matmul.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$m, Dim:$n, Count:$groups, Count:$alignment,
                               AnyType:$a_type, AnyScheme:$a_scheme, AnyType:$b_type,
                               AnyScheme:$b_scheme, WideType:$out_type, Flag:$fast_accumulation,
                               AnyInt32:$a_scale_max, AnyInt32:$b_scale_max);
  let Buffers = (buffers In<["rows", "m"], "a_type">:$a,
                         In<["scalesOfGroups(a_scheme, rows, m, 0, groups)"], "scaleType(a_scheme)">:$a_scale,
                         InOpt<["groups"], "f32">:$a_amax, In<["rows", "n"], "b_type">:$b,
                         In<["scalesOfGroups(b_scheme, rows, n, 0, groups)"], "scaleType(b_scheme)">:$b_scale,
                         InOpt<["groups"], "f32">:$b_amax, In<["groups"], "i32">:$group_sizes,
                         InOpt<["groups", "m", "n"], "out_type">:$c,
                         Out<["groups", "m", "n"], "out_type">:$out, InOpt<["1"], "f32">:$keep);
  let Relations = [Fits<"rows", "m">, Multiple<"rows", "alignment">, Fits<"rows", "n">];
  let HasRule = 1;
  let Reuses = [MayReuse<"out", "c">];
}

def grouped_wgrad : Kernel<Products> {
  let Description = [{
    out[g] = matmul of a [rows, m] and b [rows, n], both transposed, over the rows of
    group g (+ c[g]), [groups, m, n]. alpha is f32[groups]. keep is that of
    grouped_scaled_wgrad.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$m, Dim:$n, Count:$groups, Count:$alignment,
                               WideType:$type, AnyType:$out_type);
  let Buffers = (buffers In<["rows", "m"], "type">:$a, In<["rows", "n"], "type">:$b,
                         In<["groups"], "i32">:$group_sizes, InOpt<["groups"], "f32">:$alpha,
                         InOpt<["groups", "m", "n"], "out_type">:$c,
                         Out<["groups", "m", "n"], "out_type">:$out, InOpt<["1"], "f32">:$keep);
  let Relations = [Fits<"rows", "m">,
                   Multiple<"rows", "alignment">,
                   Fits<"rows", "n">,
                   Fits<"m", "n">,
                   SameOrF32<"out_type", "type">];
  let Reuses = [MayReuse<"out", "c">];
}

def matmul : Kernel<Products> {
  let Description = [{
    out[m, n] = alpha * sum_k A[m, k] B[n, k] (+ bias[n]) (+ c[m, n]), accumulated in
    f32. `alpha` is f32[1], or 1 if it is absent, and multiplies the f32 sum. A is
    stored as [m, k], or as [k, m] when trans_a; B is stored as [n, k], or as [k, n]
    when trans_b. a, b and bias have `type`. out and c have `out_type`, which is `type`
    if there is a bias.
  }];
  let Parameters = (parameters Dim:$m, Dim:$n, Dim:$k, Flag:$trans_a, Flag:$trans_b,
                               WideType:$type, AnyType:$out_type);
  let Buffers = (buffers In<["m", "k"], "type">:$a, In<["n", "k"], "type">:$b,
                         InOpt<["1"], "f32">:$alpha, InOpt<["n"], "type">:$bias,
                         InOpt<["m", "n"], "out_type">:$c, Out<["m", "n"], "out_type">:$out);
  let Relations = [Fits<"m", "n">, Fits<"m", "k">, Fits<"n", "k">, SameOrF32<"out_type", "type">];
  let Reuses = [MayReuse<"out", "c">];
  let Workspace = "kProductWorkspaceBytes";
  let Bits = CublasLt;
}

def scaled_matmul : Kernel<Products> {
  let Description = [{
    out[m, n] = sum_k A[m, k] B[n, k] over dequantised operands (+ bias[n]) (+ c[m, n]).
    The schemes are both per_tensor, block, mx or nv. bias is bf16, and c has out_type.
      per_tensor  the sum is multiplied by rn32(a_scale * b_scale).
      block       each slice of 128 along k is summed by itself as P and added as
                  acc = fma(rn32(P * scale of a), scale of b, acc); if a is
                  128x128, b's scale comes first.
      mx, nv      each slice of 32 or 16 is summed by itself as P and added as
                  acc = acc + rn32(P * scale of a * scale of b).
      nv          then acc is multiplied by alpha = rn32(rn32(a_amax * b_amax) *
                  rn32(1 / (36 * a_scale_max * b_scale_max))), where a_amax is
                  that of the row when `a_row_scaled`. Both amaxes are needed.
    The c operand of a block matmul is added after rounding to out_type; other schemes
    add it in f32. Operands are stored as [m, k] and [n, k], except for per_tensor and
    mx operands of axis 0 (`a_axis`, `b_axis`; other schemes ignore them), which are
    stored as [k, m] and [k, n]. For per_tensor operands of axis 0, m and n are
    multiples of 16, and compute capabilities 9.x and 12.x have no such GEMM. `swizzled`
    says that mx and nv scales are in the order of swizzle_scales; the cuda backend
    reads no other order. `a_scale_max` and `b_scale_max` are 448 or 256 for nv, else 0.
    fast_accumulation 1 allows the tensor core's shorter accumulator, if it has one
    (per_tensor). For mx, m, n and k are multiples of 32; for nv, m and n are multiples
    of 16 and k is a multiple of 32.
  }];
  let Parameters = (parameters Dim:$m, Dim:$n, Dim:$k, AnyType:$a_type, AnyScheme:$a_scheme,
                               AnyType:$b_type, AnyScheme:$b_scheme, WideType:$out_type,
                               Flag:$fast_accumulation, Flag:$a_axis, Flag:$b_axis, Flag:$swizzled,
                               Flag:$a_row_scaled, AnyInt32:$a_scale_max, AnyInt32:$b_scale_max);
  let Buffers = (buffers In<["m", "k"], "a_type">:$a,
                         In<["scales(a_scheme, m, k, 1)"], "scaleType(a_scheme)">:$a_scale,
                         InOpt<["a_row_scaled != 0 ? m : 1"], "f32">:$a_amax,
                         In<["n", "k"], "b_type">:$b,
                         In<["scales(b_scheme, n, k, 1)"], "scaleType(b_scheme)">:$b_scale,
                         InOpt<["1"], "f32">:$b_amax, InOpt<["n"], "bf16">:$bias,
                         InOpt<["m", "n"], "out_type">:$c, Out<["m", "n"], "out_type">:$out);
  let Relations = [Fits<"m", "n">, Fits<"m", "k">, Fits<"n", "k">];
  let HasRule = 1;
  let Reuses = [MayReuse<"out", "c">];
  let Workspace = "kProductWorkspaceBytes";
  let Bits = CublasLt;
  let Cases = [When<"isScheme(a_scheme) && isScheme(b_scheme) && productPath(a_scheme, b_scheme, target, out_type) == Path::OwnKernel", FixedOrder>];
}
