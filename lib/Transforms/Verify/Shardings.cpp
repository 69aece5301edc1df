//===- Shardings.cpp - checks how values are split over ranks -------------===//
//
// For each value and each axis of the mesh, the checker knows that the value is
// split along a dimension, or that it is whole, or nothing. Nothing is known
// about an argument without te.sharding, so that only contradictions are
// errors: one op splits a value, and the next one expects it whole or split
// elsewhere.
//
// A sum over rows that are split is one rank's summand until it is summed over
// the group. A state must be the same on all ranks or be split. A summand is
// neither; only a gradient that is accumulated in a state may be a summand.
//
//===----------------------------------------------------------------------===//

#include "Shardings.h"

#include "TEDialect/IR/TE.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::te;

namespace {

/// The dimension along which a value is split, and the place that split it.
struct Split {
  int64_t dim;
  Location since;
};

/// The splits of one value, by axis of the mesh.
using Splits = llvm::MapVector<StringRef, Split>;

/// The axes of the mesh over which a value is one rank's summand, and the ops
/// that computed the summand.
using Summands = llvm::MapVector<StringRef, Operation *>;

class Checker {
public:
  explicit Checker(func::FuncOp function) : function(function) {}

  LogicalResult run() {
    for (BlockArgument argument : function.getArguments())
      splits[argument] = declared(function.getArgAttrOfType<ArrayAttr>(
                                      argument.getArgNumber(), kShardingAttr),
                                  argument.getLoc());
    for (Operation &op : function.getBody().front())
      visit(&op);
    return failure(failedAny);
  }

private:
  Splits declared(ArrayAttr sharding, Location loc) {
    Splits found;
    for (Attribute each :
         sharding ? sharding.getValue() : ArrayRef<Attribute>()) {
      auto shard = cast<ShardAttr>(each);
      GroupAttr group = lookupGroup(function, shard.getGroup());
      // No layer distinguishes two groups along one axis of a tensor.
      if (group && group.getSize() > 1)
        found.insert({group.getAxis(), Split{shard.getAxis(), loc}});
    }
    return found;
  }

  static int64_t lastDim(Value value) {
    return cast<ShapedType>(value.getType()).getRank() - 1;
  }

  /// Reports `value`, an operand of `op`, if it is split over `group`, but not
  /// along `dim`; without a `dim`, if it is split at all.
  void expectSplit(Operation *op, StringRef operand, Value value,
                   GroupAttr group, std::optional<int64_t> dim) {
    if (!value)
      return;
    const Splits known = splits.lookup(value);
    auto found = known.find(group.getAxis());
    if (found == known.end() || found->second.dim == dim)
      return;
    InFlightDiagnostic diagnostic = op->emitError()
                                    << "expected '" << operand << "' to be ";
    if (dim)
      diagnostic << "split along axis " << *dim << " over";
    else
      diagnostic << "the same on all ranks of";
    diagnostic << " group " << group.getId() << " ('" << group.getName()
               << "'), but it is split along axis " << found->second.dim;
    diagnostic.attachNote(found->second.since) << "it is split here";
    failedAny = true;
  }

  /// Reports operands that are split along an axis that `op` needs whole.
  void expectWhole(Operation *op, const AxisRelation &relation) {
    for (const AxisRelation::Entry &operand : relation.getOperands())
      for (auto &[axis, split] : splits.lookup(operand.value)) {
        if (!relation.needsWhole(operand.axes[split.dim].factor))
          continue;
        InFlightDiagnostic diagnostic =
            op->emitError()
            << "expected '" << operand.name
            << "' to have whole rows on each rank, but along "
               "axis "
            << split.dim << " it is split over '" << axis << "'";
        diagnostic.attachNote(split.since) << "it is split here";
        failedAny = true;
        break;
      }
  }

  void visitLayer(LinearOp layer) {
    Splits out = splits.lookup(layer.getX());
    const int64_t depth = lastDim(layer.getX());
    ParallelAttr parallel = layer.getParallelAttr();
    GroupAttr group =
        parallel ? lookupGroup(layer, parallel.getGroup()) : GroupAttr();
    if (group && group.getSize() > 1) {
      const bool column = parallel.isColumn(), rows = parallel.getSequence();
      const std::optional<int64_t> shared =
          rows ? std::optional<int64_t>(0) : std::nullopt;
      expectSplit(layer, "x", layer.getX(), group, column ? shared : depth);
      expectSplit(layer, "w", layer.getW(), group, column ? 0 : 1);
      expectSplit(layer, "bias", layer.getBias(), group,
                  column ? std::optional<int64_t>(0) : std::nullopt);
      out.erase(group.getAxis());
      if (column || rows)
        out.insert(
            {group.getAxis(), Split{column ? depth : 0, layer.getLoc()}});
    } else {
      // The user may want a sum over parts, so nothing is known of the result.
      out.remove_if([&](auto &each) { return each.second.dim == depth; });
    }
    splits[layer.getY()] = std::move(out);
  }

  /// The group over which a collective or parallel layer communicates.
  static GroupAttr ownGroup(Operation *op) {
    auto layer = dyn_cast<CollectiveOpInterface>(op);
    std::optional<GroupEffect> effect =
        layer ? layer.getGroupEffect() : std::nullopt;
    return effect ? lookupGroup(op, effect->group) : GroupAttr();
  }

  /// A result is split like the operands that have its first factor. Layers
  /// define how weights are split.
  void passSplits(Operation *op, const AxisRelation &relation) {
    for (const AxisRelation::Entry &result : relation.getResults())
      if (!result.axes.empty())
        splits[result.value] = splitsOf(op, relation, result);
  }

  Splits splitsOf(Operation *op, const AxisRelation &relation,
                  const AxisRelation::Entry &result) {
    GroupAttr own = ownGroup(op);
    Splits out;
    for (const AxisRelation::Entry &operand : relation.getOperands()) {
      if (!operand.has(result.axes.front().factor))
        continue;
      for (auto &[axis, split] : splits.lookup(operand.value)) {
        const std::optional<int64_t> dim =
            result.find(operand.axes[split.dim].factor);
        if (!dim || (own && own.getAxis() == axis))
          continue;
        auto [other, isNew] = out.insert({axis, Split{*dim, split.since}});
        if (isNew || other->second.dim == *dim)
          continue;
        InFlightDiagnostic diagnostic =
            op->emitError() << "expected operands to be split over '" << axis
                            << "' along one axis, but got axis "
                            << other->second.dim << " and axis " << *dim;
        diagnostic.attachNote(other->second.since) << "one is split here";
        diagnostic.attachNote(split.since) << "another is split here";
        failedAny = true;
      }
    }
    return out;
  }

  /// Results of `op` are summands over the same axes as its operands.
  void passSummands(Operation *op) {
    Summands all;
    for (Value operand : op->getOperands())
      for (auto &[axis, since] : summands.lookup(operand))
        all.insert({axis, since});
    if (!all.empty())
      for (Value result : op->getResults())
        summands[result] = all;
  }

  /// Results that are sums over a factor are summands over the axes that the
  /// factor is split over.
  void visitSums(Operation *op, const AxisRelation &relation) {
    GroupAttr own = ownGroup(op);
    for (int factor : relation.getSummed())
      for (const AxisRelation::Entry &operand : relation.getOperands())
        for (auto &[axis, split] : splits.lookup(operand.value))
          if (operand.axes[split.dim].factor == factor &&
              !(own && own.getAxis() == axis))
            for (const AxisRelation::Entry &result : relation.getResults())
              if (!result.find(factor))
                summands[result.value].insert({axis, op});
  }

  void visitRelation(Operation *op) {
    auto rule = dyn_cast<AxisRelationOpInterface>(op);
    if (!rule)
      return;
    AxisRelation relation = rule.getAxisRelation();
    expectWhole(op, relation);
    passSplits(op, relation);
    visitSums(op, relation);
    if (relation.isPointwise() || relation.movesElements)
      passSummands(op);
  }

  /// Reports `value`, an operand of `op`, if it is one rank's summand.
  void expectNoSummand(Operation *op, StringRef operand, Value value) {
    for (auto &[axis, since] : summands.lookup(value)) {
      InFlightDiagnostic diagnostic =
          op->emitError() << "expected '" << operand << "' to be summed over '"
                          << axis
                          << "' (te.all_reduce), but it is one rank's summand";
      diagnostic.attachNote(since->getLoc())
          << "'" << since->getName() << "' sums over what is split here";
      failedAny = true;
    }
  }

  /// The squares of a part are a summand, and a sum has parts over the same
  /// axes: after a sum over ranks, other squares would count several times.
  void visitSquares(SumOfSquaresOp op) {
    std::optional<Summands> before;
    if (Value sum = op.getSum())
      before = summands.lookup(sum);
    const StringRef what = before ? "those of 'sum'" : "those before it";
    for (auto [number, x] : llvm::enumerate(op.getX())) {
      expectNoSummand(op, "x", x);
      Summands own;
      for (auto &[axis, split] : splits.lookup(x))
        own.insert({axis, op});
      if (before)
        expectSameAxes(op, *before, own, number, what);
      else
        before.emplace();
      for (auto &each : own)
        before->insert(each);
    }
    summands[op.getNewSum()] = *before;
  }

  /// Reports an axis that only `before` or only tensor `number` is split over.
  void expectSameAxes(SumOfSquaresOp op, const Summands &before,
                      const Summands &own, size_t number, StringRef what) {
    auto missing = [](const Summands &from, const Summands &in) {
      return llvm::find_if(
          from, [&](auto &each) { return !in.contains(each.first); });
    };
    const auto *left = missing(before, own), *right = missing(own, before);
    const bool isBefore = left != before.end();
    if (!isBefore && right == own.end())
      return;
    InFlightDiagnostic diagnostic = op.emitError();
    diagnostic << "expected tensor " << number << " and " << what
               << " to be split over the same axes, but only ";
    if (isBefore)
      diagnostic << what << " are";
    else
      diagnostic << "tensor " << number << " is";
    diagnostic << " split over '" << (isBefore ? left->first : right->first)
               << "' (use two sums)";
    failedAny = true;
  }

  void visitCollective(Operation *op, Value x, Value y, int64_t id,
                       std::optional<int64_t> dim) {
    Splits out = splits.lookup(x);
    Summands left = summands.lookup(x);
    if (GroupAttr group = lookupGroup(op, id)) {
      left.erase(group.getAxis());
      if (!left.empty())
        summands[y] = left;
      out.erase(group.getAxis());
      if (dim && group.getSize() > 1)
        out.insert({group.getAxis(), Split{*dim, op->getLoc()}});
    }
    splits[y] = std::move(out);
  }

  /// Whether a step accumulates the gradient of a weight in the state `name`.
  bool isGradientSum(StringRef name) {
    return name.consume_front("grad.") &&
           llvm::any_of(function.getArguments(), [&](BlockArgument argument) {
             auto own = function.getArgAttrOfType<StringAttr>(
                 argument.getArgNumber(), kNameAttr);
             return own && own.getValue() == name;
           });
  }

  /// Reports a summand that is returned as a state that is whole over the axis.
  void expectSummed(func::ReturnOp end, OpOperand &result, StringAttr name) {
    const auto *state =
        llvm::find_if(function.getArguments(), [&](BlockArgument argument) {
          return name && function.getArgAttrOfType<StringAttr>(
                             argument.getArgNumber(), kNameAttr) == name;
        });
    if (state == function.getArguments().end() ||
        isGradientSum(name.getValue()))
      return;
    for (auto &[axis, since] : summands.lookup(result.get())) {
      if (splits.lookup(*state).contains(axis))
        continue;
      InFlightDiagnostic diagnostic =
          end.emitError() << "expected state '" << name.getValue()
                          << "' to be the same on all ranks of '" << axis
                          << "', over which it has no 'te.sharding', but the "
                             "returned value contains a sum over only the rows "
                             "of this rank (te.all_reduce)";
      diagnostic.attachNote(since->getLoc())
          << "'" << since->getName() << "' sums over rows that are split here";
      failedAny = true;
    }
  }

  void visitReturn(func::ReturnOp end) {
    for (OpOperand &result : end->getOpOperands()) {
      const unsigned number = result.getOperandNumber();
      expectSummed(end, result,
                   function.getResultAttrOfType<StringAttr>(number, kNameAttr));
      auto name = function.getResultAttrOfType<StringAttr>(number, kNameAttr);
      Splits wanted = declared(
          function.getResultAttrOfType<ArrayAttr>(number, kShardingAttr),
          function.getLoc());
      // A state must be split like its argument in the next step.
      for (BlockArgument argument : function.getArguments())
        if (name && wanted.empty() &&
            function.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                  kNameAttr) == name)
          wanted = splits.lookup(argument);
      for (auto &[axis, split] : splits.lookup(result.get())) {
        auto found = wanted.find(axis);
        if (found == wanted.end() || found->second.dim == split.dim)
          continue;
        InFlightDiagnostic diagnostic =
            end.emitError()
            << "expected result " << number << " to be split over '" << axis
            << "' along axis " << found->second.dim
            << ", as it is declared, but it is split along "
               "axis "
            << split.dim;
        diagnostic.attachNote(split.since) << "it is split here";
        failedAny = true;
      }
    }
  }

  void visit(Operation *op) {
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](LinearOp layer) { visitLayer(layer); })
        .Case([&](AllReduceOp reduce) {
          visitCollective(reduce, reduce.getX(), reduce.getY(),
                          reduce.getGroup(), std::nullopt);
        })
        .Case([&](AllGatherOp gather) {
          visitCollective(gather, gather.getX(), gather.getY(),
                          gather.getGroup(), std::nullopt);
        })
        .Case([&](ReduceScatterOp scatter) {
          visitCollective(scatter, scatter.getX(), scatter.getY(),
                          scatter.getGroup(), scatter.getAxis());
        })
        .Case([&](SumOfSquaresOp squares) { visitSquares(squares); })
        .Case([&](ClipFactorOp clip) {
          expectNoSummand(clip, "sum", clip.getSum());
        })
        .Case([&](func::ReturnOp end) { visitReturn(end); })
        .Default([&](Operation *other) { visitRelation(other); });
  }

  func::FuncOp function;
  DenseMap<Value, Splits> splits;
  DenseMap<Value, Summands> summands;
  bool failedAny = false;
};

} // namespace

LogicalResult te::checkShardings(func::FuncOp function) {
  if (function.isExternal() || getGroups(function).empty())
    return success();
  return Checker(function).run();
}
