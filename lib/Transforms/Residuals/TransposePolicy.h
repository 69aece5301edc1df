//===- TransposePolicy.h - which derived usages of weights are kept -------===//
//
// One GEMM of every backward reads a weight's columns. Between two reads they
// are either kept, which costs their bytes for that long, or computed again
// from the rows, which moves their bytes twice. So a policy is one bit for each
// gap between reads. The gap before the first read starts at the cast of the
// forward, which may write both usages at once.
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
  /// The event at which the forward casts the weight.
  unsigned cast;
  /// The ops that read the columns, ascending, all after `cast`; never empty.
  llvm::SmallVector<unsigned> uses;
  /// True if keeping the columns from the cast on takes no memory: they have
  /// one use, and the rows, which on-demand columns keep, have none after the
  /// forward.
  bool replaceRows = false;
};

/// For each use, whether it reads a value that exists: that of the previous use
/// or, for the first use, the cast of the forward. If false, the value is
/// computed again.
using KeptUses = llvm::SmallVector<bool>;

/// The forward casts all columns, and they are never computed again.
llvm::SmallVector<KeptUses> keepEager(llvm::ArrayRef<ColumnUses> columns);
/// Columns are computed before the first use and kept until the last.
llvm::SmallVector<KeptUses> keepCached(llvm::ArrayRef<ColumnUses> columns);
/// Columns are computed before each use and freed after it, except those that
/// replace their rows: the forward casts these.
llvm::SmallVector<KeptUses> keepOnDemand(llvm::ArrayRef<ColumnUses> columns);
/// Keeps the columns that avoid most bytes moved, for each byte and event that
/// they are kept, as long as all columns together never take more than `budget`
/// bytes. The choice is greedy: a gap that does not fit is never tried again.
/// Precondition: `budget` is `smallestColumnBudget` or more.
llvm::SmallVector<KeptUses> keepWithin(llvm::ArrayRef<ColumnUses> columns,
                                       int64_t budget);

/// The most bytes of columns that one op reads, beyond those that replace rows;
/// every policy needs that much.
int64_t smallestColumnBudget(llvm::ArrayRef<ColumnUses> columns);

/// Bytes read and written to compute the columns of one weight: one write of
/// the cast, or a read and a write of each transpose.
int64_t bytesMoved(const ColumnUses &column, llvm::ArrayRef<bool> kept);

} // namespace mlir::te

#endif // TE_TRANSFORMS_RESIDUALS_TRANSPOSEPOLICY_H
