//===- BufferLifetimes.cpp - when temporaries are alive -------------------===//

#include "TEDialect/TERT/BufferLifetimes.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::tert;

Value tert::lookThroughSlice(Value buffer) {
  auto slice = buffer.getDefiningOp<SliceOp>();
  return slice ? Value(slice.getBuffer()) : buffer;
}

SmallVector<BufferLifetime> tert::collectLifetimes(Block &block) {
  llvm::MapVector<Value, BufferLifetime> lifetimes;
  unsigned event = 0;
  for (auto launch : block.getOps<LaunchOp>()) {
    for (Value part : launch.getBuffers()) {
      Value buffer = lookThroughSlice(part);
      if (auto alloc = buffer.getDefiningOp<AllocOp>())
        lifetimes.try_emplace(buffer, BufferLifetime{alloc, event, event})
            .first->second.last = event;
    }
    ++event;
  }
  return llvm::map_to_vector(lifetimes,
                             [](auto &entry) { return entry.second; });
}
