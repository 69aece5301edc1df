//===- Regions.h - what forms regions of elementwise ops ------------------===//

#ifndef TE_TRANSFORMS_CONVERTTOTERT_REGIONS_H
#define TE_TRANSFORMS_CONVERTTOTERT_REGIONS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Block.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::te {

/// Writes te.zero_unused as a select and te.softmax and its gradient as ops on
/// elements and rows, gives each select a comparison of its own, and brings
/// sums into forms that have kernels, maxima and minima into maxima of rows.
/// With `movesRounding`, rows of a table that only te.embedding reads are
/// looked up before they are rounded, if this moves fewer bytes.
void prepareRegions(Block &block, bool movesRounding);

/// The largest cost of a region, as a multiple of one addition. It bounds the
/// time to compile the region.
inline constexpr unsigned kMostCost = 64;

/// Whether `op` is elementwise or a reduction of rows, and the code generator
/// supports it.
bool isFusible(Operation &op);

/// The operands of an op of a region of which it reads one element for each of
/// its result: all but the random state of a dropout. A reduction reads all
/// elements of its first operand.
OperandRange elementsOf(Operation *op);

int64_t countOf(Value value);
/// The elements that a region computes for `op`.
int64_t countOf(Operation *op);

using OpsOfChain = llvm::SmallSetVector<Operation *, 16>;

/// The ops of the softmax that begins with `maximum`, which one region should
/// compute: what is subtracted from elements, sums of what is computed of
/// these, and quotients, with the ops that make the elements of narrower ones.
/// Empty if nothing is summed, or a region has no room for it.
OpsOfChain findSoftmax(linalg::ReduceOp maximum,
                       function_ref<Value(Value)> getSource,
                       function_ref<ArrayRef<Operation *>(Value)> getUsers);

/// Reshapes `value`, which has one dimension or becomes one.
Value reshapeFlat(OpBuilder &b, Location loc, Value value,
                  RankedTensorType type);

/// `value` as a tensor of one dimension.
Value flatten(OpBuilder &b, Location loc, Value value);

/// Replaces slices of arguments that ops read from memory: by slices of flat
/// tensors that are read in place, or by copies of at most `mostTogether`.
void sliceArguments(Block &block, unsigned mostTogether);

/// On slices of flat tensors that are read in place.
inline constexpr StringLiteral kInPlace = "te.in_place";

/// On maxima and the sums of a softmax: they belong to a region even if their
/// rows are short.
inline constexpr StringLiteral kInRegion = "te.in_region";

} // namespace mlir::te

#endif // TE_TRANSFORMS_CONVERTTOTERT_REGIONS_H
