//===- LaunchSchedule.h - places of launches, and what moving one costs ---===//
//
// For passes that move launches: which moves keep every launch behind those
// that it shares a buffer with, and how many bytes of temporaries are alive at
// each place afterwards. Places are the numbers of launches in program order;
// launches that become one have the same place.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_SCHEDULE_LAUNCHSCHEDULE_H
#define TE_TRANSFORMS_SCHEDULE_LAUNCHSCHEDULE_H

#include "TEDialect/TERT/TERT.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::te {

/// The number of the first launch that reads a cotangent, or that of launches
/// if none does. Host programs split a step there, and the results of the
/// forward exist before it.
size_t findFirstOfBackward(func::FuncOp function,
                           ArrayRef<tert::LaunchOp> launches);

/// The bytes of all buffers of a launch.
int64_t getBytes(tert::LaunchOp launch);

class LaunchSchedule {
public:
  explicit LaunchSchedule(func::FuncOp function);

  ArrayRef<tert::LaunchOp> getLaunches() const { return launches; }
  unsigned placeOf(unsigned launch) const { return places[launch]; }

  /// Whether both launches are in the forward, or both in the backward.
  bool areInOnePart(unsigned a, unsigned b) const {
    return (places[a] < backward) == (places[b] < backward);
  }

  /// Whether `launch`, at its own place, and all launches between may run in
  /// any order if `launch` moves to `place`. Those at `place` count.
  bool mayMove(unsigned launch, unsigned place) const;

  /// The most bytes of temporaries that were alive at one place before any
  /// launch moved.
  int64_t getPeak() const { return peak; }

  struct Growth {
    /// By how much a move exceeds `getPeak`, in bytes; 0 if it stays below.
    int64_t abovePeak = 0;
    /// The bytes that are alive longer, multiplied by the number of launches.
    int64_t held = 0;
  };
  /// What a move of `moved`, which have one place, would cost.
  Growth growthOf(ArrayRef<unsigned> moved, unsigned place) const;

  /// Moves launches. Precondition: each `mayMove`.
  void move(ArrayRef<unsigned> moved, unsigned place);

private:
  struct Access {
    unsigned launch;
    bool isWrite;
  };
  /// The places between which a temporary is alive.
  struct Range {
    unsigned first, last;
  };
  Range rangeOf(Value buffer) const;
  /// Calls `visit(bytes, before, after)` for each temporary of `moved`.
  void forEachRange(ArrayRef<unsigned> moved, unsigned place,
                    function_ref<void(int64_t, Range, Range)> visit) const;

  SmallVector<tert::LaunchOp> launches;
  SmallVector<unsigned> places;
  /// By buffer, slices looked through. Absent buffers are not among them.
  DenseMap<Value, SmallVector<Access, 4>> accesses;
  SmallVector<SmallVector<std::pair<Value, bool>, 8>> buffersOf;
  /// The bytes of temporaries that are alive at each place.
  SmallVector<int64_t> alive;
  int64_t peak = 0;
  size_t backward;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_SCHEDULE_LAUNCHSCHEDULE_H
