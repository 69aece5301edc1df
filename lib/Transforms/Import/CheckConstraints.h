//===- CheckConstraints.h - every violation of a step at once -------------===//

#ifndef TE_TRANSFORMS_IMPORT_CHECKCONSTRAINTS_H
#define TE_TRANSFORMS_IMPORT_CHECKCONSTRAINTS_H

#include "TEDialect/Analysis/StepConstraints.h"

namespace mlir::te {

/// Reports every constraint of the recipes' kernels on `target` that a layer
/// violates, at that layer. Returns the number of violations. Layers of dynamic
/// shape are skipped.
unsigned reportConstraintViolations(ModuleOp module, StepTarget target,
                                    bool asWarnings);

/// Parses the options `target` and `emulate` of `pass`; the error lists the
/// known targets.
FailureOr<StepTarget> parseStepTarget(MLIRContext *context, StringRef pass,
                                      StringRef target, bool emulate);

} // namespace mlir::te

#endif // TE_TRANSFORMS_IMPORT_CHECKCONSTRAINTS_H
