//===- ElementwiseOps.h - ops that code is generated for ------------------===//
//
// The elementwise ops of arith and math that te-legalize-input accepts and
// te-form-regions takes into regions.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_TERT_ELEMENTWISEOPS_H
#define TEDIALECT_TERT_ELEMENTWISEOPS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace mlir::tert {

/// The names of the ops, in the order in which messages list them.
llvm::ArrayRef<llvm::StringLiteral> getElementwiseOps();

bool isElementwiseOp(llvm::StringRef name);

/// The size of the code of an op in a region, as a multiple of one addition. It
/// bounds the time to compile a region.
unsigned getCodeSize(llvm::StringRef name);

} // namespace mlir::tert

#endif // TEDIALECT_TERT_ELEMENTWISEOPS_H
