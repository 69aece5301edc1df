//===- TECollectiveOps.td - ops over the ranks of a group -----------------===//

#ifndef TEDIALECT_IR_TECOLLECTIVEOPS_TD
#define TEDIALECT_IR_TECOLLECTIVEOPS_TD

include "TEDialect/IR/TEConstraints.td"

def TE_AllReduceOp
    : TE_PureOp<"all_reduce",
        TE_Axes<(axes "...":$x), (axes "...":$y)>,
        [AllTypesMatch<["x", "y"]>,
        DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>,
         DeclareOpInterfaceMethods<TE_CollectiveOpInterface>]> {
  let summary = "sum a tensor over the ranks of a group";
  let description = [{
    `y = sum over ranks of x`, accumulated in f32 in the order of the ranks and
    rounded once (`reference`; NCCL chooses its own order). Every rank has the
    same `y`; its cotangent is the cotangent of each `x`.

    Constraints:
    1. (all_reduce-c1) `te.groups` declares `group`.

    Example:

    ```mlir
    %y = te.all_reduce %x group 0 : tensor<256x512xbf16>
    ```
  }];
  let arguments = (ins Arg<TE_HPTensor, "this rank's summand">:$x,
                       I64Attr:$group);
  let results = (outs Res<TE_HPTensor, "the sum">:$y);
  let assemblyFormat = "$x `group` $group attr-dict `:` type($x)";
  let hasVerifier = 1;
}

def TE_AllGatherOp
    : TE_PureOp<"all_gather",
        TE_NoAxes,
        [DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>,
         DeclareOpInterfaceMethods<TE_CollectiveOpInterface>]> {
  let summary = "put the parts of all ranks of a group together";
  let description = [{
    `y` is the `x` of every rank, concatenated along `axis` and cut to the size of
    `y`: elements of the parts beyond that are padding, so parts may be uneven,
    and the last ones may be only padding. Padding takes part in amaxes, so it has
    to be zeros. For a scaled value, data and scales are gathered as bytes. `y`
    has the per-tensor scale, or nv amax, of this rank, so all ranks must have the
    same one (`te.amax_reduce`; `te-verify-collectives` checks that); then `y`
    equals, bit for bit, the cast of the gathered tensor. The parts of a value
    with `shard` are flat runs, of which only the data is gathered: every rank has
    the scales of the whole. The gradient of a tensor is the te.reduce_scatter of
    the cotangent.

    Constraints:
    1. (all_gather-c1) `te.groups` declares `group`.
    2. (all_gather-c2) `x` has the axis; for a scaled value it is 0.
    3. (all_gather-c3) `y` has the type of `x`, except along `axis`, which is at least as long, and at most as many times longer as the group has ranks.
    4. (all_gather-c4) a scaled value has no groups and is not swizzled, and blocks that run along the rows, or are square, end with the part, if it has no `shard`.
    5. (all_gather-c5) for an `x` with `shard`, `y` is the whole, which the shards of all ranks cover.

    Example:

    ```mlir
    %y = te.all_gather %x group 0 axis 0 : tensor<64x512xbf16> -> tensor<256x512xbf16>
    %u = te.all_gather %x group 0 axis 0 : tensor<64x512xbf16> -> tensor<200x512xbf16>
    ```

    ```mlir
    %yq = te.all_gather %xq group 0 axis 0
      : !te.scaled<64x512xf8E4M3FN, per_tensor, contract = 1> -> !te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>
    ```

    ```mlir
    %w = te.all_gather %wq group 0 axis 0
      : !te.scaled<160x128xf8E4M3FN, block_128x128, pow2, contract = 1, shard = 5197>
      -> !te.scaled<160x128xf8E4M3FN, block_128x128, pow2, contract = 1>
    ```
  }];
  let arguments = (ins
    Arg<AnyTypeOf<[TE_HPTensor, TE_ScaledType]>, "this rank's part">:$x,
    I64Attr:$group, I64Attr:$axis);
  let results = (outs Res<AnyTypeOf<[TE_HPTensor, TE_WholeScaled]>, "all parts">:$y);
  let assemblyFormat = [{
    $x `group` $group `axis` $axis attr-dict `:` type($x) `->` type($y)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Why parts of type `local` do not gather along axis 0 to the cast of the
    /// gathered tensor; empty where they do.
    static std::string refuseParts(ScaledType local);
  }];
}

def TE_ReduceScatterOp
    : TE_PureOp<"reduce_scatter",
        TE_NoAxes,
        [DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>,
         DeclareOpInterfaceMethods<TE_CollectiveOpInterface>]> {
  let summary = "sum a tensor over a group and give each rank a part";
  let description = [{
    Computes the sum of `x` over the ranks, as te.all_reduce does, and gives each
    rank the part with its number along `axis`. Parts have one size; if they are
    longer than `x` together, elements beyond its end are zeros. The gradient is
    the te.all_gather of the cotangent.

    Constraints:
    1. (reduce_scatter-c1) `te.groups` declares `group`.
    2. (reduce_scatter-c2) `x` has the axis.
    3. (reduce_scatter-c3) `y` has the type of `x`, except along `axis`, which is at most as long and, times the ranks of the group, at least as long.

    Example:

    ```mlir
    %y = te.reduce_scatter %x group 0 axis 0 : tensor<256x512xbf16> -> tensor<64x512xbf16>
    ```
  }];
  let arguments = (ins Arg<TE_HPTensor, "this rank's summand">:$x,
                       I64Attr:$group, I64Attr:$axis);
  let results = (outs Res<TE_HPTensor, "this rank's part of the sum">:$y);
  let assemblyFormat = [{
    $x `group` $group `axis` $axis attr-dict `:` type($x) `->` type($y)
  }];
  let hasVerifier = 1;
}

def TE_AllToAllOp
    : TE_PureOp<"all_to_all",
        TE_NoAxes,
        [DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>,
         DeclareOpInterfaceMethods<TE_CollectiveOpInterface>]> {
  let summary = "exchange parts of a tensor between the ranks of a group";
  let description = [{
    Every rank cuts its `x` along axis `split` into as many equal parts as the
    group has ranks, and sends part r to rank r. `y` is the parts that it receives,
    in the order of the sending ranks, concatenated along axis `concat`. The
    gradient is the exchange with the two axes swapped.

    With `split = 0 concat = 1` rows by expert, `[experts, capacity, columns]` of
    one rank's tokens, become those of one rank's experts,
    `[experts / ranks, ranks * capacity, columns]` of all tokens
    ([experts on several ranks](../guides/experts.md#experts-on-several-ranks)).

    For a scaled value, data and scales are exchanged as bytes, in one operation.
    It is a matrix whose rows are `[groups, rows of a group]`: groups have one
    size, and the types of `x` and `y`, or one of them, say how many there are.
    Axes are those of `[groups, rows, columns]`, and columns are not exchanged;
    without groups only rows are exchanged, with `split = 0 concat = 0`. If no
    block spans rows of two parts, `y` equals, bit for bit, the cast of the
    exchanged tensor. The result has the per-tensor scale, or nv amax, of this
    rank, as for te.all_gather, and there is only one. A scaled value has no
    gradient.

    Constraints:
    1. (all_to_all-c1) `te.groups` declares `group`.
    2. (all_to_all-c2) `x` has the axes `split` and `concat`; for a scaled value they are axes of rows.
    3. (all_to_all-c3) the ranks of the group divide the size of `split`, and the groups of a scaled value its rows.
    4. (all_to_all-c4) `y` has the type of `x`, except along `split`, which is as many times shorter as the group has ranks, and `concat`, which is as many times longer; a scaled value has other groups instead.
    5. (all_to_all-c5) a scaled value is not a stack and not swizzled, and has one per-tensor scale, or nv amax, only without groups.
    6. (all_to_all-c6) rows of a scaled value that travel together are a multiple of the rows of a block, and all rows one of what rows of scales are padded to.

    Example:

    ```mlir
    %y = te.all_to_all %x group 0 split 0 concat 1 : tensor<8x16x512xbf16> -> tensor<2x64x512xbf16>
    ```

    ```mlir
    %yq = te.all_to_all %xq group 0 split 0 concat 1
      : !te.scaled<128x512xf8E4M3FN, block_1x128, contract = 1> -> !te.scaled<128x512xf8E4M3FN, block_1x128, contract = 1, groups = 2>
    ```
  }];
  let arguments = (ins
    Arg<AnyTypeOf<[TE_HPTensor, TE_WholeScaled]>, "this rank's parts for all">:$x,
    I64Attr:$group, I64Attr:$split, I64Attr:$concat);
  let results = (outs Res<AnyTypeOf<[TE_HPTensor, TE_WholeScaled]>, "the parts of all for this rank">:$y);
  let assemblyFormat = [{
    $x `group` $group `split` $split `concat` $concat attr-dict `:` type($x)
    `->` type($y)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Why runs of `run` rows of a value of type `scaled` are not exchanged by
    /// themselves; empty where they are.
    static std::string refuseRuns(ScaledType scaled, int64_t run);
    /// The groups that the rows of a scaled `x` are cut into, and the rows that
    /// travel together. Without any groups, one for each rank.
    int64_t getSentGroups();
    int64_t getRunRows();
  }];
}

def TE_RankOp
    : TE_PureOp<"rank",
        TE_NoAxes,
        [DeclareOpInterfaceMethods<TE_CollectiveOpInterface>]> {
  let summary = "number of this rank in a group";
  let description = [{
    From 0 to one less than the number of ranks of the group. The op is for
    programs that `te-verify-collectives` compares over ranks; a compiled step is
    the same on every rank and does not contain it.

    Constraints:
    1. (rank-c1) `te.groups` declares `group`.

    Example:

    ```mlir
    %r = te.rank group 0
    ```
  }];
  let arguments = (ins I64Attr:$group);
  let results = (outs Res<Index, "number of the rank">:$rank);
  let assemblyFormat = "`group` $group attr-dict";
  let hasVerifier = 1;
}

def TE_BiasAddOp
    : TE_PureOp<"bias_add",
        TE_Axes<(axes "m n":$x, "n":$bias), (axes "m n":$y)>,
        [AllTypesMatch<["x", "y"]>,
        DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>]> {
  let summary = "add a vector to each row";
  let description = [{
    `y[i, j] = x[i, j] + bias[j]` in f32, rounded once: the bias of a layer
    whose GEMM is first summed over a group.

    Constraints:
    1. (bias_add-c1) `bias` is `[columns]`, of the element type of `x`.

    Example:

    ```mlir
    %y = te.bias_add %x, %bias : tensor<256x512xbf16>, tensor<512xbf16>
    ```
  }];
  let arguments = (ins Arg<TE_HPMatrix, "[rows, columns]">:$x,
                       Arg<TE_HPVector, "[columns]">:$bias);
  let results = (outs Res<TE_HPMatrix, "type of x">:$y);
  let assemblyFormat = "$x `,` $bias attr-dict `:` type($x) `,` type($bias)";
  let hasVerifier = 1;
}

#endif // TEDIALECT_IR_TECOLLECTIVEOPS_TD
