//===- PairCastLayouts.cpp - both usages of a tensor in one cast ----------===//
//
// Casts are pure, so a cast may move up to another one that reads the same
// operands: the operands dominate the first cast of a group, so its position is
// legal for all.
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

/// The usage of `type` for `contract`.
static ScaledType usageFor(ScaledType type, unsigned contract) {
  return type.getContract() == contract ? type : type.getTransposedUsage();
}

/// The attributes of `op` that decide what it computes.
static DictionaryAttr settingsOf(Operation *op) {
  NamedAttrList settings(op->getDiscardableAttrDictionary());
  for (StringAttr name : op->getRegisteredInfo()->getAttributeNames())
    if (!name.getValue().ends_with("SegmentSizes"))
      if (std::optional<Attribute> value = op->getInherentAttr(name);
          value && *value)
        settings.append(name, *value);
  return settings.getDictionary(op->getContext());
}

/// Replaces `casts`, which differ only in `contract` and are in program order,
/// with one op.
static void merge(ArrayRef<QuantizeOpInterface> casts) {
  std::array<SmallVector<Value>, 2> readers;
  SmallVector<Value> amaxes;
  for (QuantizeOpInterface cast : casts) {
    if (cast.getAmax())
      amaxes.push_back(cast.getAmax());
    for (Value usage : cast.getUsages())
      readers[mlir::cast<ScaledType>(usage.getType()).getContract()].push_back(
          usage);
  }

  QuantizeOpInterface first = casts.front();
  ScaledType type = first.getUsageType();
  // Rows come first, as in all casts.
  SmallVector<Type> types;
  for (unsigned contract : {1u, 0u})
    if (!readers[contract].empty())
      types.push_back(usageFor(type, contract));

  OpBuilder builder(first);
  QuantizeOpInterface paired = first.withResults(
      builder, types, amaxes.empty() ? Type() : amaxes.front().getType());
  for (Value usage : paired.getUsages())
    for (Value old : readers[cast<ScaledType>(usage.getType()).getContract()])
      old.replaceAllUsesWith(usage);
  // Casts of one tensor measure the same amax.
  for (Value amax : amaxes)
    amax.replaceAllUsesWith(paired.getAmax());
  for (QuantizeOpInterface cast : casts)
    cast.erase();
}

namespace {
struct PairCastLayouts final
    : te::impl::PairCastLayoutsPassBase<PairCastLayouts> {
  using Base::Base;

  void runOnOperation() override {
    // What two usages of one tensor have in common; all values except x may be
    // null.
    using Key = std::tuple<Block *, Value, Value, Value, Value, Value,
                           DictionaryAttr, Type>;
    llvm::MapVector<Key, SmallVector<QuantizeOpInterface>> groups;
    getOperation().walk([&](QuantizeOpInterface cast) {
      ScaledType type = cast.getUsageType();
      // Shards are not paired: each usage is cast by itself, or its whole is
      // transposed. Casts with a flag are not paired either, because the
      // program wrote them, and other casts do not depend on the flag.
      if (type.isShard() || cast.getSkip())
        return;
      // A row-scaled value has no column usage.
      Type row = type.is(ScaleVariant::RowScaled) ? type : usageFor(type, 1);
      groups[{cast->getBlock(), cast.getX(), cast.getScale(),
              cast.getGivenAmax(), cast.getRng(), cast.getGroupSizes(),
              settingsOf(cast), row}]
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
