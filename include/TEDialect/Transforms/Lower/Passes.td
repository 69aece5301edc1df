//===- Passes.td - from launches to calls of the runtime ABI --------------===//

#ifndef TEDIALECT_TRANSFORMS_LOWER_PASSES
#define TEDIALECT_TRANSFORMS_LOWER_PASSES

include "mlir/Pass/PassBase.td"

def ConvertTERTToLLVMPass : Pass<"te-convert-tert-to-llvm", "ModuleOp"> {
  let summary = "replace launches by calls of the runtime";
  let description = [{
    The module's one planned function becomes two functions and one constant:

    * `te_module_load(instance)` calls `te_rt_plan_<kernel>` once for every
      launch and returns the last status, which is the first error because
      errors are sticky;
    * `te_module_step(instance, arena, arguments)` calls `te_rt_launch` for
      every launch, in order; where there are more than 256, both call
      functions of as many each, which are linear in time to compile;
    * `te_module` is the `te_rt_module` a host program hands to
      `te_rt_instance_create`.

    Needs `te-plan-memory`; leaves only the llvm dialect, and on the module
    `tert.signature` for whoever binds the arguments, `tert.launches` for
    whoever asks what a slot is, and `tert.uses` for whoever runs a part of the
    step.

    ```mlir
    tert.launch "copy" {bytes = 256 : i64} (%x, %y) : !tert.buffer<256>, !tert.buffer<256>
    // becomes, in te_module_load
    %status = llvm.call @te_rt_plan_copy(%instance, %slot, %bytes) : (!llvm.ptr, i32, i64) -> i32
    // and, in te_module_step
    %ignored = llvm.call @te_rt_launch(%instance, %slot, %buffers) : (!llvm.ptr, i32, !llvm.ptr) -> i32
    ```
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
  let statistics = [
    Statistic<"numLaunches", "num-launches", "launches of one step">
  ];
}

#endif // TEDIALECT_TRANSFORMS_LOWER_PASSES
