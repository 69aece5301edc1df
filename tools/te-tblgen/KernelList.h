//===- KernelList.h - the rows of Kernels.td, checked ---------------------===//

#ifndef TE_TBLGEN_KERNELLIST_H
#define TE_TBLGEN_KERNELLIST_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/TableGen/Record.h"

#include <map>
#include <string>

namespace te::tblgen {

/// An entry of one of a row's two lists.
struct Named {
  llvm::StringRef name;
  /// A ParameterType, or a Buffer.
  const llvm::Record *type;
};

struct KernelRow {
  llvm::StringRef name;
  const llvm::Record *record;
  llvm::SmallVector<Named> parameters, buffers;
  /// Places of buffers: an output and the input whose memory it may be.
  llvm::SmallVector<std::pair<unsigned, unsigned>> reuses;

  /// What a compiled module depends on: the name, the parameters, the buffers
  /// with their sizes and element types, which of them may share memory,
  /// whether other ranks take part, and what the call means.
  std::string contract() const;
  /// FNV-1a of the contract.
  uint64_t hash() const;
};

struct KernelList {
  /// By name.
  std::vector<KernelRow> rows;
  llvm::SmallVector<const llvm::Record *> families, conventions;
  /// Numbers of element types and schemes.
  std::map<std::string, int64_t, std::less<>> constants;

  /// Reads the rows. Ends the program with errors at the rows where a list has
  /// no name for an entry or one name twice, or where a reuse names no output
  /// and input.
  static KernelList read(const llvm::RecordKeeper &records);

  /// `expression` with `spell` of each parameter, and numbers for the names of
  /// element types and schemes.
  std::string expand(const KernelRow &row, llvm::StringRef expression,
                     llvm::function_ref<std::string(unsigned)> spell) const;
};

void emitKernelList(const llvm::RecordKeeper &records, llvm::raw_ostream &os);
void emitKernelRows(const llvm::RecordKeeper &records, llvm::raw_ostream &os);
void emitKernelChecks(const llvm::RecordKeeper &records, llvm::raw_ostream &os);
void emitKernelDocs(const llvm::RecordKeeper &records, llvm::raw_ostream &os);

} // namespace te::tblgen

#endif // TE_TBLGEN_KERNELLIST_H
