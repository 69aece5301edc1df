//===- ElementwiseOps.cpp - ops that code is generated for ----------------===//

#include "TEDialect/TERT/ElementwiseOps.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir::tert;

static constexpr llvm::StringLiteral ops[] = {
    "arith.addf",     "arith.subf",     "arith.mulf",   "arith.divf",
    "arith.maximumf", "arith.minimumf", "arith.negf",   "arith.cmpf",
    "arith.select",   "arith.extf",     "arith.truncf", "math.absf",
    "math.exp",       "math.log",       "math.log1p",   "math.sin",
    "math.cos",       "math.tanh",      "math.sqrt",
};

llvm::ArrayRef<llvm::StringLiteral> mlir::tert::getElementwiseOps() {
  return ops;
}

bool mlir::tert::isElementwiseOp(llvm::StringRef name) {
  return llvm::is_contained(ops, name);
}
