//===- Shardings.h - checks how values are split over ranks ---------------===//

#ifndef TE_TRANSFORMS_VERIFY_SHARDINGS_H
#define TE_TRANSFORMS_VERIFY_SHARDINGS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::te {

/// Follows how values are split over ranks, from the arguments' `te.sharding`
/// and from parallel layers, and reports layers, results and states that expect
/// a value to be whole or to be split along another axis.
LogicalResult checkShardings(func::FuncOp function);

} // namespace mlir::te

#endif // TE_TRANSFORMS_VERIFY_SHARDINGS_H
