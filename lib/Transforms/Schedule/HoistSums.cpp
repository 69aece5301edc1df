//===- HoistSums.cpp - add as soon as that frees memory -------------------===//
//
// Gradients of micro-batches are summed where the program says so, which is
// often its end: every summand is then held until there. A sum is half as large
// as what it adds, so it belongs where its last summand is made. Positions are
// those of the program before anything moves, refined by the order of moves:
// asking the block would number it anew after every move.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Schedule/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::te {
#define GEN_PASS_DEF_HOISTSUMSPASS
#include "TEDialect/Transforms/Schedule/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

static int64_t bytesOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.hasStaticShape() || !type.getElementType().isIntOrFloat())
    return 0;
  return type.getNumElements() * type.getElementTypeBitWidth() / 8;
}

/// True when `op` leaves fewer bytes alive than before it: its only reader is
/// here for operands that are larger than its result.
static bool freesMemory(Operation *op) {
  int64_t dying = 0;
  for (Value operand : op->getOperands())
    if (operand.getDefiningOp() && operand.hasOneUse())
      dying += bytesOf(operand);
  return dying > bytesOf(op->getResult(0));
}

namespace {
struct HoistSums final : te::impl::HoistSumsPassBase<HoistSums> {
  using Base::Base;

  void runOnOperation() override {
    for (Block &block : getOperation().getBody())
      hoist(block);
  }

  void hoist(Block &block) {
    DenseMap<Operation *, unsigned> positions;
    for (Operation &op : block)
      positions.try_emplace(&op, positions.size());
    // The last op that stands behind an op because it was moved there.
    DenseMap<unsigned, Operation *> lastAt;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (!op.hasTrait<OpTrait::Elementwise>() || op.getNumResults() != 1 ||
          !freesMemory(&op))
        continue;
      Operation *last = nullptr;
      for (Value operand : op.getOperands())
        if (Operation *maker = operand.getDefiningOp();
            maker && (!last || positions[last] < positions[maker]))
          last = maker;
      unsigned position = positions[last];
      Operation *&behind = lastAt.try_emplace(position, last).first->second;
      if (behind->getNextNode() == &op)
        continue;
      op.moveAfter(behind);
      behind = &op;
      positions[&op] = position;
      ++numMoved;
    }
  }
};
} // namespace
