//===- MemoryPlanner.h - place buffers in one arena -----------------------===//
//
// This is dynamic storage allocation with known lifetimes. Buffers are placed
// one after another, each in the smallest gap that it fits in, among the placed
// buffers that are alive at the same time (best fit), or else above them. The
// order decides the quality. Three orders are tried: by size, by area (size
// times lifetime) and by lifetime, all from the largest. From the best of them,
// further rounds place the buffers at the top of the arena first. An order that
// meets too many gaps is given up, if there is another one. If the arena is not
// near the lower bound and there are not too many buffers, the arena is also
// filled from below, with priorities that change at random, for a fixed amount
// of work. The smallest arena is kept; coming within 0.2 % of the lower bound
// ends the search. The same input always gives the same plan.
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

  /// Adds a buffer that is alive from event `first` to event `last`, inclusive.
  /// Returns its number.
  unsigned add(int64_t bytes, unsigned first, unsigned last);

  /// Lets `successor`, whose lifetime starts at the last event of `buffer`,
  /// reuse its memory. Returns false, and changes nothing, if the lifetimes do
  /// not meet, the sizes differ, or either already has this role in a pair.
  /// Call it in the order of events.
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
  /// What planning cost: the slots and ranges of bytes that it visited.
  size_t workDone() const { return work; }

private:
  /// Buffers that share one piece of memory.
  struct Slot {
    int64_t bytes;
    unsigned first, last;
    int64_t offset = 0;
  };

  enum class Order { Size, Area, Lifetime };

  void measure();
  llvm::SmallVector<unsigned> sorted(Order order) const;
  /// Whether the arena is within 1 / `part` of the lower bound.
  bool isWithin(int64_t part) const;
  void improve();
  int64_t trySkyline(llvm::ArrayRef<double> priorities);
  void keepIfBest(int64_t size);
  bool tryOrder(llvm::ArrayRef<unsigned> order, size_t limit);

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
  /// Number of slots and ranges visited so far.
  size_t work = 0;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_SCHEDULE_MEMORYPLANNER_H
