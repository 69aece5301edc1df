//===- ZeroPadding.cpp - rows between groups that are zeros ---------------===//
//
// The search goes from a value back to the ops of groups, through ops that keep
// zeros. If the result is unknown, the caller inserts a te.zero_padding.
//
//===----------------------------------------------------------------------===//

#include "ZeroPadding.h"

#include "TEDialect/IR/TE.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::te;

Value te::behindResiduals(Value value) {
  while (auto residual = value.getDefiningOp<ResidualOp>())
    value = residual.getValue();
  return value;
}

/// Whether groups of `groupSizes` fill all `rows`, so that there is no padding.
static bool fillRows(Value groupSizes, int64_t alignment, int64_t rows) {
  DenseElementsAttr sizes;
  if (!matchPattern(behindResiduals(groupSizes), m_Constant(&sizes)))
    return false;
  int64_t sum = 0;
  for (const APInt &size : sizes.getValues<APInt>()) {
    if (size.getSExtValue() < 0 || size.getSExtValue() % alignment)
      return false;
    sum += size.getSExtValue();
  }
  return sum == rows;
}

bool te::hasZeroPadding(Value value, Value groupSizes, int64_t alignment) {
  value = behindResiduals(value);
  if (fillRows(groupSizes, alignment,
               cast<ShapedType>(value.getType()).getDimSize(0)))
    return true;
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto padded = dyn_cast<ZeroPaddedOpInterface>(op)) {
    std::optional<RowGroups> groups = padded.getZeroPaddedGroups(value);
    return groups && groups->sizes &&
           behindResiduals(groups->sizes) == behindResiduals(groupSizes) &&
           groups->alignment == alignment;
  }
  auto rule = dyn_cast<AxisRelationOpInterface>(op);
  if (!rule)
    return false;
  const AxisRelation relation = rule.getAxisRelation();
  return !relation.getZeroKeepers().empty() &&
         llvm::all_of(relation.getZeroKeepers(), [&](Value operand) {
           return hasZeroPadding(operand, groupSizes, alignment);
         });
}
