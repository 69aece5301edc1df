//===- VaryingAxes.cpp - over which axes of the mesh a value varies -------===//

#include "VaryingAxes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::te;

VaryingAxes::VaryingAxes(Operation *op) : declared(te::getGroups(op)) {
  for (GroupAttr group : declared)
    if (group.getSize() > 1 && axisOf(group.getId()) == 0)
      groups.push_back(group);
}

VaryingAxes::Bits VaryingAxes::axisOf(int64_t id) const {
  for (GroupAttr group : declared)
    if (group.getId() == id)
      for (auto [i, axis] : llvm::enumerate(groups))
        if (axis.getAxis() == group.getAxis())
          return Bits(1) << i;
  return 0;
}

void VaryingAxes::visitArguments(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments())
    if (auto sharding = function.getArgAttrOfType<ArrayAttr>(
            argument.getArgNumber(), kShardingAttr))
      for (Attribute shard : sharding)
        bits[argument] |= axisOf(cast<ShardAttr>(shard).getGroup());
  function.walk([&](LinearOp linear) {
    ParallelAttr parallel = linear.getParallelAttr();
    if (!parallel)
      return;
    auto imply = [&](Value value) {
      // A layer with a sharded weight reads the weight gathered or rounded.
      while (value &&
             isa_and_present<AllGatherOp, arith::TruncFOp, arith::ExtFOp>(
                 value.getDefiningOp()))
        value = value.getDefiningOp()->getOperand(0);
      if (value && isa<BlockArgument>(value))
        bits[value] |= axisOf(parallel.getGroup());
    };
    imply(linear.getW());
    if (parallel.isRow() || parallel.getSequence())
      imply(linear.getX());
    if (parallel.isColumn())
      imply(linear.getBias());
  });
}

void VaryingAxes::visit(Operation *op) {
  if (groups.empty())
    return;
  Bits all = 0;
  for (Value operand : op->getOperands())
    all |= get(operand);
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    if (std::optional<GroupEffect> effect = collective.getGroupEffect()) {
      const Bits axis = axisOf(effect->group);
      all = effect->varies ? all | axis : all & ~axis;
    }
  for (Value result : op->getResults())
    bits[result] = all;
}
