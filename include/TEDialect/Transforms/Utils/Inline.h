//===- Inline.h - keeps recipes when calls are inlined --------------------===//

#ifndef TEDIALECT_TRANSFORMS_UTILS_INLINE_H
#define TEDIALECT_TRANSFORMS_UTILS_INLINE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::te {

/// Sets the recipe in force in `function` on the linear layers of `copy`, which
/// is a copy of it, unless the same recipe is in force at `destination`.
/// Without this, inlining would silently change how those layers are quantised.
void pinRecipes(func::FuncOp copy, func::FuncOp function,
                Operation *destination);

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_UTILS_INLINE_H
