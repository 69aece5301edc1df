//===- TEDialect.td - the te dialect --------------------------------------===//

#ifndef TEDIALECT_IR_TEDIALECT_TD
#define TEDIALECT_IR_TEDIALECT_TD

include "mlir/IR/OpBase.td"

def TE_Dialect : Dialect {
  let name = "te";
  let cppNamespace = "::mlir::te";
  let summary = "Quantised training graphs on tensors";
  let description = [{
    `te` describes what a quantised training step computes. Scales and quantised
    copies are SSA values, recipes are attributes, and ops that communicate name
    their process group. The type of a quantised value has its element type, how
    scales are shared, and the axis along which the value may be contracted. A
    matmul of the wrong copy therefore does not verify.

    Frontends emit the layer ops (`te.linear`, `te.rms_norm`, ...). The passes of
    `lib/Transforms` derive the backward, insert casts as the recipe specifies,
    and lower to `tert`.

    Arguments and results of functions may have these attributes:

    * `te.name = "..."`: the name in files and reports. A result with the name of
      an argument is the next state of that argument and is written in place.
    * `te.weight` (arguments): the argument is a parameter.
    * `te.init = 0.0 : f32` (arguments): the value of every element if a run does
      not pass the argument, such as the first value of a state.
    * `te.overwrite_main_grad` (parameters): the gradient is not accumulated over
      micro-batches.
    * `te.recipe_state` (arguments that passes add): the recipe carries the value
      from step to step. A checkpoint of another recipe does not need to have it.
    * `te.probe = [...]` (results that passes add for debugging): describes each
      element of the vector, or each row of the matrix.

    `te.no_gradient` on an op says that its results count as constants when the
    program is differentiated, such as a maximum that is subtracted and added again.
    `te.chunk` on a slice says that it is the rows which `te-chunk-rows` gives a layer
    at a time, so that delayed scaling casts all of them with one scale.

    A module that runs on several ranks declares their groups in `te.groups`;
    there is no default group. Every type is that of one rank's part.
    `te.sharding` names the axes along which an argument or result is split; a
    tensor without it is the same on every rank of every group. If modules for
    different ranks are nested in one module, `te.ranks` lists the ranks that run
    each of them.

    ```mlir
    module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
      func.func private @rows(%x: tensor<64x512xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]})
    }
    ```

    Constraints:
    1. (init-c1) `te.init` is a float or a splat.
    2. (init-c2) an argument with `te.init` is a ranked tensor of floats or integers, and has the type of a splat.
    3. (probe-c1) `te.probe` is an array with an entry for each element or row of its result.
    4. (init-c3) `te.init` of a scaled value is NaN, because a scaled value has no initial value; results computed from it are NaN.
    5. (groups-c1) `te.groups` is on a module, an array of `#te.group`.
    6. (groups-c2) groups have different ids and names, and groups of one axis one size.
    7. (sharding-c1) `te.sharding` is an array of `#te.shard`, on a tensor or a scaled value.
    8. (sharding-c2) its groups are declared and named at most once, and its axes are axes of the type.
    9. (ranks-c1) `te.ranks` is on a module, an array of different ranks of the mesh.
    10. (no_gradient-c1) `te.no_gradient` has no value.
    11. (chunk-c1) `te.chunk` has no value.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"
  ];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    void registerTypes();
  }];
}

#endif // TEDIALECT_IR_TEDIALECT_TD
