//===- Passes.td - from tensors to launches in one arena ------------------===//

#ifndef TEDIALECT_TRANSFORMS_SCHEDULE_PASSES
#define TEDIALECT_TRANSFORMS_SCHEDULE_PASSES

include "mlir/Pass/PassBase.td"

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
