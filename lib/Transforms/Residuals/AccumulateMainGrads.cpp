//===- AccumulateMainGrads.cpp - gradients as f32 states ------------------===//
//
// A gradient is a tree of additions over GEMMs and other ops. The pass splits
// it from the root: a branch without other readers is added to the sum so far,
// in the op that makes it if that is a GEMM or the gradient of a table. Each
// gradient is therefore in the program once, and one op at the leaf
// distinguishes the first micro-batch from later ones. Updates and norms of the
// gradient read the sum.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Transforms/Utils/State.h"

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Residuals/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::te {
#define GEN_PASS_DEF_ACCUMULATEMAINGRADSPASS
#include "TEDialect/Transforms/Residuals/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {

class AccumulateMainGrads final
    : public te::impl::AccumulateMainGradsPassBase<AccumulateMainGrads> {
public:
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal())
      return;
    llvm::StringMap<BlockArgument> weights;
    for (BlockArgument argument : function.getArguments()) {
      unsigned index = argument.getArgNumber();
      const bool isWeight = bool(function.getArgAttr(index, kWeightAttr));
      if (!isWeight && function.getArgAttr(index, kOverwriteAttr)) {
        emitError(argument.getLoc())
            << "expected '" << kOverwriteAttr << "' on an argument with '"
            << kWeightAttr << "', but argument " << index
            << " does not have it";
        return signalPassFailure();
      }
      if (auto name = function.getArgAttrOfType<StringAttr>(index, kNameAttr);
          name && isWeight)
        weights[name.getValue()] = argument;
    }
    struct Gradient {
      unsigned result;
      BlockArgument weight;
    };
    SmallVector<Gradient> gradients;
    for (unsigned i = 0, e = function.getNumResults(); i < e; ++i) {
      auto name = function.getResultAttrOfType<StringAttr>(i, kNameAttr);
      StringRef weight = name ? name.getValue() : StringRef();
      if (!weight.consume_front("grad."))
        continue;
      if (!weights.contains(weight)) {
        if (failed(checkNoProduct(i, weight)))
          return signalPassFailure();
        continue;
      }
      BlockArgument argument = weights[weight];
      if (failed(checkGradient(i, weight, argument.getType())))
        return signalPassFailure();
      gradients.push_back({i, argument});
    }
    if (gradients.empty()) {
      function.emitError() << "expected a result 'grad.<weight>' for "
                              "'main-grad', but '"
                           << function.getName() << "' has none";
      return signalPassFailure();
    }
    Value flag = getSkipFlag(function);
    if (!flag)
      return signalPassFailure();
    for (const Gradient &gradient : gradients)
      if (failed(accumulate(gradient.result, gradient.weight, flag)))
        return signalPassFailure();
  }

private:
  LogicalResult checkGradient(unsigned index, StringRef weight, Type type) {
    func::FuncOp function = getOperation();
    Type result = function.getResultTypes()[index];
    auto shaped = dyn_cast<RankedTensorType>(result);
    if (!shaped || !isa<FloatType>(shaped.getElementType()) ||
        shaped.getShape() != cast<ShapedType>(type).getShape())
      return function.emitError()
             << "expected result 'grad." << weight
             << "' to be a floating-point tensor of the weight's shape, "
             << type << ", but got " << result;
    for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i)
      if (auto name = function.getArgAttrOfType<StringAttr>(i, kNameAttr);
          name && name.getValue() == ("grad." + weight).str())
        return function.emitError()
               << "expected no argument 'grad." << weight
               << "', which 'main-grad' adds, but there is one";
    return success();
  }

  /// Reports a gradient of a layer's weight whose argument is not marked as a
  /// weight: only gradients of weights are accumulated, and a forgotten mark
  /// would be silent.
  LogicalResult checkNoProduct(unsigned index, StringRef argument) {
    func::FuncOp function = getOperation();
    Operation *made = function.getBody()
                          .front()
                          .getTerminator()
                          ->getOperand(index)
                          .getDefiningOp();
    if (!isa_and_nonnull<LinearWgradOp, GroupedLinearWgradOp>(made))
      return success();
    return made->emitError()
           << "expected argument '" << argument
           << "', whose gradient is that of a layer's weight, to have '"
           << kWeightAttr << "' for 'main-grad'";
  }

  /// The operands by which updates and norms read `gradient`, the gradient of
  /// `weight`, or the value that it was widened from. A gradient may be that of
  /// several weights; an update of one of them reads that weight's sum.
  static SmallVector<OpOperand *> findUpdates(Value gradient,
                                              BlockArgument weight) {
    while (auto widened = gradient.getDefiningOp<arith::ExtFOp>())
      gradient = widened.getIn();
    SmallVector<OpOperand *> updates;
    SmallVector<Value> same = {gradient};
    while (!same.empty())
      for (OpOperand &use : same.pop_back_val().getUses()) {
        Operation *user = use.getOwner();
        if (isa<arith::ExtFOp>(user))
          same.push_back(user->getResult(0));
        else if (isa<SumOfSquaresOp>(user))
          updates.push_back(&use);
        else if (gradientOf(user) == &use && (user->getOperand(0) == weight ||
                                              !isWeight(user->getOperand(0))))
          updates.push_back(&use);
      }
    return updates;
  }

  /// The operand of an update that is the gradient; null for other ops.
  static OpOperand *gradientOf(Operation *op) {
    if (auto adamw = dyn_cast<AdamWOp>(op))
      return &adamw.getGradMutable();
    if (auto sgd = dyn_cast<SgdOp>(op))
      return &sgd.getGradMutable();
    return nullptr;
  }

  /// Makes result `index`, the gradient of `weight`, a state that the gradient
  /// is added to or, with te.overwrite_main_grad, written to in every step.
  LogicalResult accumulate(unsigned index, BlockArgument weight, Value flag) {
    func::FuncOp function = getOperation();
    Builder b(&getContext());
    const bool overwrites =
        bool(function.getArgAttr(weight.getArgNumber(), kOverwriteAttr));
    auto type = cast<RankedTensorType>(function.getResultTypes()[index])
                    .clone(b.getF32Type());
    auto attributes = b.getDictionaryAttr(
        {b.getNamedAttr(kNameAttr, function.getResultAttr(index, kNameAttr)),
         b.getNamedAttr(kInitAttr, b.getF32FloatAttr(0.0f))});
    unsigned argument = function.getNumArguments();
    // This fails only if the type of the function cannot be changed.
    (void)function.insertArgument(argument, type, attributes,
                                  function.getLoc());
    Value state = function.getArgument(argument);
    Operation *end = function.getBody().front().getTerminator();
    OpOperand &use = end->getOpOperand(index);
    SmallVector<OpOperand *> updates = findUpdates(use.get(), weight);
    for (Operation *user : weight.getUsers())
      if (OpOperand *read = gradientOf(user);
          read && user->getOperand(0) == weight &&
          !llvm::is_contained(updates, read))
        return user->emitError()
               << "expected the update of '" << describeValue(weight)
               << "' to read the value of result 'grad."
               << describeValue(weight)
               << "', which 'main-grad' adds up over micro-batches, but got "
                  "another one; multiply gradients by 'grad_scale' or by the "
                  "cotangent of the loss";
    // Until there is a sum, so that the gradient has no reader but the result.
    for (OpOperand *update : updates) {
      Operation *maker = update->get().getDefiningOp();
      update->set(state);
      if (isa_and_nonnull<arith::ExtFOp>(maker) && maker->use_empty())
        maker->erase();
    }
    Value sum = add(use, [&](OpBuilder &builder, Location loc) -> Value {
      return overwrites ? Value()
                        : ZeroUnlessOp::create(builder, loc, state, flag);
    });
    use.set(sum);
    for (OpOperand *update : updates)
      update->set(sum);
    numUpdates += updates.size();
    SmallVector<Type> results(function.getResultTypes());
    results[index] = type;
    function.setFunctionType(
        b.getFunctionType(function.getArgumentTypes(), results));
    for (Operation *op : llvm::reverse(replaced))
      if (op->use_empty())
        op->erase();
    replaced.clear();
    return success();
  }

  /// Creates the sum so far at a builder's position; null if there is none.
  using SumBefore = function_ref<Value(OpBuilder &, Location)>;

  /// Adds the value of `use` to `before` in f32. Other readers of the value
  /// still read the value itself.
  Value add(OpOperand &use, SumBefore before) {
    Value value = use.get();
    Operation *made = value.getDefiningOp();
    if (made && value.hasOneUse()) {
      if (auto widened = dyn_cast<arith::ExtFOp>(made))
        return addOperand(made, widened->getOpOperand(0), before);
      if (auto sum = dyn_cast<arith::AddFOp>(made)) {
        // The earlier summand is added first, so that neither moves.
        unsigned first = isLater(sum.getLhs(), sum.getRhs()) ? 1 : 0;
        auto half = [&](OpBuilder &, Location) {
          return add(sum->getOpOperand(first), before);
        };
        return addOperand(made, sum->getOpOperand(1 - first), half);
      }
      if (auto wgrad = dyn_cast<LinearWgradOp>(made);
          wgrad && !wgrad.getAccumulate())
        return addInProduct(wgrad, before);
      if (auto wgrad = dyn_cast<GroupedLinearWgradOp>(made);
          wgrad && !wgrad.getAccumulate())
        return addInProduct(wgrad, before);
      if (auto table = dyn_cast<EmbeddingBackwardOp>(made);
          table && !table.getAccumulate())
        return addInProduct(table, before);
    }
    OpBuilder builder(use.getOwner());
    Location loc = value.getLoc();
    if (made)
      builder.setInsertionPointAfter(made);
    auto type = cast<RankedTensorType>(value.getType());
    if (!type.getElementType().isF32())
      value = arith::ExtFOp::create(builder, loc,
                                    type.clone(builder.getF32Type()), value);
    ++numAdded;
    Value sum = before(builder, loc);
    if (!sum)
      return value;
    // The sum so far may be computed after the value.
    if (isLater(sum, value))
      builder.setInsertionPointAfter(sum.getDefiningOp());
    return arith::AddFOp::create(builder, loc, sum, value);
  }

  /// Does what `add` does for an operand of `op`, which is erased if it has no
  /// more readers.
  Value addOperand(Operation *op, OpOperand &operand, SumBefore before) {
    Value sum = add(operand, before);
    replaced.push_back(op);
    return sum;
  }

  template <typename GradientOp>
  Value addInProduct(GradientOp op, SumBefore before) {
    OpBuilder builder(op);
    Value sum = before(builder, op.getLoc()), gradient = op->getResult(0);
    if (sum)
      op.getAccumulateMutable().assign(sum);
    if (sum && isLater(sum, gradient))
      op->moveAfter(sum.getDefiningOp());
    gradient.setType(
        cast<RankedTensorType>(gradient.getType()).clone(builder.getF32Type()));
    ++numInProducts;
    return gradient;
  }

  /// True if both are computed in one block, and `a` after `b`.
  static bool isLater(Value a, Value b) {
    Operation *aMaker = a.getDefiningOp(), *bMaker = b.getDefiningOp();
    return aMaker && bMaker && aMaker->getBlock() == bMaker->getBlock() &&
           bMaker->isBeforeInBlock(aMaker);
  }

  /// Additions and casts to erase, outermost last.
  SmallVector<Operation *> replaced;
};

} // namespace
