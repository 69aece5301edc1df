//===- PairCastLayouts.cpp - both usages of a tensor in one cast ----------===//
//
// Casts are pure, so one may move up to another that reads the same operands:
// those dominate the first of a group, hence its position is legal for all.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Quantize/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

#include <array>
#include <tuple>

namespace mlir::te {
#define GEN_PASS_DEF_PAIRCASTLAYOUTSPASS
#include "TEDialect/Transforms/Quantize/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// `type` made for `contract`.
static ScaledType usageFor(ScaledType type, unsigned contract) {
  return type.getContract() == contract ? type : type.getTransposedUsage();
}

/// Replaces `casts` (equal but for `contract`, in program order) by one op.
static void merge(ArrayRef<QuantizeOp> casts) {
  std::array<SmallVector<Value>, 2> readers;
  SmallVector<Value> amaxes;
  for (QuantizeOp cast : casts) {
    if (cast.getAmax())
      amaxes.push_back(cast.getAmax());
    for (Value usage : cast.getUsages())
      readers[mlir::cast<ScaledType>(usage.getType()).getContract()].push_back(
          usage);
  }

  QuantizeOp first = casts.front();
  auto type = cast<ScaledType>(first.getUsages()[0].getType());
  // Rows first, as everywhere.
  SmallVector<Type> types;
  for (unsigned contract : {1u, 0u})
    if (!readers[contract].empty())
      types.push_back(usageFor(type, contract));

  OpBuilder builder(first);
  auto paired =
      QuantizeOp::create(builder, first.getLoc(), types,
                         amaxes.empty() ? Type() : amaxes.front().getType(),
                         first.getX(), first.getScale(), first.getGivenAmax(),
                         first.getRng(), first.getGroupSizes(),
                         first.getAlignmentAttr(), first.getAmaxEpsilonAttr(),
                         first.getStreamAttr(), first.getFourOverSixAttr());
  for (Value usage : paired.getUsages())
    for (Value old : readers[cast<ScaledType>(usage.getType()).getContract()])
      old.replaceAllUsesWith(usage);
  // Casts of one tensor measure the same.
  for (Value amax : amaxes)
    amax.replaceAllUsesWith(paired.getAmax());
  for (QuantizeOp cast : casts)
    cast.erase();
}

namespace {
struct PairCastLayouts final
    : te::impl::PairCastLayoutsPassBase<PairCastLayouts> {
  using Base::Base;

  void runOnOperation() override {
    // What two usages of one tensor share; all values but x may be null.
    using Key = std::tuple<Block *, Value, Value, Value, Value, Value,
                           Attribute, Attribute, Attribute, Attribute, Type>;
    llvm::MapVector<Key, SmallVector<QuantizeOp>> groups;
    getOperation().walk([&](QuantizeOp cast) {
      auto type = mlir::cast<ScaledType>(cast.getUsages()[0].getType());
      // Each usage is cast by itself, or its whole is transposed. A cast under
      // a flag is the program's own, and other casts are not under its flag.
      if (type.isShard() || cast.getSkip())
        return;
      // A row-scaled value has no column usage to be paired with.
      Type row = type.is(ScaleVariant::RowScaled) ? type : usageFor(type, 1);
      groups[{cast->getBlock(), cast.getX(), cast.getScale(),
              cast.getGivenAmax(), cast.getRng(), cast.getGroupSizes(),
              cast.getAlignmentAttr(), cast.getAmaxEpsilonAttr(),
              cast.getStreamAttr(), cast.getFourOverSixAttr(), row}]
          .push_back(cast);
    });
    for (auto &[key, casts] : groups)
      if (casts.size() > 1) {
        merge(casts);
        ++numPairs;
      }
  }
};
} // namespace
