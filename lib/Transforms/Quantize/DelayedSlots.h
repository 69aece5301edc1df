//===- DelayedSlots.h - the scales that delayed scaling carries -----------===//
//
// A cast of delayed scaling reads its scale from a state of the step. Each
// tensor that is cast has one slot, regardless of how many GEMMs read it: its
// amax history and its scale are arguments of the function, its amax is
// measured at its first cast, and the next history and scale are results. A
// calibration has the same slots and amaxes, but no casts.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_QUANTIZE_DELAYEDSLOTS_H
#define TE_TRANSFORMS_QUANTIZE_DELAYEDSLOTS_H

#include "LayerGemms.h"
#include "TEDialect/Transforms/Utils/State.h"

#include "llvm/ADT/MapVector.h"

namespace mlir::te {

class DelayedSlots {
public:
  /// `states` outlives the slots; its owner calls finish() after update().
  DelayedSlots(func::FuncOp function, StateThreading &states)
      : function(function), states(states) {}

  /// Returns the scale that earlier steps computed for `operand` of `layer`. A
  /// tensor without a slot gets one, and its amax is measured at the builder's
  /// position. Precondition: the function is one block.
  Value scaleFor(OpBuilder &builder, const Operand &operand,
                 const Layer &layer);

  /// Computes the next states of all slots at the builder's position, which is
  /// after all amaxes. Every rank uses the maximum over all ranks, so that all
  /// ranks have the same state.
  void update(OpBuilder &builder);

private:
  /// Tensor, role, sizes of groups (one key for equal constants), their
  /// alignment, and the recipe of the reader, because one tensor may be read in
  /// two formats, and in groups of two sizes.
  using Key = std::tuple<Value, unsigned, const void *, int64_t, RecipeAttr>;
  struct Slot {
    /// The name of its states without their suffixes.
    std::string name;
    Value history, scale;
    /// The amax of this step.
    Value amax;
    Type elementType;
  };

  Key keyOf(const Operand &operand, RecipeAttr recipe);
  Value reduceOverAll(OpBuilder &builder, Value amax, RecipeAttr recipe);

  func::FuncOp function;
  StateThreading &states;
  llvm::MapVector<Key, Slot> slots;
  /// The first rounding of a tensor to a type.
  DenseMap<std::pair<Value, Type>, Value> roundings;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_QUANTIZE_DELAYEDSLOTS_H
