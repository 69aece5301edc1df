//===- Groups.h - the process groups of a compiled step -------------------===//

#ifndef TEDIALECT_TERT_GROUPS_H
#define TEDIALECT_TERT_GROUPS_H

#include "llvm/ADT/StringRef.h"

namespace mlir::tert {

/// On the module of a step, in place of `te.groups`: an array with a dictionary
/// {id, name, axis, size} for each group, for who binds communicators.
inline constexpr llvm::StringLiteral kGroupsAttr = "tert.groups";

} // namespace mlir::tert

#endif // TEDIALECT_TERT_GROUPS_H
