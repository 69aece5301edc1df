//===- Link.h - from an object to a shared object -------------------------===//

#ifndef TE_TOOLS_TE_COMPILE_LINK_H
#define TE_TOOLS_TE_COMPILE_LINK_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>
#include <string>

namespace te::compile {

/// Finds the program that links: `wanted`, a name on the PATH or a file, or
/// where it is empty the first known one. Returns "" and says why in `error`
/// where there is none.
std::string findLinker(llvm::StringRef wanted, std::string &error);

/// Links `object` with libte_runtime to a shared object called `name`. Null,
/// with `error` set, where that fails.
std::unique_ptr<llvm::MemoryBuffer> linkShared(llvm::StringRef linker,
                                               llvm::StringRef object,
                                               llvm::StringRef name,
                                               std::string &error);

} // namespace te::compile

#endif // TE_TOOLS_TE_COMPILE_LINK_H
