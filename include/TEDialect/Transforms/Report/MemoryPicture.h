//===- MemoryPicture.h - the memory of a step, to look at -----------------===//
//
// What the memory report knows of a planned step, and a picture of it.
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

/// One buffer, alive from launch `first` to `last`; `offset` is its place in
/// the arena, -1 for the caller's.
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

/// What te-rematerialize decided.
struct Remat {
  std::string policy;
  int64_t heldBefore, heldAfter;
  std::vector<RematRow> rows;
};

struct MemoryReport {
  std::string function;
  int64_t arenaBytes = 0, maxLiveBytes = 0, argumentBytes = 0;
  std::vector<MemoryBuffer> buffers, arguments;
  /// What launches take outside the arena, of one region of this many bytes;
  /// one row for each kernel of a layer. Null where that is not planned.
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

/// Reads the plan of `function`, which te-plan-memory made.
MemoryReport collectMemoryReport(func::FuncOp function);

/// Fills `peak` and `alive` from `buffers`.
void findPeak(MemoryReport &report);

/// The part of a page about memory: bytes alive over launches, stacked by
/// cause, above every buffer as a rectangle of its lifetime and its place in
/// the arena. Titles say what one points at.
void printMemoryPicture(const MemoryReport &report, llvm::raw_ostream &os);

/// A page of that alone.
void printMemoryPage(const MemoryReport &report, llvm::raw_ostream &os);

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_REPORT_MEMORYPICTURE_H
