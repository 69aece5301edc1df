//===- MemoryPicture.h - a picture of the memory of a step ----------------===//
//
// The data of the memory report of a planned step, and a picture of it.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_TRANSFORMS_REPORT_MEMORYPICTURE_H
#define TEDIALECT_TRANSFORMS_REPORT_MEMORYPICTURE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mlir::te {

/// One buffer, alive from launch `first` to `last`. `offset` is its offset in
/// the arena, or -1 for buffers of the caller.
struct MemoryBuffer {
  std::string name, owner, cause;
  int64_t bytes, offset;
  unsigned first, last;
};

/// A row of tert.remat.
struct RematRow {
  std::string op, layer;
  int64_t freed, held, traffic, flops;
};

/// The decisions of te-rematerialize.
struct Remat {
  std::string policy;
  int64_t heldBefore, heldAfter;
  std::vector<RematRow> rows;
};

struct MemoryReport {
  std::string function;
  int64_t arenaBytes = 0, maxLiveBytes = 0, argumentBytes = 0;
  std::vector<MemoryBuffer> buffers, arguments;
  /// The size of the region of scratch memory outside the arena, and what the
  /// launches use of it, with one row for each kernel of a layer. Null if it is
  /// not planned.
  std::optional<int64_t> workspaceBytes;
  std::vector<MemoryBuffer> workspaces;
  /// Bytes of temporaries by cause.
  std::vector<std::pair<std::string, int64_t>> totals;
  /// The kernel of every launch.
  std::vector<std::string> launches;
  /// The launch at which most bytes are alive, and the buffers there, largest
  /// first.
  unsigned peak = 0;
  llvm::SmallVector<unsigned> alive;
  std::optional<Remat> remat;
};

/// Reads the plan that te-plan-memory made for `function`.
MemoryReport collectMemoryReport(func::FuncOp function);

/// Fills `peak` and `alive` from `buffers`.
void findPeak(MemoryReport &report);

/// Prints the picture of a page: bytes alive at each launch, stacked by cause,
/// and below it every buffer as a rectangle of its lifetime and its place in
/// the arena. Tooltips describe the element under the pointer.
void printMemoryPicture(const MemoryReport &report, llvm::raw_ostream &os);

/// Prints a page with only this picture.
void printMemoryPage(const MemoryReport &report, llvm::raw_ostream &os);

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_REPORT_MEMORYPICTURE_H
