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

def VerifyCapturePass : Pass<"te-verify-capture", "func::FuncOp"> {
  let summary = "check that a step may be captured once and replayed";
  let description = [{
    A captured step runs the same launches whatever changes from replay to
    replay. Reports every op that cannot be part of one, with what to do:

    * a cast of a weight without a skip flag, which would cast in every
      micro-batch, or never, as it did when it was captured; of one matrix or a
      stack, and of what is computed from weights alone;
    * what measures a weight for a cast without one: delayed scaling would count
      a micro-batch that casts nothing;
    * a scaled value that the step returns as the next one of an argument, if
      anything but ops with a skip flag made it of that argument: a cached cast
      whose flag was forgotten, whatever it casts;
    * a skip flag that is no argument of the step, or keeps what the step does
      not return, or is another one than that of the weight's other casts;
    * an argument that a product reads as its weight and that is not marked
      `te.weight`, so that all of the above would not be asked of it;
    * a state `grad.<weight>` that is read by anything but `te.zero_unless`: the
      gradients of the last batch would be added to;
    * branches, which the host would decide once;
    * allocations and calls, which may allocate or wait;
    * reads of single elements, which wait for the device, and arguments that are
      no tensors, whose values the host reads once;
    * a cast whose random bits come from anything but a state that the step takes
      and returns advanced: every replay would draw the same ones.

    Runs between the stages `import` and `fuse`, by itself or where the pipeline
    has `cache-weights`, or, with `fresh-casts`, `capture`, which te-run's
    `--graph` implies. Changes nothing.

    ```mlir
    // An error: nothing tells this cast to keep what it made for the first micro-batch.
    %wq = te.quantize %w : tensor<1024x512xbf16>
      -> !te.scaled<1024x512xf8E4M3FN, block_128x128, pow2, contract = 1>
    ```
  }];
  let options = [
    Option<"freshCasts", "fresh-casts", "bool", "false",
           "Allow casts of weights in every step, without a flag">
  ];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numChecked", "num-checked", "Number of ops checked">
  ];
}

def VerifyCollectivesPass : Pass<"te-verify-collectives", "ModuleOp"> {
  let summary = "check that all ranks scale alike and meet in every collective";
  let description = [{
    Reports, with both places:

    * a gathered cast whose one scale, or amax, comes from an amax that is not
      reduced over the group: ranks would decode each other's bytes wrongly;
    * a `te.amax_reduce` under a recipe that has no amax of a whole tensor
      (`high_precision`, `mxfp8_block_scaling`, `float8_block_scaling`,
      row-scaled `nvfp4_block_scaling`), but of blocks that flat shards cut;
    * a layer that takes as whole what is split over its group, or as split
      along another axis: a column-parallel layer of another's columns, a norm
      or a loss of parts of rows, a weight, bias, result or state that
      `te.sharding` splits otherwise. Of an argument without `te.sharding`
      nothing is known, and nothing reported;
    * a state without `te.sharding` over a group, moved by a gradient that is
      summed over the rows of this rank alone (te.linear_wgrad, te.bias_grad,
      te.matmul, backwards of norms, te.embedding_backward); a sum that is named
      `grad.<argument>` may be one of summands;
    * ranks that do not run the same collectives in an order in which all meet.

    For the last, each rank's collectives are listed, and all ranks of the mesh
    are run against each other. Ranks differ where modules with `te.ranks` are
    nested in the one with `te.groups` (the stages of a pipeline), or where
    `scf.if` and `scf.for` depend on te.rank. A branch that may depend on
    something else must have the same collectives on both sides. Collectives are
    the same if they have one name, group, axis, operand and result type. Up to
    65,536 ranks are run; without stages and te.rank all have one program, and
    there may be any number. The shape of a
    tensor whose amax is reduced does not matter: a rank with an empty part takes
    part as all others. How many amaxes one te.amax_reduce has does.

    Programs are run as they are written; `--te-verify-derivatives` of te-opt
    runs them again with every te.vjp expanded.

    Runs first, on what the user wrote, and again after casts are inserted.
    Changes nothing.

    ```mlir
    // An error: the ranks other than 0 would wait for ever.
    %r = te.rank group 0
    %zero = arith.constant 0 : index
    %first = arith.cmpi eq, %r, %zero : index
    scf.if %first {
      %y = te.all_reduce %x group 0 : tensor<8xf32>
    }
    ```
  }];
  let dependentDialects = ["::mlir::te::TEDialect"];
  let statistics = [
    Statistic<"numChecked", "num-checked", "Number of reductions and gathers checked">
  ];
}

#endif // TEDIALECT_TRANSFORMS_VERIFY_PASSES
