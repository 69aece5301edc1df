//===- MemoryPlanner.h - place buffers in one arena -----------------------===//
//
// Dynamic storage allocation with known lifetimes. Buffers are placed one after
// another, each in the smallest gap it fits among the placed buffers it is
// alive together with (best fit), else above them. The order decides the
// quality: from the largest, from the largest area (size times lifetime), from
// the longest life are tried. Then, from the best of them, the buffers that
// stick out at the top of the arena go first in another round. Where that is
// not near the lower bound and the buffers are not too many, the arena is
// filled from below instead, with priorities that change at random as long as a
// fixed amount of work lasts. The smallest arena is kept; coming within 0.2 %
// of the lower bound ends the search. The same input always gives the same
// plan.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_SCHEDULE_MEMORYPLANNER_H
#define TE_TRANSFORMS_SCHEDULE_MEMORYPLANNER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>

namespace mlir::te {

class MemoryPlanner {
public:
  explicit MemoryPlanner(int64_t alignment) : alignment(alignment) {}

  /// Adds a buffer that is alive from event `first` to event `last`, both
  /// included. Returns its number.
  unsigned add(int64_t bytes, unsigned first, unsigned last);

  /// Says that `successor`, which is born at the event at which `buffer` dies,
  /// takes over its memory. Returns false, and changes nothing, where that does
  /// not hold, the sizes differ, or either was part of such a pair in this role
  /// before. Call it in the order of events.
  bool share(unsigned buffer, unsigned successor);

  /// Places every buffer. Call once, after the last `add` and `share`.
  void plan();

  int64_t offset(unsigned buffer) const;
  /// Size of the arena.
  int64_t arenaBytes() const { return arena; }
  /// The largest sum of aligned sizes alive at one event, and that event: no
  /// arena can be smaller.
  int64_t maxLiveBytes() const { return maxLive; }
  unsigned peakEvent() const { return peak; }

private:
  /// Buffers that are one piece of memory.
  struct Slot {
    int64_t bytes;
    unsigned first, last;
    int64_t offset = 0;
  };

  enum class Order { Size, Area, Lifetime };

  void measure();
  llvm::SmallVector<unsigned> sorted(Order order) const;
  /// Within 1 / `part` of what no arena can beat.
  bool isWithin(int64_t part) const;
  void improve();
  int64_t trySkyline(llvm::ArrayRef<double> priorities);
  void keepIfBest(int64_t size);
  void tryOrder(llvm::ArrayRef<unsigned> order);

  int64_t alignment;
  llvm::SmallVector<Slot> slots, best;
  struct Buffer {
    unsigned slot;
    bool hasSuccessor = false;
    bool isSuccessor = false;
  };
  llvm::SmallVector<Buffer> buffers;
  int64_t arena = 0, maxLive = 0;
  unsigned peak = 0;
  /// Slots and ranges looked at so far.
  size_t work = 0;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_SCHEDULE_MEMORYPLANNER_H
