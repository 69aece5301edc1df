//===- GeneratedCode.h - machine code of generated kernels ----------------===//
//
// The second half of lib/Transforms/Lower/GeneratedCode.h: from the llvm
// dialect to PTX, and to LLVM IR of the CPU that needs no library.
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

/// Compiles the functions of `lowered` that are for a GPU to PTX, which becomes
/// the constant `te_device_code`, and erases them. A module that has none is
/// left as it is.
LogicalResult compileDeviceCode(ModuleOp lowered);

/// Defines what generated functions call, and optimises these functions and no
/// others. They need no library, on any processor.
llvm::Error linkGeneratedCode(llvm::Module &module);

} // namespace mlir::te

#endif // TE_JIT_GENERATEDCODE_H
