//===- DelayedSlots.h - the scales that delayed scaling carries -----------===//
//
// A cast of delayed scaling takes its scale from a state of the step. There is
// one slot for each tensor that is cast, however many GEMMs read it: its
// history of amaxes and its scale are arguments of the function, its amax is
// taken where its first cast is, and the next history and scale are results.
// A calibration has the same slots and amaxes, and no casts.
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

  /// The scale that former steps left for `operand` of `layer`. A tensor that
  /// has no slot yet gets one, and its amax is taken at the builder's position.
  /// Precondition: the function is one block.
  Value scaleFor(OpBuilder &builder, const Operand &operand,
                 const Layer &layer);

  /// Makes the next states of all slots, at the builder's position, which is
  /// behind all amaxes. All ranks take the maximum over all ranks, so that all
  /// have one state.
  void update(OpBuilder &builder);

private:
  /// Tensor, role, sizes of groups (one for equal constants), their alignment,
  /// and recipe of the reader: one tensor may be read in two formats, and in
  /// groups of two sizes.
  using Key = std::tuple<Value, unsigned, const void *, int64_t, RecipeAttr>;
  struct Slot {
    /// Of its states, before their suffixes.
    std::string name;
    Value history, scale;
    /// Of this step.
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
