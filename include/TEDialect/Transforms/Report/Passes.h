//===- Passes.h - reports about a compiled step ---------------------------===//

#ifndef TEDIALECT_TRANSFORMS_REPORT_PASSES_H
#define TEDIALECT_TRANSFORMS_REPORT_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::te {

#define GEN_PASS_DECL
#include "TEDialect/Transforms/Report/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "TEDialect/Transforms/Report/Passes.h.inc"

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_REPORT_PASSES_H
