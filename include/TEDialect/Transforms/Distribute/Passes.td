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
    Statistic<"numCollectives", "num-collectives", "collectives inserted">
  ];
}

#endif // TEDIALECT_TRANSFORMS_DISTRIBUTE_PASSES
