//===- Padding.h - zeros that te-insert-casts adds to a tensor ------------===//

#ifndef TE_TRANSFORMS_FUSE_PADDING_H
#define TE_TRANSFORMS_FUSE_PADDING_H

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

namespace mlir::te {

/// Whether `op` only adds zeros after its first operand.
inline bool addsZeros(tensor::ConcatOp op) {
  return op && llvm::all_of(op.getInputs().drop_front(), [](Value operand) {
           return matchPattern(operand, m_PosZeroFloat());
         });
}

} // namespace mlir::te

#endif // TE_TRANSFORMS_FUSE_PADDING_H
