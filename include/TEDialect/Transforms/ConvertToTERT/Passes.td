//===- Passes.td - ops on tensors as launches on buffers ------------------===//

#ifndef TEDIALECT_TRANSFORMS_CONVERTTOTERT_PASSES
#define TEDIALECT_TRANSFORMS_CONVERTTOTERT_PASSES

include "mlir/Pass/PassBase.td"

def ConvertToTERTPass : Pass<"te-convert-to-tert", "ModuleOp"> {
  let summary = "replace tensors by buffers and ops by kernel launches";
  let description = [{
    Every function becomes one straight line of `tert.launch` on buffers:
    arguments, then results, then temporaries. Views (`te.residual`, reshapes)
    are the buffer they look at; a splat is filled right before its first use.
    A result named as an argument is written into that argument's buffer, by
    its producer where every other access of the old value comes earlier (or
    the kernel reads each element before it writes it), else by a copy at the
    end of the step. Private functions that nothing calls are erased.

    Needs calls inlined and layers replaced by casts and products; leaves no op
    and no type of `te` but in `tert.signature`. It runs last before planning,
    because order is memory from here on.

    ```mlir
    func.func @f(%x: tensor<64xf32> {te.name = "x"}) -> (tensor<64xf32> {te.name = "x"}) {
      %y = arith.addf %x, %x : tensor<64xf32>
      return %y : tensor<64xf32>
    }
    // becomes
    func.func @f(%x: !tert.buffer<256>, %unused: !tert.buffer<256>) attributes {tert.signature = [...]} {
      tert.launch "pointwise" {count = 64 : i64, op = 0 : i32, out_type = 0 : i32, type = 0 : i32} (%x, %x, %x) : ...
      return
    }
    ```
  }];
  let dependentDialects = ["::mlir::tert::TERTDialect"];
  let statistics = [
    Statistic<"numLaunches", "num-launches", "launches made">,
    Statistic<"numInPlace", "num-in-place", "results written by their producer">,
    Statistic<"numCopies", "num-copies", "results that needed a copy">
  ];
}

def HoistSumsPass : Pass<"te-hoist-sums", "func::FuncOp"> {
  let summary = "add and update as soon as that frees memory";
  let description = [{
    An elementwise op whose operands end in it, and that are larger than its
    result together, moves up to where the last of them is made. A step over
    several micro-batches that adds its gradients at the end then holds one sum,
    not every summand. So does the update that is the only reader of a gradient
    (`te.adamw`, `te.sgd`), behind every other reader of what it overwrites, or
    where it is if one of them stands below it: a step that updates at its end
    then does not hold all gradients. Updates by a gradient that a collective
    makes, with elementwise ops between or not, stay where they are, as products
    run beside collectives. Values are the same, since order means nothing before
    `te-convert-to-tert`. Runs right before that pass: fusions place ops
    themselves.

    ```mlir
    %a = te.matmul ...
    %b = te.matmul ...
    %sum = arith.addf %a, %b : tensor<4096x4096xbf16>   // moved here, from the end
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numMoved", "num-moved", "ops moved up">
  ];
}

#endif // TEDIALECT_TRANSFORMS_CONVERTTOTERT_PASSES
