//===- Regions.h - what forms regions of elementwise ops ------------------===//

#ifndef TE_TRANSFORMS_CONVERTTOTERT_REGIONS_H
#define TE_TRANSFORMS_CONVERTTOTERT_REGIONS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Block.h"

namespace mlir::te {

/// Writes te.zero_unused as a select and te.softmax and its gradient as ops on
/// elements and rows, gives each select a comparison of its own, and brings
/// sums into forms that have kernels, maxima and minima into maxima of rows.
void prepareRegions(Block &block);

/// Reshapes `value`, which has one dimension or becomes one.
Value reshapeFlat(OpBuilder &b, Location loc, Value value,
                  RankedTensorType type);

/// `value` as a tensor of one dimension.
Value flatten(OpBuilder &b, Location loc, Value value);

/// On maxima and the sums of a softmax: they belong to a region even if their
/// rows are short.
inline constexpr StringLiteral kInRegion = "te.in_region";

} // namespace mlir::te

#endif // TE_TRANSFORMS_CONVERTTOTERT_REGIONS_H
