//===- Passes.td - collectives of layers that are split over ranks --------===//

#ifndef TEDIALECT_TRANSFORMS_DISTRIBUTE_PASSES
#define TEDIALECT_TRANSFORMS_DISTRIBUTE_PASSES

include "mlir/Pass/PassBase.td"

def InsertCollectivesPass : Pass<"te-insert-collectives", "func::FuncOp"> {
  let summary = "replace parallel layers by layers of one rank and collectives";
  let description = [{
    A `te.linear`, `te.linear_dgrad` or `te.linear_wgrad` with `parallel` becomes
    one without, and the collectives of its group:

    | | column | column, `sequence` | row | row, `sequence` |
    |---|---|---|---|---|
    | forward, before | | gather x | | |
    | forward, after | | | sum y | sum and scatter y |
    | bias | in the layer | in the layer | te.bias_add after | te.bias_add after |
    | dgrad, before | | | | gather dy |
    | dgrad, after | sum dx | sum and scatter dx | | |
    | wgrad, before | | gather x | | gather dy |

    What the backward gathers of x is the part of each rank that the forward
    held, so nothing gathered is held. A group of one rank needs none of it.

    A te.all_reduce or te.reduce_scatter that is widened to f32, the gradient of
    an f32 master or one that `te-accumulate-main-grads` adds up, becomes one of
    f32, and the product that only it reads becomes one, too: summands are not
    rounded before they are added.

    Runs after `te-differentiate`, so that residuals are of a rank's own part,
    and before `te-insert-casts`, which turns a gather of a tensor that is then
    cast into a gather of the cast, with one amax over the group where the
    recipe has one.

    ```mlir
    // %y = te.linear %x, %w parallel <column, group = 0, sequence> becomes
    %all = te.all_gather %x group 0 axis 0 : tensor<64x512xbf16> -> tensor<256x512xbf16>
    %y = te.linear %all, %w : tensor<256x512xbf16>, tensor<1024x512xbf16> -> tensor<256x1024xbf16>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numCollectives", "num-collectives", "collectives inserted">,
    Statistic<"numWidened", "num-widened", "sums over ranks made in f32">
  ];
}

def BatchReductionsPass : Pass<"te-batch-reductions", "func::FuncOp"> {
  let summary = "reduce many amaxes over a group in one collective";
  let description = [{
    A te.amax_reduce may stand anywhere between what measures its amaxes and what
    first reads a result. Those of one group whose ranges have a place in common
    become one op, with the fewest ops that leave every reader where it is: the
    reader that comes first says where an op must be, and it takes along whatever
    is measured, or can be, by then. A te.amax, a te.partial_amax, a te.hadamard
    and the rounding of a master may move up to what they read, so all amaxes of
    weights are there from the start, and both usages of an NVFP4 cast go
    together. The amaxes of delayed scaling are read at the end of the step:
    there, one op is left for each axis of the mesh.

    What moves up waits for its reader. Of the amaxes in one op and the rounded
    masters that they are of there are `most-bytes` at most; what is beyond goes
    into the next one.

    A maximum has the same bits in any company. All ranks run one program, so
    they agree on what goes together; `te-verify-collectives` compares the number
    of amaxes where they do not. Runs once fusions have decided which op measures
    what.

    ```mlir
    // te.amax_reduce %x group 0 and te.amax_reduce %w group 0 become
    %xs, %ws = te.amax_reduce %x, %w group 0
    ```
  }];
  let options = [
    Option<"mostBytes", "most-bytes", "int64_t", "268435456",
           "what one reduction may keep waiting">
  ];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numBefore", "num-before", "reductions that were there">,
    Statistic<"numAfter", "num-after", "reductions that are left">
  ];
}

#endif // TEDIALECT_TRANSFORMS_DISTRIBUTE_PASSES
