//===- Regions.h - what forms regions of elementwise ops ------------------===//

#ifndef TE_TRANSFORMS_CONVERTTOTERT_REGIONS_H
#define TE_TRANSFORMS_CONVERTTOTERT_REGIONS_H

#include "mlir/IR/Block.h"

namespace mlir::te {

/// Writes te.zero_unused as a select, gives each select a comparison of its
/// own, and brings sums into forms that have kernels.
void prepareRegions(Block &block);

} // namespace mlir::te

#endif // TE_TRANSFORMS_CONVERTTOTERT_REGIONS_H
