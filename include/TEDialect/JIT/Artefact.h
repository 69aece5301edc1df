//===- Artefact.h - a lowered step as a file ------------------------------===//
//
// The same program that CompiledStep loads into this process, as machine code
// for other processes. The file has two symbols, both data: the te_rt_module
// and a te_rt_signature that describes its arguments. All it needs is
// libte_runtime.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_JIT_ARTEFACT_H
#define TEDIALECT_JIT_ARTEFACT_H

#include "TEDialect/JIT/JIT.h"

#include "llvm/Support/raw_ostream.h"

namespace mlir::te {

/// What a file says of itself.
struct ArtefactInfo {
  /// Name of the te_rt_module; with "_signature" behind it, that of the
  /// te_rt_signature. A C identifier.
  std::string symbol = "te_module";
  std::string entry, recipe, pipeline;
};

enum class ArtefactKind { Object, Assembly, LLVMIR };

/// Writes `lowered`, the output of te-convert-tert-to-llvm, as position
/// independent code for this host's architecture. Errors are reported on the
/// module.
LogicalResult writeArtefact(ModuleOp lowered, const ArtefactInfo &info,
                            ArtefactKind kind, llvm::raw_pwrite_stream &os);

/// Writes a C header that declares the symbols and numbers the arguments.
void writeArtefactHeader(ArrayRef<ArgumentInfo> arguments,
                         const ArtefactInfo &info, raw_ostream &os);

} // namespace mlir::te

#endif // TEDIALECT_JIT_ARTEFACT_H
