//===- BatchReductions.cpp - te-batch-reductions --------------------------===//
//
// Each reduction has a range of places, from the ops that measure its amaxes to
// the first reader of a result. The fewest places that hit every range are
// found from the front: at the end of the range that ends first, take all
// reductions whose range has begun. Most values that move up for this are
// small: an amax, or the rotated tensor of the second amax of an NVFP4 cast.
// Amaxes of blocks, and master weights that are rounded before they are
// measured, are larger, so a reduction takes at most a given number of bytes.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Distribute/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::te {
#define GEN_PASS_DEF_BATCHREDUCTIONSPASS
#include "TEDialect/Transforms/Distribute/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {

/// Whether `value` is available at `place`, or can be computed there.
bool mayBeAt(Value value, Operation *place) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != place->getBlock() || op->isBeforeInBlock(place))
    return true;
  return isa<AmaxOp, PartialAmaxOp, HadamardOp, arith::TruncFOp>(op) &&
         llvm::all_of(op->getOperands(),
                      [&](Value operand) { return mayBeAt(operand, place); });
}

/// Moves the ops that compute `value` before `place`. Precondition: `mayBeAt`.
void moveTo(Value value, Operation *place) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != place->getBlock() || op->isBeforeInBlock(place))
    return;
  for (Value operand : op->getOperands())
    moveTo(operand, place);
  op->moveBefore(place);
}

int64_t bytesOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() * type.getElementTypeBitWidth() / 8;
}

/// Bytes of the values that are alive until the amaxes of `reduce` are reduced.
int64_t heldBytes(AmaxReduceOp reduce) {
  int64_t bytes = 0;
  for (Value amax : reduce.getAmaxes()) {
    bytes += bytesOf(amax);
    if (Operation *op = amax.getDefiningOp(); op && op->getNumOperands())
      if (auto rounded = op->getOperand(0).getDefiningOp<arith::TruncFOp>())
        bytes += bytesOf(rounded.getResult());
  }
  return bytes;
}

/// The first op of the block that reads a result of `reduce`.
Operation *firstReader(AmaxReduceOp reduce) {
  Operation *first = nullptr;
  for (Operation *user : reduce->getUsers()) {
    Operation *reader = reduce->getBlock()->findAncestorOpInBlock(*user);
    if (!first || reader->isBeforeInBlock(first))
      first = reader;
  }
  return first;
}

class Batcher {
public:
  Batcher(Block &block, int64_t mostBytes)
      : block(block), mostBytes(mostBytes) {}

  /// Merges all reductions it can; true if that changed anything.
  bool run() {
    llvm::MapVector<int64_t, SmallVector<AmaxReduceOp>> byGroup;
    for (auto reduce : block.getOps<AmaxReduceOp>())
      if (!reduce.use_empty())
        byGroup[reduce.getGroupId()].push_back(reduce);
    bool changed = false;
    for (auto &[group, reductions] : byGroup)
      changed |= run(reductions);
    return changed;
  }

private:
  bool run(SmallVector<AmaxReduceOp> &left) {
    bool changed = false;
    while (left.size() > 1) {
      Operation *place = nullptr;
      for (AmaxReduceOp reduce : left)
        if (Operation *reader = firstReader(reduce);
            !place || reader->isBeforeInBlock(place))
          place = reader;
      SmallVector<AmaxReduceOp> batch, rest;
      int64_t bytes = 0;
      for (AmaxReduceOp reduce : left) {
        const int64_t own = heldBytes(reduce);
        const bool fits = batch.empty() || bytes + own <= mostBytes;
        const bool isThere =
            fits && llvm::all_of(reduce.getAmaxes(), [&](Value amax) {
              // Exclude the results of other reductions.
              auto before = amax.getDefiningOp<AmaxReduceOp>();
              return mayBeAt(amax, place) &&
                     (!before || before.getGroupId() != reduce.getGroupId());
            });
        (isThere ? batch : rest).push_back(reduce);
        bytes += isThere ? own : 0;
      }
      if (batch.size() > 1) {
        merge(batch, place);
        changed = true;
      }
      left = std::move(rest);
    }
    return changed;
  }

  static void merge(ArrayRef<AmaxReduceOp> batch, Operation *place) {
    llvm::MapVector<Value, SmallVector<Value>> reduced;
    SmallVector<Location> locs;
    for (AmaxReduceOp reduce : batch) {
      locs.push_back(reduce.getLoc());
      for (auto [amax, result] :
           llvm::zip(reduce.getAmaxes(), reduce.getReduced())) {
        moveTo(amax, place);
        reduced[amax].push_back(result);
      }
    }
    SmallVector<Value> amaxes;
    for (auto &[amax, results] : reduced)
      amaxes.push_back(amax);
    OpBuilder builder(place);
    // te-verify-collectives looks up the recipe of amaxes of whole tensors.
    const auto *ofTensor = llvm::find_if(batch, [](AmaxReduceOp reduce) {
      return llvm::any_of(reduce.getAmaxes(), [](Value amax) {
        return !amax.getDefiningOp<PartialAmaxOp>();
      });
    });
    AmaxReduceOp first = ofTensor == batch.end() ? batch.front() : *ofTensor;
    auto merged = AmaxReduceOp::create(builder, builder.getFusedLoc(locs),
                                       TypeRange(ValueRange(amaxes)), amaxes,
                                       first.getGroupId());
    merged->setDiscardableAttrs(first->getDiscardableAttrDictionary());
    for (auto [entry, result] : llvm::zip(reduced, merged.getReduced()))
      for (Value old : entry.second)
        old.replaceAllUsesWith(result);
    for (AmaxReduceOp reduce : batch)
      reduce.erase();
  }

  Block &block;
  const int64_t mostBytes;
};

struct BatchReductions final
    : te::impl::BatchReductionsPassBase<BatchReductions> {
  using Base::Base;

  void runOnOperation() override {
    auto count = [&] {
      unsigned number = 0;
      getOperation().walk([&](AmaxReduceOp) { ++number; });
      return number;
    };
    numBefore += count();
    for (Block &block : getOperation().getBody()) {
      Batcher batcher(block, mostBytes);
      // Amaxes that are reduced over two groups, one after the other, can be
      // merged for the second group once they are merged for the first.
      while (batcher.run())
        ;
    }
    numAfter += count();
  }
};

} // namespace
