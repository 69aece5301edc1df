//===- Differentiate.cpp - te-differentiate -------------------------------===//
//
// The pass implements reverse mode on a straight line of ops. It works on a
// copy of the callee of a te.vjp, where block arguments are distinct values
// even if the te.vjp passes one value twice. In the copy, the return separates
// the forward (with the residuals at its end) from the backward. At the end,
// everything except the return moves to the place of the te.vjp.
//
// Only ops between an argument in `wrt` and a result are asked for a
// derivative. The ops implement their derivatives themselves.
//
// If a value that is the same on all ranks of a group is used together with
// values that differ between ranks, each rank computes one summand of its
// gradient. Gradients of such arguments are summed over the group.
//
//===----------------------------------------------------------------------===//

#include "VaryingAxes.h"

#include "TEDialect/IR/DiagnosticData.h"
#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Autodiff/Passes.h"
#include "TEDialect/Transforms/Utils/Inline.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::te {
#define GEN_PASS_DEF_DIFFERENTIATEPASS
#include "TEDialect/Transforms/Autodiff/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {

/// Names of residuals in one function: "<layer>.<role>". The layer is the name
/// in the op's location or, without one, the op's mnemonic and the number of
/// earlier ops of its kind.
class ResidualNames {
public:
  /// Numbers the ops of a forward. Called once per forward, in program order.
  void addForward(ArrayRef<Operation *> ops) {
    layers.clear();
    for (Operation *op : ops) {
      StringRef mnemonic = op->getName().stripDialect();
      unsigned number = counts[mnemonic]++;
      std::string name = locationName(op->getLoc());
      layers[op] =
          name.empty() ? (mnemonic + Twine(number)).str() : std::move(name);
    }
  }

  std::string get(Operation *op, StringRef role) {
    return makeUnique(layers.lookup(op) + "." + role.str());
  }

  std::string makeUnique(const std::string &name) {
    std::string unique = name;
    for (unsigned i = 1; !taken.insert(unique).second; ++i)
      unique = name + "_" + std::to_string(i);
    return unique;
  }

  std::string getCotangent(unsigned number) {
    return "vjp" + std::to_string(numVjps++) + ".cotangent" +
           std::to_string(number);
  }

private:
  static std::string locationName(Location loc) {
    std::string name;
    loc->walk([&](Location inner) {
      if (auto named = dyn_cast<NameLoc>(inner))
        name = named.getName().str();
      return WalkResult::advance();
    });
    return name;
  }

  llvm::StringMap<unsigned> counts;
  llvm::StringSet<> taken;
  DenseMap<Operation *, std::string> layers;
  unsigned numVjps = 0;
};

bool isFloatTensor(Value value) {
  return isa<RankedTensorType>(value.getType()) &&
         isa<FloatType>(getElementTypeOrSelf(value));
}

/// Whether the backward can read `value` without a residual.
bool isAlwaysThere(Value value) {
  return isa<BlockArgument>(value) || matchPattern(value, m_Constant());
}

/// The expansion of one te.vjp.
class Expansion final : public AdjointContext {
public:
  Expansion(VjpOp vjp, func::FuncOp callee, ResidualNames &names)
      : vjp(vjp), copy(callee.clone()), block(&copy.getBody().front()),
        boundary(block->getTerminator()), names(names),
        residualBuilder(boundary), backward(vjp.getContext()) {
    pinRecipes(copy, callee, vjp->getParentOp());
    backward.setInsertionPointToEnd(block);
    for (Operation &op : block->without_terminator())
      forward.push_back(&op);
    names.addForward(forward);
  }
  ~Expansion() override { copy.erase(); }

  /// Replaces the te.vjp, or reports every op that has no derivative.
  LogicalResult run() {
    findActive();
    if (failed(checkDerivatives()))
      return failure();
    seedCotangents();
    for (Operation *op : llvm::reverse(forward)) {
      if (!isVisited(op))
        continue;
      current = op;
      if (failed(cast<DifferentiableOpInterface>(op).differentiate(backward,
                                                                   *this)))
        return failure();
    }
    replaceVjp();
    return success();
  }

  unsigned getNumResiduals() const { return residuals.size(); }

  Value get(Value primal) override { return cotangents.lookup(primal); }

  bool wants(Value primal) override { return active.contains(primal); }

  void add(Value primal, Value cotangent) override {
    assert(primal.getType() == cotangent.getType() &&
           "a cotangent has the type of its value");
    Value &sum = cotangents[primal];
    sum =
        sum ? arith::AddFOp::create(backward, current->getLoc(), sum, cotangent)
            : cotangent;
  }

  Value residual(Value primal, StringRef role) override {
    // Save what is broadcast or transposed, and move its elements again.
    if (Operation *op = primal.getDefiningOp(); isMovedAgain(op)) {
      IRMapping map;
      map.map(op->getOperand(0), residual(op->getOperand(0), role));
      if (op->getNumOperands() > 1) {
        auto type = cast<RankedTensorType>(primal.getType());
        map.map(op->getOperand(1),
                tensor::EmptyOp::create(backward, op->getLoc(), type.getShape(),
                                        type.getElementType())
                    .getResult());
      }
      return backward.clone(*op, map)->getResult(0);
    }
    // A flat shard is gathered as a vector and viewed as a matrix.
    auto view = primal.getDefiningOp<tensor::ExpandShapeOp>();
    auto gather = (view ? view.getSrc() : primal).getDefiningOp<AllGatherOp>();
    if (!gather)
      return hold(resolve(primal), current->getLoc(),
                  [&] { return names.get(current, role); });
    // Save only this rank's part. An argument gets a residual too, although the
    // backward could read it directly: otherwise, cse would merge the gathers
    // of forward and backward and thereby save the gathered tensor.
    Value part = resolve(gather.getX());
    Value &held = residuals[part];
    if (!held) {
      std::string name = argumentName(part);
      name = name.empty() ? names.get(current, role) : names.makeUnique(name);
      held =
          ResidualOp::create(residualBuilder, current->getLoc(), part.getType(),
                             part, residualBuilder.getStringAttr(name));
    }
    Value again =
        AllGatherOp::create(backward, gather.getLoc(), gather.getY().getType(),
                            held, gather.getGroup(), gather.getAxis());
    if (!view)
      return again;
    return tensor::ExpandShapeOp::create(backward, view.getLoc(),
                                         view.getType(), again,
                                         view.getReassociationIndices());
  }

private:
  /// Whether `op` is a broadcast, a transpose or a reshape of one.
  static bool isMovedAgain(Operation *op) {
    while (isa_and_nonnull<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op))
      op = op->getOperand(0).getDefiningOp();
    return isa_and_nonnull<linalg::BroadcastOp, linalg::TransposeOp>(op);
  }

  /// The name of the argument that `value` is, or that it is rounded from; else
  /// "".
  static std::string argumentName(Value value) {
    if (auto rounded = value.getDefiningOp<arith::TruncFOp>())
      value = rounded.getIn();
    auto argument = dyn_cast<BlockArgument>(value);
    auto function =
        argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp())
                 : func::FuncOp();
    auto name = function ? function.getArgAttrOfType<StringAttr>(
                               argument.getArgNumber(), kNameAttr)
                         : StringAttr();
    return name ? name.str() : "";
  }

  /// The value of a parameter of the callee in the function with the te.vjp.
  Value resolve(Value value) {
    auto parameter = dyn_cast<BlockArgument>(value);
    if (parameter && parameter.getOwner() == block)
      return vjp.getArguments()[parameter.getArgNumber()];
    return value;
  }

  Value hold(Value value, Location loc, function_ref<std::string()> name) {
    if (isAlwaysThere(value))
      return value;
    Value &held = residuals[value];
    if (!held)
      held = ResidualOp::create(residualBuilder, loc, value.getType(), value,
                                residualBuilder.getStringAttr(name()));
    return held;
  }

  /// Marks the floating-point values that depend on an argument in `wrt`, and
  /// not only through values that count as constants.
  void findActive() {
    for (int64_t index : vjp.getWrt())
      active.insert(block->getArgument(index));
    for (Operation *op : forward)
      if (!op->hasAttr(kNoGradientAttr) &&
          llvm::any_of(op->getOperands(), [&](Value v) { return wants(v); }))
        active.insert_range(
            llvm::make_filter_range(op->getResults(), isFloatTensor));
  }

  /// Checks that every op between `wrt` and a result has a derivative.
  LogicalResult checkDerivatives() {
    DenseSet<Value> reached(boundary->operand_begin(), boundary->operand_end());
    LogicalResult result = success();
    for (Operation *op : llvm::reverse(forward)) {
      bool onPath = llvm::any_of(op->getResults(), [&](Value value) {
        return reached.contains(value) && wants(value);
      });
      if (!onPath)
        continue;
      reached.insert_range(op->getOperands());
      if (isa<DifferentiableOpInterface>(op))
        continue;
      InFlightDiagnostic diagnostic =
          withData(op->emitError(), {code::kNotDifferentiable})
          << "'" << op->getName() << "' has no derivative";
      diagnostic.attachNote(vjp.getLoc()) << "differentiated here";
      result = failure();
    }
    return result;
  }

  void seedCotangents() {
    for (auto [i, pair] : llvm::enumerate(
             llvm::zip(boundary->getOperands(), vjp.getCotangents()))) {
      auto [result, cotangent] = pair;
      // The caller does not use this result, so no zeros are propagated.
      if (!wants(result) || matchPattern(cotangent, m_AnyZeroFloat()))
        continue;
      current = vjp;
      unsigned number = i;
      add(result, hold(cotangent, vjp.getLoc(),
                       [&] { return names.getCotangent(number); }));
    }
  }

  /// True if a result has a cotangent and an operand needs one.
  bool isVisited(Operation *op) {
    return llvm::any_of(op->getResults(), [&](Value v) { return get(v); }) &&
           llvm::any_of(op->getOperands(), [&](Value v) { return wants(v); });
  }

  /// Finds the values that differ between ranks, and sums over the group the
  /// cotangents that row-parallel layers expect to be the same on all ranks.
  VaryingAxes findVarying() {
    VaryingAxes varying(vjp);
    if (varying.empty())
      return varying;
    varying.visitArguments(copy);
    for (auto [i, argument] : llvm::enumerate(vjp.getArguments()))
      varying.set(argument,
                  varying.get(argument) | varying.get(block->getArgument(i)));
    for (Operation *op : forward)
      varying.visit(op);
    for (auto [result, cotangent] :
         llvm::zip(boundary->getOperands(), vjp.getCotangents()))
      varying.set(cotangent, varying.get(cotangent) | varying.get(result));
    for (Operation &op : llvm::make_early_inc_range(*block)) {
      varying.visit(&op);
      auto layer = [&](auto layer) {
        ParallelAttr parallel = layer.getParallelAttr();
        if (!parallel || parallel.isColumn() || parallel.getSequence() ||
            !(varying.get(layer.getDy()) & varying.axisOf(parallel.getGroup())))
          return;
        OpBuilder builder(&op);
        auto sum =
            AllReduceOp::create(builder, op.getLoc(), layer.getDy().getType(),
                                layer.getDy(), parallel.getGroup());
        varying.visit(sum);
        layer.getDyMutable().assign(sum);
        varying.visit(&op);
      };
      if (auto dgrad = dyn_cast<LinearDgradOp>(op))
        layer(dgrad);
      else if (auto wgrad = dyn_cast<LinearWgradOp>(op))
        layer(wgrad);
    }
    return varying;
  }

  /// `gradient` of `parameter`, summed over the ranks that share `parameter`.
  Value sumOverRanks(const VaryingAxes &varying, Value gradient,
                     BlockArgument parameter) {
    const VaryingAxes::Bits summands =
        varying.get(gradient) & ~varying.get(parameter);
    for (GroupAttr group : varying.getGroups())
      if (summands & varying.axisOf(group.getId()))
        gradient =
            AllReduceOp::create(backward, vjp.getLoc(), gradient.getType(),
                                gradient, group.getId());
    return gradient;
  }

  /// Moves the code to the place of the te.vjp, replaces the te.vjp's results,
  /// and erases forward ops without uses.
  void replaceVjp() {
    SmallVector<Value> outputs(boundary->getOperands());
    const VaryingAxes varying = findVarying();
    for (int64_t index : vjp.getWrt()) {
      BlockArgument parameter = block->getArgument(index);
      Value gradient = get(parameter);
      if (gradient)
        gradient = sumOverRanks(varying, gradient, parameter);
      else
        gradient = arith::ConstantOp::create(
            backward, vjp.getLoc(),
            cast<TypedAttr>(backward.getZeroAttr(parameter.getType())));
      outputs.push_back(gradient);
    }
    for (Value &output : outputs)
      output = resolve(output);
    for (BlockArgument parameter : block->getArguments())
      parameter.replaceAllUsesWith(resolve(parameter));
    boundary->erase();
    vjp->getBlock()->getOperations().splice(vjp->getIterator(),
                                            block->getOperations());
    vjp.replaceAllUsesWith(outputs);
    vjp.erase();
    for (Operation *op : llvm::reverse(forward))
      if (isOpTriviallyDead(op))
        op->erase();
  }

  VjpOp vjp;
  func::FuncOp copy;
  Block *block;
  /// The copy's return: residuals are before it and the backward is after it.
  Operation *boundary;
  ResidualNames &names;
  OpBuilder residualBuilder, backward;
  SmallVector<Operation *> forward;
  /// The op whose derivative is being built.
  Operation *current = nullptr;
  DenseSet<Value> active;
  DenseMap<Value, Value> cotangents, residuals;
};

class Differentiate final
    : public te::impl::DifferentiatePassBase<Differentiate> {
public:
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<VjpOp> vjps;
    module.walk([&](VjpOp vjp) { vjps.push_back(vjp); });
    bool failedAny = false;
    for (VjpOp vjp : vjps)
      failedAny |= failed(checkCallee(vjp));
    if (failedAny)
      return signalPassFailure();

    llvm::SetVector<func::FuncOp> callees;
    llvm::MapVector<Operation *, ResidualNames> names;
    for (VjpOp vjp : vjps) {
      func::FuncOp callee = getCallee(vjp);
      callees.insert(callee);
      Expansion expansion(vjp, callee, names[vjp->getParentOp()]);
      if (failed(expansion.run())) {
        failedAny = true;
        continue;
      }
      ++numVjps;
      numResiduals += expansion.getNumResiduals();
    }
    if (failedAny)
      return signalPassFailure();
    for (func::FuncOp callee : callees)
      if (callee.isPrivate() &&
          SymbolTable::symbolKnownUseEmpty(callee, module))
        callee.erase();
    // Later passes merge equal ops.
    module.walk([](Operation *op) { op->removeAttr(kNoGradientAttr); });
  }

private:
  func::FuncOp getCallee(VjpOp vjp) {
    return getOperation().lookupSymbol<func::FuncOp>(vjp.getCallee());
  }

  LogicalResult checkCallee(VjpOp vjp) {
    func::FuncOp callee = getCallee(vjp);
    if (!callee || !llvm::hasSingleElement(callee.getBody()))
      return vjp.emitError() << "expected '@" << vjp.getCallee()
                             << "' to have a body of one block";
    for (auto inner : callee.getOps<VjpOp>()) {
      InFlightDiagnostic diagnostic =
          withData(inner.emitError(), {code::kNotDifferentiable})
          << "expected a differentiated function to hold no 'te.vjp', but '@"
          << vjp.getCallee() << "' does; derivatives of derivatives are not "
          << "supported";
      diagnostic.attachNote(vjp.getLoc()) << "differentiated here";
      return diagnostic;
    }
    return success();
  }
};

} // namespace
