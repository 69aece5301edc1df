//===- VerifyCapture.cpp - checks that a step can be captured -------------===//
//
// There is one check, with its message, for each way in which a replay could
// differ from a run. Ops outside this project's dialects are checked by their
// interfaces, so an unknown op is refused and not trusted. A value that is kept
// from replay to replay is followed from the result that returns it back to its
// argument: every link of that chain must have a flag.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Verify/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::te {
#define GEN_PASS_DEF_VERIFYCAPTUREPASS
#include "TEDialect/Transforms/Verify/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// The value that the step returns as the next value of `argument`: the result
/// with its name, or null.
static Value nextValue(func::FuncOp function, BlockArgument argument) {
  auto name =
      function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
  Operation *end = argument.getOwner()->getTerminator();
  for (OpOperand &result : end->getOpOperands())
    if (name && function.getResultAttrOfType<StringAttr>(
                    result.getOperandNumber(), kNameAttr) == name)
      return result.get();
  return {};
}

/// `value` as an argument of the step, or null.
static BlockArgument asStepArgument(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && isa<func::FuncOp>(argument.getOwner()->getParentOp())
             ? argument
             : BlockArgument();
}

/// Follows `state` back through the ops that advance it. Returns by how much.
static uint32_t followAdvances(Value &state) {
  uint32_t count = 0;
  while (auto advance = state.getDefiningOp<RngAdvanceOp>()) {
    count += advance.getCount();
    state = advance.getState();
  }
  return count;
}

/// Whether `rng` comes from a state that the step takes and returns advanced.
static bool isAdvancedState(Value rng) {
  followAdvances(rng);
  BlockArgument state = asStepArgument(rng);
  Value next =
      state ? nextValue(cast<func::FuncOp>(state.getOwner()->getParentOp()),
                        state)
            : Value();
  return next && followAdvances(next) != 0 && next == state;
}

/// The flag of an op that a replay may skip, or null.
static Value skipFlagOf(Operation *op) {
  auto skippable = dyn_cast<SkippableOpInterface>(op);
  return skippable ? skippable.getSkip() : Value();
}

/// `value`, or the value that a te.residual saves.
static Value throughResiduals(Value value) {
  while (auto residual = value.getDefiningOp<ResidualOp>())
    value = residual.getValue();
  return value;
}

/// The value of the cached result `value` if its flag is 1.0, or null.
static Value cachedBefore(Value value) {
  auto op = value.getDefiningOp<SkippableOpInterface>();
  return op && op.getSkip()
             ? op.getCached(cast<OpResult>(value).getResultNumber())
             : Value();
}

/// Whether a flag decides if `op` keeps the value of `state`.
static bool isKeptBy(Operation *op, BlockArgument state) {
  return llvm::any_of(op->getResults(), [&](Value result) {
    return cachedBefore(result) == state;
  });
}

/// The argument that the forward GEMM `op` reads as its weight, if it is not
/// marked as one; else null.
static BlockArgument unmarkedWeight(Operation *op) {
  if (!isa<ScaledMatmulOp, GroupedScaledMatmulOp>(op))
    return {};
  std::optional<GemmOrigin> origin = GemmOrigin::find(op->getLoc());
  BlockArgument argument = origin && origin->gemm == "fprop"
                               ? traceToArgument(op->getOperand(1))
                               : BlockArgument();
  return argument && !isWeight(argument) ? argument : BlockArgument();
}

/// Whether the step accumulates a weight's gradient in `argument`.
static bool isGradientSum(BlockArgument argument) {
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  const auto nameOf = [&](BlockArgument of) {
    auto name =
        function.getArgAttrOfType<StringAttr>(of.getArgNumber(), kNameAttr);
    return name ? name.getValue() : StringRef();
  };
  StringRef weight = nameOf(argument);
  return weight.consume_front("grad.") && nextValue(function, argument) &&
         llvm::any_of(function.getArguments(), [&](BlockArgument other) {
           return isWeight(other) && nameOf(other) == weight;
         });
}

/// Whether `op` updates a parameter, or sums squares for that.
static bool isUpdate(Operation *op) {
  return isa<AdamWOp, SgdOp, SumOfSquaresOp>(op);
}

/// Why a replay of `op` would be wrong, or "". With `freshCasts`, weights may
/// be cast in every step.
static std::string refuseCapture(Operation *op, bool freshCasts) {
  Value skip = skipFlagOf(op);
  if (skip && !asStepArgument(skip))
    return "a skip flag that is an argument of the step, which a replay can "
           "give another value";
  if (auto cast = dyn_cast<QuantizeOpInterface>(op)) {
    if (!freshCasts && findWeight(cast.getX()) && !skip)
      return "the cast of weight '" + describeValue(findWeight(cast.getX())) +
             "' to have a skip flag (te-insert-skip-flags)";
    if (cast.getRng() && !isAdvancedState(cast.getRng()))
      return "random bits to come from a state that the step takes and returns "
             "advanced; every replay would draw the same ones";
    return {};
  }
  if (!freshCasts && measuresWeight(op) && !skip)
    return "the amax of weight '" +
           describeValue(findWeight(op->getOperand(0))) +
           "' to have a skip flag (te-insert-skip-flags)";
  if (BlockArgument weight = unmarkedWeight(op); weight && !freshCasts)
    return "argument '" + describeValue(weight) +
           "', the weight of this GEMM, to have 'te.weight'";
  if (isa<tensor::ExtractOp>(op))
    return "no read of a single element, which waits for the device";
  if (isa<CallOpInterface>(op))
    return "no call, which may allocate or wait; inline it";
  if (isa<BranchOpInterface, RegionBranchOpInterface>(op))
    return "no branch, which the host would decide once for all replays";
  if (op->hasTrait<OpTrait::IsTerminator>() || isMemoryEffectFree(op))
    return {};
  return hasEffect<MemoryEffects::Allocate>(op)
             ? "no allocation; the arena is planned before"
             : "no op with unknown effects on memory";
}

namespace {
class VerifyCapture final
    : public te::impl::VerifyCapturePassBase<VerifyCapture> {
public:
  using Base::Base;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    func::FuncOp function = getOperation();
    if (function.isExternal())
      return;
    function.getBody().walk([&](Operation *op) {
      ++numChecked;
      if (std::string wanted = refuseCapture(op, freshCasts); !wanted.empty())
        refuse(op, wanted);
    });
    for (BlockArgument argument : function.getArguments()) {
      if (!isa<TensorType, ScaledType>(argument.getType())) {
        emitError(argument.getLoc())
            << "expected in a captured step arguments on the device, but got '"
            << describeValue(argument) << "' of type " << argument.getType()
            << ", whose value the capture would keep";
        signalPassFailure();
      }
      if (isa<ScaledType>(argument.getType()) ||
          llvm::any_of(argument.getUsers(), [&](Operation *user) {
            return isKeptBy(user, argument);
          }))
        checkKept(argument);
      if (isGradientSum(argument)) {
        checkStartsAnew(argument);
        gradientSums.insert(nextValue(function, argument));
      }
    }
    checkCarried();
    checkOneFlagPerWeight();
    checkUpdates();
  }

private:
  /// Reports `op` once, with what was expected instead.
  void refuse(Operation *op, const Twine &wanted) {
    if (!refused.insert(op).second)
      return;
    op->emitError() << "expected in a captured step " << wanted << ", but got '"
                    << op->getName() << "'";
    signalPassFailure();
  }

  /// Checks that a flag can keep the value of `state`, if the step returns it.
  void checkKept(BlockArgument state) {
    Value value = nextValue(getOperation(), state);
    while (value && (value = throughResiduals(value)) != state) {
      Value before = cachedBefore(value);
      if (before) {
        carried.insert(value);
        value = before;
        continue;
      }
      broken.insert(state);
      if (Operation *op = value.getDefiningOp())
        return refuse(op, "the value of state '" + describeValue(state) +
                              "' to be kept by a skip flag");
      emitError(state.getLoc())
          << "expected in a captured step the value of state '"
          << describeValue(state) << "' to be kept by a skip flag, but got '"
          << describeValue(value) << "'";
      return signalPassFailure();
    }
  }

  /// Checks that a flag decides whether `sum` is added to or overwritten.
  void checkStartsAnew(BlockArgument sum) {
    for (OpOperand &use : sum.getUses()) {
      auto start = dyn_cast<ZeroUnlessOp>(use.getOwner());
      if (!start || use.get() != start.getX())
        refuse(use.getOwner(), "the sum in '" + describeValue(sum) +
                                   "' to go through te.zero_unless");
    }
  }

  /// The start of the chain of cached casts that ends in `value`.
  static Value start(Value value) {
    while (Value before = cachedBefore(value = throughResiduals(value)))
      value = before;
    return value;
  }

  /// Checks that a value that a flag keeps is available in the next replay.
  void checkCarried() {
    getOperation().walk([&](Operation *op) {
      for (Value result : op->getResults())
        if (Value kept = cachedBefore(result);
            kept && !carried.contains(result) && !broken.contains(start(kept)))
          refuse(op, "the value that the skip flag keeps to be returned under "
                     "the name of its argument");
    });
  }

  /// Checks that all casts of a weight are of the same micro-batch.
  void checkOneFlagPerWeight() {
    DenseMap<Value, Operation *> flagged;
    getOperation().walk([&](Operation *op) {
      Value skip = skipFlagOf(op);
      Value weight = skip && !isa<ZeroUnlessOp>(op) && !isUpdate(op)
                         ? Value(findWeight(op->getOperand(0)))
                         : Value();
      if (!weight)
        return;
      Operation *first = flagged.try_emplace(weight, op).first->second;
      if (skipFlagOf(first) != skip)
        refuse(op, "one skip flag for all casts of weight '" +
                       describeValue(weight) + "'");
    });
  }

  /// Checks that all updates happen in the same micro-batch, which is not the
  /// first of several.
  void checkUpdates() {
    Operation *flagged = nullptr;
    DenseMap<Value, Operation *> others;
    SmallVector<Operation *> updates;
    getOperation().walk([&](Operation *op) {
      Value skip = skipFlagOf(op);
      if (isUpdate(op)) {
        updates.push_back(op);
        flagged = flagged || !skip ? flagged : op;
      } else if (skip) {
        others.try_emplace(skip, op);
      }
    });
    for (Operation *op : updates) {
      Value skip = skipFlagOf(op);
      if (!skip && readsGradientSum(op))
        refuse(op, "a skip flag ('unless') of what reads the sum of gradients "
                   "over micro-batches");
      else if (flagged && skip != skipFlagOf(flagged))
        refuse(op, "one skip flag for all updates and sums of squares");
      else if (skip && others.contains(skip))
        refuse(op, "a skip flag that is not that of casts and gradients, which "
                   "is 1.0 in the last micro-batch");
    }
  }

  /// Whether `op` reads the gradients that a step accumulates.
  bool readsGradientSum(Operation *op) {
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      return gradientSums.contains(operand);
    });
  }

  llvm::SmallPtrSet<Operation *, 4> refused;
  /// The next values of states that gradients are accumulated in.
  DenseSet<Value> gradientSums;
  /// Results that are arguments of a later step.
  DenseSet<Value> carried;
  /// States whose next values do not come from cached ops.
  DenseSet<Value> broken;
};
} // namespace
