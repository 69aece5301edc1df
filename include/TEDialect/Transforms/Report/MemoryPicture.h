//===- MemoryPicture.h - the memory of a step, to look at -----------------===//
//
// What the memory report knows of a planned step, and a picture of it.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_REPORT_MEMORYPICTURE_H
#define TE_TRANSFORMS_REPORT_MEMORYPICTURE_H

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

/// Fills `peak` and `alive` from `buffers`.
void findPeak(MemoryReport &report);

/// One HTML page without scripts or anything from elsewhere: bytes alive over
/// launches, stacked by cause, above every buffer as a rectangle of its
/// lifetime and its place in the arena. Titles say what one points at.
void printPicture(const MemoryReport &report, llvm::raw_ostream &os);

} // namespace mlir::te

#endif // TE_TRANSFORMS_REPORT_MEMORYPICTURE_H
