//===- CodeCache.h - machine code of earlier compilations -----------------===//
//
// Code that LLVM has made is stored in `code` of the user's cache folder. An
// entry is found by everything that decides the code: the LLVM IR before any
// pass, the target, and the builds of this library and of LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef TE_JIT_CODECACHE_H
#define TE_JIT_CODECACHE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <string>

namespace llvm {
class Module;
} // namespace llvm

namespace mlir::te {

/// The bitcode of `module`, by which its code is found.
llvm::SmallString<0> bitcodeOf(const llvm::Module &module);

/// What `make` returns, which depends on `inputs` and on nothing else outside
/// of this library and LLVM, or what an earlier call with them has stored.
/// Unless `isUsed`, nothing is read or stored.
llvm::Expected<std::string>
findOrMake(bool isUsed, llvm::ArrayRef<llvm::StringRef> inputs,
           llvm::function_ref<llvm::Expected<std::string>()> make);

} // namespace mlir::te

#endif // TE_JIT_CODECACHE_H
