//===- Passes.td - from tensors to launches in one arena ------------------===//

#ifndef TEDIALECT_TRANSFORMS_SCHEDULE_PASSES
#define TEDIALECT_TRANSFORMS_SCHEDULE_PASSES

include "mlir/Pass/PassBase.td"

def MergeLaunchesPass : Pass<"te-merge-launches", "ModuleOp"> {
  let summary = "merge small launches that do the same to other tensors";
  let description = [{
    A GPU needs about two microseconds from one launch to the next, whatever the
    launches do. Some launches become one:

    * `adamw` of up to 65,536 elements, with the same parameters except for the seed,
      and with the same `lr`, `step`, `grad_scale` and `skip`: up to 32 of them become an
      `adamw_group`. These are the updates of biases and of the weights of norms;
    * `delayed_scaling_update` with the same parameters except for the slots: up to 32
      of them become a `delayed_scaling_group`;
    * `rope` of queries and of keys, with the same tables of angles and positions: two
      become a `rope_group`;
    * `quantize_tensor` of two matrices, with the same parameters and results, whose
      buffers have up to 48 MiB each: a `quantize_tensor_group`. These are the casts of
      the weights of keys and values, and of their gradients;
    * `generated` code without sums of rows and without dropout, on the same number
      of elements, whose buffers have up to 48 MiB, as long as the merged launch has up
      to 8 inputs, 4 outputs, and the code of 64 additions. An example is the rounding
      of two weights of one shape. What both read is read once.

    A launch joins the last group that it can be merged with. Either it moves up to
    the group, or the group moves down to it, whichever keeps fewer bytes alive for
    longer. A launch never moves across one that shares a buffer with it, unless both
    only read the buffer, and never across the first launch that reads a cotangent,
    because host programs split a step there. So no bit changes. Two launches are not
    merged if more bytes would be alive than at the peak of the step before (64 KiB, or
    0.1 %, more are allowed), or if one of more than 1 MiB would move across more than
    12 launches, because what it reads or writes may be in the cache.

    The pass needs launches. It runs before `te-overlap-communication`, which moves
    launches between two streams, and before `te-plan-memory`.

    ```mlir
    tert.launch "adamw" {count = 768 : i64, seed = 1 : i32, ...} (%p, %dp, ..., %lr, %step, ...) : ...
    tert.launch "bias_grad" {...} (%dy, %db) : ...
    tert.launch "adamw" {count = 64 : i64, seed = 2 : i32, ...} (%b, %db, ..., %lr, %step, ...) : ...
    // becomes
    tert.launch "bias_grad" {...} (%dy, %db) : ...
    tert.launch "adamw_group" {count0 = 768 : i64, count1 = 64 : i64, seed0 = 1 : i32, seed1 = 2 : i32, ...} (%p, %b, ..., %lr, %step, ...) : ...
    ```
  }];
  let dependentDialects = ["::mlir::tert::TERTDialect"];
  let statistics = [
    Statistic<"numMerged", "num-merged", "launches that were merged">,
    Statistic<"numGroups", "num-groups", "launches that replace them">
  ];
}

def OverlapCommunicationPass : Pass<"te-overlap-communication", "ModuleOp"> {
  let summary = "run collectives beside launches that do not need them";
  let description = [{
    Marks every collective of a function `side`: it runs on a second stream, and
    the first launch that needs its result waits for it (Streams.h). Launches
    are moved so that other work can run meanwhile: a gather moves up above a
    GEMM, and if the step would wait, a launch from below moves up. In the
    backward of a column-parallel layer, the gather of x then runs beside the
    GEMM that computes dx, and the sum of dx beside the GEMM that computes dw.

    A move is kept if it makes a simulation of both streams shorter, which uses
    the expected time of each launch. A function that is expected to gain less
    than 10 microseconds does not change and uses one stream, unless `always` is
    set.

    A launch never moves across one that shares a buffer with it, unless both
    only read the buffer, so no bit changes. Nothing moves across the first
    launch that reads a cotangent, because host programs split a step there. The
    order depends only on the program, so all ranks that run one program have
    the same order. If ranks run programs of their own (`te.ranks`), collectives
    do not move across one another either.

    The pass needs launches. It runs before `te-plan-memory`, because what a
    launch of the side stream uses is alive until another launch has waited for
    it.

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
           "use two streams even if no gain is expected">,
    Option<"target", "target", "std::string", "\"sm_90\"",
           "machine to expect times of: sm_90, sm_100 or reference, which counts as sm_90">
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
    `tert.max_live_bytes` on the function. A buffer is alive from its first to
    its last launch. If a kernel may write an output to the memory of an input,
    the two share memory, provided that no later launch reads the input.
    MemoryPlanner.h describes the placement. With `budget`, a larger arena is an
    error that gives the bytes that the step needs and the buffers that are
    alive at its peak.

    `results` has patterns of names of results that are placed in the arena, too,
    so that they take memory that temporaries no longer need. Such a result is
    alive from its first launch to the end of the step, and its entry in
    `tert.signature` has its `offset`. The next state of an argument (a result with
    the name of the argument) is in the memory of that argument, and no pattern
    selects it.

    Scratch memory of kernels is not a part of the arena: the runtime allocates
    one region for all launches when it loads the step. For a `target` that is a
    GPU, `tert.workspace_bytes` is an upper bound of its size: the scratch
    memory of the runtime's kernels, 32 MiB for a GEMM of a library, and what
    the attention algorithm keeps (Workspaces.h).

    ```mlir
    %h = tert.alloc "h" activation : !tert.buffer<2097152>
    // becomes
    %h = tert.alloc "h" activation offset 4096 : !tert.buffer<2097152>
    ```
  }];
  let options = [
    Option<"budget", "budget", "int64_t", "0",
           "largest arena in bytes; 0 is no limit">,
    ListOption<"results", "results", "std::string",
               "results that are placed in the arena, as names with * and ?">,
    Option<"target", "target", "std::string", "\"reference\"",
           "machine whose scratch memory is counted: sm_90, sm_100 or reference, which takes none">
  ];
  let dependentDialects = ["::mlir::tert::TERTDialect"];
  let statistics = [
    Statistic<"numBuffers", "num-buffers", "temporaries placed">,
    Statistic<"numShared", "num-shared", "temporaries that reuse the memory of an input">,
    Statistic<"numResults", "num-results", "results placed in the arena">
  ];
}

#endif // TEDIALECT_TRANSFORMS_SCHEDULE_PASSES
