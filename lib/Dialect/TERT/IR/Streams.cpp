//===- Streams.cpp - which launch waits for which -------------------------===//

#include "TEDialect/TERT/Streams.h"

#include "TEDialect/TERT/BufferLifetimes.h"
#include "TEDialect/TERT/KernelTable.h"

using namespace mlir;
using namespace mlir::tert;

namespace {

/// The last launch on each stream that read or wrote a buffer; -1 for none.
struct LastUses {
  int read[2] = {-1, -1}, write[2] = {-1, -1};
};

} // namespace

StreamOrder::StreamOrder(Block &block) : launches(block.getOps<LaunchOp>()) {
  DenseMap<Value, LastUses> uses;
  int reached[2] = {-1, -1};
  SmallVector<unsigned> unjoined;
  for (auto [index, launch] : llvm::enumerate(launches)) {
    const int self = index;
    const bool side = launch.getSide();
    const KernelInfo *kernel = lookupKernel(launch.getKernel());
    int needed = -1;
    for (auto [row, part] : llvm::zip(kernel->buffers, launch.getBuffers())) {
      const LastUses &last = uses[lookThroughSlice(part)];
      needed = std::max(needed, last.write[!side]);
      if (row.isOutput)
        needed = std::max(needed, last.read[!side]);
    }
    for (auto [row, part] : llvm::zip(kernel->buffers, launch.getBuffers())) {
      LastUses &last = uses[lookThroughSlice(part)];
      (row.isOutput ? last.write : last.read)[side] = self;
    }
    waits.push_back(needed > reached[side] ? needed : -1);
    reached[side] = std::max(reached[side], needed);
    ended.push_back(reached[side]);
    windows.push_back({unsigned(self), unsigned(self)});
    if (side) {
      windows.back().first = reached[side] + 1;
      unjoined.push_back(self);
      continue;
    }
    llvm::erase_if(unjoined, [&](unsigned other) {
      windows[other].last = self - 1;
      return int(other) <= reached[0];
    });
  }
  // The end of the step waits for both streams.
  for (unsigned other : unjoined)
    windows[other].last = launches.size() - 1;
}

bool StreamOrder::isBefore(unsigned first, unsigned second) const {
  return LaunchOp(launches[first]).getSide() ==
             LaunchOp(launches[second]).getSide() ||
         int(first) <= ended[second];
}

namespace {

/// Bytes of the arena that a launch uses.
struct Use {
  AllocOp alloc;
  int64_t begin, end;
  bool isWrite;
};

} // namespace

static SmallVector<Use> arenaUses(LaunchOp launch) {
  SmallVector<Use> uses;
  const KernelInfo *kernel = lookupKernel(launch.getKernel());
  for (auto [row, part] : llvm::zip(kernel->buffers, launch.getBuffers())) {
    auto alloc = lookThroughSlice(part).getDefiningOp<AllocOp>();
    if (!alloc || !alloc.getOffset())
      continue;
    int64_t begin = *alloc.getOffset();
    if (auto slice = part.getDefiningOp<SliceOp>())
      begin += slice.getOffset();
    uses.push_back({alloc, begin,
                    begin + cast<BufferType>(part.getType()).getBytes(),
                    row.isOutput});
  }
  return uses;
}

LogicalResult tert::verifyStreams(Block &block) {
  StreamOrder order(block);
  ArrayRef<LaunchOp> launches = order.getLaunches();
  for (auto [index, each] : llvm::enumerate(launches)) {
    LaunchOp side = each;
    if (!side.getSide())
      continue;
    SmallVector<Use> sideUses = arenaUses(side);
    StreamOrder::Window window = order.windowOf(index);
    for (unsigned other = window.first; other <= window.last; ++other) {
      LaunchOp main = launches[other];
      if (main.getSide())
        continue;
      for (Use &mine : arenaUses(main))
        for (Use &theirs : sideUses) {
          // Of one buffer: the window ends, or begins, there.
          if (mine.alloc == theirs.alloc || !(mine.isWrite || theirs.isWrite) ||
              mine.end <= theirs.begin || theirs.end <= mine.begin)
            continue;
          InFlightDiagnostic diagnostic =
              main.emitOpError()
              << "expected '" << mine.alloc.getName() << "' and '"
              << theirs.alloc.getName()
              << "' to share no byte of the arena, as this launch may run "
                 "while one of the side stream uses '"
              << theirs.alloc.getName() << "'";
          diagnostic.attachNote(side.getLoc()) << "that launch is here";
          return diagnostic;
        }
    }
  }
  return success();
}
