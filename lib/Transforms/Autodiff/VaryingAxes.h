//===- VaryingAxes.h - over which axes of the mesh a value varies ---------===//
//
// Along an axis of the mesh, a value is either the same on all ranks, or it
// varies because each rank has a part of it or a summand. The gradient of a
// value that is the same on all ranks does vary: each rank has a summand, and
// te-differentiate adds them.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_AUTODIFF_VARYINGAXES_H
#define TE_TRANSFORMS_AUTODIFF_VARYINGAXES_H

#include "TEDialect/IR/TE.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::te {

class VaryingAxes {
public:
  /// A bit for each axis, in the order of the groups that name them.
  using Bits = uint64_t;

  /// Uses the groups in force at `op`. Groups of one rank have no axis.
  explicit VaryingAxes(Operation *op);

  bool empty() const { return groups.empty(); }
  Bits get(Value value) const { return bits.lookup(value); }
  void set(Value value, Bits axes) { bits[value] = axes; }

  /// Sets the arguments of `function` from their sharding and from the parallel
  /// layers that read them.
  void visitArguments(func::FuncOp function);
  /// Sets the results of `op` from its operands.
  void visit(Operation *op);
  /// The axis of group `id`; 0 if the group has one rank.
  Bits axisOf(int64_t id) const;

  /// One group for each axis.
  ArrayRef<GroupAttr> getGroups() const { return groups; }

private:
  SmallVector<GroupAttr> groups;
  SmallVector<GroupAttr> declared;
  DenseMap<Value, Bits> bits;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_AUTODIFF_VARYINGAXES_H
