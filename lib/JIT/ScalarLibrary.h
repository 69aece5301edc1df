//===- ScalarLibrary.h - functions that generated code calls --------------===//
//
// Links the functions of ScalarMath.cpp into generated code.
//
//===----------------------------------------------------------------------===//

#ifndef TE_JIT_SCALARLIBRARY_H
#define TE_JIT_SCALARLIBRARY_H

#include "llvm/Support/Error.h"

namespace llvm {
class Module;
} // namespace llvm

namespace mlir::te {

/// Links the definitions of the te_scalar_* functions that `module` calls, and
/// marks them to be inlined.
llvm::Error linkScalarMath(llvm::Module &module);

/// Defines te_scalar_approximate_reciprocal: as an instruction on a GPU, and as
/// a division on a CPU.
void defineReciprocal(llvm::Module &module, bool isGpu);

} // namespace mlir::te

#endif // TE_JIT_SCALARLIBRARY_H
