//===- GeneratedCode.h - compile the code of fused regions ----------------===//
//
// Compiles the functions that lib/Transforms/Lower/GeneratedCode.h emits: the
// GPU kernels to PTX, and the host functions to LLVM IR that calls no library.
//
//===----------------------------------------------------------------------===//

#ifndef TE_JIT_GENERATEDCODE_H
#define TE_JIT_GENERATEDCODE_H

#include "mlir/IR/BuiltinOps.h"

namespace llvm {
class Error;
class Module;
} // namespace llvm

namespace mlir::te {

/// Removes the GPU kernels from `lowered`, compiles them to PTX and stores the
/// PTX in the constant `te_device_code`. Does nothing if there are none.
LogicalResult compileDeviceCode(ModuleOp lowered);

/// Links the te_scalar_* functions that generated host functions call, and with
/// `optimise`, optimises the generated functions but no other function of
/// `module`. The result does not call libm on any processor.
llvm::Error linkGeneratedCode(llvm::Module &module, bool optimise);

/// Whether `lowered` has code for a GPU. Then the host functions run only if
/// the step is tried without one, and are not worth the time to optimise them.
bool hasDeviceCode(ModuleOp lowered);

} // namespace mlir::te

#endif // TE_JIT_GENERATEDCODE_H
