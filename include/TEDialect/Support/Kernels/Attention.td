//===- Attention.td - attention and rotary positions ----------------------===//

def Attention : Family<"Attention", 2>;

def attention : Kernel<Attention> {
  let Description = [{
    Softmax attention of q[tokens, heads * head_dim] over k[tokens, kv_heads *
    head_dim] and v[tokens, kv_heads * value_dim]. The tokens are whole sequences, and
    head h reads key-value head h / (heads / kv_heads). For one head, the sums are over all j of the sequence. When
    causal, they are over j <= i, and unless window_left is -1, over i - window_left <=
    j <= i; nothing else is read. With
      s[i, j] = scale * sum_d q[i, d] k[j, d], replaced, unless softcap is 0, with
      s = softcap * tanh(s / softcap),  m = max_j s,
      l = sum_j exp(s - m),  lse[i] = m + log(l),
      o[i, d] = sum_j exp(s - m) v[j, d] / l
    all arithmetic is in f32, sums are in order, and o is rounded once. With `has_sinks`, m
    is max(m, sinks[h]), and exp(sinks[h] - m) is the last term of l; sinks is
    f32[heads]. Unless dropout is 0, rng is i32[2], seed and offset, and exp(s - m) in o, not in
    l, is multiplied by 0 where word e mod 4 of Philox4x32-10 with key (seed, stream) and counter
    (e / 4 mod 2^32, e / 2^34, offset, 4), for e = (i * heads + h) * sequence + j with i
    among all tokens, is below dropout * 2^32, and by 1 / (1 - dropout) elsewhere. lse is f32[tokens / sequence, heads, sequence].
    With `boundaries`, which is 0 for none, documents is i32[boundaries], and rows
    documents[d] to documents[d + 1] - 1 are computed as a sequence of that length, which is
    at most `sequence`. lse is then f32[tokens, heads]. All other rows are not read, and their
    o and lse are 0. Boundaries that decrease, are not from 0 to tokens or are more than
    `sequence` apart are refused; the cuda backend fills all results with NaN instead. It sums in
    another order, uses a tanh of its own, and rounds exp(s - m) to the type before it
    multiplies by v (docs/how_it_works/numerics.md has the bound). It supports bf16 and
    f16, and may read masked elements: a NaN there can reach o. Its dropout has other zeros.
  }];
  let Parameters = (parameters Dim:$tokens, Count:$sequence, Count:$heads, Count:$kv_heads,
                               Count:$head_dim, Count:$value_dim, WideType:$type, Flag:$causal,
                               AnyInt64:$window_left, Finite:$scale, NonNegative:$softcap,
                               Flag:$has_sinks, Dim:$boundaries, NonNegative:$dropout,
                               AnyInt32:$stream);
  let Buffers = (buffers In<["tokens", "heads * head_dim"], "type">:$q,
                         In<["tokens", "kv_heads * head_dim"], "type">:$k,
                         In<["tokens", "kv_heads * value_dim"], "type">:$v,
                         InOpt<["heads"], "f32">:$sinks,
                         InOpt<["boundaries"], "i32">:$documents,
                         InOpt<["2"], "i32">:$rng,
                         Out<["tokens", "heads * value_dim"], "type">:$o,
                         Out<["tokens", "heads"], "f32">:$lse);
  let Relations = [Fits<"heads", "head_dim">, Fits<"heads", "value_dim">,
                   FitsText<"'tokens' and 'heads' times 'head_dim'", "tokens", "heads * head_dim">,
                   FitsText<"'tokens' and 'heads' times 'value_dim'", "tokens", "heads * value_dim">,
                   Multiple<"heads", "kv_heads">];
  let HasRule = 1;
  let Meaning = 2;
  let Bits = Cudnn;
}

def attention_backward : Kernel<Attention> {
  let Description = [{
    Gradients of attention. With p[i, j] = exp(s[i, j] - lse[i]) and delta[i] =
    sum_d do[i, d] o[i, d]:
      ds[i, j] = p[i, j] * (sum_d do[i, d] v[j, d] - delta[i]), replaced, unless
      softcap is 0, with ds = ds * (1 - t²), where t is the tanh of s,
      dq[i] = scale * sum_j ds[i, j] k[j],
      dk[j] = scale * sum_h sum_i ds[i, j] q[i],  dv[j] = sum_h sum_i p[i, j] do[i]
    in f32, with sums in order (h runs over the heads of the key-value head), each
    rounded once. The cuda backend differs as described for attention. With
    `deterministic` it gives the same bits every time, and uses scratch memory of
    heads * tokens * sequence elements, or heads * (boundaries - 1) * sequence². With `dropout`, that of attention, do v in ds and p
    in dv are multiplied by the factor of attention. `boundaries` are those of attention; dq, dk and dv of
    rows outside the documents are 0.
  }];
  let Parameters = (parameters Dim:$tokens, Count:$sequence, Count:$heads, Count:$kv_heads,
                               Count:$head_dim, Count:$value_dim, WideType:$type, Flag:$causal,
                               AnyInt64:$window_left, Finite:$scale, NonNegative:$softcap,
                               Flag:$deterministic, Dim:$boundaries, NonNegative:$dropout,
                               AnyInt32:$stream);
  let Buffers = (buffers In<["tokens", "heads * value_dim"], "type">:$dout,
                         In<["tokens", "heads * head_dim"], "type">:$q,
                         In<["tokens", "kv_heads * head_dim"], "type">:$k,
                         In<["tokens", "kv_heads * value_dim"], "type">:$v,
                         In<["tokens", "heads * value_dim"], "type">:$o,
                         In<["tokens", "heads"], "f32">:$lse,
                         InOpt<["boundaries"], "i32">:$documents,
                         InOpt<["2"], "i32">:$rng,
                         Out<["tokens", "heads * head_dim"], "type">:$dq,
                         Out<["tokens", "kv_heads * head_dim"], "type">:$dk,
                         Out<["tokens", "kv_heads * value_dim"], "type">:$dv);
  let Relations = [Fits<"heads", "head_dim">, Fits<"heads", "value_dim">,
                   FitsText<"'tokens' and 'heads' times 'head_dim'", "tokens", "heads * head_dim">,
                   FitsText<"'tokens' and 'heads' times 'value_dim'", "tokens", "heads * value_dim">,
                   Multiple<"heads", "kv_heads">];
  let HasRule = 1;
  let Meaning = 2;
  let Bits = Cudnn;
  let Cases = [When<"deterministic == 0", CudnnAnyOrder>];
  let Workspace = "heads * tokens * 4 + heads * (deterministic == 0 ? tokens * head_dim * 4 : (boundaries == 0 ? tokens : (boundaries - 1) * sequence) * sequence * 2)";
}

def attention_sink_grad : Kernel<Attention> {
  let Description = [{
    The gradient of the sinks of attention, f32[heads]. For head h, delta[t] is a lane
    sum of fused multiply-adds of do[t, d] and o[t, d], and lse[t] is the lse of token t:
      dsinks[h] = a chunk sum over tokens of -(exp(sinks[h] - lse[t]) * delta[t]).
    With `boundaries`, those of attention, tokens before the first and from the last one
    on are left out. The cuda backend does not check them.
  }];
  let Parameters = (parameters Dim:$tokens, Count:$sequence, Count:$heads, Count:$head_dim,
                               WideType:$type, Dim:$boundaries);
  let Buffers = (buffers In<["tokens", "heads * head_dim"], "type">:$dout,
                         In<["tokens", "heads * head_dim"], "type">:$o,
                         In<["tokens", "heads"], "f32">:$lse, In<["heads"], "f32">:$sinks,
                         InOpt<["boundaries"], "i32">:$documents,
                         Out<["heads"], "f32">:$dsinks);
  let Relations = [Fits<"heads", "head_dim">,
                   FitsText<"'tokens' and 'heads' times 'head_dim'", "tokens", "heads * head_dim">];
  let HasRule = 1;
  let Meaning = 2;
  let Workspace = "columnSumBytes(tokens, heads, kChunkSumRows)";
}

def rope : Kernel<Attention> {
  let Description = [{
    Rotary position embedding of x[tokens, heads * head_dim]. cos and sin are
    f32[sequence, rotary_dim / 2]; token t uses row t mod sequence, or with `has_positions`
    row positions[t], which is i32. For a position that is not from 0 to sequence - 1, the
    reference backend refuses the launch, and the cuda backend uses a row of NaN. Pair i < rotary_dim
    / 2 of each head is its elements (i, i + rotary_dim / 2), or (2i, 2i + 1) when
    interleaved. With s = sin, or -sin for the inverse:
      (a, b) -> (rn32(rn32(a * cos) - rn32(b * s)), rn32(rn32(b * cos) + rn32(a * s)))
    rounded to the type. Elements from rotary_dim on are copied. `amax` is max|y| over
    the stored values.
  }];
  let Parameters = (parameters Dim:$tokens, Count:$heads, Count:$head_dim, Count:$sequence,
                               Dim:$rotary_dim, WideType:$type, Flag:$interleaved, Flag:$inverse,
                               Flag:$has_positions);
  let Buffers = (buffers In<["tokens", "heads * head_dim"], "type">:$x,
                         In<["sequence", "rotary_dim / 2"], "f32">:$cos,
                         In<["sequence", "rotary_dim / 2"], "f32">:$sin,
                         InOpt<["tokens"], "i32">:$positions,
                         Out<["tokens", "heads * head_dim"], "type">:$y,
                         OutOpt<["1"], "f32">:$amax);
  let Relations = [Fits<"heads", "head_dim">,
                   FitsText<"'tokens' and the columns", "tokens", "heads * head_dim">,
                   Multiple<"rotary_dim", "2">];
  let HasRule = 1;
  let Reuses = [MayReuse<"y", "x">];
}

/// Queries and keys.
defvar kRopeGroup = 2;

def rope_group : Kernel<Attention> {
  let Description = [{
    rope of each tensor i whose number of heads is not 0, with `heads`i and the buffers
    with the number i, and with the other parameters, `cos`, `sin` and `positions` of
    all. A tensor without heads has no buffers; x and y of the others are needed.
  }];
  let Parameters = !con((parameters Dim:$tokens, Count:$head_dim, Count:$sequence,
                                    Dim:$rotary_dim, WideType:$type, Flag:$interleaved,
                                    Flag:$inverse, Flag:$has_positions),
                        EachParameter<"heads", Dim, kRopeGroup>.List);
  let Buffers = !con(EachIn<"x", "tokens * head_dim * heads", "type", kRopeGroup>.List,
                     (buffers In<["sequence", "rotary_dim / 2"], "f32">:$cos,
                              In<["sequence", "rotary_dim / 2"], "f32">:$sin,
                              InOpt<["tokens"], "i32">:$positions),
                     EachOut<"y", "tokens * head_dim * heads", "type", kRopeGroup>.List,
                     (buffers OutOpt<["1"], "f32">:$amax0, OutOpt<["1"], "f32">:$amax1));
  let Relations = !listconcat(
      !foreach(i, !range(kRopeGroup), Fits<"heads" # i, "head_dim">),
      !foreach(i, !range(kRopeGroup),
               FitsText<"'tokens' and the columns", "tokens", "heads" # i # " * head_dim">),
      [Multiple<"rotary_dim", "2">]);
  let HasRule = 1;
  let Reuses = EachReuse<"y", "x", kRopeGroup>.List;
}

def used_rows : Kernel<Attention> {
  let Description = [{
    used[t] = 1 where documents[0] <= t < documents[boundaries - 1], and 0 elsewhere.
    Other boundaries are not read.
  }];
  let Parameters = (parameters Dim:$tokens, Count:$boundaries);
  let Buffers = (buffers In<["boundaries"], "i32">:$documents, Out<["tokens"], "f32">:$used);
}
