//===- Inline.h - what inlining must not lose -----------------------------===//

#ifndef TEDIALECT_TRANSFORMS_UTILS_INLINE_H
#define TEDIALECT_TRANSFORMS_UTILS_INLINE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::te {

/// Writes the recipe in force in `function` onto the linear layers of `copy`, a
/// copy of it, unless it is in force at `destination` as well. Without this,
/// inlining would silently change how those layers are quantised.
void pinRecipes(func::FuncOp copy, func::FuncOp function,
                Operation *destination);

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_UTILS_INLINE_H
