//===- SideResults.h - results without a derivative -----------------------===//

#ifndef TEDIALECT_GRADIENTS_SIDERESULTS_H
#define TEDIALECT_GRADIENTS_SIDERESULTS_H

#include "TEDialect/IR/TE.h"

namespace mlir::te {

/// Fails when `side`, a result of `op` or null, has a cotangent: no rule goes
/// through rsigma, lse or amax.
LogicalResult expectNoCotangent(Operation *op, AdjointContext &adjoints,
                                Value side, StringRef name);

} // namespace mlir::te

#endif // TEDIALECT_GRADIENTS_SIDERESULTS_H
