//===- Passes.h - what a step saves, and where it sums gradients ----------===//

#ifndef TEDIALECT_TRANSFORMS_RESIDUALS_PASSES_H
#define TEDIALECT_TRANSFORMS_RESIDUALS_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::te {

#define GEN_PASS_DECL
#include "TEDialect/Transforms/Residuals/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "TEDialect/Transforms/Residuals/Passes.h.inc"

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_RESIDUALS_PASSES_H
