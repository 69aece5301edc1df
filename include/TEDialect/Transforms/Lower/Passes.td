//===- Passes.td - from launches to calls of the runtime ABI --------------===//

#ifndef TEDIALECT_TRANSFORMS_LOWER_PASSES
#define TEDIALECT_TRANSFORMS_LOWER_PASSES

include "mlir/Pass/PassBase.td"

def ConvertTERTToLLVMPass : Pass<"te-convert-tert-to-llvm", "ModuleOp"> {
  let summary = "replace launches with calls of the runtime";
  let description = [{
    The module's one planned function becomes two functions and one constant:

    * `te_module_load(instance)` calls `te_rt_plan_<kernel>` once for every
      launch and returns the last status, which is the first error because
      errors are sticky;
    * `te_module_step(instance, arena, arguments)` calls `te_rt_launch` for
      every launch, in order; if there are more than 256, both
      call functions of 256 launches each, so that the time to compile stays
      linear;
    * `te_module` is the `te_rt_module` that a host program passes to
      `te_rt_instance_create`.

    The body of each launch of `generated` becomes a function for the CPU and, unless
    `target` is `reference`, a GPU kernel with the attribute `tert.device`, which is
    compiled to PTX when the module is compiled. Launches with equal bodies share
    them.

    The pass needs `te-plan-memory`, and leaves only the llvm dialect. On the
    module it leaves `tert.signature`, which describes the arguments,
    `tert.launches`, which describes each slot, and `tert.uses`, which says which
    launches use an argument.

    ```mlir
    tert.launch "copy" {bytes = 256 : i64} (%x, %y) : !tert.buffer<256>, !tert.buffer<256>
    // becomes, in te_module_load
    %status = llvm.call @te_rt_plan_copy(%instance, %slot, %bytes) : (!llvm.ptr, i32, i64) -> i32
    // and, in te_module_step
    %ignored = llvm.call @te_rt_launch(%instance, %slot, %buffers) : (!llvm.ptr, i32, !llvm.ptr) -> i32
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", "\"reference\"",
           "the machine that generated code is for, beside the CPU: 'reference' "
           "for none, or a GPU such as 'sm_90'">,
    Option<"deterministic", "deterministic", "bool", "false",
           "let the module ask for algorithms of GEMMs that are not chosen by time">,
    Option<"codeCache", "code-cache", "bool", "true",
           "let machine code of earlier compilations be used, and store it">
  ];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
  let statistics = [
    Statistic<"numLaunches", "num-launches", "launches of one step">,
    Statistic<"numGenerated", "num-generated", "different bodies of generated code">
  ];
}

#endif // TEDIALECT_TRANSFORMS_LOWER_PASSES
