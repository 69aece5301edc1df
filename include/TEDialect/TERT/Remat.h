//===- Remat.h - what was recomputed, for reports -------------------------===//

#ifndef TEDIALECT_TERT_REMAT_H
#define TEDIALECT_TERT_REMAT_H

#include "llvm/ADT/StringRef.h"

namespace mlir::tert {

/// On a function: a dictionary with the decisions of te-rematerialize, which
/// te-report-memory prints.
inline constexpr llvm::StringLiteral kRematAttr = "tert.remat";

} // namespace mlir::tert

#endif // TEDIALECT_TERT_REMAT_H
