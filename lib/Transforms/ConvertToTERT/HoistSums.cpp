//===- HoistSums.cpp - hoist additions if that frees memory ---------------===//
//
// Programs often sum the gradients of micro-batches at their end, so that every
// summand is alive until then. A sum has half the bytes of its two summands, so
// it should directly follow its last summand. The same holds for an update that
// is the only reader of a gradient: it is written in place, once no other op
// reads the old values. Updates whose gradients come from collectives do not
// move, so that launches can run beside the collectives. Positions are those of
// the program before anything moves, refined by the order of moves:
// isBeforeInBlock would renumber the block after every move.
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

/// The operands that the results of an update overwrite.
static SmallVector<Value> writtenInPlace(Operation *op) {
  SmallVector<Value> states;
  if (auto adamw = dyn_cast<AdamWOp>(op))
    states = {adamw.getParam(), adamw.getM(), adamw.getV(), adamw.getScales()};
  else if (auto sgd = dyn_cast<SgdOp>(op))
    states = {sgd.getParam(), sgd.getBuffer()};
  llvm::erase(states, Value());
  return states;
}

/// True for a gradient that is summed over ranks, directly or before
/// elementwise ops such as a division: the update and all ops after it would
/// wait for the collective.
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

/// Appends all ops that read the memory of `value` or of a view of it.
static void findReaders(Value value, SmallVectorImpl<Operation *> &readers) {
  for (Operation *user : value.getUsers()) {
    readers.push_back(user);
    for (Value result : user->getResults())
      if (lookThroughViews(result) != result)
        findReaders(result, readers);
  }
}

/// True if fewer bytes are alive after `op` than before it: it is the only
/// reader of operands that are larger than its result.
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
    // The last of the ops that were moved directly after the op at a position.
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
      // A reader of the old value is below the update: do not move the update.
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
