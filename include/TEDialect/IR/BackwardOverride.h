//===- BackwardOverride.h - the override of one place ---------------------===//
//
// Apart from the recipe it changes, an override is only an attribute of the
// input: te-assign-recipe replaces it, and nobody else needs to know its name.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_IR_BACKWARDOVERRIDE_H
#define TEDIALECT_IR_BACKWARDOVERRIDE_H

#include "llvm/ADT/StringRef.h"

namespace mlir::te {

/// A string: the name of a BackwardOverride, on a module, function or op.
inline constexpr llvm::StringLiteral kBackwardOverrideAttr =
    "te.backward_override";

} // namespace mlir::te

#endif // TEDIALECT_IR_BACKWARDOVERRIDE_H
