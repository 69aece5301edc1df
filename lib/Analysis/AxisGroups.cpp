//===- AxisGroups.cpp - tensor axes of a step that have one size ----------===//

#include "TEDialect/Analysis/AxisGroups.h"

#include "TEDialect/IR/Support.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"

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
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](LinearOp op) {
        const unsigned n = op.getTransposedWeight() ? 1 : 0;
        tie({op.getX(), 0}, {op.getY(), 0});
        tie({op.getX(), 1}, {op.getW(), 1 - n});
        tie({op.getW(), n}, {op.getY(), 1});
        if (op.getBias())
          tie({op.getBias(), 0}, {op.getW(), n});
      })
      .Case([&](LinearDgradOp op) {
        const unsigned n = op.getTransposedWeight() ? 1 : 0;
        tie({op.getDy(), 0}, {op.getDx(), 0});
        tie({op.getDy(), 1}, {op.getW(), n});
        tie({op.getW(), 1 - n}, {op.getDx(), 1});
      })
      .Case([&](LinearWgradOp op) {
        const unsigned n = op.getTransposedWeight() ? 1 : 0;
        tie({op.getDy(), 0}, {op.getX(), 0});
        tie({op.getDy(), 1}, {op.getDw(), n});
        tie({op.getX(), 1}, {op.getDw(), 1 - n});
      })
      .Case([&](GroupedLinearOp op) {
        tie({op.getX(), 0}, {op.getY(), 0});
        tie({op.getX(), 1}, {op.getW(), 2});
        tie({op.getW(), 1}, {op.getY(), 1});
        if (op.getBias())
          tie({op.getBias(), 1}, {op.getW(), 1});
      })
      .Case([&](GroupedLinearDgradOp op) {
        tie({op.getDy(), 0}, {op.getDx(), 0});
        tie({op.getDy(), 1}, {op.getW(), 1});
        tie({op.getW(), 2}, {op.getDx(), 1});
      })
      .Case([&](GroupedLinearWgradOp op) {
        tie({op.getDy(), 0}, {op.getX(), 0});
        tie({op.getDy(), 1}, {op.getDw(), 1});
        tie({op.getX(), 1}, {op.getDw(), 2});
      })
      .Case([&](EmbeddingOp op) {
        tie({op.getIds(), 0}, {op.getY(), 0});
        tie({op.getTable(), 1}, {op.getY(), 1});
      })
      .Case([&](AttentionOp op) {
        tieMatrices({op.getQ(), op.getO()});
        tieMatrices({op.getK(), op.getV()});
        tie({op.getQ(), 0}, {op.getK(), 0});
      })
      .Case([&](AttentionBackwardOp op) {
        tieMatrices({op.getDout(), op.getQ(), op.getO(), op.getDq()});
        tieMatrices({op.getK(), op.getV(), op.getDk(), op.getDv()});
        tie({op.getQ(), 0}, {op.getK(), 0});
      })
      .Case([&](AttentionSinkGradOp op) {
        tieMatrices({op.getDout(), op.getO()});
      })
      .Case([&](RopeOp op) { tieMatrices({op.getX(), op.getY()}); })
      .Case([&](VjpOp op) { tieCall(op); })
      .Case([&](RmsNormOp op) {
        tieShapes(op);
        tie({op.getGamma(), 0}, {op.getX(), 1});
      })
      .Case([&](LayerNormOp op) {
        tieShapes(op);
        tie({op.getGamma(), 0}, {op.getX(), 1});
        tie({op.getBeta(), 0}, {op.getX(), 1});
      })
      .Case<RmsNormBackwardOp, LayerNormBackwardOp, ActivationOp,
            ActivationBackwardOp, ResidualOp, CrossEntropyBackwardOp>(
          [&](Operation *op) { tieShapes(op); })
      .Default([&](Operation *op) {
        if (op->hasTrait<OpTrait::Elementwise>())
          tieShapes(op);
      });
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

/// Matrices of one shape.
void AxisGroups::tieMatrices(std::initializer_list<Value> matrices) {
  for (Value value : llvm::drop_begin(matrices))
    for (unsigned axis : {0u, 1u})
      tie({*matrices.begin(), axis}, {value, axis});
}

/// Equal sizes in one place are one axis; of a gated activation's columns, one
/// may be twice the other.
void AxisGroups::tieShapes(Operation *op) {
  SmallVector<Value> matrices;
  for (Value value : llvm::concat<Value>(SmallVector<Value>(op->getOperands()),
                                         SmallVector<Value>(op->getResults())))
    if (rankOf(value) == 2)
      matrices.push_back(value);
  if (matrices.empty())
    return;
  for (Value value : llvm::drop_begin(matrices))
    for (unsigned axis : {0u, 1u}) {
      TensorAxis first{matrices.front(), axis}, other{value, axis};
      if (first.size() == other.size())
        tie(first, other);
      else if (ShapedType::isDynamic(first.size()) ||
               ShapedType::isDynamic(other.size()))
        continue;
      else if (first.size() == 2 * other.size())
        doubles.push_back({idOf(first), idOf(other)});
      else if (other.size() == 2 * first.size())
        doubles.push_back({idOf(other), idOf(first)});
    }
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
