//===- Passes.td - from derivatives to straight-line backward code --------===//

#ifndef TEDIALECT_TRANSFORMS_AUTODIFF_PASSES
#define TEDIALECT_TRANSFORMS_AUTODIFF_PASSES

include "mlir/Pass/PassBase.td"

def DifferentiatePass : Pass<"te-differentiate", "ModuleOp"> {
  let summary = "replace te.vjp with its forward and backward, inline";
  let description = [{
    Replaces each `te.vjp` with a copy of its callee (the forward), one
    `te.residual` for each forward value that the backward reads, and the
    backward, in that order. Derivatives come from `DifferentiableOpInterface`.
    Function arguments and constants need no residual, because they are available
    anyway. Only gradients in `wrt` and the values that they need are computed;
    contributions to one gradient are added in reverse program order. A cotangent
    that is a constant zero is ignored, and no gradient passes through an op with
    `te.no_gradient`. The pass runs before quantisation, so that
    the recipe decides what is saved of each residual.

    It needs calls to be inlined (`te-legalize-input`). Private callees without
    uses are removed. A callee that contains a `te.vjp` itself is an error.

    Example: `y = exp(x)` after the pass:

    ```mlir
    func.func @step(%x: tensor<4xf32>, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %y = math.exp %x : tensor<4xf32>
      %r = te.residual %y "exp0.out" : tensor<4xf32>
      %dx = arith.mulf %dy, %r : tensor<4xf32>
      return %y, %dx : tensor<4xf32>, tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
  let statistics = [
    Statistic<"numVjps", "num-vjps", "Number of te.vjp replaced">,
    Statistic<"numResiduals", "num-residuals", "Number of te.residual created">
  ];
}

#endif // TEDIALECT_TRANSFORMS_AUTODIFF_PASSES
