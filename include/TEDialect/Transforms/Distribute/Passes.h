//===- Passes.h - collectives of layers that are split over ranks ---------===//

#ifndef TEDIALECT_TRANSFORMS_DISTRIBUTE_PASSES_H
#define TEDIALECT_TRANSFORMS_DISTRIBUTE_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::te {

#define GEN_PASS_DECL
#include "TEDialect/Transforms/Distribute/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "TEDialect/Transforms/Distribute/Passes.h.inc"

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_DISTRIBUTE_PASSES_H
