//===- Passes.h - from a frontend's file to checked te --------------------===//

#ifndef TEDIALECT_TRANSFORMS_IMPORT_PASSES_H
#define TEDIALECT_TRANSFORMS_IMPORT_PASSES_H

#include "TEDialect/IR/TE.h"

#include "mlir/Pass/Pass.h"

namespace mlir::te {

#define GEN_PASS_DECL
#include "TEDialect/Transforms/Import/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "TEDialect/Transforms/Import/Passes.h.inc"

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_IMPORT_PASSES_H
