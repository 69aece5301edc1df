//===- Passes.h - passes of the schedule stage --------------------------===//

#ifndef TEDIALECT_TRANSFORMS_SCHEDULE_PASSES_H
#define TEDIALECT_TRANSFORMS_SCHEDULE_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::te {

#define GEN_PASS_DECL
#include "TEDialect/Transforms/Schedule/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "TEDialect/Transforms/Schedule/Passes.h.inc"

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_SCHEDULE_PASSES_H
