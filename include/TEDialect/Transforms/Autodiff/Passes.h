//===- Passes.h - from derivatives to straight-line backward code ---------===//

#ifndef TEDIALECT_TRANSFORMS_AUTODIFF_PASSES_H
#define TEDIALECT_TRANSFORMS_AUTODIFF_PASSES_H

#include "TEDialect/IR/TE.h"

#include "mlir/Pass/Pass.h"

namespace mlir::te {

#define GEN_PASS_DECL
#include "TEDialect/Transforms/Autodiff/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "TEDialect/Transforms/Autodiff/Passes.h.inc"

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_AUTODIFF_PASSES_H
