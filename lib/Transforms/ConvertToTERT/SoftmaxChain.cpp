//===- SoftmaxChain.cpp - find the ops of a softmax -----------------------===//

#include "Regions.h"

#include "TEDialect/IR/OpMeaning.h"
#include "TEDialect/TERT/ElementwiseOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::te;

namespace {

/// Finds the ops of a softmax that begins with the maximum `first` of rows.
class ChainFinder {
public:
  ChainFinder(linalg::ReduceOp first, function_ref<Value(Value)> getSource,
              function_ref<ArrayRef<Operation *>(Value)> getUsers)
      : first(first), getSource(getSource), getUsers(getUsers),
        count(countOf(first)), rows(countOf(first->getResult(0))) {}

  OpsOfChain find() {
    OpsOfChain chain;
    findDependents();
    for (Operation *sum : dependents) {
      OpsOfChain longer = chain;
      longer.insert(first);
      if (isa<linalg::ReduceOp>(sum)) {
        addPath(sum, dependents, longer);
        addQuotients(sum, longer);
      }
      if (longer.size() > 1 && costOf(longer) <= kMostCost)
        chain = std::move(longer);
    }
    OpsOfChain longer = chain;
    return !chain.empty() && addHead(first->getOperand(0), longer) ? longer
                                                                   : chain;
  }

private:
  static unsigned costOf(const OpsOfChain &ops) {
    unsigned cost = 0;
    for (Operation *op : ops)
      cost += tert::getCodeSize(op->getName().getStringRef());
    return cost;
  }
  bool isOfRows(Operation *op) const {
    return !isa<linalg::ReduceOp>(op) && countOf(op) == rows;
  }
  Operation *makerOf(Value operand) const {
    return getSource(operand).getDefiningOp();
  }

  /// Finds what depends on the maximum and on no other reduction: ops of rows
  /// and of elements, and reductions.
  void findDependents() {
    SmallVector<Operation *> open{first};
    while (!open.empty())
      for (Operation *user : getUsers(open.pop_back_val()->getResult(0)))
        if (isFusible(*user) && (countOf(user) == count || isOfRows(user)) &&
            dependents.insert(user) && !isa<linalg::ReduceOp>(user))
          open.push_back(user);
  }

  /// Adds `last` and those of `ops` on which it depends.
  void addPath(Operation *last, const OpsOfChain &ops, OpsOfChain &to) const {
    SmallVector<Operation *> open{last};
    while (!open.empty()) {
      Operation *op = open.pop_back_val();
      if (!to.insert(op))
        continue;
      for (Value operand : elementsOf(op))
        if (Operation *maker = makerOf(operand); ops.contains(maker))
          open.push_back(maker);
    }
  }

  /// Adds the ops that combine elements of the chain, or those of which the
  /// maximum is, with what is computed of `sum` for each row.
  void addQuotients(Operation *sum, OpsOfChain &chain) const {
    auto isOfChain = [&](Value operand) {
      Operation *maker = makerOf(operand);
      return getSource(operand) == getSource(first->getOperand(0)) ||
             (maker && maker != sum && !isOfRows(maker) &&
              !isa<linalg::ReduceOp>(maker) && chain.contains(maker));
    };
    OpsOfChain ofRows;
    SmallVector<Operation *> open{sum}, quotients;
    while (!open.empty())
      for (Operation *user : getUsers(open.pop_back_val()->getResult(0))) {
        if (!isFusible(*user) || isa<linalg::ReduceOp>(user))
          continue;
        if (isOfRows(user) && ofRows.insert(user))
          open.push_back(user);
        else if (countOf(user) == count &&
                 llvm::any_of(elementsOf(user), isOfChain))
          quotients.push_back(user);
      }
    for (Operation *quotient : quotients) {
      addPath(quotient, ofRows, chain);
      ArrayRef<Operation *> users = getUsers(quotient->getResult(0));
      if (users.size() == 1 && isa<arith::TruncFOp>(users.front()))
        chain.insert(users.front());
    }
  }

  /// Adds the ops that make `value` of values that are stored in fewer bits.
  /// Returns whether there are few enough of them.
  bool addHead(Value value, OpsOfChain &chain) const {
    Operation *maker = makerOf(value);
    if (!maker || !isFusible(*maker) || isa<linalg::ReduceOp>(maker) ||
        countOf(maker) != count ||
        !getElementTypeOrSelf(maker->getResult(0)).isF32() ||
        !chain.insert(maker))
      return true;
    return costOf(chain) <= kMostCost &&
           llvm::all_of(elementsOf(maker),
                        [&](Value operand) { return addHead(operand, chain); });
  }

  linalg::ReduceOp first;
  function_ref<Value(Value)> getSource;
  function_ref<ArrayRef<Operation *>(Value)> getUsers;
  const int64_t count, rows;
  OpsOfChain dependents;
};

} // namespace

OpsOfChain
te::findSoftmax(linalg::ReduceOp maximum, function_ref<Value(Value)> getSource,
                function_ref<ArrayRef<Operation *>(Value)> getUsers) {
  return ChainFinder(maximum, getSource, getUsers).find();
}
