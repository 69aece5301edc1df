//===- AxisGroups.cpp - tensor axes of a step that have one size ----------===//

#include "TEDialect/Analysis/AxisGroups.h"

#include "TEDialect/IR/Support.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <numeric>

using namespace mlir;
using namespace mlir::te;

static int64_t rankOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getRank() : 0;
}

StringRef TensorAxis::name() const {
  if (rankOf(value) == 1)
    return "elements";
  // The matrices of a stack have the last two axes.
  return axis + 2 == static_cast<unsigned>(rankOf(value)) ? "rows" : "columns";
}

AxisGroups::AxisGroups(ModuleOp module) : module(module) {
  module.walk([&](Operation *op) { tie(op); });
}

void AxisGroups::tie(Operation *op) {
  if (auto vjp = dyn_cast<VjpOp>(op))
    return tieCall(vjp);
  auto rule = dyn_cast<AxisRelationOpInterface>(op);
  if (!rule)
    return;
  // The first axis that is once, and twice, the size of a factor.
  AxisRelation relation = rule.getAxisRelation();
  SmallVector<std::optional<TensorAxis>> single(relation.getNumFactors()),
      twice(relation.getNumFactors());
  auto add = [&](const AxisRelation::Entry &entry) {
    for (auto [i, axis] : llvm::enumerate(entry.axes)) {
      if (axis.factor == AxisRelation::kNone || axis.times == 0)
        continue;
      TensorAxis member{entry.value, static_cast<unsigned>(i)};
      auto &first = (axis.times == 1 ? single : twice)[axis.factor];
      if (first)
        tie(*first, member);
      else
        first = member;
    }
  };
  llvm::for_each(relation.getOperands(), add);
  llvm::for_each(relation.getResults(), add);
  for (auto [half, whole] : llvm::zip(single, twice))
    if (half && whole)
      doubles.push_back({idOf(*whole), idOf(*half)});
}

/// Operands are the callee's arguments; results are its results, then the
/// gradients of its arguments; cotangents are those of its results.
void AxisGroups::tieCall(VjpOp op) {
  auto callee = module.lookupSymbol<func::FuncOp>(op.getCallee());
  if (!callee || callee.isExternal())
    return;
  auto tieAll = [&](Value a, Value b) {
    for (int64_t axis = 0; axis < rankOf(a); ++axis)
      tie({a, static_cast<unsigned>(axis)}, {b, static_cast<unsigned>(axis)});
  };
  for (auto [outer, inner] :
       llvm::zip(op.getArguments(), callee.getArguments()))
    tieAll(outer, inner);
  auto results = callee.getBody().front().getTerminator()->getOperands();
  for (auto [result, inner] : llvm::zip(op.getOutputs(), results))
    tieAll(result, inner);
  for (auto [cotangent, inner] : llvm::zip(op.getCotangents(), results))
    tieAll(cotangent, inner);
  for (auto [gradient, index] :
       llvm::zip(op.getOutputs().drop_front(results.size()), op.getWrt()))
    tieAll(gradient, callee.getArgument(index));
}

unsigned AxisGroups::idOf(TensorAxis axis) {
  auto [entry, isNew] =
      ids.try_emplace({axis.value, axis.axis}, parents.size());
  if (isNew) {
    parents.push_back(parents.size());
    multiples.push_back(1);
  }
  return entry->second;
}

unsigned AxisGroups::rootOf(unsigned id) {
  while (parents[id] != id)
    id = parents[id] = parents[parents[id]];
  return id;
}

void AxisGroups::tie(TensorAxis a, TensorAxis b) {
  unsigned rootA = rootOf(idOf(a)), rootB = rootOf(idOf(b));
  parents[std::max(rootA, rootB)] = std::min(rootA, rootB);
}

void AxisGroups::require(TensorAxis axis, int64_t multiple) {
  int64_t &demand = multiples[rootOf(idOf(axis))];
  demand = std::lcm(demand, multiple);
}

void AxisGroups::settle() {
  // Each round carries a demand over one more activation.
  for (size_t round = 0; round < doubles.size(); ++round)
    for (auto [whole, half] : doubles) {
      int64_t &ofWhole = multiples[rootOf(whole)];
      int64_t &ofHalf = multiples[rootOf(half)];
      ofHalf = std::lcm(ofHalf, ofWhole / std::gcd(ofWhole, int64_t(2)));
      ofWhole = std::lcm(ofWhole, 2 * ofHalf);
    }
}

int64_t AxisGroups::multiple(TensorAxis axis) {
  return multiples[rootOf(idOf(axis))];
}

int64_t AxisGroups::padded(TensorAxis axis) {
  return support::padded(axis.size(), multiple(axis));
}

unsigned AxisGroups::group(TensorAxis axis) { return rootOf(idOf(axis)); }

SmallVector<TensorAxis> AxisGroups::arguments(TensorAxis axis) {
  SmallVector<TensorAxis> named, all;
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments())
      for (int64_t i = 0; i < rankOf(argument); ++i) {
        TensorAxis member{argument, static_cast<unsigned>(i)};
        auto entry = ids.find({member.value, member.axis});
        if (entry == ids.end() || rootOf(entry->second) != group(axis))
          continue;
        all.push_back(member);
        if (function.getArgAttr(argument.getArgNumber(), kNameAttr))
          named.push_back(member);
      }
  return named.empty() ? all : named;
}
