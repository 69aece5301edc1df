//===- Passes.h - casts folded into their producers ----------------------===//

#ifndef TEDIALECT_TRANSFORMS_FUSE_PASSES_H
#define TEDIALECT_TRANSFORMS_FUSE_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::te {

#define GEN_PASS_DECL
#include "TEDialect/Transforms/Fuse/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "TEDialect/Transforms/Fuse/Passes.h.inc"

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_FUSE_PASSES_H
