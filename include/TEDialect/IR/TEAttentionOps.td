//===- TEAttentionOps.td - rotary embedding, attention, documents ---------===//

#ifndef TEDIALECT_IR_TEATTENTIONOPS_TD
#define TEDIALECT_IR_TEATTENTIONOPS_TD

include "TEDialect/IR/TEConstraints.td"

def TE_RopeOp
    : TE_PureOp<"rope",
        TE_Axes<(axes "t c":$x, "t":$positions), (axes "t c":$y), /*sums=*/[], /*whole=*/[], /*zeros=*/["x"]>,
        [AllTypesMatch<["x", "y"]>, AllTypesMatch<["cos", "sin"]>,
        DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>,
         TE_Saves<["cos", "sin", "positions"], "getInverse()">,
         TE_MeasuresAmax<[[0, 1]]>]> {
  let summary = "rotate pairs of elements by the position of their token";
  let description = [{
    Computes the rotary position embedding. Token `t` uses row `t mod sequence`
    of `cos` and `sin`, or row `positions[t]` if there are `positions`, as for packed
    documents. In each head, the pair `(a, b)` with the number
    `i < rotary_dim / 2` becomes
    `(a cos[i] - b sin[i], b cos[i] + a sin[i])`. Every operation is in f32, and
    the result is rounded once. With the style `half`, pair `i` consists of the
    elements `i` and `i + rotary_dim / 2`; with `interleaved`, of `2i` and
    `2i + 1`. Elements from `rotary_dim` on are copied. `inverse` negates `sin`,
    which computes the gradient. The tables are operands so that they have the
    same bits on every backend. They are treated as constants and have no
    gradient. `amax`, of the rounded `y`, is a result if `te-fuse-amax` found a
    reader.

    A position that is not a row of the tables is an error on `reference`. On `cuda`,
    where nobody waits for the positions, the rotated elements of that token are NaN.

    Constraints:
    1. (rope-c1) The columns of `x` are one or more and a multiple of `heads`, which is one or more.
    2. (rope-c2) `cos` has one or more rows. Without `positions`, the rows of `x` are a multiple of them.
    3. (rope-c3) `cos` has at most half as many columns as a head of `x`.
    4. (rope-c4) `positions` has one element for each row of `x`.

    Example:

    ```mlir
    %y = te.rope %x, %cos, %sin {heads = 4 : i64} : tensor<256x512xbf16>, tensor<128x64xf32>
    %y2 = te.rope %x, %cos, %sin positions %p : tensor<256xi32> {heads = 4 : i64} : tensor<256x512xbf16>, tensor<128x64xf32>
    ```
  }];
  let arguments = (ins
    Arg<TE_HPMatrix, "[tokens, heads * head_dim]">:$x,
    Arg<TE_F32Matrix, "[sequence, rotary_dim / 2]">:$cos,
    Arg<TE_F32Matrix, "[sequence, rotary_dim / 2]">:$sin,
    Arg<Optional<TE_IdVector>, "a row of the tables for each token [tokens]">:$positions,
    I64Attr:$heads,
    DefaultValuedAttr<TE_RopeStyleAttr, "::mlir::te::RopeStyle::Half">:$style,
    UnitAttr:$inverse);
  let results = (outs Res<TE_HPMatrix, "type of x">:$y,
                      Res<Optional<TE_F32Scalar>, "max |y|">:$amax);
  let assemblyFormat = [{
    $x `,` $cos `,` $sin (`positions` $positions^ `:` type($positions))? attr-dict
    `:` type($x) `,` type($cos) (`amax` type($amax)^)?
  }];
  let hasVerifier = 1;
}

/// The attributes of attention and of its backward.
defvar TE_AttentionAttrs = (ins
  I64Attr:$heads,
  I64Attr:$kv_heads,
  I64Attr:$sequence,
  UnitAttr:$causal,
  OptionalAttr<DenseI64ArrayAttr>:$window_size,
  OptionalAttr<F32Attr>:$scale,
  OptionalAttr<F32Attr>:$softcap,
  DefaultValuedAttr<F32Attr, "0.0f">:$dropout,
  DefaultValuedAttr<I32Attr, "0">:$stream,
  DefaultValuedAttr<BoolAttr, "true">:$deterministic);

defvar TE_AttentionMethods = [{
    /// The value of `scale`, or its default.
    ::llvm::APFloat getScaleOrDefault();
    /// The number of earlier positions that a position attends to; -1 for all.
    int64_t getWindowLeft() {
      return getWindowSize() ? (*getWindowSize())[0] : -1;
    }
  }];

def TE_AttentionOp
    : TE_PureOp<"attention",
        TE_AxesIf<"getK().getType() == getV().getType()",
                  (axes "t c":$q, "t d":$k, "t d":$v, "~t":$documents), (axes "t c":$o),
                  (axes "t c":$q, "t d":$k, "t ~d":$v, "~t":$documents), (axes "t ~c":$o)>,
        [AttrSizedOperandSegments,
         DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>]> {
  let summary = "compute softmax attention";
  let description = [{
    `q` is `[tokens, heads * head_dim]`, `k` is `[tokens, kv_heads * head_dim]`,
    `v` is `[tokens, kv_heads * value_dim]` and `o` is
    `[tokens, heads * value_dim]`. If the types of `v` and `o` are not written,
    they are those of `k` and `q`. The tokens are consecutive sequences of
    `sequence` tokens, which do not attend to each other. Head `h` reads the
    key-value head `h / (heads / kv_heads)`. For positions `i`, `j` of one
    sequence:

    `s[i, j] = scale * <q[i], k[j]>`,
    `lse[i] = log(sum_j exp(s[i, j]))`,
    `o[i] = sum_j exp(s[i, j] - lse[i]) v[j]`,

    over all `j`, or over `j <= i` with `causal`. The arithmetic is in f32, and
    `o` is rounded once. The backends differ in the last bits; see the page on
    numerics. `scale` is `1 / sqrt(head_dim)` by default.

    * `window_size = [left, 0]` also requires `i - left <= j`: a position attends
      to itself and to the `left` positions before it.
    * `softcap` bounds scores before they are masked:
      `s[i, j] = softcap tanh(scale <q[i], k[j]> / softcap)`, with every operation
      in f32.
    * `sinks` are attention sinks, one for each head: an extra logit in the
      softmax denominator that is never masked and has no value row,
      `lse[i] = log(exp(sinks[h]) + sum_j exp(s[i, j]))`. Zeros give the
      off-by-one softmax.
    * `dropout` sets that part of the weights to zero, at random, and divides the
      others by `1 - dropout`: `o[i] = sum_j m[i, j] exp(s[i, j] - lse[i]) v[j]`. `m`
      is a function of `rng`, a seed and an offset, and of `stream`, as in te.dropout,
      and is not stored. On `reference`, element `(t heads + h) sequence + j` of `m`
      belongs to token `t`, head `h` and position `j` of its sequence or document, and the counter
      ends with 4 in place of 3; on `cuda`, cuDNN chooses other zeros. Tokens and heads
      are those of the rank, so ranks with different ones need states with different
      seeds.
    * With `deterministic = false`, the gradients may have different bits in every
      run. On `cuda`, this saves memory that grows with
      `heads * tokens * sequence`.

    `documents` are boundaries in device memory, which may differ in every step:
    document `d` is rows `documents[d]` to `documents[d + 1] - 1` of `q`, `k`, `v` and
    `o`, and may be empty. Each document is a sequence by itself, in which positions
    are counted from its first row. `sequence` is the most rows that a document may
    have; on `cuda`, time and memory are smaller if it is not larger than it has to be.
    Rows before the first boundary and from the last one on are padding: their `o` and `lse` are 0, and no other row reads them, whatever they contain. Packed
    documents of lengths `m` and `n` have the boundaries `[0, m, m + n]`. For a padded
    batch, tokens and padding alternate as documents. A boundary that is negative,
    below the one before it or beyond the rows, and a document of more than `sequence`
    rows, are errors on `reference`. On `cuda`, where a launch does not wait for the
    boundaries, nothing out of bounds is read or written, the results are NaN (0 for
    the gradient of `sinks` if no row is used), and the next synchronisation, copy or
    step of the context is an error that names the launch and the boundary. On
    `reference`, the rows of a document have the bits that they have without other
    documents.

    `lse` is a result if the backward needs it. Its elements are in the order
    `[tokens / sequence, heads, sequence]`, or `[tokens, heads]` with `documents`.

    Constraints:
    1. (attention-c1) The columns of `q` are one or more and a multiple of `heads`, which is one or more.
    2. (attention-c2) `heads` is a multiple of `kv_heads`, which is one or more.
    3. (attention-c3) `k`, `v` and `o` have the sizes given above and the element type of `q`.
    4. (attention-c4) `sequence` is one or more. Without `documents`, the rows of `q` are a multiple of it.
    5. (attention-c5) `scale` is finite.
    6. (attention-c6) `lse` is `[tokens * heads]`.
    7. (attention-c7) `window_size` is `[left, 0]`, `left` zero or more, and needs `causal`.
    8. (attention-c8) `softcap` is finite and greater than 0.
    9. (attention-c9) `sinks` is `[heads]`.
    10. (attention-c10) The columns of `v` are one or more.
    11. (attention-c11) `documents` has one or more elements, and with it `sequence` is at most the number of rows.
    12. (attention-c12) `dropout` is from 0 to less than 1. It is more than 0 exactly if `rng` is given; `stream` is only given with `rng`.

    Example:

    ```mlir
    %o = te.attention %q, %k, %v {heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64, causal}
      : tensor<256x512xbf16>, tensor<256x128xbf16>
    %o2 = te.attention %q, %k, %v {heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64, causal, window_size = array<i64: 31, 0>}
      : tensor<256x512xbf16>, tensor<256x128xbf16>
    %o3 = te.attention %q, %k, %v {heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64, causal, softcap = 50.0 : f32}
      : tensor<256x512xbf16>, tensor<256x128xbf16>
    %o4 = te.attention %q, %k, %v sinks %s : tensor<8xf32> {heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64, causal}
      : tensor<256x512xbf16>, tensor<256x128xbf16>
    %o5 = te.attention %q, %k, %v2 {heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64, causal}
      : tensor<256x512xbf16>, tensor<256x128xbf16>, tensor<256x64xbf16> -> tensor<256x256xbf16>
    %o6 = te.attention %q, %k, %v documents %cu : tensor<9xi32> {heads = 8 : i64, kv_heads = 2 : i64, sequence = 64 : i64, causal}
      : tensor<256x512xbf16>, tensor<256x128xbf16>
    %o7 = te.attention %q, %k, %v rng %state {heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64, dropout = 0.1 : f32, stream = 1 : i32}
      : tensor<256x512xbf16>, tensor<256x128xbf16>
    ```
  }];
  let arguments = !con((ins
    Arg<TE_HPMatrix, "[tokens, heads * head_dim]">:$q,
    Arg<TE_HPMatrix, "[tokens, kv_heads * head_dim]">:$k,
    Arg<TE_HPMatrix, "[tokens, kv_heads * value_dim]">:$v,
    Arg<Optional<TE_F32Vector>, "an extra logit of each head [heads]">:$sinks,
    Arg<Optional<TE_Documents>, "rows where documents begin, and the end of the last one">:$documents,
    Arg<Optional<TE_RngState>, "seed, offset">:$rng),
    TE_AttentionAttrs);
  let results = (outs Res<TE_HPMatrix, "[tokens, heads * value_dim]">:$o,
                      Res<Optional<TE_F32Vector>, "[tokens * heads]">:$lse);
  let assemblyFormat = [{
    $q `,` $k `,` $v (`sinks` $sinks^ `:` type($sinks))?
    (`documents` $documents^ `:` type($documents))? (`rng` $rng^)? attr-dict
    `:` custom<AttentionTypes>(type($q), type($k), type($v), type($o)) (`lse` type($lse)^)?
  }];
  let extraClassDeclaration = TE_AttentionMethods;
  let hasVerifier = 1;
}

def TE_AttentionBackwardOp
    : TE_BackwardOp<"attention_backward",
        TE_AxesIf<"getK().getType() == getV().getType()",
                  (axes "t c":$dout, "t c":$q, "t d":$k, "t d":$v, "t c":$o, "~t":$documents),
                  (axes "t c":$dq, "t d":$dk, "t d":$dv),
                  (axes "t ~c":$dout, "t c":$q, "t d":$k, "t ~d":$v, "t ~c":$o, "~t":$documents),
                  (axes "t c":$dq, "t d":$dk, "t ~d":$dv)>,
        /*saved=*/["q", "k", "v", "o", "lse", "documents", "rng"],
        [AttrSizedOperandSegments,
         AllTypesMatch<["q", "dq"]>, AllTypesMatch<["k", "dk"]>,
         AllTypesMatch<["v", "dv"]>, AllTypesMatch<["dout", "o"]>]> {
  let summary = "compute the gradients of attention";
  let description = [{
    Let `p[i, j] = exp(s[i, j] - lse[i])`, or 0 if `i` does not attend to `j`, and
    `ds[i, j] = p[i, j] (<do[i], v[j]> - <do[i], o[i]>)`. With `softcap`, `ds` is
    multiplied by `1 - t²`, where `t = tanh(scale <q[i], k[j]> / softcap)`. Then:

    `dq[i] = scale * sum_j ds[i, j] k[j]`,
    `dk[j] = scale * sum_i ds[i, j] q[i]`,
    `dv[j] = sum_i p[i, j] do[i]`,

    With `dropout`, `<do[i], v[j]>` and the `p[i, j]` of `dv` are multiplied by
    `m[i, j]`, which is that of the forward.

    `dk` and `dv` are also summed over the heads that read the key-value head.
    The arithmetic is in f32, and each result is rounded once. `lse` includes the
    sinks, whose gradient te.attention_sink_grad computes. With `documents`, the sums
    are over the rows of a document, and `dq`, `dk` and `dv` of padding rows are 0.

    Constraints:
    1. (attention_backward-c1) The operands and attributes meet the constraints of `te.attention`.

    Example:

    ```mlir
    %dq, %dk, %dv = te.attention_backward %do, %q, %k, %v, %o, %lse
      {heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64, causal}
      : tensor<256x512xbf16>, tensor<256x128xbf16>, tensor<2048xf32>
    %dq2, %dk2, %dv2 = te.attention_backward %do, %q, %k, %v, %o, %lse documents %cu : tensor<9xi32>
      {heads = 8 : i64, kv_heads = 2 : i64, sequence = 64 : i64, causal}
      : tensor<256x512xbf16>, tensor<256x128xbf16>, tensor<2048xf32>
    %dq3, %dk3, %dv3 = te.attention_backward %do, %q, %k, %v, %o, %lse rng %state
      {heads = 8 : i64, kv_heads = 2 : i64, sequence = 128 : i64, dropout = 0.1 : f32, stream = 1 : i32}
      : tensor<256x512xbf16>, tensor<256x128xbf16>, tensor<2048xf32>
    ```
  }];
  let arguments = !con((ins
    Arg<TE_HPMatrix, "cotangent of o">:$dout,
    Arg<TE_HPMatrix, "[tokens, heads * head_dim]">:$q,
    Arg<TE_HPMatrix, "[tokens, kv_heads * head_dim]">:$k,
    Arg<TE_HPMatrix, "[tokens, kv_heads * value_dim]">:$v,
    Arg<TE_HPMatrix, "result of the forward">:$o,
    Arg<TE_F32Vector, "[tokens * heads]">:$lse,
    Arg<Optional<TE_Documents>, "those of the forward">:$documents,
    Arg<Optional<TE_RngState>, "that of the forward">:$rng), TE_AttentionAttrs);
  let results = (outs Res<TE_HPMatrix, "type of q">:$dq,
                      Res<TE_HPMatrix, "type of k">:$dk,
                      Res<TE_HPMatrix, "type of v">:$dv);
  let assemblyFormat = [{
    $dout `,` $q `,` $k `,` $v `,` $o `,` $lse
    (`documents` $documents^ `:` type($documents))? (`rng` $rng^)? attr-dict
    `:` custom<AttentionBackwardTypes>(type($q), type($k), type($v), type($o), type($lse))
  }];
  let extraClassDeclaration = TE_AttentionMethods;
  let hasVerifier = 1;
}

def TE_AttentionSinkGradOp
    : TE_BackwardOp<"attention_sink_grad",
        TE_Axes<(axes "t c":$dout, "t c":$o, "~t":$documents), (axes "_":$dsinks), sums = ["t"]>,
        /*saved=*/["o", "lse", "sinks", "documents"],
        [AllTypesMatch<["dout", "o"]>,
                                        AllTypesMatch<["sinks", "dsinks"]>]> {
  let summary = "compute the gradient of the sinks of attention";
  let description = [{
    `dsinks[h] = -sum_i exp(sinks[h] - lse[i]) <do[i], o[i]>` in f32, where the
    sum is over all tokens, or over those of `documents`, without padding rows. The
    result has the same bits on every backend and in every run. The order of the sum
    depends on the places of the rows, so the gradient of packed documents is the sum of
    those of each document only within rounding.

    Constraints:
    1. (attention_sink_grad-c1) `sinks` is `[heads]`, where `heads` is one or more and divides the columns of `o`, which are one or more.
    2. (attention_sink_grad-c2) `sequence` is one or more. Without `documents`, the rows of `o` are a multiple of it.
    3. (attention_sink_grad-c3) `lse` is `[tokens * heads]`.
    4. (attention_sink_grad-c4) `documents` has one or more elements, and with it `sequence` is at most the number of rows.

    Example:

    ```mlir
    %ds = te.attention_sink_grad %do, %o, %lse, %s {sequence = 128 : i64}
      : tensor<256x512xbf16>, tensor<2048xf32>, tensor<8xf32>
    %ds2 = te.attention_sink_grad %do, %o, %lse, %s documents %cu : tensor<9xi32> {sequence = 64 : i64}
      : tensor<256x512xbf16>, tensor<2048xf32>, tensor<8xf32>
    ```
  }];
  let arguments = (ins
    Arg<TE_HPMatrix, "cotangent of o">:$dout,
    Arg<TE_HPMatrix, "result of the forward [tokens, heads * head_dim]">:$o,
    Arg<TE_F32Vector, "[tokens * heads]">:$lse,
    Arg<TE_F32Vector, "[heads]">:$sinks,
    Arg<Optional<TE_Documents>, "those of the forward">:$documents,
    I64Attr:$sequence);
  let results = (outs Res<TE_F32Vector, "[heads]">:$dsinks);
  let assemblyFormat = [{
    $dout `,` $o `,` $lse `,` $sinks (`documents` $documents^ `:` type($documents))? attr-dict
    `:` type($o) `,` type($lse) `,` type($sinks)
  }];
  let hasVerifier = 1;
}

def TE_UsedRowsOp
    : TE_PureOp<"used_rows",
        TE_Axes<(axes "~t":$documents), (axes "t":$used)>> {
  let summary = "mark the rows of documents";
  let description = [{
    `used[t]` is 1 for the rows of `documents`, from the first boundary to the row
    before the last one, and 0 for rows of padding, as in te.attention. Boundaries in
    between are not read. `[0, n]` are the boundaries of `n` tokens at the beginning
    of the rows.

    Constraints:
    1. (used_rows-c1) `documents` has one or more elements.

    Example:

    ```mlir
    %used = te.used_rows %cu : tensor<9xi32> -> tensor<256xf32>
    ```
  }];
  let arguments = (ins Arg<TE_Documents, "rows where documents begin, and the end of the last one">:$documents);
  let results = (outs Res<TE_F32Vector, "1 or 0 [rows]">:$used);
  let assemblyFormat = "$documents attr-dict `:` type($documents) `->` type($used)";
  let hasVerifier = 1;
}

def TE_ZeroUnusedOp
    : TE_PureOp<"zero_unused",
        TE_Axes<(axes "m n":$x, "m":$used), (axes "m n":$y), /*sums=*/[], /*whole=*/[], /*zeros=*/["x"]>,
        [AllTypesMatch<["x", "y"]>,
         DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>,
         TE_StoredFormOpInterface]> {
  let summary = "set the rows that are not used to zero";
  let description = [{
    `y` is `x` in rows whose element of `used` is not 0, and +0 in the others, whatever
    `x` contains there. The gradient of `x` is that of `y` with the same rows set to
    zero, and `used` has none. `used` is te.used_rows of documents, or a mask of tokens that
    the step takes, such as that of a padded batch.

    On what a step takes and on what it returns, the op makes all that the step computes independent of
    what padding contains ([rows that are not used](../how_it_works/numerics.md#rows-that-are-not-used)).
    `te-zero-unused` repeats it before casts of padding that is no longer zero. It is computed in the
    launches of the elementwise ops around it.

    Constraints:
    1. (zero_unused-c1) `used` has one element for each row of `x`.

    Example:

    ```mlir
    %y = te.zero_unused %x, %used : tensor<256x512xbf16>, tensor<256xf32>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "[rows, columns]">:$x,
                       Arg<TE_HPVector, "0 for rows that are not used [rows]">:$used);
  let results = (outs Res<TE_HPMatrix, "type of x">:$y);
  let assemblyFormat = "$x `,` $used attr-dict `:` type($x) `,` type($used)";
  let hasVerifier = 1;
}

#endif // TEDIALECT_IR_TEATTENTIONOPS_TD
