//===- ElementwiseOps.cpp - ops that code is generated for ----------------===//

#include "TEDialect/TERT/ElementwiseOps.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir::tert;

static constexpr llvm::StringLiteral ops[] = {
    "arith.addf",     "arith.subf",     "arith.mulf",   "arith.divf",
    "arith.maximumf", "arith.minimumf", "arith.negf",   "arith.cmpf",
    "arith.select",   "arith.extf",     "arith.truncf", "math.absf",
    "math.exp",       "math.log",       "math.log1p",   "math.sin",
    "math.cos",       "math.tanh",      "math.sqrt",    "arith.remf",
    "math.exp2",      "math.log2",      "math.powf",    "math.erf",
    "math.erfc",      "math.rsqrt",     "math.floor",   "math.ceil",
    "math.trunc",     "math.roundeven",
};

llvm::ArrayRef<llvm::StringLiteral> mlir::tert::getElementwiseOps() {
  return ops;
}

bool mlir::tert::isElementwiseOp(llvm::StringRef name) {
  return llvm::is_contained(ops, name);
}

unsigned mlir::tert::getCodeSize(llvm::StringRef name) {
  return llvm::StringSwitch<unsigned>(name)
      .Cases({"math.sin", "math.cos", "math.powf", "math.erfc", "arith.remf"},
             32)
      .Cases(
          {"math.tanh", "math.log1p", "math.erf", "te.dropout", "tert.dropout"},
          16)
      .Cases({"math.exp", "math.log", "math.exp2", "math.log2", "math.rsqrt"},
             8)
      .Cases({"math.sqrt", "arith.divf"}, 4)
      .Default(1);
}
