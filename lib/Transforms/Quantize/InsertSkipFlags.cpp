//===- InsertSkipFlags.cpp - cache casts over micro-batches ---------------===//
//
// The pass visits all casts of weights, so none can be forgotten. A cached
// value is a state of the step like any other (State.h), and the flag is an
// operand.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Transforms/Utils/State.h"

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Quantize/Passes.h"

#include "llvm/ADT/TypeSwitch.h"

#include <limits>

namespace mlir::te {
#define GEN_PASS_DEF_INSERTSKIPFLAGSPASS
#include "TEDialect/Transforms/Quantize/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {
struct InsertSkipFlags final
    : te::impl::InsertSkipFlagsPassBase<InsertSkipFlags> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (failed(checkNoCalls(function, getArgument())))
      return signalPassFailure();
    SmallVector<Operation *> kept, amaxes;
    function.walk([&](Operation *op) {
      if (isa<QuantizeOp, QuantizeShardOp>(op) ||
          (transposes && isa<TransposeOp>(op)))
        if (!cast<SkippableOpInterface>(op).getSkip() &&
            findWeight(op->getOperand(0)))
          kept.push_back(op);
      // An amax of one matrix, or of each matrix of a stack.
      if (measuresWeight(op) && op->getNumOperands() == 1)
        amaxes.push_back(op);
    });
    if (kept.empty() && amaxes.empty())
      return;
    Value flag = getSkipFlag(function);
    if (!flag)
      return signalPassFailure();

    StateThreading states(function);
    for (Operation *op : kept) {
      llvm::TypeSwitch<Operation *>(op)
          .Case([&](TransposeOp transpose) {
            cache(states, transpose, transpose->getResults(), flag);
          })
          .Case<QuantizeOp, QuantizeShardOp>(
              [&](auto cast) { cache(states, cast, cast.getUsages(), flag); });
      ++numCached;
    }
    for (Operation *amax : amaxes)
      amax->insertOperands(1, flag);
    states.finish();
  }

  /// Makes the `usages` of `op` states that `op` keeps while `flag` is 1.0.
  template <typename CachedOp>
  static void cache(StateThreading &states, CachedOp op, ValueRange usages,
                    Value flag) {
    std::string weight = describeValue(findWeight(op->getOperand(0)));
    SmallVector<Value> cached;
    for (Value usage : usages) {
      auto type = cast<ScaledType>(usage.getType());
      std::string name = states.uniqueBase(
          weight + (type.getContract() == 1 ? ".row" : ".col"), {""});
      cached.push_back(states.addState(
          name, type, std::numeric_limits<double>::quiet_NaN()));
      states.setNext(name, usage);
    }
    op.getIntoMutable().assign(cached);
    op.getSkipMutable().assign(flag);
  }
};
} // namespace
