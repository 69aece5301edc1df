//===- HoistSums.cpp - add and update as soon as that frees memory --------===//
//
// Gradients of micro-batches are summed where the program says so, which is
// often its end: every summand is then held until there. A sum is half as large
// as what it adds, so it belongs where its last summand is made. So does the
// update that is the only reader of a gradient: it is written in place, once
// nobody else reads what was there. Updates by gradients that collectives make
// stay where they are, so that launches run beside those. Positions are those
// of the program before anything moves, refined by the order of moves: asking
// the block would number it again after every move.
//
//===----------------------------------------------------------------------===//

#include "LaunchEmitter.h"

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/ConvertToTERT/Kernels.h"
#include "TEDialect/Transforms/ConvertToTERT/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::te {
#define GEN_PASS_DEF_HOISTSUMSPASS
#include "TEDialect/Transforms/ConvertToTERT/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

static int64_t bytesOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.hasStaticShape() || !type.getElementType().isIntOrFloat())
    return 0;
  return type.getNumElements() * type.getElementTypeBitWidth() / 8;
}

/// The gradient of an update; null for other ops.
static Value gradientOf(Operation *op) {
  if (auto adamw = dyn_cast<AdamWOp>(op))
    return adamw.getGrad();
  if (auto sgd = dyn_cast<SgdOp>(op))
    return sgd.getGrad();
  return {};
}

/// Operands whose memory the results of an update take.
static SmallVector<Value> writtenInPlace(Operation *op) {
  if (auto adamw = dyn_cast<AdamWOp>(op))
    return {adamw.getParam(), adamw.getM(), adamw.getV()};
  if (auto sgd = dyn_cast<SgdOp>(op))
    return sgd.getBuffer() ? SmallVector<Value>{sgd.getParam(), sgd.getBuffer()}
                           : SmallVector<Value>{sgd.getParam()};
  return {};
}

/// True for a gradient of several ranks, perhaps divided by how many they are:
/// its update would wait for them, and what stands behind the update, too.
static bool waitsForOthers(Value gradient) {
  llvm::SmallSetVector<Operation *, 8> makers;
  makers.insert(lookThroughViews(gradient).getDefiningOp());
  for (size_t i = 0; i < makers.size(); ++i) {
    Operation *maker = makers[i];
    if (isa_and_nonnull<AllReduceOp, ReduceScatterOp>(maker))
      return true;
    if (maker && maker->hasTrait<OpTrait::Elementwise>())
      for (Value operand : maker->getOperands())
        makers.insert(lookThroughViews(operand).getDefiningOp());
  }
  return false;
}

/// All that read the memory of `value`, or of a view of it.
static void findReaders(Value value, SmallVectorImpl<Operation *> &readers) {
  for (Operation *user : value.getUsers()) {
    readers.push_back(user);
    for (Value result : user->getResults())
      if (lookThroughViews(result) != result)
        findReaders(result, readers);
  }
}

/// True when `op` leaves fewer bytes alive than before it: its only reader is
/// here for operands that are larger than what it makes.
static bool freesMemory(Operation *op) {
  if (Value gradient = gradientOf(op))
    return gradient.getDefiningOp() && gradient.hasOneUse() &&
           !waitsForOthers(gradient);
  int64_t dying = 0;
  for (Value operand : op->getOperands())
    if (operand.getDefiningOp() && operand.hasOneUse())
      dying += bytesOf(operand);
  return op->hasTrait<OpTrait::Elementwise>() && op->getNumResults() == 1 &&
         dying > bytesOf(op->getResult(0));
}

namespace {
struct HoistSums final : te::impl::HoistSumsPassBase<HoistSums> {
  using Base::Base;

  void getDependentDialects(DialectRegistry &registry) const override {
    Base::getDependentDialects(registry);
    registerTEKernels(registry);
  }

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
      if (!freesMemory(&op))
        continue;
      SmallVector<Operation *> before;
      for (Value operand : op.getOperands())
        if (Operation *maker = operand.getDefiningOp())
          before.push_back(maker);
      for (Value state : writtenInPlace(&op))
        findReaders(lookThroughViews(state), before);
      llvm::erase(before, &op);
      Operation *last =
          *llvm::max_element(before, [&](Operation *a, Operation *b) {
            return positions[a] < positions[b];
          });
      // Who reads the old value below the update has a copy of it anyway.
      if (positions[last] > positions[&op])
        continue;
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
