//===- LaunchEmitter.h - te ops as kernel launches ------------------------===//
//
// Knows for every te, arith, math and tensor op which kernel of the runtime
// computes it, and on which buffers. Visits ops in program order and appends
// launches at the builder's position; every result gets a fresh temporary.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_SCHEDULE_LAUNCHEMITTER_H
#define TE_TRANSFORMS_SCHEDULE_LAUNCHEMITTER_H

#include "TEDialect/IR/TE.h"
#include "TEDialect/TERT/TERT.h"

#include "llvm/ADT/StringMap.h"

namespace mlir::te {

/// The buffers of one value: the value itself, or data, scale and (nv) amax.
using Buffers = SmallVector<Value, 2>;

class LaunchEmitter {
public:
  /// `block` is read once for the names of residuals.
  LaunchEmitter(OpBuilder &builder, Block &block);

  /// Says where a function argument is.
  void bind(Value value, Buffers buffers);

  /// Where `value` is. A constant is filled at the builder's position the
  /// first time it is asked for.
  FailureOr<Buffers> lookup(Value value);

  /// Appends the launches of `op` and binds its results.
  LogicalResult emit(Operation *op);

  /// Appends a copy between buffers of equal size.
  tert::LaunchOp copy(Location loc, Value from, Value to);

  /// A temporary that names itself after `name`.
  Value alloc(Location loc, StringRef name, tert::Cause cause, int64_t bytes);

private:
  struct Call;

  LogicalResult emitPointwise(Operation *op, int32_t kind);
  LogicalResult emitConstant(Operation *op);
  LogicalResult emitQuantize(QuantizeOp op);
  LogicalResult emitQuantizeShard(QuantizeOp op);
  LogicalResult emitDequantize(DequantizeOp op);
  LogicalResult emitGroupedQuantize(QuantizeOp op);
  LogicalResult emitGroupedDequantize(DequantizeOp op);
  LogicalResult emitGroupSizes(Operation *op, DenseElementsAttr sizes);
  LogicalResult emitSwizzle(SwizzleScalesOp op);
  LogicalResult emitCount(CountNonfiniteOp op);
  LogicalResult emitCast(Operation *op, bool &isKnown);
  LogicalResult emitAllGather(AllGatherOp op);
  LogicalResult emitAllToAll(AllToAllOp op);
  LogicalResult emitReduceScatter(ReduceScatterOp op);
  LogicalResult emitAmaxReduce(AmaxReduceOp op);
  /// From one part to the next, and from row to row, in bytes.
  struct StridesOfParts {
    int64_t part, row;
  };
  /// Copies an axis of `wholeCount` units, `count` to a part, between parts and
  /// the whole, row by row: full parts, then what the last one has of it.
  LogicalResult copyParts(Operation *op, Value x, Value y, int64_t rows,
                          int64_t unitBytes, int64_t count, int64_t wholeCount,
                          StridesOfParts from, StridesOfParts to);
  LogicalResult fillZeros(Operation *op, Value buffer);
  LogicalResult emitCollective(Operation *op, bool &isKnown);
  LogicalResult emitProduct(Operation *op, bool &isKnown);
  LogicalResult emitGrouped(Operation *op, bool &isKnown);
  LogicalResult emitMoe(Operation *op, bool &isKnown);
  LogicalResult emitPermute(Operation *op);
  LogicalResult emitLayer(Operation *op, bool &isKnown);
  LogicalResult emitAttention(Operation *op, bool &isKnown);
  LogicalResult emitOptimizer(Operation *op, bool &isKnown);
  LogicalResult emitProbe(Operation *op, bool &isKnown);

  /// `bytes` of `buffer` from `offset` on.
  Value slice(Location loc, Value buffer, int64_t offset, int64_t bytes);
  /// Where `amax` goes, if it is reduced together with others; else null.
  Value placeOf(Location loc, Value amax);

  tert::Cause causeOf(Operation *op, Value result) const;
  std::string uniqueName(StringRef name);
  std::string baseName(Operation *op);

  OpBuilder &builder;
  DenseMap<Value, Buffers> bindings;
  /// Name of the te.residual that holds a value, keyed by the value behind
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

/// The value that `value` is a view of: itself, or what te.residual and
/// reshapes look at.
Value lookThroughViews(Value value);

} // namespace mlir::te

#endif // TE_TRANSFORMS_SCHEDULE_LAUNCHEMITTER_H
