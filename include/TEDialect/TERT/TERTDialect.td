//===- TERTDialect.td - the tert dialect ----------------------------------===//

#ifndef TEDIALECT_TERT_TERTDIALECT_TD
#define TEDIALECT_TERT_TERTDIALECT_TD

include "mlir/IR/OpBase.td"

def TERT_Dialect : Dialect {
  let name = "tert";
  let cppNamespace = "::mlir::tert";
  let summary = "Kernel launches on buffers";
  let description = [{
    `tert` describes which kernels a step launches, in which order and on which
    buffers. A function of `tert` has a buffer argument for each argument and result
    of the `te` function that it was converted from (several for a scaled value),
    returns nothing, and consists of launches without control flow. The kernels,
    their parameters and their buffers are the rows of Kernels.td, against which
    the verifier checks launches.

    Attributes of functions:

    * `tert.signature` has a dictionary for each buffer argument: `name`; `type`,
      that of the te value; `role`, "argument" or "result"; `part`, "value",
      "data", "scale" or "amax"; `carried`, for a result that is the next state of an argument the
      index of that argument's buffer, else -1; and `init`, the `te.init` of the
      argument as f32, if it has one. A carried result is written to the argument's
      buffer, and callers pass that buffer for both.
    * `te-plan-memory` adds `offset` to the entries of results that it places in the
      arena, the position of the result there in bytes. No launch uses the buffer
      argument of such a result.
    * `te-plan-memory` sets `tert.arena_bytes` and `tert.max_live_bytes`. For a GPU
      it also sets `tert.workspace_bytes`, the most scratch memory in bytes that the
      runtime allocates for the step outside of the arena.

    `te-convert-tert-to-llvm` keeps `tert.signature` on the module that it creates,
    and adds two attributes:

    * `tert.launches` has a dictionary for each slot of a plan: `kernel` and
      `parameters`, as in `tert.launch`; `name`, the layer and the GEMM (fprop,
      dgrad or wgrad) or else the first buffer that is written; `location`, that of
      the user's op as text; and `side`, if the launch is on the side stream.
    * `tert.uses` has, for each buffer argument, the slots of the first and the last
      launch that use it or, for a result in the arena, its place there; -1 twice if
      none does.
  }];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let useDefaultTypePrinterParser = 1;
}

#endif // TEDIALECT_TERT_TERTDIALECT_TD
