//===- BufferLifetimes.cpp - when temporaries are alive -------------------===//

#include "TEDialect/TERT/BufferLifetimes.h"

#include "TEDialect/TERT/Streams.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::tert;

Value tert::lookThroughSlice(Value buffer) {
  auto slice = buffer.getDefiningOp<SliceOp>();
  return slice ? Value(slice.getBuffer()) : buffer;
}

bool tert::isCotangent(DictionaryAttr entry) {
  return entry.getAs<StringAttr>("role") == "argument" &&
         entry.getAs<StringAttr>("name").getValue().starts_with("grad.");
}

SmallVector<BufferLifetime> tert::collectLifetimes(Block &block) {
  llvm::MapVector<Value, BufferLifetime> lifetimes;
  StreamOrder order(block);
  for (auto [index, each] : llvm::enumerate(order.getLaunches())) {
    LaunchOp launch = each;
    auto [first, last] = order.windowOf(index);
    for (Value part : launch.getBuffers()) {
      Value buffer = lookThroughSlice(part);
      auto alloc = buffer.getDefiningOp<AllocOp>();
      if (!alloc)
        continue;
      BufferLifetime &life =
          lifetimes.try_emplace(buffer, BufferLifetime{alloc, first, last})
              .first->second;
      life.first = std::min(life.first, first);
      life.last = alloc.getOfResult() ? order.getLaunches().size() - 1
                                      : std::max(life.last, last);
    }
  }
  return llvm::map_to_vector(lifetimes,
                             [](auto &entry) { return entry.second; });
}
