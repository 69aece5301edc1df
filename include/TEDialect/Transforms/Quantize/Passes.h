//===- Passes.h - casts and transposes as the recipe says ----------------===//

#ifndef TEDIALECT_TRANSFORMS_QUANTIZE_PASSES_H
#define TEDIALECT_TRANSFORMS_QUANTIZE_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::te {

#define GEN_PASS_DECL
#include "TEDialect/Transforms/Quantize/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "TEDialect/Transforms/Quantize/Passes.h.inc"

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_QUANTIZE_PASSES_H
