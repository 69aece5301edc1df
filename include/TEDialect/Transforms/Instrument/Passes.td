//===- Passes.td - ops that inspect the values of a step ------------------===//

#ifndef TEDIALECT_TRANSFORMS_INSTRUMENT_PASSES
#define TEDIALECT_TRANSFORMS_INSTRUMENT_PASSES

include "mlir/Pass/PassBase.td"

def CheckFinitePass : Pass<"te-check-finite", "func::FuncOp"> {
  let summary = "count NaN and infinities of every value of a step";
  let description = [{
    Inserts a `te.count_nonfinite` for every floating-point argument that not only
    te.zero_unused reads, at the start, and for every floating-point result, directly after its op; for a
    per-tensor cast it counts the elements that the cast loses. All counts are in
    one table, a result of the function that is called `nonfinite`. Its `te.probe`
    says for each row which op it belongs to, what that op reads, and its place in
    a source file. Rows are in program order, so the first row that is not zero is
    where NaN or infinity came from.

    Amaxes, scales and casts are not counted, because they cannot be the first:
    an amax or scale is never NaN, and infinite only if the tensor has infinities;
    the cast of a finite tensor is finite.

    The pass runs before the fusions, so that every value exists; fusions decline
    if a check reads a value that they would not store. It changes no other
    result. Private functions are not changed, because they are not run.

    ```mlir
    %n0 = arith.constant dense<0> : tensor<2x3xi32>
    %n1 = te.count_nonfinite %x into %n0[0] : tensor<256x512xbf16>, tensor<2x3xi32>
    %y = te.activation <silu> %x : tensor<256x512xbf16> -> tensor<256x512xbf16>
    %n2 = te.count_nonfinite %y into %n1[1] : tensor<256x512xbf16>, tensor<2x3xi32>
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect", "::mlir::arith::ArithDialect"];
  let statistics = [Statistic<"numChecks", "num-checks", "Values counted">];
}

def InsertProbesPass : Pass<"te-insert-probes", "func::FuncOp"> {
  let summary = "collect statistics of the operands of every GEMM";
  let description = [{
    Inserts a `te.tensor_stats` for each tensor that the GEMM of a linear layer
    reads (x, w or dy): of the tensor before the cast and, if it is cast, of the
    cast. Each becomes a result of the function, called `probe.<layer>.<role>`;
    its `te.probe` names the elements. A tensor that is cast for both axes, in
    blocks along one axis, is probed for each:
    `probe.<layer>.<role>_columnwise` is the cast for axis 0. A value that several
    GEMMs read in one form is probed once, directly after its cast. A cast that is
    exchanged between ranks is probed as this rank computed it; a cast of a flat
    shard is not probed.

    `patterns` select from the names `<layer>.<role>` with `*` and `?`; a pattern
    that selects nothing in a function with GEMMs is an error. The pass runs after
    the quantise phase and before fusions, which decline if a probe reads a value
    that they would not store. It changes no other result. Private functions are
    not changed, because they are not run.

    ```mlir
    %xq = te.quantize %x : tensor<256x512xbf16> -> !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 1>
    %stats = te.tensor_stats %x cast %xq
      : tensor<256x512xbf16>, !te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 1> -> tensor<14xf32>
    ```
  }];
  let options = [
    ListOption<"patterns", "patterns", "std::string",
               "tensors to probe, as <layer>.<role> with * and ?">
  ];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [Statistic<"numProbes", "num-probes", "Tensors probed">];
}

#endif // TEDIALECT_TRANSFORMS_INSTRUMENT_PASSES
