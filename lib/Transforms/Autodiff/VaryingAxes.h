//===- VaryingAxes.h - over which axes of the mesh a value varies ---------===//
//
// A value is the same on all ranks along an axis of the mesh, or it is not: a
// part of something, or a summand. Gradients of what is the same are not: each
// rank has a summand, and te-differentiate adds them.
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

  /// Of the groups in force at `op`; those of one rank have no axis.
  explicit VaryingAxes(Operation *op);

  bool empty() const { return groups.empty(); }
  Bits get(Value value) const { return bits.lookup(value); }
  void set(Value value, Bits axes) { bits[value] = axes; }

  /// What the sharding of the arguments of `function` says, and what the
  /// parallel layers that read them imply.
  void visitArguments(func::FuncOp function);
  /// Sets the results of `op` by its operands.
  void visit(Operation *op);
  /// The axis of group `id`; 0 where it has one rank.
  Bits axisOf(int64_t id) const;

  /// A group along each axis.
  ArrayRef<GroupAttr> getGroups() const { return groups; }

private:
  SmallVector<GroupAttr> groups;
  SmallVector<GroupAttr> declared;
  DenseMap<Value, Bits> bits;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_AUTODIFF_VARYINGAXES_H
