//===- Streams.h - which launch waits for which ---------------------------===//
//
// The launches of a function stand in one order and run on two streams: those
// that are `side`, all of them collectives, on a second one. Within a stream
// they run one after another. Between streams a launch waits for the last one
// of the other stream that stands above it and shares a buffer with it, where
// one of the two writes that buffer. That is derived here and written nowhere,
// so a wait cannot be forgotten; the lowering, the planner and reports ask.
//
// A side launch may so run at any time between the launch of the main stream
// that it waits for and the first that waits for it: its window. Memory that it
// uses is taken that long. As windows are intervals of the one order, two
// buffers whose windows are apart may share memory, whatever the streams do.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_TERT_STREAMS_H
#define TEDIALECT_TERT_STREAMS_H

#include "TEDialect/TERT/TERT.h"

namespace mlir::tert {

/// The launches of a straight line, numbered from 0 in program order.
class StreamOrder {
public:
  explicit StreamOrder(Block &block);

  llvm::ArrayRef<LaunchOp> getLaunches() const { return launches; }

  /// The launch of the other stream whose end `launch` has to be made to wait
  /// for, or -1: there is none, or its stream has waited for that one before.
  int waitOf(unsigned launch) const { return waits[launch]; }

  /// The first and the last place at which `launch` may run. Of the main
  /// stream: its own.
  struct Window {
    unsigned first, last;
  };
  Window windowOf(unsigned launch) const { return windows[launch]; }

  /// Whether `first` has ended when `second`, which stands below, starts.
  bool isBefore(unsigned first, unsigned second) const;

private:
  SmallVector<LaunchOp> launches;
  SmallVector<int> waits;
  /// By launch: the last of the other stream that has ended when it starts.
  SmallVector<int> ended;
  SmallVector<Window> windows;
};

/// Proves of a planned function that launches which may run at the same time
/// use no byte of the arena for two temporaries, one of which is written.
LogicalResult verifyStreams(Block &block);

} // namespace mlir::tert

#endif // TEDIALECT_TERT_STREAMS_H
