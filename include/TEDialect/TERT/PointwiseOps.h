//===- PointwiseOps.h - elementwise ops the runtime computes --------------===//
//
// The arith and math ops that exist for the compiler. What te-legalize-input
// accepts and what the launch emitter emits is this one table.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_TERT_POINTWISEOPS_H
#define TEDIALECT_TERT_POINTWISEOPS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>

namespace mlir::tert {

struct PointwiseOp {
  llvm::StringLiteral name;
  /// The `op` parameter of the kernel 'pointwise'.
  int32_t code;
};

/// Every op, in the order in which messages list them.
llvm::ArrayRef<PointwiseOp> getPointwiseOps();

/// The `op` parameter for the op of that name; nothing where there is none.
std::optional<int32_t> lookupPointwise(llvm::StringRef name);

} // namespace mlir::tert

#endif // TEDIALECT_TERT_POINTWISEOPS_H
