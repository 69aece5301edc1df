//===- Passes.td - from tensors to launches in one arena ------------------===//

#ifndef TEDIALECT_TRANSFORMS_SCHEDULE_PASSES
#define TEDIALECT_TRANSFORMS_SCHEDULE_PASSES

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

def OverlapCommunicationPass : Pass<"te-overlap-communication", "ModuleOp"> {
  let summary = "run collectives beside what does not need them";
  let description = [{
    Marks every collective of a function `side`: it runs on a second stream, and
    the first launch that needs it waits (Streams.h). Launches are moved so that
    there is something to run meanwhile: a gather goes up over a product, and
    where the step would wait, a launch from below goes first. In the backward
    of a column-parallel layer the gather of x so runs beside the product of dx,
    and the sum of dx beside that of dw.

    Moves are kept where a simulation of both streams, with times expected of
    each launch, gets shorter. A function that is not expected to gain 10
    microseconds stays as it is, on one stream; with `always` none does.

    A launch never passes one it shares a buffer with, unless both only read it,
    so no bit changes. Nothing passes the first launch that reads a cotangent,
    where host programs cut a step in two. The order is a function of the
    program alone: all ranks that run it have the same. Where ranks run programs
    of their own (`te.ranks`), collectives do not pass one another either.

    Needs launches; runs before `te-plan-memory`, for what a launch on the side
    stream uses lives until somebody has waited for it.

    ```mlir
    tert.launch "matmul" {...} (%dy, %w, ..., %partial) : ...
    tert.launch "reduce_scatter_sum" {...} (%partial, %dx) : ...
    tert.launch "all_gather" {...} (%part, %x) : ...
    tert.launch "matmul" {...} (%dy, %x, ..., %dw) : ...
    // becomes
    tert.launch "all_gather" {...} (%part, %x) side : ...
    tert.launch "matmul" {...} (%dy, %w, ..., %partial) : ...
    tert.launch "reduce_scatter_sum" {...} (%partial, %dx) side : ...
    tert.launch "matmul" {...} (%dy, %x, ..., %dw) : ...
    ```
  }];
  let options = [
    Option<"always", "always", "bool", "false",
           "use two streams whatever is expected of them">,
    Option<"target", "target", "std::string", "\"sm_90\"",
           "machine whose times are expected: sm_90, sm_100 or reference, which counts as sm_90">
  ];
  let dependentDialects = ["::mlir::tert::TERTDialect"];
  let statistics = [
    Statistic<"numSide", "num-side", "collectives put on the side stream">,
    Statistic<"numMoved", "num-moved", "moves that were kept">,
    Statistic<"numDeclined", "num-declined", "functions that would not gain enough">
  ];
}

def PlanMemoryPass : Pass<"te-plan-memory", "ModuleOp"> {
  let summary = "place every temporary buffer in one arena";
  let description = [{
    Sets `offset` on every `tert.alloc`, and `tert.arena_bytes` and
    `tert.max_live_bytes` on the function. A buffer lives from its first to its
    last launch; a kernel that may share an input with an output does so when
    the input dies there. The policy is MemoryPlanner. With `budget`, an arena
    above it is an error that says what the step needs and which buffers are
    live at its peak.

    Scratch memory of kernels is no part of the arena: the runtime takes one
    region for all launches when it loads the step. For a `target` that is a
    GPU, `tert.workspace_bytes` says how large that is at most: what the kernels
    of the runtime take, 32 MiB for a product of a library, and what the
    algorithm of attention keeps (Workspaces.h).

    ```mlir
    %h = tert.alloc "h" activation : !tert.buffer<2097152>
    // becomes
    %h = tert.alloc "h" activation offset 4096 : !tert.buffer<2097152>
    ```
  }];
  let options = [
    Option<"budget", "budget", "int64_t", "0",
           "largest arena in bytes; 0 is no limit">,
    Option<"target", "target", "std::string", "\"reference\"",
           "machine whose scratch memory is counted: sm_90, sm_100 or reference, which takes none">
  ];
  let dependentDialects = ["::mlir::tert::TERTDialect"];
  let statistics = [
    Statistic<"numBuffers", "num-buffers", "temporaries placed">,
    Statistic<"numShared", "num-shared", "temporaries that took over a dying input">
  ];
}

#endif // TEDIALECT_TRANSFORMS_SCHEDULE_PASSES
