//===- Shardings.h - is what is split what a layer takes to be split? -----===//

#ifndef TE_TRANSFORMS_VERIFY_SHARDINGS_H
#define TE_TRANSFORMS_VERIFY_SHARDINGS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::te {

/// Follows what is split over ranks, from the arguments' `te.sharding` and from
/// parallel layers, and reports layers, results and states that take it to be
/// split otherwise, or not at all.
LogicalResult checkShardings(func::FuncOp function);

} // namespace mlir::te

#endif // TE_TRANSFORMS_VERIFY_SHARDINGS_H
