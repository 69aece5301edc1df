//===- TransposePolicy.cpp - which derived usages of weights are kept -----===//

#include "TransposePolicy.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"

#include <tuple>
#include <vector>

using namespace mlir::te;

static llvm::SmallVector<KeptUses> keepAll(llvm::ArrayRef<ColumnUses> columns,
                                           bool fromCast, bool betweenUses) {
  return llvm::map_to_vector(columns, [&](const ColumnUses &column) {
    KeptUses kept(column.uses.size(), betweenUses);
    kept.front() = fromCast;
    return kept;
  });
}

llvm::SmallVector<KeptUses>
mlir::te::keepEager(llvm::ArrayRef<ColumnUses> columns) {
  return keepAll(columns, true, true);
}

llvm::SmallVector<KeptUses>
mlir::te::keepCached(llvm::ArrayRef<ColumnUses> columns) {
  return keepAll(columns, false, true);
}

llvm::SmallVector<KeptUses>
mlir::te::keepOnDemand(llvm::ArrayRef<ColumnUses> columns) {
  return llvm::map_to_vector(columns, [](const ColumnUses &column) {
    return KeptUses(column.uses.size(), column.replaceRows);
  });
}

/// Bytes of columns that are needed at each event, whichever gaps are kept,
/// beyond those that replace rows.
static std::vector<int64_t> bytesRead(llvm::ArrayRef<ColumnUses> columns) {
  std::vector<int64_t> bytes;
  for (const ColumnUses &column : columns)
    for (unsigned use : column.uses) {
      if (bytes.size() <= use)
        bytes.resize(use + 1);
      bytes[use] += column.replaceRows ? 0 : column.bytes;
    }
  return bytes;
}

int64_t mlir::te::smallestColumnBudget(llvm::ArrayRef<ColumnUses> columns) {
  std::vector<int64_t> bytes = bytesRead(columns);
  return bytes.empty() ? 0 : *llvm::max_element(bytes);
}

int64_t mlir::te::bytesMoved(const ColumnUses &column,
                             llvm::ArrayRef<bool> kept) {
  return (kept.front() ? 1 : 2) * column.bytes +
         2 * column.bytes * llvm::count(kept.drop_front(), false);
}

llvm::SmallVector<KeptUses>
mlir::te::keepWithin(llvm::ArrayRef<ColumnUses> columns, int64_t budget) {
  struct Gap {
    size_t column, use;
    /// The events at which the columns are kept but not read.
    unsigned begin, end;
    /// Bytes not moved for each byte kept, and event.
    double worth;
  };
  std::vector<Gap> gaps;
  for (auto [index, column] : llvm::enumerate(columns))
    for (auto [use, event] : llvm::enumerate(column.uses)) {
      if (column.replaceRows)
        continue;
      // A cast writes the bytes that a transpose would read and write.
      unsigned begin = use == 0 ? column.cast : column.uses[use - 1] + 1;
      gaps.push_back({index, use, begin, event,
                      (use == 0 ? 1.0 : 2.0) / (event - begin + 1)});
    }
  // Of equal worth, the first in program order comes first.
  llvm::sort(gaps, [](const Gap &a, const Gap &b) {
    return std::tuple(-a.worth, a.begin, a.column) <
           std::tuple(-b.worth, b.begin, b.column);
  });

  llvm::SmallVector<KeptUses> kept = keepOnDemand(columns);
  std::vector<int64_t> held = bytesRead(columns);
  for (const Gap &gap : gaps) {
    int64_t bytes = columns[gap.column].bytes;
    auto during =
        llvm::MutableArrayRef(held).slice(gap.begin, gap.end - gap.begin);
    if (llvm::any_of(during, [&](int64_t sum) { return sum + bytes > budget; }))
      continue;
    for (int64_t &sum : during)
      sum += bytes;
    kept[gap.column][gap.use] = true;
  }
  return kept;
}
