//===- TEProcessGroups.cpp - groups of ranks, and what is split over them -===//
//
// Groups are data of a module: `te.groups`. A group is looked up by its id in
// the innermost module that declares groups; there is no default.
//
//===----------------------------------------------------------------------===//

#include "TEVerifiers.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::te;

SmallVector<GroupAttr> mlir::te::getGroups(Operation *op) {
  SmallVector<GroupAttr> groups;
  for (Operation *scope = op; scope; scope = scope->getParentOp())
    if (auto array = scope->getAttrOfType<ArrayAttr>(kGroupsAttr)) {
      for (Attribute entry : array)
        if (auto group = dyn_cast<GroupAttr>(entry))
          groups.push_back(group);
      break;
    }
  return groups;
}

GroupAttr mlir::te::lookupGroup(Operation *op, int64_t id) {
  for (GroupAttr group : getGroups(op))
    if (group.getId() == id)
      return group;
  return {};
}

LogicalResult GroupAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                int64_t id, StringRef name, StringRef axis,
                                int64_t size) {
  // group-c1
  if (id < 0)
    return emitError() << "expected 'id' not to be negative, but got " << id;
  if (size < 1 || size > kMaxRanks)
    return emitError() << "expected 'size' to be from 1 to " << kMaxRanks
                       << ", but got " << size;
  // group-c2
  if (name.empty() || axis.empty())
    return emitError() << "expected 'name' and 'axis' not to be empty, but got "
                          "'"
                       << name << "' and '" << axis << "'";
  return success();
}

LogicalResult ShardAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                int64_t axis, int64_t group) {
  // shard-c1
  if (axis < 0 || group < 0)
    return emitError()
           << "expected 'axis' and 'group' not to be negative, but got " << axis
           << " and " << group;
  return success();
}

FailureOr<GroupAttr> te::verifyGroup(Operation *op, int64_t id) {
  if (GroupAttr group = lookupGroup(op, id))
    return group;
  InFlightDiagnostic diagnostic = op->emitOpError();
  diagnostic << "expected group " << id
             << " to be declared in 'te.groups' of the module, which has ";
  SmallVector<GroupAttr> groups = getGroups(op);
  if (groups.empty())
    diagnostic << "none";
  llvm::interleaveComma(groups, diagnostic, [&](GroupAttr group) {
    diagnostic << group.getId() << " ('" << group.getName() << "')";
  });
  return diagnostic;
}

LogicalResult te::verifyGroupsAttr(Operation *op, Attribute value) {
  // groups-c1
  auto array = dyn_cast<ArrayAttr>(value);
  if (!isa<ModuleOp>(op) || !array ||
      !llvm::all_of(array, llvm::IsaPred<GroupAttr>))
    return op->emitError() << "expected 'te.groups' to be an array of "
                              "#te.group<...> on a module, but got "
                           << value << " on '" << op->getName() << "'";
  // groups-c2
  for (auto [i, entry] : llvm::enumerate(array))
    for (Attribute before : array.getValue().take_front(i)) {
      auto a = cast<GroupAttr>(before), b = cast<GroupAttr>(entry);
      if (a.getId() == b.getId() || a.getName() == b.getName())
        return op->emitError()
               << "expected groups to have different ids and names, but got "
               << a << " and " << b;
      if (a.getAxis() == b.getAxis() && a.getSize() != b.getSize())
        return op->emitError()
               << "expected groups along one axis to have one size, but got "
               << a << " and " << b;
    }
  return success();
}

LogicalResult te::verifyShardingAttr(Operation *op, Attribute value,
                                     Type type) {
  // sharding-c1
  auto array = dyn_cast<ArrayAttr>(value);
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto scaled = dyn_cast<ScaledType>(type);
  if (!array || !llvm::all_of(array, llvm::IsaPred<ShardAttr>) ||
      (!tensor && !scaled))
    return op->emitError() << "expected 'te.sharding' to be an array of "
                              "#te.shard<...> on a tensor or a scaled value, "
                              "but got "
                           << value << " on " << type;
  // sharding-c2
  const int64_t rank = tensor ? tensor.getRank() : scaled.getShape().size();
  for (auto [i, entry] : llvm::enumerate(array)) {
    auto shard = cast<ShardAttr>(entry);
    if (shard.getAxis() >= rank)
      return op->emitError() << "expected 'axis' of 'te.sharding' to be one of "
                             << type << ", but got " << shard.getAxis();
    if (!lookupGroup(op, shard.getGroup()))
      return op->emitError()
             << "expected 'te.groups' to declare the group of 'te.sharding', "
                "but got "
             << shard.getGroup();
    for (Attribute before : array.getValue().take_front(i))
      if (auto other = cast<ShardAttr>(before);
          other.getGroup() == shard.getGroup())
        return op->emitError() << "expected 'te.sharding' to name each group "
                                  "once at most, but got "
                               << other << " and " << shard;
  }
  return success();
}

int64_t mlir::te::getNumRanks(Operation *op) {
  uint64_t ranks = 1;
  llvm::StringSet<> axes;
  for (GroupAttr group : getGroups(op))
    if (axes.insert(group.getAxis()).second)
      ranks = llvm::SaturatingMultiply<uint64_t>(ranks, group.getSize());
  return std::min<uint64_t>(ranks, std::numeric_limits<int64_t>::max());
}

LogicalResult te::verifyRanksAttr(Operation *op, Attribute value) {
  // ranks-c1
  auto array = dyn_cast<DenseI64ArrayAttr>(value);
  if (!isa<ModuleOp>(op) || !array)
    return op->emitError() << "expected 'te.ranks' to be an array of i64 on a "
                              "module, but got "
                           << value << " on '" << op->getName() << "'";
  const int64_t numRanks = getNumRanks(op);
  SmallVector<int64_t> ranks(array.asArrayRef());
  llvm::sort(ranks);
  for (auto [i, rank] : llvm::enumerate(ranks)) {
    if (rank < 0 || rank >= numRanks)
      return op->emitError() << "expected 'te.ranks' to hold ranks from 0 to "
                             << numRanks - 1 << ", but got " << rank;
    if (i > 0 && ranks[i - 1] == rank)
      return op->emitError()
             << "expected 'te.ranks' to hold each rank once, but got " << rank
             << " twice";
  }
  return success();
}
