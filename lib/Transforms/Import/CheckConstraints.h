//===- CheckConstraints.h - every size violation of a step at once --------===//

#ifndef TE_TRANSFORMS_IMPORT_CHECKCONSTRAINTS_H
#define TE_TRANSFORMS_IMPORT_CHECKCONSTRAINTS_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::te {

/// Reports, each at its layer, whatever the recipes' kernels cannot take.
/// Returns how much that is. Layers of dynamic shape are skipped.
unsigned reportConstraintViolations(ModuleOp module, bool asWarnings);

} // namespace mlir::te

#endif // TE_TRANSFORMS_IMPORT_CHECKCONSTRAINTS_H
