//===- GeneratedBody.h - the body of a launch of generated code -----------===//

#ifndef TEDIALECT_TERT_GENERATEDBODY_H
#define TEDIALECT_TERT_GENERATEDBODY_H

#include "TEDialect/TERT/KernelTable.h"
#include "TEDialect/TERT/TERT.h"

#include "mlir/IR/AffineMap.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir::tert {

/// Verifies `body` and `maps`; only generated code has them.
LogicalResult verifyBody(LaunchOp op, const KernelInfo &kernel);

/// The longest row that generated code sums.
inline constexpr int64_t kMostColsOfReduction = int64_t(1) << 24;

/// The length of the rows whose elements the body sums, 0 if it has no sum.
int64_t getColsOfReductions(Block &body);

/// From an element of rows of `cols` to the number of its row.
AffineMap getMapOfRows(int64_t cols, MLIRContext *context);

/// From each element to the only one of a buffer.
AffineMap getMapOfOne(MLIRContext *context);

/// Whether `expr` has one value for the `length` elements from each multiple of
/// `length` on.
bool isUniform(AffineExpr expr, int64_t length);

/// The values of a body with sums that are the same for all elements of a row.
/// `maps` are those of its arguments, and maybe of its results.
llvm::DenseSet<Value> getValuesOfRows(Block &body, ArrayRef<AffineMap> maps);

} // namespace mlir::tert

#endif // TEDIALECT_TERT_GENERATEDBODY_H
