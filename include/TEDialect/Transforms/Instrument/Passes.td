//===- Passes.td - ops that look at the values of a step ------------------===//

#ifndef TEDIALECT_TRANSFORMS_INSTRUMENT_PASSES
#define TEDIALECT_TRANSFORMS_INSTRUMENT_PASSES

include "mlir/Pass/PassBase.td"

def CheckFinitePass : Pass<"te-check-finite", "func::FuncOp"> {
  let summary = "count NaN and infinities of every value of a step";
  let description = [{
    Inserts a `te.count_nonfinite` for every floating-point argument, at the
    start, and for every floating-point result, right behind its op; for a
    per-tensor cast it counts what the cast loses. All count in one table, which
    becomes a result of the function, called `nonfinite`. Its `te.probe` says of
    each row which op it is of, what that reads, and from which place in a
    source file. Rows are in program order, so the first that is not zero is
    where NaN or infinity came from.

    Not counted, because they cannot be the first: amaxes and scales (never NaN,
    and infinite only where what they measure is), and the casts themselves (of
    finite tensors they are finite).

    Runs before the fusions, so that there is every value to look at; these
    decline where that keeps a value they would not have stored. Changes no
    other result. Leaves functions that are private alone: nobody runs them.

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
  let summary = "gather statistics of the operands of every GEMM";
  let description = [{
    Inserts a `te.tensor_stats` for each tensor that the GEMM of a linear layer
    reads, x, w or dy: of the tensor before the cast, and, where it is cast, of
    what the cast made of it. Each becomes a result of the function, called
    `probe.<layer>.<role>`; its `te.probe` names the elements. A tensor that is
    cast for both axes, in blocks along one, is probed for each:
    `probe.<layer>.<role>_columnwise` is the cast for axis 0. What several GEMMs
    read in one form is probed once, right behind its cast. A cast that is
    exchanged between ranks is probed as this rank made it; one of a flat run of
    a matrix is not.

    `patterns` select from the names `<layer>.<role>` by `*` and `?`; one that
    selects nothing in a function with GEMMs is an error. Runs on the result of
    the quantise phase, before fusions, which decline where they would not have
    stored what a probe reads. Changes no other result. Leaves functions that are
    private alone: nobody runs them.

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
