//===- TransposePolicy.h - which derived usages of weights are kept -------===//
//
// A weight's columns are read by one product of every backward. Between two
// reads they are either kept, which costs their bytes for that long, or made
// again from the rows, which moves their bytes twice. So every policy is one
// bit for each gap between reads; what stands before the first read is the cast
// of the forward, which may write both usages at once.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_RESIDUALS_TRANSPOSEPOLICY_H
#define TE_TRANSFORMS_RESIDUALS_TRANSPOSEPOLICY_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>

namespace mlir::te {

/// The column usage of one weight. Events are positions in the program.
struct ColumnUses {
  int64_t bytes;
  /// Where the forward casts the weight.
  unsigned cast;
  /// The ops that read the columns, ascending, all after `cast`; never empty.
  llvm::SmallVector<unsigned> uses;
};

/// For each use, whether it reads a value that exists: that of the previous use
/// or, for the first use, the forward's cast. False: the value is computed
/// again.
using KeptUses = llvm::SmallVector<bool>;

/// The columns that the forward casts are all there is.
llvm::SmallVector<KeptUses> keepEager(llvm::ArrayRef<ColumnUses> columns);
/// Made before the first use, and kept until the last.
llvm::SmallVector<KeptUses> keepCached(llvm::ArrayRef<ColumnUses> columns);
/// Made before each use, and dropped after it.
llvm::SmallVector<KeptUses> keepOnDemand(llvm::ArrayRef<ColumnUses> columns);
/// Keeps what saves most bytes moved for each byte held and event it is held,
/// as long as all columns together never take more than `budget` bytes. Greedy:
/// a gap that does not fit is passed over for good.
/// Precondition: `budget` is `smallestColumnBudget` or more.
llvm::SmallVector<KeptUses> keepWithin(llvm::ArrayRef<ColumnUses> columns,
                                       int64_t budget);

/// Most bytes of columns that one op reads, which are there while it does
/// whatever the policy is.
int64_t smallestColumnBudget(llvm::ArrayRef<ColumnUses> columns);

/// Bytes read and written to make the columns of one weight: one write of the
/// cast, or a read and a write of each transpose.
int64_t bytesMoved(const ColumnUses &column, llvm::ArrayRef<bool> kept);

} // namespace mlir::te

#endif // TE_TRANSFORMS_RESIDUALS_TRANSPOSEPOLICY_H
