//===- Results.h - results that instruments add to a step -----------------===//

#ifndef TE_TRANSFORMS_INSTRUMENT_RESULTS_H
#define TE_TRANSFORMS_INSTRUMENT_RESULTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace mlir::te {

/// Whether a step runs `function`: it has a body of one block and is not
/// private, as what was inlined everywhere is.
bool isStep(func::FuncOp function);

/// `base`, or `base.<n>`, such that no argument and no result of `function` is
/// called that.
std::string uniqueName(func::FuncOp function, StringRef base);

/// Returns `value` behind the other results, called `name`; `probe` says what
/// its elements, or rows, are.
void addResult(func::FuncOp function, StringRef name, Value value,
               ArrayAttr probe);

} // namespace mlir::te

#endif // TE_TRANSFORMS_INSTRUMENT_RESULTS_H
