//===- OverlapPlanner.h - an order in which collectives hide --------------===//
//
// What is known of a launch is how long it takes, and which launches above it
// have to end before. Two streams are simulated: collectives run on one, all
// others on the other, each in order, and a launch starts when its stream is
// free and what it needs has ended. Two kinds of moves are tried for each
// collective, and kept where the simulated step gets shorter:
//
//   * a collective, or a run of them, goes up over launches that it does not
//     need, so that it runs beside them;
//   * where the main stream would wait for it, a launch from below that does
//     not need it goes first.
//
// Everything is a function of the given program, so that ranks which run the
// same program run the same order. Launches stay in their segment, and
// collectives in their order unless that may change.
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
    /// Launches of one segment stay between those of the others. Ascending.
    unsigned segment;
    /// Launches above that have to end before, ascending.
    llvm::SmallVector<unsigned> needs;
  };

  /// `mayReorder`: collectives may pass one another.
  OverlapPlanner(llvm::ArrayRef<Launch> launches, bool mayReorder);

  /// Moves what makes the step shorter. Call once.
  void plan();

  /// The launches, by their numbers, in the planned order.
  llvm::ArrayRef<unsigned> getOrder() const { return order; }
  unsigned numMoved() const { return moved; }

  /// What the step is expected to take on one stream, as given, and on two, as
  /// planned.
  double serialMicroseconds() const;
  double microseconds() const { return simulate(order, 0, order.size()); }

private:
  using Order = llvm::SmallVector<unsigned>;

  /// When the order's launches from `begin` to `end` are done, if both streams
  /// begin with them.
  double simulate(llvm::ArrayRef<unsigned> order, size_t begin,
                  size_t end) const;
  void hoist(size_t position);
  void fill(size_t position);
  bool needs(unsigned launch, unsigned other) const;
  bool mayPass(unsigned below, unsigned above) const;
  /// Takes `changed` where what is around `position` gets shorter by it.
  bool keepIfShorter(Order &changed, size_t position);

  llvm::ArrayRef<Launch> launches;
  bool mayReorder;
  Order order;
  unsigned moved = 0;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_SCHEDULE_OVERLAPPLANNER_H
