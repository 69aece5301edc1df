//===- BufferLifetimes.h - when temporaries are alive ---------------------===//

#ifndef TEDIALECT_TERT_BUFFERLIFETIMES_H
#define TEDIALECT_TERT_BUFFERLIFETIMES_H

#include "TEDialect/TERT/TERT.h"

namespace mlir::tert {

/// A temporary is alive from its first to its last launch, both included;
/// launches count from 0 in program order, and one of the side stream takes all
/// of its window (Streams.h). The memory of a result is alive until the last
/// launch of the step.
struct BufferLifetime {
  AllocOp alloc;
  unsigned first, last;
};

/// The buffer that `buffer` is a part of: itself, or what it is a slice of.
Value lookThroughSlice(Value buffer);

/// Whether an entry of a signature is the gradient of a result, with which the
/// second part of a step begins.
bool isCotangent(DictionaryAttr entry);

/// The temporaries of a straight line of launches, in order of first use. Those
/// that no launch uses are not in it.
llvm::SmallVector<BufferLifetime> collectLifetimes(Block &block);

} // namespace mlir::tert

#endif // TEDIALECT_TERT_BUFFERLIFETIMES_H
