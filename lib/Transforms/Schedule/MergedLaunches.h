//===- MergedLaunches.h - which launches one launch can replace -----------===//

#ifndef TE_TRANSFORMS_SCHEDULE_MERGEDLAUNCHES_H
#define TE_TRANSFORMS_SCHEDULE_MERGEDLAUNCHES_H

#include "TEDialect/TERT/TERT.h"

#include <optional>
#include <vector>

namespace mlir::te {

/// A kind of launches that do the same to other buffers, so that one launch can
/// replace some of them. It has the same bits.
class LaunchMerger {
public:
  /// What launches that can be merged have in common.
  using Key = std::vector<const void *>;

  virtual ~LaunchMerger() = default;

  /// Nothing for a launch of another kind, or one that takes so long that a
  /// merged launch would not be faster.
  virtual std::optional<Key> keyOf(tert::LaunchOp launch) const = 0;

  /// Whether launches with one key fit in one launch.
  virtual bool fit(ArrayRef<tert::LaunchOp> launches) const = 0;

  /// Creates the launch that replaces `launches`, which fit.
  virtual void merge(OpBuilder &builder, Location loc,
                     ArrayRef<tert::LaunchOp> launches) const = 0;
};

/// All kinds. They live as long as the program.
ArrayRef<const LaunchMerger *> getLaunchMergers();

} // namespace mlir::te

#endif // TE_TRANSFORMS_SCHEDULE_MERGEDLAUNCHES_H
