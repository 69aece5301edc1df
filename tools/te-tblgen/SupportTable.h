//===- SupportTable.h - the rows of TESupport.td, checked -----------------===//
//
// TableGen records by kind, in the order that every output uses: schemes by
// number, products by pair, recipes as written.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TBLGEN_SUPPORTTABLE_H
#define TE_TBLGEN_SUPPORTTABLE_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/TableGen/Record.h"

namespace te::tblgen {

using Rows = llvm::SmallVector<const llvm::Record *>;

struct SupportTable {
  Rows schemes, targets, overrides, types, paths;
  /// Of every pair (a, b): a Product or a NoProduct.
  Rows pairs;
  Rows refusedTypes, recipes;
  const llvm::Record *plainGroups;

  /// Reads the rows. Ends the program with errors at the rows unless numbers
  /// count from 0 without gaps, every pair of schemes is decided exactly once,
  /// and every row says something about each target exactly once.
  static SupportTable read(const llvm::RecordKeeper &records);
};

inline llvm::StringRef spelling(const llvm::Record *record) {
  return record->getValueAsString("Spelling");
}
inline bool isProduct(const llvm::Record *pair) {
  return pair->isSubClassOf("Product");
}
/// "'a' and 'b'", the schemes of a pair.
std::string describePair(const llvm::Record *pair);
/// "12.9", or "" for 0.
std::string cublasLtText(int64_t version);

void emitCpp(const llvm::RecordKeeper &records, llvm::raw_ostream &os);
void emitMarkdown(const llvm::RecordKeeper &records, llvm::raw_ostream &os);
void emitJson(const llvm::RecordKeeper &records, llvm::raw_ostream &os);

} // namespace te::tblgen

#endif // TE_TBLGEN_SUPPORTTABLE_H
