//===- Passes.td - reports about a compiled step --------------------------===//

#ifndef TEDIALECT_TRANSFORMS_REPORT_PASSES
#define TEDIALECT_TRANSFORMS_REPORT_PASSES

include "mlir/Pass/PassBase.td"

def ReportPrecisionPass : Pass<"te-report-precision", "ModuleOp"> {
  let summary = "print the precision of every GEMM and cast";
  let description = [{
    Prints one row for each GEMM (operand formats, accumulation, result type,
    kernel, and why it runs in that precision) and one for each cast and
    transpose (bytes read and written). The pass reads the origin that
    `te-insert-casts` recorded in the locations of its GEMMs, so it must run
    after `te-fuse-*` and in the same process. It changes nothing.

    ```mlir
    // %y = te.scaled_matmul %x, %w ... is printed as
    // gemm  layer  a                       b                       accumulate ...
    // fprop w1     f8E4M3FN block_1x128    f8E4M3FN block_128x128  split      ...
    ```
  }];
  let options = [
    Option<"format", "format", "std::string", "\"text\"", "text or json">,
    Option<"strict", "strict", "bool", "false",
           "fail if a GEMM is in high precision and neither recipe nor override asked for it">,
    Option<"quiet", "quiet", "bool", "false",
           "print nothing; only fail as 'strict' says">,
    Option<"target", "target", "std::string", "\"sm_90\"",
           "Machine whose kernels are named: sm_90, sm_100 or reference">
  ];
  let statistics = [
    Statistic<"numGemms", "num-gemms", "GEMMs in the report">
  ];
}

def ReportConstraintsPass : Pass<"te-report-constraints", "ModuleOp"> {
  let summary = "print which sizes every linear layer needs under its recipe";
  let description = [{
    Prints one row for each tensor axis of which the casts of a layer need a
    multiple: the multiple, the size it has, and the size to which casts are
    padded for this layer. Then the rows of groups, and the GEMMs that the target
    does not have, on which `te-check-constraints` fails. The pass runs on the imported step, before
    casts, and changes nothing.

    ```mlir
    // te.linear %x, %w : tensor<250x512xbf16>, ... is printed as
    // layer  axis  tensor     size  multiple of  by                 padded to
    // w1     M     rows of x  250   16           wgrad contraction  256
    ```
  }];
  let options = [
    Option<"format", "format", "std::string", "\"text\"", "text or json">,
    Option<"target", "target", "std::string", "\"sm_90\"",
           "sm_90, sm_100 or reference">,
    Option<"emulate", "emulate", "bool", "false",
           "Count GEMMs that the target emulates in bf16">
  ];
  let statistics = [
    Statistic<"numRules", "num-rules", "rules in the report">
  ];
}

def ReportCapturePass : Pass<"te-report-capture", "ModuleOp"> {
  let summary = "print the states and the inputs of a captured step";
  let description = [{
    Prints two tables for every function: the arguments whose next value the step
    returns, with what decides whether a replay changes them (a skip flag that it
    reads on the device, the end of a random state, or nothing), and all other
    arguments, which may have another value in every replay. The pass runs after
    `te-insert-skip-flags`, and changes nothing.

    ```mlir
    // %q = te.quantize %w into %cached unless %skip ... is printed as
    // argument  bytes   changes
    // w.row     524416  unless skip_weight_update
    ```
  }];
  let options = [
    Option<"format", "format", "std::string", "\"text\"", "text or json">
  ];
  let statistics = [
    Statistic<"numCarried", "num-carried", "states in the report">
  ];
}

def ReportMemoryPass : Pass<"te-report-memory", "ModuleOp"> {
  let summary = "print where the bytes of a planned step are";
  let description = [{
    Prints the size of the arena and its lower bound (the most bytes alive at
    one launch), the bytes of arguments, the bytes of temporaries by cause, the
    largest buffers at the peak, and one row for each buffer: the layer it
    belongs to, cause, size, offset, first and last launch. Arguments and
    results, which belong to the caller, follow with their purpose: weight,
    optimizer_state, quantiser_state, main_grad, gradient, input or output.
    `html` is a single page without scripts. The pass needs `te-plan-memory`,
    skips functions without a plan, and changes nothing.

    ```mlir
    // %h = tert.alloc "w1.out" residual offset 4096 : !tert.buffer<2097152>
    // is printed as
    // buffer  owner  cause     bytes    offset  first launch  last launch
    // w1.out  w1     residual  2097152  4096    3             17
    ```
  }];
  let options = [
    Option<"format", "format", "std::string", "\"text\"", "text, json or html">
  ];
  let statistics = [
    Statistic<"numBuffers", "num-buffers", "buffers in the report">
  ];
}

def ReportSchedulePass : Pass<"te-report-schedule", "ModuleOp"> {
  let summary = "print the stream of each launch and what may run beside it";
  let description = [{
    Prints one row for each launch of a step, in order: its stream, its kernel,
    the layer and GEMM or the buffer it is for, the launch of the other stream
    that it waits for, and, on the side stream, what may run at the same time:
    GEMMs and attention by name, and the number of others. The pass needs launches
    (`te-convert-to-tert` or later), and changes nothing.

    ```mlir
    // tert.launch "reduce_scatter_sum" {...} (%partial, %dx) side : ...
    // tert.launch "matmul" {...} (%dy, %x, ..., %dw) : ...
    // is printed as
    // launch  stream  kernel              name      waits for  beside
    // 7       side    reduce_scatter_sum  dx        6          8 w1 wgrad
    // 8       main    matmul              w1 wgrad  -          -
    ```
  }];
  let options = [
    Option<"format", "format", "std::string", "\"text\"", "text or json">
  ];
  let statistics = [
    Statistic<"numSide", "num-side", "launches of the side stream in the report">
  ];
}

def ReportTimePass : Pass<"te-report-time", "ModuleOp"> {
  let summary = "print the least time of each kernel of a step";
  let description = [{
    Prints one row for the launches of a kernel that move and compute as much: how
    many there are, the bytes of their buffers, the operations of their matrix
    products, and the longer of the two times at the given rates. The default rates
    are those that an H200 reaches in sustained work. Attention over documents and
    GEMMs of groups count with their bytes only, because their sizes are known on the
    device. Beside the times of `te-run --trace`, the report says how far a kernel is
    from its limit. The pass needs launches (`te-convert-to-tert` or later), and
    changes nothing.

    ```mlir
    // tert.launch "hadamard" {cols = 4096 : i64, rows = 8192 : i64} (%x, %y) : ...
    // is printed as
    // kernel    launches  MB each  GFLOP each  floor us each  floor us  limit
    // hadamard  1         134.2    0.0         33.6           33.6      memory
    ```
  }];
  let options = [
    Option<"format", "format", "std::string", "\"text\"", "text or json">,
    Option<"bandwidth", "bandwidth", "double", "4.0", "TB/s, read and written">,
    Option<"tflops8", "tflops8", "double", "1300", "TFLOPS of 8-bit GEMMs">,
    Option<"tflops16", "tflops16", "double", "700", "TFLOPS of other GEMMs and of attention">
  ];
  let statistics = [
    Statistic<"numLaunches", "num-launches", "launches in the report">
  ];
}

def ReportDeterminismPass : Pass<"te-report-determinism", "ModuleOp"> {
  let summary = "print which launches have the same bits in each run and process";
  let description = [{
    Prints one row for the launches of a kernel whose bits are decided in the same
    way: whether launches with the same inputs have the same bits in each run of one
    process, and in each process on GPUs of one model with one version of driver and
    libraries, and why. "by choice" is yes if the processes choose the algorithms of
    GEMMs alike. What decides the bits is a property of the kernel (`Bits` in
    Kernels.td). The pass needs launches (`te-convert-to-tert` or later), and changes
    nothing.

    ```mlir
    // tert.launch "attention_backward" {deterministic = 0 : i32, ...} (%dy, ...) : ...
    // is printed as
    // kernel              launches  each run  each process  names  why
    // attention_backward  1         no        no            dq     cuDNN adds rows ...
    ```
  }];
  let options = [
    Option<"format", "format", "std::string", "\"text\"", "text or json">,
    Option<"refuse", "refuse", "bool", "false",
           "fail at each launch that may have other bits in another process">,
    Option<"quiet", "quiet", "bool", "false",
           "print nothing; only fail as 'refuse' says">,
    Option<"target", "target", "std::string", "\"sm_90\"",
           "sm_90, sm_100 or reference">
  ];
  let statistics = [
    Statistic<"numLaunches", "num-launches", "launches in the report">,
    Statistic<"numRefused", "num-refused", "launches that may have other bits in another process">
  ];
}

#endif // TEDIALECT_TRANSFORMS_REPORT_PASSES
