//===- Passes.td - what may exist after each stage ------------------------===//

#ifndef TEDIALECT_TRANSFORMS_VERIFY_PASSES
#define TEDIALECT_TRANSFORMS_VERIFY_PASSES

include "mlir/Pass/PassBase.td"

def VerifyStagePass : Pass<"te-verify-stage", "ModuleOp"> {
  let summary = "check what may exist after a stage";
  let description = [{
    Checks the post-conditions of `stage`, which are the rows of
    StageSpecs.cpp, and reports every violation with the sentence of its row. The
    pass is at the end of each stage of the pipeline, so that a pass that violates
    its post-conditions is found there and not three passes later. It changes
    nothing.

    Example: after `autodiff` this is an error, because no te.vjp may be left:

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
    A captured step runs the same launches in every replay. The pass reports every
    op that cannot be part of one, with what to do:

    * a cast of a weight without a skip flag, which would cast in every
      micro-batch, or never, as it did when it was captured. This includes casts
      of one matrix or a stack, and of values computed only from weights;
    * an amax of a weight for a cast without a skip flag: delayed scaling would
      count a micro-batch that casts nothing;
    * a scaled value that the step returns as the next value of an argument, if
      it was computed from that argument by any op without a skip flag: a cached
      cast whose flag is missing;
    * a skip flag that is not an argument of the step, or that keeps a value which
      the step does not return (a cast, or what an update updates), or that
      differs from the flag of the weight's other casts;
    * an argument that a GEMM reads as its weight and that is not marked
      `te.weight`, because then nothing of the above would be checked for it;
    * a state `grad.<weight>` that is read by any op except `te.zero_unless`: the
      gradients of the last batch would be added to;
    * an update (te.adamw, te.sgd) or te.sum_of_squares without a skip flag that
      reads such gradients, one whose flag differs from that of another one, and
      one whose flag is that of casts and gradients, which is 1.0 in the last
      micro-batch;
    * branches, which the host would decide once;
    * allocations and calls, which may allocate or wait;
    * reads of single elements, which wait for the device, and arguments that are
      not tensors, whose values the host reads once;
    * a cast whose random bits do not come from a state that the step takes and
      returns advanced: every replay would draw the same bits.

    The pass runs between the stages `import` and `fuse`, by itself, with the
    option `cache-weights` of the pipeline, or, with `fresh-casts`, with the option
    `capture`, which te-run's `--graph` implies. It changes nothing.

    ```mlir
    // An error: this cast has no flag, so it does not keep the cast of the first micro-batch.
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
  let summary = "check that all ranks use the same scales and the same collectives";
  let description = [{
    Reports, with both places:

    * a gathered cast whose one scale, or amax, comes from an amax that is not
      reduced over the group: ranks would decode each other's bytes incorrectly;
    * a `te.amax_reduce` under a recipe that has no amax of a whole tensor
      (`high_precision`, `mxfp8_block_scaling`, `float8_block_scaling`,
      row-scaled `nvfp4_block_scaling`), except of blocks that flat shards cut;
    * a layer that uses a tensor which is split over its group as a whole one, or
      as split along another axis: a column-parallel layer of another layer's
      columns, a norm or a loss of parts of rows, a weight, bias, result or state
      that `te.sharding` splits in another way. Nothing is known about an argument
      without `te.sharding`, so nothing is reported for it;
    * a state without `te.sharding` over a group that is updated by a gradient
      which is summed only over the rows of this rank (te.linear_wgrad,
      te.bias_grad, te.matmul, backwards of norms, te.embedding_backward); a sum
      that is named `grad.<argument>` may be a sum of such summands;
    * te.sum_of_squares of such a summand, te.clip_factor of a sum that is one
      rank's summand, and te.sum_of_squares of some tensors that are
      split over an axis and others that are not known to be;
    * ranks that do not run the same collectives in an order in which all match.

    For the last check, the collectives of each rank are listed and those of all
    ranks of the mesh are matched. Ranks differ if modules with `te.ranks` are
    nested in the one with `te.groups` (the stages of a pipeline), or if
    `scf.if` and `scf.for` depend on te.rank. A branch that may depend on
    something else must have the same collectives on both sides. Collectives are
    the same if they have one name, group, axis, operand and result type. Up to
    65,536 ranks are matched; without stages and te.rank all ranks have one
    program, and there may be any number. The shape of a tensor whose amax is
    reduced does not matter, because a rank with an empty part takes part like all
    others. The number of amaxes of one te.amax_reduce does matter.

    Programs are checked as they are written; `--te-verify-derivatives` of te-opt
    checks them again with every te.vjp expanded.

    The pass runs first, on the user's program, and again after casts are
    inserted. It changes nothing.

    ```mlir
    // An error: the ranks other than 0 would wait forever.
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
