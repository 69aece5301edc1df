//===- Table.h - aligned text tables --------------------------------------===//
//
// Reports collect rows of strings. Columns are as wide as their widest cell,
// and rows have no trailing spaces. A cell is one line. This file also checks
// the option `format`, which the reports share.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_REPORT_TABLE_H
#define TE_TRANSFORMS_REPORT_TABLE_H

#include "TEDialect/Support/Printable.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace mlir::te {

class Table {
public:
  explicit Table(llvm::SmallVector<std::string> header)
      : rows{std::move(header)} {}

  /// Precondition: as many cells as the header.
  void addRow(llvm::SmallVector<std::string> row) {
    rows.push_back(std::move(row));
  }

  void print(llvm::raw_ostream &os) const {
    llvm::SmallVector<size_t> widths(rows.front().size(), 0);
    for (const auto &row : rows)
      for (size_t i = 0; i < row.size(); ++i)
        widths[i] = std::max(widths[i], row[i].size());
    for (const auto &row : rows) {
      os << " ";
      for (size_t i = 0; i < row.size(); ++i) {
        os << " " << printable(row[i]);
        if (i + 1 < row.size())
          os.indent(widths[i] - row[i].size() + 1);
      }
      os << "\n";
    }
  }

private:
  llvm::SmallVector<llvm::SmallVector<std::string>> rows;
};

/// Fails, at no location, unless `format` is "text" or "json".
inline LogicalResult checkReportFormat(MLIRContext *context,
                                       llvm::StringRef pass,
                                       llvm::StringRef format) {
  if (format == "text" || format == "json")
    return success();
  return emitError(UnknownLoc::get(context))
         << "expected option 'format' of '" << pass
         << "' to be 'text' or 'json', but got '" << format << "'";
}

} // namespace mlir::te

#endif // TE_TRANSFORMS_REPORT_TABLE_H
