//===- OverlapPlanner.h - an order that hides collectives -----------------===//
//
// The planner knows how long each launch takes, and which earlier launches must
// end before it. It simulates two streams: one for collectives and one for all
// other launches. Each stream runs in order, and a launch starts when its
// stream is free and the launches that it needs have ended. Two kinds of moves
// are tried for each collective, and kept if the simulated step gets shorter:
//
//   * a collective, or a run of them, moves up across launches that it does not
//     need, so that it runs beside them;
//   * if the main stream would wait for it, a launch from below that does not
//     need it moves before the wait.
//
// The result depends only on the given program, so ranks that run the same
// program have the same order. Launches stay in their segment, and collectives
// keep their order unless reordering them is allowed.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_SCHEDULE_OVERLAPPLANNER_H
#define TE_TRANSFORMS_SCHEDULE_OVERLAPPLANNER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace mlir::te {

class OverlapPlanner {
public:
  struct Launch {
    double microseconds;
    bool isCollective;
    /// Launches do not leave their segment. Segments are ascending.
    unsigned segment;
    /// Earlier launches that must end before this one, ascending.
    llvm::SmallVector<unsigned> needs;
  };

  /// With `mayReorder`, collectives may move across one another.
  OverlapPlanner(llvm::ArrayRef<Launch> launches, bool mayReorder);

  /// Makes all moves that shorten the step. Call once.
  void plan();

  /// The launches, by their numbers, in the planned order.
  llvm::ArrayRef<unsigned> getOrder() const { return order; }
  unsigned numMoved() const { return moved; }

  /// The expected time of the step on one stream in the given order, and on two
  /// streams in the planned order.
  double serialMicroseconds() const;
  double microseconds() const { return simulate(order, 0, order.size()); }

private:
  using Order = llvm::SmallVector<unsigned>;

  /// The time at which the launches of `order` from `begin` to `end` are done,
  /// if both streams start with them.
  double simulate(llvm::ArrayRef<unsigned> order, size_t begin,
                  size_t end) const;
  void hoist(size_t position);
  void fill(size_t position);
  bool needs(unsigned launch, unsigned other) const;
  bool mayPass(unsigned below, unsigned above) const;
  /// Uses the order `changed` if it shortens the launches around `position`.
  bool keepIfShorter(Order &changed, size_t position);

  llvm::ArrayRef<Launch> launches;
  bool mayReorder;
  Order order;
  unsigned moved = 0;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_SCHEDULE_OVERLAPPLANNER_H
