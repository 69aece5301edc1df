//===- GemmOrigin.h - which layer and rule a GEMM came from ---------------===//
//
// After te-insert-casts a matrix product no longer says that it is, say, the
// dgrad of layer 'w1' under an override. That is kept where it cannot change
// meaning: as metadata of the op's location.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_ANALYSIS_GEMMORIGIN_H
#define TEDIALECT_ANALYSIS_GEMMORIGIN_H

#include "TEDialect/Analysis/QuantPolicy.h"

namespace mlir::te {

struct GemmOrigin {
  /// The layer, as reports call it.
  std::string layer;
  /// "fprop", "dgrad" or "wgrad".
  std::string gemm;
  /// Why the GEMM has its precision.
  std::string reason;
  /// True when the recipe asked for quantised operands and did not get them.
  bool fallback = false;

  /// `loc` with this origin attached.
  Location attach(Location loc) const;
  /// The origin attached to `loc` or to a location inside it.
  static std::optional<GemmOrigin> find(Location loc);
};

/// The function argument that `value` is a copy, cast or usage of, possibly
/// with zeros at its end, or null.
BlockArgument traceToArgument(Value value);

/// The argument marked `te.weight` that `value` is a copy, cast or usage of, or
/// the first one that it is computed from where it is computed from nothing but
/// weights and constants. Else null.
BlockArgument findWeight(Value value);

/// True when `value` traces to an argument marked `te.weight`.
bool isWeight(Value value);

/// True for an amax of a weight, or one for each matrix of a stack, that the
/// step itself reads; one that it only returns is none of a cast.
bool measuresWeight(Operation *op);

/// What reports call `value`: the `te.name` of the argument it is, the name of
/// the residual, else its producer's name.
std::string describeValue(Value value);

/// The innermost name in `loc`, or empty.
std::string innermostName(Location loc);

/// What reports call the layer at `loc` with weight `weight`: the innermost
/// name in the location, else the weight's.
std::string describeLayer(Location loc, Value weight);

/// The first place in a source file inside `loc`, as "file:line:column", or "".
std::string describePlace(Location loc);

} // namespace mlir::te

#endif // TEDIALECT_ANALYSIS_GEMMORIGIN_H
