//===- Layers.td - norms, biases, embeddings and losses -------------------===//

def Layers : Family<"Norms, biases, embeddings and losses", 3>;

def bias_add : Kernel<Layers> {
  let Description = [{
    y[r, c] = x[r, c] + bias[c], in f32 and rounded once.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, WideType:$type);
  let Buffers = (buffers In<["rows", "cols"], "type">:$x, In<["cols"], "type">:$bias,
                         Out<["rows", "cols"], "type">:$y);
  let Relations = [Fits<"rows", "cols">];
  let Reuses = [MayReuse<"y", "x">];
}

def row_sum : Kernel<Layers> {
  let Description = [{
    y[r] = sum over columns of x[r, c], a lane sum in f32, rounded once.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, WideType:$type, WideType:$out_type);
  let Buffers = (buffers In<["rows", "cols"], "type">:$x, Out<["rows"], "out_type">:$y);
  let Relations = [Fits<"rows", "cols">];
}

def bias_grad : Kernel<Layers> {
  let Description = [{
    db[c] = sum over rows of dy[r, c], a chunk sum in f32, rounded once.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, WideType:$type, WideType:$out_type);
  let Buffers = (buffers In<["rows", "cols"], "type">:$dy, Out<["cols"], "out_type">:$db);
  let Relations = [Fits<"rows", "cols">];
  let Workspace = "columnSumBytes(rows, cols, kChunkSumRows)";
}

def chunk_sums : Kernel<Layers> {
  let Description = [{
    sums[i, c] = sum of dy[r, c] over the rows of chunk i, in order from 0 in f32. These
    are the chunks of the chunk sum of bias_grad.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, WideType:$type);
  let Buffers = (buffers In<["rows", "cols"], "type">:$dy,
                         Out<["ceilDiv(rows, kChunkSumRows)", "cols"], "f32">:$sums);
  let Relations = [Fits<"rows", "cols">];
}

def sum_of_chunks : Kernel<Layers> {
  let Description = [{
    db[c] = sum of sums[i, c] in order from 0 in f32, rounded once. After chunk_sums of all
    rows, db is that of bias_grad.
  }];
  let Parameters = (parameters Dim:$chunks, Dim:$cols, WideType:$out_type);
  let Buffers = (buffers In<["chunks", "cols"], "f32">:$sums, Out<["cols"], "out_type">:$db);
  let Relations = [Fits<"chunks", "cols">];
}

def cross_entropy : Kernel<Layers> {
  let Description = [{
    lse[t] = M + log(sum of exponentials) of the first `vocab` elements of row t of the
    logits, and token_loss[t] = lse[t] - logits[t, target]. Tokens whose target is
    `ignore_index` or outside [0, vocab) are ignored; their token_loss is 0.
  }];
  let Parameters = (parameters Dim:$tokens, Count:$vocab, Dim:$cols, WideType:$type,
                               AnyInt32:$ignore_index);
  let Buffers = (buffers In<["tokens", "cols"], "type">:$logits, In<["tokens"], "i32">:$targets,
                         Out<["tokens"], "f32">:$lse, Out<["tokens"], "f32">:$token_loss);
  let Relations = [Fits<"tokens", "cols">, AtMost<"vocab", "cols">];
  let Meaning = 4;
}

def cross_entropy_mean : Kernel<Layers> {
  let Description = [{
    loss = the lane sum of token_loss over all tokens, divided by the number of tokens
    that are not ignored (cross_entropy); 0 if there are none.
  }];
  let Parameters = (parameters Dim:$tokens, Count:$vocab, AnyInt32:$ignore_index);
  let Buffers = (buffers In<["tokens"], "f32">:$token_loss, In<["tokens"], "i32">:$targets,
                         Out<["1"], "f32">:$loss);
}

def cross_entropy_weight : Kernel<Layers> {
  let Description = [{
    weight = dloss / count, where count is the number of tokens that are not ignored
    (cross_entropy), or 1 / count if dloss is absent. No gradient reads the quotient if
    count is 0.
  }];
  let Parameters = (parameters Dim:$tokens, Count:$vocab, AnyInt32:$ignore_index);
  let Buffers = (buffers InOpt<["1"], "f32">:$dloss, In<["tokens"], "i32">:$targets,
                         Out<["1"], "f32">:$weight);
}

def cross_entropy_backward : Kernel<Layers> {
  let Description = [{
    dlogits = (exp(x - lse) - (v == target ? 1 : 0)) * weight, or 0 for ignored tokens
    and from column `vocab` on. The rows may be a part of those that `weight` is
    computed from.
  }];
  let Parameters = (parameters Dim:$tokens, Count:$vocab, Dim:$cols, WideType:$type,
                               AnyInt32:$ignore_index);
  let Buffers = (buffers In<["1"], "f32">:$weight, In<["tokens", "cols"], "type">:$logits,
                         In<["tokens"], "i32">:$targets, In<["tokens"], "f32">:$lse,
                         Out<["tokens", "cols"], "type">:$dlogits);
  let Relations = [Fits<"tokens", "cols">, AtMost<"vocab", "cols">];
  let Reuses = [MayReuse<"dlogits", "logits">];
  let Meaning = 3;
}

def cross_entropy_backward_quantize : Kernel<Layers> {
  let Description = [{
    Casts what cross_entropy_backward computes for `rows` tokens, rounded to `type`, as
    quantize_rows casts rows of a matrix. The rounded gradient is not stored in memory.
  }];
  let Parameters = (parameters Dim:$rows, Count:$vocab, Dim:$cols, Dim:$whole_rows,
                               Dim:$first_row, WideType:$type, Fp8Type:$fp8_type,
                               SchemeFrom<PerTensor, Block1x128>:$scheme, Flag:$pow2_scales,
                               NonNegative:$amax_epsilon, AnyInt32:$ignore_index);
  let Buffers = (buffers In<["1"], "f32">:$weight, In<["rows", "cols"], "type">:$logits,
                         In<["rows"], "i32">:$targets, In<["rows"], "f32">:$lse,
                         InOpt<["1"], "f32">:$scale,
                         OutOpt<["rows", "cols"], "fp8_type">:$row,
                         OutOpt<["scales(scheme, rows, cols, 1)"], "f32">:$row_scale,
                         OutOpt<["cols", "whole_rows"], "fp8_type">:$col,
                         OutOpt<["scales(scheme, whole_rows, cols, 0)"], "f32">:$col_scale,
                         OutOpt<["1"], "f32">:$amax);
  let Relations = [Fits<"rows", "cols">, Fits<"whole_rows", "cols">, AtMost<"vocab", "cols">,
                   Multiple<"first_row", "128">];
  let HasRule = 1;
}

def embedding : Kernel<Layers> {
  let Description = [{
    y[t, :] = table[ids[t], :]. ids are i32. An id outside [0, vocab) gives a row of
    zeros on both backends; the kernel never reads outside the table.
  }];
  let Parameters = (parameters Dim:$tokens, Dim:$vocab, Dim:$hidden, WideType:$type);
  let Buffers = (buffers In<["tokens"], "i32">:$ids, In<["vocab", "hidden"], "type">:$table,
                         Out<["tokens", "hidden"], "type">:$y);
  let Relations = [Fits<"tokens", "hidden">, Fits<"vocab", "hidden">];
}

def embedding_backward : Kernel<Layers> {
  let Description = [{
    dtable[v, :] = sum in token order of dy[t, :] where ids[t] = v, in f32, rounded to
    `type` and stored as `out_type`. With `accumulate`, a row that a token names is
    accumulate[v, :] plus the sum that is rounded to `type`, in f32 and rounded to
    `out_type`; each other row has the bytes of accumulate[v, :], and is not written if
    dtable is the memory of `accumulate`. No id outside [0, vocab) names a row.
  }];
  let Parameters = (parameters Dim:$tokens, Dim:$vocab, Dim:$hidden, WideType:$type,
                               WideType:$out_type);
  let Buffers = (buffers In<["tokens"], "i32">:$ids, In<["tokens", "hidden"], "type">:$dy,
                         Out<["vocab", "hidden"], "out_type">:$dtable,
                         InOpt<["vocab", "hidden"], "out_type">:$accumulate);
  let Relations = [Fits<"tokens", "hidden">, Fits<"vocab", "hidden">,
                   SameOrF32<"out_type", "type">];
  let Reuses = [MayReuse<"dtable", "accumulate">];
  let Workspace = "vocab * 4";
}

def layer_norm : Kernel<Layers> {
  let Description = [{
    y = gamma * (rsigma * (x - mu)) + beta in f32, rounded once; with zero_centered,
    gamma is replaced by gamma + 1. mu = lane sum of x (acc = acc + x) / cols. rsigma =
    1 / sqrt(sum / cols + epsilon), where sum is the lane sum of d = x - mu with acc =
    fmaf(d, d, acc). mu and rsigma are f32[rows]. `amax`, `addend`, `sum` and `base` are
    those of rms_norm.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, WideType:$type, NonNegative:$epsilon,
                               Flag:$zero_centered);
  let Buffers = (buffers In<["rows", "cols"], "type">:$x, In<["cols"], "type">:$gamma,
                         In<["cols"], "type">:$beta, Out<["rows", "cols"], "type">:$y,
                         Out<["rows"], "f32">:$mu, Out<["rows"], "f32">:$rsigma,
                         OutOpt<["1"], "f32">:$amax, InOpt<["rows", "cols"], "type">:$addend,
                         OutOpt<["rows", "cols"], "type">:$sum,
                         InOpt<["rows", "cols"], "type">:$base);
  let Relations = [Fits<"rows", "cols">];
  let Reuses = [MayReuse<"sum", "x">, MayReuse<"sum", "addend">, MayReuse<"y", "base">];
}

def layer_norm_backward : Kernel<Layers> {
  let Description = [{
    dx, dgamma and dbeta of layer_norm, accumulated in f32, each rounded once. With
    g = gamma (+ 1) and h = rsigma * (x - mu):
      c1 = (lane sum, acc = acc + g * dy) / cols
      c2 = (lane sum, acc = fmaf(g * dy, h, acc)) / cols
      dx = rsigma * ((g * dy - c1) - h * c2)
    dgamma is a strip sum with acc = fmaf(dy, h, acc), and dbeta one with
    acc = acc + dy. `addend` and `amax` are those of rms_norm_backward.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, WideType:$type, Flag:$zero_centered);
  let Buffers = (buffers In<["rows", "cols"], "type">:$dy, In<["rows", "cols"], "type">:$x,
                         In<["cols"], "type">:$gamma, In<["rows"], "f32">:$mu,
                         In<["rows"], "f32">:$rsigma, Out<["rows", "cols"], "type">:$dx,
                         Out<["cols"], "type">:$dgamma, Out<["cols"], "type">:$dbeta,
                         OutOpt<["1"], "f32">:$amax, InOpt<["rows", "cols"], "type">:$addend);
  let Relations = [Fits<"rows", "cols">];
  let Reuses = [MayReuse<"dx", "addend">];
  let Workspace = "2 * columnSumBytes(rows, cols, kStripSumRows)";
}

def rms_norm : Kernel<Layers> {
  let Description = [{
    y = gamma * (rsigma * x), rsigma = 1 / sqrt(sum / cols + epsilon), in f32, rounded
    once; with zero_centered, gamma is replaced by gamma + 1. sum is the lane sum of
    squares with acc = fmaf(x, x, acc). rsigma is f32[rows]. `amax` is max|y| over the
    stored (rounded) values. With `addend`, which is given with `sum`, x is replaced by
    `sum`, which is x + addend, rounded. With `base`, y is base plus the rounded y,
    rounded again.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, WideType:$type, NonNegative:$epsilon,
                               Flag:$zero_centered);
  let Buffers = (buffers In<["rows", "cols"], "type">:$x, In<["cols"], "type">:$gamma,
                         Out<["rows", "cols"], "type">:$y, Out<["rows"], "f32">:$rsigma,
                         OutOpt<["1"], "f32">:$amax, InOpt<["rows", "cols"], "type">:$addend,
                         OutOpt<["rows", "cols"], "type">:$sum,
                         InOpt<["rows", "cols"], "type">:$base);
  let Relations = [Fits<"rows", "cols">];
  let Reuses = [MayReuse<"sum", "x">, MayReuse<"sum", "addend">, MayReuse<"y", "base">];
}

def rms_norm_backward : Kernel<Layers> {
  let Description = [{
    dx and dgamma of rms_norm, accumulated in f32, each rounded once. With
    g = gamma (+ 1):
      mean = (lane sum, acc = fmaf(g * dy, rsigma * x, acc)) / cols
      dx = rsigma * (g * dy - (rsigma * x) * mean)
    dgamma is a strip sum with acc = fmaf(dy, rsigma * x, acc). `addend` is added to the
    rounded dx, and the sum is rounded. `amax` is max|dx| over the stored values.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, WideType:$type, Flag:$zero_centered);
  let Buffers = (buffers In<["rows", "cols"], "type">:$dy, In<["rows", "cols"], "type">:$x,
                         In<["cols"], "type">:$gamma, In<["rows"], "f32">:$rsigma,
                         Out<["rows", "cols"], "type">:$dx, Out<["cols"], "type">:$dgamma,
                         OutOpt<["1"], "f32">:$amax, InOpt<["rows", "cols"], "type">:$addend);
  let Relations = [Fits<"rows", "cols">];
  let Reuses = [MayReuse<"dx", "addend">];
  let Workspace = "columnSumBytes(rows, cols, kStripSumRows)";
}
