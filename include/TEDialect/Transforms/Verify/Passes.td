//===- Passes.td - what may exist after each stage ------------------------===//

#ifndef TEDIALECT_TRANSFORMS_VERIFY_PASSES
#define TEDIALECT_TRANSFORMS_VERIFY_PASSES

include "mlir/Pass/PassBase.td"

def VerifyStagePass : Pass<"te-verify-stage", "ModuleOp"> {
  let summary = "check what may exist after a stage";
  let description = [{
    Checks the post-conditions of `stage`, which are the rows of
    StageSpecs.cpp, and reports every violation with the row's sentence. Stands
    at the end of each stage of the pipeline, so that a pass that breaks its
    promise is found there and not three passes later. Changes nothing.

    Example: after `autodiff` this is an error, since the derivative should be
    gone:

    ```mlir
    %y, %dx = te.vjp @f(%x) cotangents(%dy) wrt [0]
      : (tensor<4xf32>), (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    ```
  }];
  let options = [
    Option<"stage", "stage", "std::string", "\"\"",
           "import, autodiff, quantize, fuse, schedule or lower">,
    Option<"print", "print", "bool", "false",
           "Print the table of post-conditions instead of checking">
  ];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numChecks", "num-checks", "Number of ops checked">
  ];
}

#endif // TEDIALECT_TRANSFORMS_VERIFY_PASSES
