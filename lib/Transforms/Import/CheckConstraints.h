//===- CheckConstraints.h - every violation of a step at once -------------===//

#ifndef TE_TRANSFORMS_IMPORT_CHECKCONSTRAINTS_H
#define TE_TRANSFORMS_IMPORT_CHECKCONSTRAINTS_H

#include "TEDialect/Analysis/StepConstraints.h"

namespace mlir::te {

/// Reports, each at its layer, whatever the recipes' kernels cannot take on
/// `target`. Returns how much that is. Layers of dynamic shape are skipped.
unsigned reportConstraintViolations(ModuleOp module, StepTarget target,
                                    bool asWarnings);

/// The options `target` and `emulate` of `pass`; an error that lists the known
/// targets.
FailureOr<StepTarget> parseStepTarget(MLIRContext *context, StringRef pass,
                                      StringRef target, bool emulate);

} // namespace mlir::te

#endif // TE_TRANSFORMS_IMPORT_CHECKCONSTRAINTS_H
