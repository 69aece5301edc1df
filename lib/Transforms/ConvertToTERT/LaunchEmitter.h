//===- LaunchEmitter.h - te ops as kernel launches ------------------------===//
//
// The emitter visits ops in program order and appends launches at the builder's
// position; every result gets a new temporary. The KernelOpInterface of an op
// decides which kernel computes it.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_CONVERTTOTERT_LAUNCHEMITTER_H
#define TE_TRANSFORMS_CONVERTTOTERT_LAUNCHEMITTER_H

#include "TEDialect/IR/TE.h"
#include "TEDialect/TERT/RuntimeTypes.h"
#include "TEDialect/TERT/TERT.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
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

  /// Sets the buffers of a value.
  void bind(Value value, Buffers buffers);

  /// Returns the buffers of `value`. A constant is filled at the builder's
  /// position at its first lookup.
  FailureOr<Buffers> lookup(Value value);

  /// Appends the launches of `op` and binds its results.
  LogicalResult emit(Operation *op);

  // The models of KernelOpInterface use the following, mostly through
  // LaunchCall.

  /// Appends a copy between buffers of equal size.
  tert::LaunchOp copy(Location loc, Value from, Value to);
  /// Allocates a temporary with a unique name that starts with `name`.
  Value alloc(Location loc, StringRef name, tert::Cause cause, int64_t bytes);
  /// Returns `bytes` of `buffer`, which may be a slice, starting at `offset`.
  Value slice(Location loc, Value buffer, int64_t offset, int64_t bytes);
  /// The buffer that stands for an absent one.
  Value getNull(Location loc);

  /// "<layer>.<kind of op>", the start of the names of temporaries of `op`.
  std::string baseName(Operation *op);
  /// The name of the residual that saves `value`, or else `baseName` of `op`.
  std::string baseName(Operation *op, Value value);
  /// The name of the residual that saves `value`, or "".
  StringRef getResidualName(Value value) const {
    return residualNames.lookup(value);
  }
  tert::Cause causeOf(Operation *op, Value result) const;

  /// Sets the buffers that the next launch which computes `result` must write.
  void place(Value result, Buffers buffers) {
    places[result] = std::move(buffers);
  }
  /// Removes and returns these buffers; none if they were not set.
  Buffers takePlace(Value result);

  /// Allocates one buffer of `result` of `op`, with the name of the residual
  /// that saves it or else `name`.
  Value allocPart(Operation *op, Value result, const tert::BufferLayout &part,
                  StringRef name);

  /// The memory that the operands of `op` are computed in, if one of them was:
  /// one after the other, so that of the result if they are its rows; else
  /// null.
  Value getJoined(tensor::ConcatOp op) const { return joined.lookup(op); }

  /// The buffer that `amax` must be written to if it is reduced together with
  /// others; else null.
  Value placeOf(Location loc, Value amax);
  /// The buffer of all amaxes that `reduce` reduces together, if one of them
  /// was computed; else null.
  Value getPacked(AmaxReduceOp reduce) const { return packed.lookup(reduce); }

  OpBuilder &getBuilder() { return builder; }

private:
  void findJoined(tensor::ConcatOp op);
  Value placeInJoined(Location loc, Value part);
  std::string uniqueName(StringRef name);

  OpBuilder &builder;
  DenseMap<Value, Buffers> bindings;
  /// Name of the te.residual that saves a value. The key is the value that
  /// views look at.
  DenseMap<Value, StringRef> residualNames;
  DenseMap<Value, Buffers> places;
  /// For each amax, the first te.amax_reduce of several amaxes that reads it,
  /// and the byte offset of the amax there.
  DenseMap<Value, std::pair<AmaxReduceOp, int64_t>> amaxPlaces;
  /// The buffer of the amaxes of such an op, once one of them was computed.
  DenseMap<Operation *, Value> packed;
  /// For each value that a tensor.concat joins, and that is computed where it
  /// is joined: the op, and the byte offset of the value.
  DenseMap<Value, std::pair<tensor::ConcatOp, int64_t>> joinedPlaces;
  DenseMap<Operation *, Value> joined;
  llvm::StringMap<unsigned> nameCounts;
  Value null;
  bool inBackward = false;
};

/// Reports that `op` should have been replaced before launches are emitted.
LogicalResult refuseLaunch(Operation *op);

/// The value that `value` is a view of, through te.residual and reshapes;
/// `value` itself if it is not a view.
Value lookThroughViews(Value value);

} // namespace mlir::te

#endif // TE_TRANSFORMS_CONVERTTOTERT_LAUNCHEMITTER_H
