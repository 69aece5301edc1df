//===- OperandCasts.h - the cast of one operand, at one place -------------===//
//
// What ops an operand becomes when it is cast as its recipe says: an amax and a
// scale, zeros between groups, a rotation, and the cast. Where these ops go is
// CastPlacement; equal casts have equal operands, so cse merges them.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_QUANTIZE_OPERANDCASTS_H
#define TE_TRANSFORMS_QUANTIZE_OPERANDCASTS_H

#include "DelayedSlots.h"

namespace mlir::te {

/// The type that `operand` is cast to; of a part, the type of the part's cast.
ScaledType castTypeOf(const Operand &operand, const QuantPolicy &policy);

class OperandCasts {
public:
  /// `states` and `slots` outlive the casts.
  OperandCasts(StateThreading &states, DelayedSlots &slots)
      : states(states), slots(slots) {}

  /// `operand` cast for the axis it is contracted along, at the builder's
  /// position.
  Value create(OpBuilder &builder, const Operand &operand, const Layer &layer);

  /// The high-precision values of `scaled`, the cast of `operand`.
  Value dequantize(OpBuilder &builder, Value scaled, const Operand &operand);

  /// Advances the random state, if a cast drew from it, at the builder's
  /// position; call it once, after the last cast.
  void finish(OpBuilder &builder);

private:
  /// `source`, in place of the operand's value, cast at the builder's position.
  Value quantize(OpBuilder &builder, Value source, const Operand &operand,
                 const Layer &layer);
  /// As `quantize`, into the FP4 type `type`.
  Value quantizeToFP4(OpBuilder &builder, Value source, const Operand &operand,
                      ScaledType type, const Layer &layer);
  /// The random state, which the first caller makes an argument of the step.
  Value randomState(OpBuilder &builder);

  StateThreading &states;
  DelayedSlots &slots;
  /// What stochastic rounding draws from, and the stream of each cast.
  Value rngState;
  std::string rngName;
  DenseMap<std::pair<Value, unsigned>, int32_t> streams;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_QUANTIZE_OPERANDCASTS_H
