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
    `y` is the sum of `x` over the ranks. `reference` accumulates it in f32 in the
    order of the ranks and rounds it once; NCCL chooses its own order. Every rank
    gets the same `y`. The cotangent of `x` is that of `y`.

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
  let summary = "concatenate the parts of all ranks of a group";
  let description = [{
    `y` is the `x` of every rank, concatenated along `axis` and cut to the size of
    `y`. The elements that are cut off are padding, so the last ranks may have
    fewer elements or none. Padding must be zero, because it is read when an amax
    is computed. The gradient of a tensor is the te.reduce_scatter of the
    cotangent.

    For a scaled value, data and scales are gathered as bytes. `y` has the
    per-tensor scale, or nv amax, of this rank, so all ranks must have the same
    one. te.amax_reduce ensures this, and `te-verify-collectives` checks it. `y`
    then has the bits of the cast of the gathered tensor. Only the data of a value
    with `shard` is gathered, because every rank has the scales of the whole
    matrix.

    Constraints:
    1. (all_gather-c1) `te.groups` declares `group`.
    2. (all_gather-c2) `x` has the axis; for a scaled value it is 0.
    3. (all_gather-c3) `y` has the type of `x`, except for the size of `axis`, which is at least that of `x` and at most that of `x` times the ranks of the group.
    4. (all_gather-c4) a scaled value has no groups and is not swizzled; without `shard`, no block has rows of two parts.
    5. (all_gather-c5) for an `x` with `shard`, `y` is the whole matrix, and the shards of all ranks cover it.

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
    /// Why gathering parts of type `local` along axis 0 does not give the cast of
    /// the gathered tensor; empty if it does.
    static std::string refuseParts(ScaledType local);
  }];
}

def TE_ReduceScatterOp
    : TE_PureOp<"reduce_scatter",
        TE_NoAxes,
        [DeclareOpInterfaceMethods<TE_DifferentiableOpInterface>,
         DeclareOpInterfaceMethods<TE_CollectiveOpInterface>]> {
  let summary = "sum a tensor over a group, and return a part to each rank";
  let description = [{
    Computes the sum of `x` over the ranks, as te.all_reduce does, and divides it
    into equal parts along `axis`. Rank r gets part r. Elements of parts that are
    beyond the end of `x` are zeros. The gradient is the te.all_gather of the
    cotangent.

    Constraints:
    1. (reduce_scatter-c1) `te.groups` declares `group`.
    2. (reduce_scatter-c2) `x` has the axis.
    3. (reduce_scatter-c3) `y` has the type of `x`, except for the size of `axis`, which is at most that of `x` and, times the ranks of the group, at least that of `x`.

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
    Every rank divides its `x` along axis `split` into as many equal parts as the
    group has ranks, and sends part r to rank r. `y` consists of the parts that a
    rank receives, concatenated along axis `concat` in the order of the sending
    ranks. The gradient is the exchange with the two axes swapped.

    `split = 0 concat = 1` exchanges tokens between the ranks of a
    mixture-of-experts layer. `[experts, capacity, columns]` with the tokens of one
    rank becomes `[experts / ranks, ranks * capacity, columns]` with the tokens of
    all ranks for the experts of one rank
    ([experts on several ranks](../guides/experts.md#experts-on-several-ranks)).

    For a scaled value, data and scales are exchanged as bytes, in one operation.
    The rows of its matrix are those of groups of one size, and the type of `x`,
    of `y`, or of both has the number of groups. Its axes are
    `[groups, rows of a group, columns]`, of which the columns cannot be exchanged.
    Without groups, only `split = 0 concat = 0` is possible. If no block has rows
    of two parts, `y` has the bits of the cast of the exchanged tensor. `y` has
    the per-tensor scale, or nv amax, of this rank, as for te.all_gather, and only
    one. A scaled value has no gradient.

    Constraints:
    1. (all_to_all-c1) `te.groups` declares `group`.
    2. (all_to_all-c2) `x` has the axes `split` and `concat`; for a scaled value they are axes of rows.
    3. (all_to_all-c3) the number of ranks divides the size of `split`, and the number of groups of a scaled value divides its rows.
    4. (all_to_all-c4) `y` has the type of `x`, except that the size of `split` is divided by the number of ranks and that of `concat` is multiplied by it; for a scaled value, the numbers of groups differ instead.
    5. (all_to_all-c5) a scaled value is not a stack and not swizzled, and has a per-tensor scale, or nv amax, only without groups.
    6. (all_to_all-c6) the rows of a scaled value that are sent together are a multiple of the rows of a block, and all rows are a multiple of the size to which rows of scales are padded.

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
    /// Why runs of `run` rows of a value of type `scaled` cannot be exchanged
    /// separately; empty if they can.
    static std::string refuseRuns(ScaledType scaled, int64_t run);
    /// The number of groups that the rows of a scaled `x` are divided into (one
    /// for each rank if the types have no groups), and the number of rows that
    /// are sent together.
    int64_t getSentGroups();
    int64_t getRunRows();
  }];
}

def TE_RankOp
    : TE_PureOp<"rank",
        TE_NoAxes,
        [DeclareOpInterfaceMethods<TE_CollectiveOpInterface>]> {
  let summary = "get the number of this rank in a group";
  let description = [{
    The result is from 0 to one less than the number of ranks of the group. The
    op is for programs that `te-verify-collectives` compares over ranks. A
    compiled step is the same on every rank, so it does not contain the op.

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
    `y[i, j] = x[i, j] + bias[j]` in f32, rounded once. A row-parallel layer adds
    its bias with this op, after its GEMM was summed over the group.

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
