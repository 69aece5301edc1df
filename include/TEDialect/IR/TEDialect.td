//===- TEDialect.td - the te dialect --------------------------------------===//

#ifndef TEDIALECT_IR_TEDIALECT_TD
#define TEDIALECT_IR_TEDIALECT_TD

include "mlir/IR/OpBase.td"

def TE_Dialect : Dialect {
  let name = "te";
  let cppNamespace = "::mlir::te";
  let summary = "Quantised training graphs on tensors";
  let description = [{
    `te` says what a quantised training step computes. Everything that other
    stacks keep in side tables is a value or an attribute here: scales and
    quantised copies are SSA values, recipes are attributes, process groups are
    operands of the ops that use them. A quantised value's type names its
    element type, how scales are shared, and the axis it may be contracted
    along, so a matmul on the wrong copy does not verify.

    Frontends emit the layer ops (`te.linear`, `te.rms_norm`, ...); the passes
    of `lib/Transforms` derive the backward, insert casts as the recipe says,
    and lower to `tert`.

    Function arguments and results may carry `te.name = "..."` (their name in
    files and reports; a result with the name of an argument is that
    argument's next state and is written in place). Arguments may also carry
    `te.weight` (a parameter) and `te.init = 0.0 : f32` (the value of every element
    if a run gives none, such as the first value of a state), and a parameter
    `te.overwrite_main_grad` (its gradient is never added up). Results that passes
    added for debugging carry `te.probe = [...]`, which describes each element of a
    vector, or row of a matrix.

    A module that runs on several ranks declares their groups once, as
    `te.groups`; there is no default group. Every type is that of one rank's
    part. `te.sharding` says along which axes an argument or result is a part; a
    tensor without it is the same on every rank of every group. If modules for
    different ranks are nested in one, `te.ranks` says which ranks run each.

    ```mlir
    module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 4>]} {
      func.func private @rows(%x: tensor<64x512xbf16> {te.sharding = [#te.shard<axis = 0, group = 0>]})
    }
    ```

    Constraints:
    1. (init-c1) `te.init` is a float or a splat.
    2. (init-c2) the argument of a `te.init` is a ranked tensor of floats or integers, and has the type of a splat.
    3. (probe-c1) `te.probe` is an array with an entry for each element or row of its result.
    4. (init-c3) `te.init` of a scaled value is NaN: there is nothing to start from, and what reads it is NaN too.
    5. (groups-c1) `te.groups` is on a module, an array of `#te.group`.
    6. (groups-c2) groups have different ids and names, and groups of one axis one size.
    7. (sharding-c1) `te.sharding` is an array of `#te.shard`, on a tensor or a scaled value.
    8. (sharding-c2) its groups are declared, each named once at most, and its axes are those of the type.
    9. (ranks-c1) `te.ranks` is on a module, an array of different ranks of the mesh.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::tensor::TensorDialect"
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
