//===- KernelOpInterface.td - which kernels compute an op -----------------===//

#ifndef TEDIALECT_TRANSFORMS_CONVERTTOTERT_KERNELOPINTERFACE_TD
#define TEDIALECT_TRANSFORMS_CONVERTTOTERT_KERNELOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def TE_KernelOpInterface : OpInterface<"KernelOpInterface"> {
  let cppNamespace = "::mlir::te";
  let description = [{
    An op that kernels of the runtime compute. `registerTEKernels` attaches the
    models, so that the dialects do not depend on the runtime. A te op without a
    model is an error when the dialect is loaded.
  }];
  let methods = [
    InterfaceMethod<[{
        Appends the launches of the op through `emitter` and binds its results
        to their buffers.
      }],
      "::llvm::LogicalResult", "emitLaunches",
      (ins "::mlir::te::LaunchEmitter &":$emitter)>,
    InterfaceMethod<[{
        The operand whose memory the result is a view of, or null. A view has no
        launches.
      }],
      "::mlir::Value", "getViewedOperand", (ins), "",
      "return {};">,
    InterfaceMethod<[{
        Why the memory of the results is needed, if neither the type of the
        results nor their position in the step determines it.
      }],
      "::std::optional<::mlir::tert::Cause>", "getBufferCause", (ins), "",
      "return ::std::nullopt;">
  ];
}

#endif // TEDIALECT_TRANSFORMS_CONVERTTOTERT_KERNELOPINTERFACE_TD
