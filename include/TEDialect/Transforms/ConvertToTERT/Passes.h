//===- Passes.h - from ops on tensors to launches on buffers --------------===//

#ifndef TEDIALECT_TRANSFORMS_CONVERTTOTERT_PASSES_H
#define TEDIALECT_TRANSFORMS_CONVERTTOTERT_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::te {

#define GEN_PASS_DECL
#include "TEDialect/Transforms/ConvertToTERT/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "TEDialect/Transforms/ConvertToTERT/Passes.h.inc"

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_CONVERTTOTERT_PASSES_H
