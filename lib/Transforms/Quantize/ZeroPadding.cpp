//===- ZeroPadding.cpp - what is known of rows between groups -------------===//
//
// Follows a value back to the ops of groups, through what keeps zeros. Unknown
// is no: then te.zero_padding makes them.
//
//===----------------------------------------------------------------------===//

#include "ZeroPadding.h"

#include "TEDialect/IR/TE.h"
#include "TEDialect/IR/TEMoe.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::te;

Value te::behindResiduals(Value value) {
  while (auto residual = value.getDefiningOp<ResidualOp>())
    value = residual.getValue();
  return value;
}

/// Whether groups of `groupSizes` leave none of `rows` between or behind them.
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
  auto isOfGroups = [&](Value sizes, uint64_t itsAlignment) {
    return sizes && behindResiduals(sizes) == behindResiduals(groupSizes) &&
           itsAlignment == static_cast<uint64_t>(alignment);
  };
  auto keepsZeros = [&] {
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      return hasZeroPadding(operand, groupSizes, alignment);
    });
  };
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<ZeroPaddingOp, GroupedScaledMatmulOp, GroupedMatmulOp,
            DequantizeOp>([&](auto made) {
        return isOfGroups(made.getGroupSizes(), made.getAlignment());
      })
      .Case([&](PermuteOp made) {
        return isOfGroups(made.getGroupSizes(), made.getAlignment()) &&
               value == made.getY();
      })
      // Its rows without an entry are those of no group of te.permute.
      .Case([&](UnpermuteBackwardOp made) {
        auto route =
            behindResiduals(made.getEntryOf()).getDefiningOp<PermuteOp>();
        return route && isOfGroups(route.getGroupSizes(), route.getAlignment());
      })
      // Every activation is 0 at 0.
      .Case<ActivationOp, ActivationBackwardOp, arith::AddFOp, arith::SubFOp,
            arith::MulFOp, arith::ExtFOp, arith::TruncFOp>(
          [&](auto) { return keepsZeros(); })
      .Default([](Operation *) { return false; });
}
