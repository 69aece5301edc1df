//===- LaunchEmitter.h - te ops as kernel launches ------------------------===//
//
// Visits ops in program order and appends launches at the builder's position;
// every result gets a fresh temporary. Which kernel computes an op is said by
// its KernelOpInterface.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_CONVERTTOTERT_LAUNCHEMITTER_H
#define TE_TRANSFORMS_CONVERTTOTERT_LAUNCHEMITTER_H

#include "TEDialect/IR/TE.h"
#include "TEDialect/TERT/TERT.h"

#include "llvm/ADT/StringMap.h"

namespace mlir::te {
class LaunchEmitter;
} // namespace mlir::te

#include "TEDialect/Transforms/ConvertToTERT/KernelOpInterface.h.inc"

namespace mlir::te {

/// The buffers of one value: the value itself, or data, scale and (nv) amax.
using Buffers = SmallVector<Value, 2>;

class LaunchEmitter {
public:
  /// `block` is read once for the names of residuals.
  LaunchEmitter(OpBuilder &builder, Block &block);

  /// Says where a value is.
  void bind(Value value, Buffers buffers);

  /// Where `value` is. A constant is filled at the builder's position the
  /// first time it is asked for.
  FailureOr<Buffers> lookup(Value value);

  /// Appends the launches of `op` and binds its results.
  LogicalResult emit(Operation *op);

  // What the models of KernelOpInterface use; most of it through LaunchCall.

  /// Appends a copy between buffers of equal size.
  tert::LaunchOp copy(Location loc, Value from, Value to);
  /// A temporary that names itself after `name`.
  Value alloc(Location loc, StringRef name, tert::Cause cause, int64_t bytes);
  /// `bytes` of `buffer` from `offset` on.
  Value slice(Location loc, Value buffer, int64_t offset, int64_t bytes);
  /// The buffer that stands for an absent one.
  Value getNull(Location loc);

  /// "<layer>.<kind of op>", which the names of temporaries of `op` start with.
  std::string baseName(Operation *op);
  /// The name of the residual that saves `value`, or else `baseName` of `op`.
  std::string baseName(Operation *op, Value value);
  /// The name of the residual that saves `value`, or "".
  StringRef getResidualName(Value value) const {
    return residualNames.lookup(value);
  }
  tert::Cause causeOf(Operation *op, Value result) const;

  /// Where `amax` goes, if it is reduced together with others; else null.
  Value placeOf(Location loc, Value amax);
  /// The amaxes that `reduce` reduces together, if one was made; else null.
  Value getPacked(AmaxReduceOp reduce) const { return packed.lookup(reduce); }

  OpBuilder &getBuilder() { return builder; }

private:
  std::string uniqueName(StringRef name);

  OpBuilder &builder;
  DenseMap<Value, Buffers> bindings;
  /// Name of the te.residual that saves a value, keyed by the value behind
  /// views.
  DenseMap<Value, StringRef> residualNames;
  /// By amax: the te.amax_reduce of several that reads it first, and at which
  /// byte.
  DenseMap<Value, std::pair<AmaxReduceOp, int64_t>> places;
  /// The amaxes of such an op, once one was made.
  DenseMap<Operation *, Value> packed;
  llvm::StringMap<unsigned> nameCounts;
  Value null;
  bool inBackward = false;
};

/// Reports that `op` should have been replaced before launches are emitted.
LogicalResult refuseLaunch(Operation *op);

/// The value that `value` is a view of: itself, or what te.residual and
/// reshapes look at.
Value lookThroughViews(Value value);

} // namespace mlir::te

#endif // TE_TRANSFORMS_CONVERTTOTERT_LAUNCHEMITTER_H
