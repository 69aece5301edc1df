//===- Passes.h - ops that inspect the values of a step -------------------===//

#ifndef TEDIALECT_TRANSFORMS_INSTRUMENT_PASSES_H
#define TEDIALECT_TRANSFORMS_INSTRUMENT_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::te {

#define GEN_PASS_DECL
#include "TEDialect/Transforms/Instrument/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "TEDialect/Transforms/Instrument/Passes.h.inc"

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_INSTRUMENT_PASSES_H
