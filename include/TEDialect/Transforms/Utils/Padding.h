//===- Padding.h - zeros at the end of axes -------------------------------===//
//
// A tensor is padded by concatenating zeros to it, and what is computed of it
// is cut by a slice from its first element on.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_TRANSFORMS_UTILS_PADDING_H
#define TEDIALECT_TRANSFORMS_UTILS_PADDING_H

#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <string>

namespace mlir::te {

/// Returns `source`, a tensor, with zeros at the end of each axis up to
/// `shape`.
Value padWithZeros(OpBuilder &builder, Value source, ArrayRef<int64_t> shape);

/// Returns the first elements of each axis of `source` as a tensor of `type`.
Value cutTo(OpBuilder &builder, Location loc, Value source, Type type);

/// Whether `op`, which may be null, only adds zeros after its first operand.
bool addsZeros(tensor::ConcatOp op);

/// Adds that `axis` of a GEMM is padded to `text`, as in "M 68 to 80, N 3 to
/// 16", if it is.
void describePadding(char axis, int64_t from, int64_t to, std::string &text);

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_UTILS_PADDING_H
