//===- Regions.h - what forms regions of elementwise ops ------------------===//

#ifndef TE_TRANSFORMS_CONVERTTOTERT_REGIONS_H
#define TE_TRANSFORMS_CONVERTTOTERT_REGIONS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Block.h"

namespace mlir::te {

/// Writes te.zero_unused as a select and te.softmax and its gradient as ops on
/// elements and rows, gives each select a comparison of its own, and brings
/// sums into forms that have kernels.
void prepareRegions(Block &block);

/// Whether `op` is the maximum of a row, and not a sum.
bool isMaximum(linalg::ReduceOp op);

/// On the reductions that prepareRegions makes: they belong to a region even if
/// their rows are short.
inline constexpr StringLiteral kInRegion = "te.in_region";

} // namespace mlir::te

#endif // TE_TRANSFORMS_CONVERTTOTERT_REGIONS_H
