//===- GeneratedCode.h - compile the code of fused regions ----------------===//
//
// Compiles the functions that lib/Transforms/Lower/GeneratedCode.h emits: the
// GPU kernels to PTX, and the host functions to LLVM IR that calls no library.
//
//===----------------------------------------------------------------------===//

#ifndef TE_JIT_GENERATEDCODE_H
#define TE_JIT_GENERATEDCODE_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Support/Error.h"

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace mlir::te {

/// Removes the GPU kernels from `lowered`, compiles each to PTX and stores that
/// and its name in the constants of the kernel. Does nothing if there are none.
LogicalResult compileDeviceCode(ModuleOp lowered);

/// Whether `lowered` has code for a GPU. Then the host functions run only if
/// the step is tried without one, and are not worth the time to optimise them.
bool hasDeviceCode(ModuleOp lowered);

/// Whether machine code of `lowered` may come from the cache on disk.
bool usesCodeCache(ModuleOp lowered);

/// Links the te_scalar_* functions that generated host functions call, and with
/// `optimise`, optimises the generated functions but no other function of
/// `module`. The result does not call libm on any processor.
llvm::Error linkGeneratedCode(llvm::Module &module, bool optimise);

/// The machine code of `module`, which is `lowered` after the device code was
/// compiled, translated and not linked.
llvm::Expected<std::string> compileHostCode(ModuleOp lowered,
                                            llvm::Module &module,
                                            llvm::TargetMachine &machine,
                                            llvm::CodeGenFileType kind);

} // namespace mlir::te

#endif // TE_JIT_GENERATEDCODE_H
