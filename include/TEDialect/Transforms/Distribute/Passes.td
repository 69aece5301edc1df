//===- Passes.td - collectives of layers that are split over ranks --------===//

#ifndef TEDIALECT_TRANSFORMS_DISTRIBUTE_PASSES
#define TEDIALECT_TRANSFORMS_DISTRIBUTE_PASSES

include "mlir/Pass/PassBase.td"

def InsertCollectivesPass : Pass<"te-insert-collectives", "func::FuncOp"> {
  let summary = "replace parallel layers with layers of one rank and collectives";
  let description = [{
    Replaces a `te.linear`, `te.linear_dgrad` or `te.linear_wgrad` that has
    `parallel` with one that does not, and the collectives of its group:

    | | column | column, `sequence` | row | row, `sequence` |
    |---|---|---|---|---|
    | forward, before | | gather x | | |
    | forward, after | | | sum y | sum and scatter y |
    | bias | in the layer | in the layer | te.bias_add after | te.bias_add after |
    | dgrad, before | | | | gather dy |
    | dgrad, after | sum dx | sum and scatter dx | | |
    | wgrad, before | | gather x | | gather dy |

    In the backward, the rank's own part of x is gathered again, so no gathered
    tensor is saved. A group of one rank needs no collectives.

    If the result of a te.all_reduce or te.reduce_scatter is widened to f32 (for
    the gradient of an f32 master weight, or by `te-accumulate-main-grads`), the
    collective becomes one of f32, and so does the GEMM that only it reads:
    summands are not rounded before they are added.

    The pass runs after `te-differentiate`, so that residuals are of a rank's own
    part, and before `te-insert-casts`, which turns a gather of a tensor that is
    then cast into a gather of the cast, with one amax over the group if the
    recipe has an amax.

    ```mlir
    // %y = te.linear %x, %w parallel <column, group = 0, sequence> becomes
    %all = te.all_gather %x group 0 axis 0 : tensor<64x512xbf16> -> tensor<256x512xbf16>
    %y = te.linear %all, %w : tensor<256x512xbf16>, tensor<1024x512xbf16> -> tensor<256x1024xbf16>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numCollectives", "num-collectives", "collectives inserted">,
    Statistic<"numWidened", "num-widened", "sums over ranks computed in f32">
  ];
}

def BatchReductionsPass : Pass<"te-batch-reductions", "func::FuncOp"> {
  let summary = "reduce many amaxes over a group in one collective";
  let description = [{
    A te.amax_reduce may be placed anywhere between the ops that measure its
    amaxes and the first reader of a result. Reductions of one group whose ranges
    overlap become one op, with the fewest ops that leave every reader in place:
    the first reader decides where an op must be, and that op reduces every amax
    that is, or can be, measured by then. A te.amax, a te.partial_amax, a
    te.hadamard and the rounding of a master weight may move up to their operands,
    so all amaxes of weights are available from the start, and both usages of an
    NVFP4 cast are reduced together. The amaxes of delayed scaling are read at the
    end of the step; one op for each axis of the mesh remains there.

    Values that moved up wait for their reader. The amaxes of one op and the
    rounded master weights that they measure have at most `most-bytes` bytes;
    further ones go into the next op.

    A maximum has the same bits in any combination. All ranks run one program, so
    they agree on the combination; if ranks have programs of their own,
    `te-verify-collectives` compares the number of amaxes. The pass runs after
    fusions have decided which op measures which amax.

    ```mlir
    // te.amax_reduce %x group 0 and te.amax_reduce %w group 0 become
    %xs, %ws = te.amax_reduce %x, %w group 0
    ```
  }];
  let options = [
    Option<"mostBytes", "most-bytes", "int64_t", "268435456",
           "bytes that may wait for one reduction">
  ];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numBefore", "num-before", "reductions before the pass">,
    Statistic<"numAfter", "num-after", "reductions after the pass">
  ];
}

#endif // TEDIALECT_TRANSFORMS_DISTRIBUTE_PASSES
