//===- OperandCasts.h - the cast of one operand, at one place -------------===//
//
// These are the ops that cast one operand as its recipe requires: an amax and a
// scale, zeros between groups, a rotation, and the cast. CastPlacement decides
// where these ops go. Equal casts have equal operands, so cse merges them.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_QUANTIZE_OPERANDCASTS_H
#define TE_TRANSFORMS_QUANTIZE_OPERANDCASTS_H

#include "DelayedSlots.h"

namespace mlir::te {

/// The type that `operand` is cast to, with its padding; for a part, the type
/// of the part's cast.
ScaledType castTypeOf(const Operand &operand, const QuantPolicy &policy);

class OperandCasts {
public:
  /// `states` and `slots` must outlive the casts.
  OperandCasts(StateThreading &states, DelayedSlots &slots)
      : states(states), slots(slots) {}

  /// Casts `operand` for the axis along which it is contracted, at the
  /// builder's position.
  Value create(OpBuilder &builder, const Operand &operand, const Layer &layer);

  /// Dequantises `scaled`, the cast of `operand`, with its padding.
  Value dequantize(OpBuilder &builder, Value scaled, const Operand &operand);

  /// Advances the random state at the builder's position if a cast used it.
  /// Call it once, after the last cast.
  void finish(OpBuilder &builder);

private:
  /// Casts `source`, which replaces the operand's value, at the builder's
  /// position.
  Value quantize(OpBuilder &builder, Value source, const Operand &operand,
                 const Layer &layer);
  /// Does what `quantize` does, for the FP4 type `type`.
  Value quantizeToFP4(OpBuilder &builder, Value source, const Operand &operand,
                      ScaledType type, const Layer &layer);
  /// The random state; the first call adds it as an argument of the step.
  Value randomState(OpBuilder &builder);

  StateThreading &states;
  DelayedSlots &slots;
  /// The state for stochastic rounding, and the stream of each cast.
  Value rngState;
  std::string rngName;
  DenseMap<std::pair<Value, unsigned>, int32_t> streams;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_QUANTIZE_OPERANDCASTS_H
