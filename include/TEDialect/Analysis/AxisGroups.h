//===- AxisGroups.h - tensor axes of a step that have one size ------------===//
//
// Padding one tensor pads every tensor it meets: the rows of an activation are
// those of the layer before it. Axes that must stay equal form a group, and a
// gated activation ties the columns of its input to twice those of its result.
// The multiple of a group is the least common one of all demands on its
// members, so padding every group to it fixes the whole step at once.
//
// Which axes an op ties is its AxisRelationOpInterface's to say. An axis that
// it relates to none counts as one of its own.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_ANALYSIS_AXISGROUPS_H
#define TEDIALECT_ANALYSIS_AXISGROUPS_H

#include "TEDialect/IR/TE.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::te {

/// Axis `axis` of the tensor `value`.
struct TensorAxis {
  Value value;
  unsigned axis;

  int64_t size() const {
    return cast<ShapedType>(value.getType()).getDimSize(axis);
  }
  /// "rows", "columns", or "elements" of a vector.
  StringRef name() const;
};

class AxisGroups {
public:
  explicit AxisGroups(ModuleOp module);

  /// The size of `axis` is to be a multiple of `multiple`.
  void require(TensorAxis axis, int64_t multiple);
  /// Carries demands across gated activations; after the last `require`.
  void settle();

  /// What was demanded of any axis of its group.
  int64_t multiple(TensorAxis axis);
  /// The size of `axis` once the step is padded.
  int64_t padded(TensorAxis axis);
  /// A number that the axes of one group share.
  unsigned group(TensorAxis axis);
  /// The arguments of functions in the group, in program order; where some have
  /// a `te.name`, only those.
  SmallVector<TensorAxis> arguments(TensorAxis axis);

private:
  void tie(Operation *op);
  void tie(TensorAxis a, TensorAxis b);
  void tieCall(VjpOp op);

  unsigned idOf(TensorAxis axis);
  unsigned rootOf(unsigned id);

  ModuleOp module;
  DenseMap<std::pair<Value, unsigned>, unsigned> ids;
  /// By id: a member nearer to the root, and the demand on a root.
  SmallVector<unsigned> parents;
  SmallVector<int64_t> multiples;
  /// (ids) the first axis is twice the second.
  SmallVector<std::pair<unsigned, unsigned>> doubles;
};

} // namespace mlir::te

#endif // TEDIALECT_ANALYSIS_AXISGROUPS_H
