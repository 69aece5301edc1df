//===- TERTDialect.td - the tert dialect ----------------------------------===//

#ifndef TEDIALECT_TERT_TERTDIALECT_TD
#define TEDIALECT_TERT_TERTDIALECT_TD

include "mlir/IR/OpBase.td"

def TERT_Dialect : Dialect {
  let name = "tert";
  let cppNamespace = "::mlir::tert";
  let summary = "Kernel launches on buffers";
  let description = [{
    `tert` says on which buffer, in which order and with which kernel a step
    runs. A function of `tert` takes one buffer per argument and result of the
    `te` function it came from (two for a scaled value), returns nothing and is
    one straight line of launches. Everything a launch names is a row of
    Kernels.td, which is the verifier's only source.

    Function attributes:
    * `tert.signature`: one dictionary per buffer argument. `name`, `type` (of
      the te value), `role` ("argument" or "result"), `part` ("value", "data" or
      "scale"), `carried`: for a result that is an argument's next state, the
      index of that argument's buffer, else -1. A carried result is written
      into the argument's buffer; callers pass that buffer for both. `init`:
      the `te.init` of an argument that has one, as f32.
    * `tert.arena_bytes`, `tert.max_live_bytes`: set by `te-plan-memory`; for a
      GPU also `tert.workspace_bytes`, the most scratch memory that the runtime
      takes for the step outside the arena.

    `te-convert-tert-to-llvm` keeps the first on the module it makes, and adds
    `tert.launches`: for each slot of a plan one dictionary. `kernel`,
    `parameters` (as in `tert.launch`), `name` (the layer and product of a
    GEMM, else the first buffer that is written) and `location` (of the user's
    op, as text); `side` where it is of the side stream. And `tert.uses`: for each buffer argument the slots of the
    first and the last launch that has it, -1 twice where none has.
  }];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let useDefaultTypePrinterParser = 1;
}

#endif // TEDIALECT_TERT_TERTDIALECT_TD
