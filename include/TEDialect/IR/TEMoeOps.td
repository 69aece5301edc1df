//===- TEMoeOps.td - routing tokens to experts ----------------------------===//

#ifndef TEDIALECT_IR_TEMOEOPS_TD
#define TEDIALECT_IR_TEMOEOPS_TD

include "TEDialect/IR/TEConstraints.td"

def TE_IdMatrix : 2DTensorOf<[I32]>;
def TE_I32Scalar
    : Type<And<[0DTensorOf<[I32]>.predicate]>, "0D tensor of 32-bit signless integer values",
           "::mlir::RankedTensorType">,
      BuildableType<
          "::mlir::RankedTensorType::get({}, $_builder.getI32Type())">;

def TE_RouterTopKOp
    : TE_PureOp<"router_topk",
        TE_Axes<(axes "t e":$logits, "e":$bias), (axes "t k":$ids, "t k":$probs, "t e":$scores), whole = ["e"]>,
        [DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>]> {
  let summary = "choose the experts of each token";
  let description = [{
    `scores` is the softmax of each row of `logits` or, with `sigmoid`, the sigmoid
    of each logit, in f32. `ids` are the experts with the `k` largest keys, in
    descending order. A key is the score of an expert, plus its element of `bias` if
    there is one, in f32. `probs` are the scores of the chosen experts, without
    `bias`; with `normalize`, they are divided by their sum plus 1e-20. `k` is the
    number of columns of `ids`.

    With `groups`, the experts are split into that many groups of consecutive ones, and
    only those of `chosen_groups` groups can be chosen, whatever keys others have: the
    groups in which the sum of the two largest keys is largest.

    If two keys, or two sums, are equal, the lower index comes first. NaN comes behind
    every number.

    Only `probs` has a gradient, which passes through the scores of the chosen experts
    to `logits`. `bias` has none.

    Constraints:
    1. (router_topk-c1) `ids` and `probs` are `[tokens, k]`, `scores` is `[tokens, experts]`, `bias` is `[experts]`.
    2. (router_topk-c2) `k` is from 1 to the number of experts in `chosen_groups` groups.
    3. (router_topk-c3) `groups` is positive and divides the number of experts; if it is not 1, each group has at least two experts.
    4. (router_topk-c4) `chosen_groups` is from 1 to `groups`.

    Example:

    ```mlir
    %ids, %probs, %scores = te.router_topk %logits bias %bias : tensor<8xf32>
      {sigmoid, normalize, groups = 4 : i64, chosen_groups = 2 : i64}
      : tensor<256x8xbf16> -> tensor<256x2xi32>, tensor<256x2xf32>, tensor<256x8xf32>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "[tokens, experts]">:$logits,
                       Arg<Optional<TE_F32Vector>, "added to scores for the choice [experts]">:$bias,
                       UnitAttr:$sigmoid, UnitAttr:$normalize,
                       DefaultValuedAttr<I64Attr, "1">:$groups,
                       DefaultValuedAttr<I64Attr, "1">:$chosen_groups);
  let results = (outs Res<TE_IdMatrix, "[tokens, k]">:$ids,
                      Res<TE_F32Matrix, "[tokens, k]">:$probs,
                      Res<TE_F32Matrix, "[tokens, experts], for the backward">:$scores);
  let assemblyFormat = [{
    $logits (`bias` $bias^ `:` type($bias))? attr-dict
    `:` type($logits) `->` type($ids) `,` type($probs) `,` type($scores)
  }];
  let hasVerifier = 1;
}

def TE_RouterTopKBackwardOp
    : TE_BackwardOp<"router_topk_backward",
        TE_Axes<(axes "t k":$dprobs, "t k":$ids, "t k":$probs, "t e":$scores), (axes "t e":$dlogits), whole = ["e"]>,
        /*saved=*/["ids", "probs", "scores"],
        [AllTypesMatch<["dprobs", "probs"]>]> {
  let summary = "compute the gradient of te.router_topk";
  let description = [{
    Computes `dlogits` from the gradient of `probs`. The choice of experts has no
    gradient.

    Constraints:
    1. (router_topk_backward-c1) `dprobs`, `ids` and `probs` are `[tokens, k]`, `scores` and `dlogits` `[tokens, experts]`.

    Example:

    ```mlir
    %dlogits = te.router_topk_backward %dprobs, %ids, %probs, %scores {normalize}
      : tensor<256x2xf32>, tensor<256x2xi32>, tensor<256x8xf32> -> tensor<256x8xbf16>
    ```
  }];
  let arguments = (ins Arg<TE_F32Matrix, "[tokens, k]">:$dprobs,
                       Arg<TE_IdMatrix, "result of the forward">:$ids,
                       Arg<TE_F32Matrix, "result of the forward">:$probs,
                       Arg<TE_F32Matrix, "result of the forward">:$scores,
                       UnitAttr:$sigmoid, UnitAttr:$normalize);
  let results = (outs Res<TE_HPMatrix, "[tokens, experts]">:$dlogits);
  let assemblyFormat = [{
    $dprobs `,` $ids `,` $probs `,` $scores attr-dict
    `:` type($dprobs) `,` type($ids) `,` type($scores) `->` type($dlogits)
  }];
  let hasVerifier = 1;
}

def TE_PermuteOp
    : TE_PureOp<"permute",
        TE_Axes<(axes "t c":$x, "t k":$ids, "t":$used), (axes "~t c":$y)>,
        [DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>,
         DeclareOpInterfaceMethods<TE_ZeroPaddedOpInterface>]> {
  let summary = "group rows by expert";
  let description = [{
    Each token has `k` entries, one for each expert that it chose; entry
    `i = token * k + slot`. Group `g` of `y` has the rows of the entries that chose
    expert `g`, in the order of the entries. Groups start at multiples of
    `alignment`, and rows that belong to no group are zeros.

    An entry is dropped if its id is not that of an expert, if the expert already
    has `capacity` entries (unless `capacity` is 0), or if `y` has no row left for
    it. `dropped` is the number of dropped entries. `row_of` is the row of each
    entry, or -1 if it was dropped. `entry_of` is the entry of each row, or -1 if
    the row belongs to no group.

    Tokens whose element of `used` is 0 have no entries: they are in no group, take
    no capacity and are not counted in `dropped`, whatever `x` and `ids` contain
    there, and their `row_of` is -1. `te-zero-unused` adds `used` where the rows of
    `x` are those of a te.zero_unused.

    No entry is dropped if there is no capacity and `y` has at least
    `tokens * k + groups * (alignment - 1)` rows.

    With `padded`, every group has `capacity` rows, regardless of the number of its
    entries. `y` is then `[experts, capacity, columns]`, which ranks can exchange
    with te.all_to_all.

    Constraints:
    1. (permute-c1) `ids` is `[tokens, k]`; `y` has the columns and the type of `x`; `row_of` is `[tokens * k]`, `entry_of` has the rows of `y`.
    2. (permute-c2) `alignment` is positive and divides the rows of `y`.
    3. (permute-c3) `capacity` is not negative; 0 means no capacity.
    4. (permute-c4) with `padded`, `capacity` is positive and a multiple of `alignment`, and `y` has `capacity` rows for each expert.
    5. (permute-c5) `used` is `[tokens]`.

    Example:

    ```mlir
    %y, %sizes, %row_of, %entry_of, %dropped = te.permute %x, %ids {alignment = 16 : i64}
      : tensor<256x512xbf16>, tensor<256x2xi32>
      -> tensor<640x512xbf16>, tensor<8xi32>, tensor<512xi32>, tensor<640xi32>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "[tokens, columns]">:$x,
                       Arg<TE_IdMatrix, "experts of each token">:$ids,
                       Arg<Optional<TE_F32Vector>, "0 for tokens that are not used">:$used,
                       I64Attr:$alignment,
                       DefaultValuedAttr<I64Attr, "0">:$capacity,
                       UnitAttr:$padded);
  let results = (outs Res<TE_HPMatrix, "rows by expert">:$y,
                      Res<TE_GroupSizes, "rows of each expert">:$group_sizes,
                      Res<TE_IdVector, "the row of each entry">:$row_of,
                      Res<TE_IdVector, "the entry of each row">:$entry_of,
                      Res<TE_I32Scalar, "entries not taken">:$dropped);
  let assemblyFormat = [{
    $x `,` $ids (`used` $used^ `:` type($used))? attr-dict
    `:` type($x) `,` type($ids) `->` type($y) `,` type($group_sizes) `,` type($row_of) `,` type($entry_of)
  }];
  let hasVerifier = 1;
}

def TE_UnpermuteOp
    : TE_PureOp<"unpermute",
        TE_Axes<(axes "~t c":$y, "t k":$probs), (axes "t c":$out)>,
        [DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>]> {
  let summary = "sum the rows of each token";
  let description = [{
    `out[t] = sum_j probs[t, j] * y[row_of[t * k + j]]`, added in the order of the
    slots in f32 and rounded once. Without `probs`, the factors are 1. Dropped
    entries are not added. `row_of` and `entry_of` are results of te.permute.

    Constraints:
    1. (unpermute-c1) `out` has the columns and the type of `y`; `row_of` is `[tokens * k]`, `entry_of` has the rows of `y`.
    2. (unpermute-c2) `probs` is `[tokens, k]`.

    Example:

    ```mlir
    %out = te.unpermute %y, %row_of, %entry_of probs %probs : tensor<256x2xf32>
      : tensor<640x512xbf16>, tensor<512xi32>, tensor<640xi32> -> tensor<256x512xbf16>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "rows by expert">:$y,
                       Arg<TE_IdVector, "the row of each entry">:$row_of,
                       Arg<TE_IdVector, "the entry of each row">:$entry_of,
                       Arg<Optional<TE_F32Matrix>, "weights of the sum">:$probs);
  let results = (outs Res<TE_HPMatrix, "[tokens, columns]">:$out);
  let assemblyFormat = [{
    $y `,` $row_of `,` $entry_of (`probs` $probs^ `:` type($probs))? attr-dict
    `:` type($y) `,` type($row_of) `,` type($entry_of) `->` type($out)
  }];
  let hasVerifier = 1;
}

def TE_UnpermuteBackwardOp
    : TE_BackwardOp<"unpermute_backward",
        TE_Axes<(axes "t c":$dout, "t k":$probs), (axes "~t c":$dy)>,
        /*saved=*/["entry_of", "probs"],
        [DeclareOpInterfaceMethods<TE_ZeroPaddedOpInterface>]> {
  let summary = "compute the gradient of te.unpermute for its rows";
  let description = [{
    `dy[r] = dout[entry_of[r] / k] * probs[entry_of[r]]`, rounded once. Without
    `probs`, the factors are 1. Rows that belong to no group are zeros.

    Constraints:
    1. (unpermute_backward-c1) `dy` has the columns and the type of `dout`, and the rows of `entry_of`.
    2. (unpermute_backward-c2) `probs` is `[tokens, k]`; `k` is one or more.

    Example:

    ```mlir
    %dy = te.unpermute_backward %dout, %entry_of probs %probs : tensor<256x2xf32> {k = 2 : i64}
      : tensor<256x512xbf16>, tensor<640xi32> -> tensor<640x512xbf16>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "[tokens, columns]">:$dout,
                       Arg<TE_IdVector, "the entry of each row">:$entry_of,
                       Arg<Optional<TE_F32Matrix>, "weights of the sum">:$probs,
                       I64Attr:$k);
  let results = (outs Res<TE_HPMatrix, "rows by expert">:$dy);
  let assemblyFormat = [{
    $dout `,` $entry_of (`probs` $probs^ `:` type($probs))? attr-dict
    `:` type($dout) `,` type($entry_of) `->` type($dy)
  }];
  let hasVerifier = 1;
}

def TE_ProbGradOp
    : TE_BackwardOp<"prob_grad",
        TE_Axes<(axes "t c":$dout, "~t c":$y), (axes "t k":$dprobs)>,
        /*saved=*/["y", "row_of"]> {
  let summary = "compute the gradient of te.unpermute for its weights";
  let description = [{
    `dprobs[t, j]` is the sum of `dout[t] * y[row_of[t * k + j]]` over the columns,
    in f32; 0 for a dropped entry.

    Constraints:
    1. (prob_grad-c1) `dout` and `y` agree on columns and type; `row_of` has an element for each of `dprobs`, which has the rows of `dout`.

    Example:

    ```mlir
    %dprobs = te.prob_grad %dout, %y, %row_of
      : tensor<256x512xbf16>, tensor<640x512xbf16>, tensor<512xi32> -> tensor<256x2xf32>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "[tokens, columns]">:$dout,
                       Arg<TE_HPMatrix, "rows by expert">:$y,
                       Arg<TE_IdVector, "the row of each entry">:$row_of);
  let results = (outs Res<TE_F32Matrix, "[tokens, k]">:$dprobs);
  let assemblyFormat = [{
    $dout `,` $y `,` $row_of attr-dict
    `:` type($dout) `,` type($y) `,` type($row_of) `->` type($dprobs)
  }];
  let hasVerifier = 1;
}

#endif // TEDIALECT_IR_TEMOEOPS_TD
